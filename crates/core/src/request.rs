//! How a model request is recorded: as its difference against an earlier request of the same lane.
//!
//! Each message of a conversation is written once, so that a conversation of n turns costs O(n). A message that is
//! a recorded answer is named by the position of its completion: it stands for
//! `{"role": "assistant", "content": <the response's content>}`.

use std::collections::HashMap;

use relight_canonical::Digest;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Event, EventEnvelope, LogError, Seq,
    wire::{is_zero, null_as_default},
};

/// A model request as a log holds it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedRequest {
    /// The earlier request that this one is a difference against; absent where it stands for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Seq>,
    /// How many leading messages are those of `base`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub keep: usize,
    /// The messages after those.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<RecordedMessage>,
    /// Fields beside the messages that are new or other than in `base`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Map::is_empty")]
    pub set: Map<String, Value>,
    /// Fields that `base` has and this one has not.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
}

/// One message of a recorded request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedMessage {
    /// The answer that the completion at this position recorded.
    Answer(Seq),
    /// The message itself.
    Message(Value),
}

/// A model request in full: the fields beside its messages, and the messages.
#[derive(Debug, Clone, PartialEq)]
pub struct FullRequest {
    /// The fields beside the messages.
    pub rest: Map<String, Value>,
    /// The messages, each in its recorded form.
    pub messages: Vec<Value>,
}

/// What the next request of a lane is recorded against, and the answers that it may name.
///
/// It knows the latest request of the last few conversations, so that code which speaks with several models in turn
/// still records each message once.
///
/// # Examples
///
/// ```
/// use relight_core::{Digest, Seq, request::Transcript};
/// use serde_json::{Map, json};
/// let messages = [json!({"role": "user", "content": "a"}), json!({"role": "user", "content": "b"})];
/// let digests: Vec<Digest> = messages.iter().map(Digest::of_value).collect();
/// let rest = Map::from_iter([("model".to_owned(), json!("m"))]);
///
/// let mut transcript = Transcript::default();
/// transcript.requested(Seq::FIRST.next(), digests[..1].to_vec(), rest.clone());
/// let second = transcript.record(&digests, &rest, |index| messages[index].clone());
/// assert_eq!((second.base, second.keep, second.messages.len()), (Some(Seq::FIRST.next()), 1, 1));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    /// The latest request of each conversation, the most recent at the end.
    conversations: Vec<Earlier>,
    answers: HashMap<Digest, Seq>,
}

/// A request that a later one may be recorded against.
#[derive(Debug, Clone)]
struct Earlier {
    seq: Seq,
    messages: Vec<Digest>,
    rest: Map<String, Value>,
}

impl Transcript {
    /// Notes that the completion at `completion` recorded the answer that becomes the message with this digest.
    pub fn answered(&mut self, message: Digest, completion: Seq) {
        self.answers.insert(message, completion);
    }

    /// Notes what the request at `seq` was, with the digests of all its messages. Only for a request that the log
    /// holds in full: nothing can be recorded against a hash.
    pub fn requested(&mut self, seq: Seq, messages: Vec<Digest>, rest: Map<String, Value>) {
        let length = |index: usize| self.conversations[index].messages.len();
        let continues = |index: &usize| messages.starts_with(&self.conversations[*index].messages);
        let continued = (0..self.conversations.len()).filter(continues).max_by_key(|index| length(*index));
        if let Some(index) = continued {
            self.conversations.remove(index);
        } else if self.conversations.len() == CONVERSATIONS {
            self.conversations.remove(0);
        }
        self.conversations.push(Earlier { seq, messages, rest });
    }

    /// The recorded form of a request, against the one that it shares most with; `message` gives the recorded form
    /// of one message.
    pub fn record(
        &self,
        messages: &[Digest],
        rest: &Map<String, Value>,
        message: impl Fn(usize) -> Value,
    ) -> RecordedRequest {
        let shared = |earlier: &Earlier| common_prefix(&earlier.messages, messages);
        let base =
            self.conversations.iter().map(|earlier| (shared(earlier), earlier)).max_by_key(|(keep, _)| *keep);
        let base = base.filter(|(keep, earlier)| *keep > 0 || shares_a_field(&earlier.rest, rest));
        let (keep, earlier) = base.map_or((0, None), |(keep, earlier)| (keep, Some(earlier)));
        let changed = |(key, value): &(&String, &Value)| {
            earlier.is_none_or(|earlier| earlier.rest.get(*key) != Some(*value))
        };
        let record = |index: usize| match self.answers.get(&messages[index]) {
            Some(completion) => RecordedMessage::Answer(*completion),
            None => RecordedMessage::Message(message(index)),
        };
        RecordedRequest {
            base: earlier.map(|earlier| earlier.seq),
            keep,
            messages: (keep..messages.len()).map(record).collect(),
            set: rest.iter().filter(changed).map(|(key, value)| (key.clone(), value.clone())).collect(),
            unset: earlier.map_or_else(Vec::new, |earlier| {
                earlier.rest.keys().filter(|key| !rest.contains_key(*key)).cloned().collect()
            }),
        }
    }
}

/// The request at `seq` in full, put together from a log from its first event on; `None` where only its hash is
/// recorded.
///
/// # Errors
///
/// [`LogError::Corrupt`] where a request names an event that is not what it should be.
pub fn expand(log: &[EventEnvelope], seq: Seq) -> Result<Option<FullRequest>, LogError> {
    let mut differences = Vec::new();
    let mut at = seq;
    loop {
        let Some(Event::ModelCallRequested { request, .. }) = event(log, at) else {
            return Err(broken(log, at, "it should be a model request"));
        };
        let Some(request) = request else {
            if differences.is_empty() {
                return Ok(None);
            }
            return Err(broken(log, at, "a later request is recorded against it, but it holds only a hash"));
        };
        differences.push((at, request));
        match request.base {
            None => break,
            // A base always stands earlier; anything else would be a loop.
            Some(base) if base < at => at = base,
            Some(base) => return Err(broken(log, at, &format!("it is recorded against event {base}"))),
        }
    }
    let mut full = FullRequest { rest: Map::new(), messages: Vec::new() };
    for (at, difference) in differences.into_iter().rev() {
        if difference.keep > full.messages.len() {
            return Err(broken(log, at, "it keeps more messages than there were"));
        }
        full.messages.truncate(difference.keep);
        for message in &difference.messages {
            full.messages.push(match message {
                RecordedMessage::Message(message) => message.clone(),
                RecordedMessage::Answer(completion) => answer(log, at, *completion)?,
            });
        }
        for key in &difference.unset {
            full.rest.remove(key);
        }
        full.rest.extend(difference.set.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    Ok(Some(full))
}

/// The message that a recorded answer becomes when it is sent back.
pub fn answer_message(response: &Value) -> Value {
    let content = response.get("content").cloned().unwrap_or_else(|| Value::Array(Vec::new()));
    let role = Value::from("assistant");
    Value::Object(Map::from_iter([("role".to_owned(), role), ("content".to_owned(), content)]))
}

fn answer(log: &[EventEnvelope], request: Seq, completion: Seq) -> Result<Value, LogError> {
    match event(log, completion) {
        Some(Event::ModelCallCompleted { response, .. }) if completion < request => {
            Ok(answer_message(response))
        }
        _ => Err(broken(log, request, &format!("it names event {completion} as an answer"))),
    }
}

fn event(log: &[EventEnvelope], seq: Seq) -> Option<&Event> {
    let index = usize::try_from(seq.number() - 1).ok()?;
    log.get(index).filter(|envelope| envelope.seq == seq).map(|envelope| &envelope.event)
}

fn broken(log: &[EventEnvelope], seq: Seq, why: &str) -> LogError {
    let run = log.first().map_or_else(|| crate::RunId::from_uuid(uuid::Uuid::nil()), |first| first.run_id);
    LogError::Corrupt { run, seq, why: why.to_owned() }
}

fn common_prefix(left: &[Digest], right: &[Digest]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

fn shares_a_field(left: &Map<String, Value>, right: &Map<String, Value>) -> bool {
    left.iter().any(|(key, value)| right.get(key) == Some(value))
}

/// How many conversations of a lane are told apart; an agent speaks with few models in turn.
const CONVERSATIONS: usize = 8;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn digests(words: &str) -> Vec<Digest> {
        words.split_whitespace().map(|word| Digest::of_bytes(word.as_bytes())).collect()
    }

    fn seq(number: u64) -> Seq {
        Seq::new(number).unwrap()
    }

    /// Where a conversation would be recorded against, and how many messages it keeps.
    fn against(transcript: &Transcript, words: &str) -> (Option<Seq>, usize) {
        let recorded = transcript.record(&digests(words), &Map::new(), |index| json!(index));
        assert_eq!(recorded.keep + recorded.messages.len(), words.split_whitespace().count());
        (recorded.base, recorded.keep)
    }

    fn asked(transcript: &mut Transcript, number: u64, words: &str) {
        transcript.requested(seq(number), digests(words), Map::new());
    }

    #[test]
    fn a_request_is_recorded_against_the_one_it_shares_most_with() {
        let mut transcript = Transcript::default();
        assert_eq!(against(&transcript, "a"), (None, 0));
        asked(&mut transcript, 2, "a b");
        asked(&mut transcript, 4, "x y");
        assert_eq!(against(&transcript, "a b c"), (Some(seq(2)), 2));
        assert_eq!(against(&transcript, "x z"), (Some(seq(4)), 1));
        assert_eq!(against(&transcript, "z"), (None, 0));
        // Of two that share as much, the later one.
        asked(&mut transcript, 6, "a b d");
        assert_eq!(against(&transcript, "a b"), (Some(seq(6)), 2));
        // A conversation that was cut and went on another way stands beside the longer one.
        asked(&mut transcript, 8, "a q");
        assert_eq!(against(&transcript, "a b d e"), (Some(seq(6)), 3));
        assert_eq!(against(&transcript, "a q r"), (Some(seq(8)), 2));
        // A request goes on from the longest that it holds in full, and leaves shorter ones alone.
        asked(&mut transcript, 10, "a");
        asked(&mut transcript, 12, "a b d e");
        assert_eq!(
            transcript.conversations.iter().map(|c| c.seq).collect::<Vec<_>>(),
            [4, 8, 10, 12].map(seq)
        );
    }

    #[test]
    fn of_many_conversations_the_oldest_is_forgotten() {
        let mut transcript = Transcript::default();
        for number in 1..=9 {
            asked(&mut transcript, number, &format!("conversation-{number}"));
        }
        assert_eq!(against(&transcript, "conversation-1"), (None, 0));
        assert_eq!(against(&transcript, "conversation-2"), (Some(seq(2)), 1));
        // One that goes on is young again, and takes nobody's place.
        asked(&mut transcript, 10, "conversation-2 more");
        asked(&mut transcript, 11, "conversation-11");
        assert_eq!(against(&transcript, "conversation-2 more"), (Some(seq(10)), 2));
        assert_eq!(against(&transcript, "conversation-3"), (None, 0));
        assert_eq!(against(&transcript, "conversation-4"), (Some(seq(4)), 1));
    }

    #[test]
    fn fields_that_went_are_named_and_fields_that_stayed_are_not() {
        let rest = |fields: Value| match fields {
            Value::Object(fields) => fields,
            _ => panic!("an object"),
        };
        let mut transcript = Transcript::default();
        transcript.requested(seq(2), digests("a"), rest(json!({"model": "m", "top_k": 1, "tools": []})));
        let changed = rest(json!({"model": "m", "top_k": 2, "extra": null}));
        let recorded = transcript.record(&digests("a"), &changed, |index| json!(index));
        assert_eq!(recorded.set, rest(json!({"top_k": 2, "extra": null})));
        assert_eq!(recorded.unset, ["tools"]);
    }
}
