//! How a model request is recorded: as its difference against an earlier request of the same lane.
//!
//! Each message of a conversation is written once, so that a conversation of n turns costs O(n). A message that is
//! a recorded answer is named by the position of its completion: it stands for
//! `{"role": "assistant", "content": <the response's content>}`.

use std::collections::HashMap;

use relight_canonical::Digest;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Event, EventEnvelope, LogError, Seq};

/// A model request as a log holds it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedRequest {
    /// The earlier request that this one is a difference against; absent where it stands for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<Seq>,
    /// How many leading messages are those of `base`.
    #[serde(skip_serializing_if = "is_zero")]
    pub keep: usize,
    /// The messages after those.
    pub messages: Vec<RecordedMessage>,
    /// Fields beside the messages that are new or other than in `base`.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub set: Map<String, Value>,
    /// Fields that `base` has and this one has not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
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
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    last: Option<Last>,
    answers: HashMap<Digest, Seq>,
}

#[derive(Debug, Clone)]
struct Last {
    seq: Seq,
    messages: Vec<Digest>,
    rest: Map<String, Value>,
}

impl Transcript {
    /// Notes that the completion at `completion` recorded the answer that becomes the message with this digest.
    pub fn answered(&mut self, message: Digest, completion: Seq) {
        self.answers.insert(message, completion);
    }

    /// Notes what the request at `seq` was, with the digests of all its messages.
    pub fn requested(&mut self, seq: Seq, messages: Vec<Digest>, rest: Map<String, Value>) {
        self.last = Some(Last { seq, messages, rest });
    }

    /// The recorded form of a request, against the last one; `message` gives the recorded form of one message.
    pub fn record(
        &self,
        messages: &[Digest],
        rest: &Map<String, Value>,
        message: impl Fn(usize) -> Value,
    ) -> RecordedRequest {
        let keep = self.last.as_ref().map_or(0, |last| common_prefix(&last.messages, messages));
        let base = self.last.as_ref().filter(|_| keep > 0);
        let unchanged =
            |key: &String, value: &Value| base.is_some_and(|last| last.rest.get(key) == Some(value));
        let record = |index: usize| match self.answers.get(&messages[index]) {
            Some(completion) => RecordedMessage::Answer(*completion),
            None => RecordedMessage::Message(message(index)),
        };
        RecordedRequest {
            base: base.map(|last| last.seq),
            keep,
            messages: (keep..messages.len()).map(record).collect(),
            set: rest.iter().filter(|(k, v)| !unchanged(k, v)).map(|(k, v)| (k.clone(), v.clone())).collect(),
            unset: base.map_or_else(Vec::new, |last| {
                last.rest.keys().filter(|key| !rest.contains_key(*key)).cloned().collect()
            }),
        }
    }
}

/// The request at `seq` in full, put together from a log; `None` where the run records hashes only.
///
/// # Errors
///
/// [`LogError::Corrupt`] where a request names an event that is not what it should be.
pub fn expand(log: &[EventEnvelope], seq: Seq) -> Result<Option<FullRequest>, LogError> {
    let mut differences = Vec::new();
    let mut next = Some(seq);
    while let Some(seq) = next {
        let Some(Event::ModelCallRequested { request, .. }) = event(log, seq) else {
            return Err(dangling(log, seq, "a model request is recorded against it"));
        };
        let Some(request) = request else { return Ok(None) };
        // A base always stands earlier; anything else would be a loop.
        if request.base.is_some_and(|base| base >= seq) {
            return Err(dangling(log, seq, "it is recorded against a later event"));
        }
        differences.push(request);
        next = request.base;
    }
    let mut full = FullRequest { rest: Map::new(), messages: Vec::new() };
    for difference in differences.into_iter().rev() {
        if difference.keep > full.messages.len() {
            return Err(dangling(log, seq, "it keeps more messages than there were"));
        }
        full.messages.truncate(difference.keep);
        for message in &difference.messages {
            full.messages.push(match message {
                RecordedMessage::Message(message) => message.clone(),
                RecordedMessage::Answer(completion) => answer(log, *completion)?,
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

fn answer(log: &[EventEnvelope], completion: Seq) -> Result<Value, LogError> {
    match event(log, completion) {
        Some(Event::ModelCallCompleted { response, .. }) => Ok(answer_message(response)),
        _ => Err(dangling(log, completion, "a model request names it as an answer")),
    }
}

fn event(log: &[EventEnvelope], seq: Seq) -> Option<&Event> {
    let index = usize::try_from(seq.number() - 1).ok()?;
    log.get(index).map(|envelope| &envelope.event)
}

fn dangling(log: &[EventEnvelope], seq: Seq, why: &str) -> LogError {
    let run = log.first().map_or_else(|| crate::RunId::from_uuid(uuid::Uuid::nil()), |first| first.run_id);
    LogError::Corrupt { run, seq, why: why.to_owned() }
}

fn common_prefix(left: &[Digest], right: &[Digest]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}
