//! How requests are recorded: each message once, and every request put together again as it was.

use proptest::prelude::*;
use relight_core::{
    Digest, Event, EventEnvelope, LogError, Seq, TokenUsage,
    request::{FullRequest, RecordedMessage, RecordedRequest, Transcript, answer_message, expand},
};
use serde_json::{Map, Value, json};

use crate::{
    json::any_json,
    support::{hash, log, run, seq, started, usage},
};

/// Code that speaks with models, and the log that it leaves.
#[derive(Default)]
struct Speaker {
    events: Vec<Event>,
    transcript: Transcript,
    /// Each request as it was made, by its place.
    made: Vec<(Seq, FullRequest)>,
}

impl Speaker {
    fn new() -> Self {
        Self { events: vec![started()], ..Self::default() }
    }

    /// Makes a request; where a response is given, the model answers with it.
    fn asks(&mut self, rest: &Map<String, Value>, messages: &[Value], response: Option<Value>) {
        let digests: Vec<Digest> = messages.iter().map(Digest::of_value).collect();
        let recorded = self.transcript.record(&digests, rest, |index| messages[index].clone());
        self.events.push(Event::model_call_requested(hash("any"), Some(recorded)));
        let intent = seq(self.events.len() as u64);
        self.transcript.requested(intent, digests, rest.clone());
        self.made.push((intent, FullRequest { rest: rest.clone(), messages: messages.to_vec() }));
        if let Some(response) = response {
            let message = Digest::of_value(&answer_message(&response));
            self.events.push(Event::model_call_completed(intent, response, usage(1, 1)));
            self.transcript.answered(message, seq(self.events.len() as u64));
        } else {
            self.events.push(Event::model_call_failed(intent, Value::Null));
        }
    }

    fn log(&self) -> Vec<EventEnvelope> {
        log(self.events.iter().cloned())
    }

    /// The bytes of all requests, without the answers.
    fn recorded_bytes(&self) -> usize {
        let requested = |event: &&Event| matches!(event, Event::ModelCallRequested { .. });
        self.log()
            .iter()
            .filter(|envelope| requested(&&envelope.event))
            .map(|envelope| envelope.to_bytes().unwrap().len())
            .sum()
    }
}

fn user(text: impl Into<Value>) -> Value {
    json!({"role": "user", "content": [{"text": text.into()}]})
}

fn rest(model: &str) -> Map<String, Value> {
    Map::from_iter([("model".to_owned(), json!(model)), ("max_tokens".to_owned(), json!(256))])
}

/// One thing that code does with its conversations.
#[derive(Debug, Clone)]
enum Act {
    /// Says something more, and asks.
    Say(Vec<Value>, Option<Value>),
    /// Goes back to an earlier message, as a compaction or a retry does.
    Rewind(prop::sample::Index),
    /// Goes on with another conversation.
    Turn(usize),
    /// Changes a field beside the messages, or takes it away.
    Set(String, Option<Value>),
}

fn any_act() -> impl Strategy<Value = Act> {
    let message = any_json().prop_map(user);
    let response = any_json().prop_map(|content| json!({"content": [content], "stop_reason": "end_turn"}));
    prop_oneof![
        6 => (prop::collection::vec(message, 0..3), prop::option::weighted(0.9, response))
            .prop_map(|(messages, response)| Act::Say(messages, response)),
        1 => any::<prop::sample::Index>().prop_map(Act::Rewind),
        1 => (0_usize..10).prop_map(Act::Turn),
        1 => ("[a-c]", prop::option::of(any_json())).prop_map(|(key, value)| Act::Set(key, value)),
    ]
}

/// The same request, with numbers as a hash takes them: a message that equals an answer is that answer.
fn canonical(request: &FullRequest) -> Vec<String> {
    let rest = Value::Object(request.rest.clone());
    request.messages.iter().chain([&rest]).map(|value| Digest::of_value(value).to_string()).collect()
}

proptest! {
    #[test]
    fn every_recorded_request_expands_to_what_was_asked(acts in prop::collection::vec(any_act(), 0..24)) {
        let mut speaker = Speaker::new();
        let mut conversations = vec![(rest("a"), Vec::new()); 10];
        let mut current = 0;
        for act in acts {
            let (rest, messages) = &mut conversations[current];
            match act {
                Act::Say(more, response) => {
                    messages.extend(more);
                    speaker.asks(rest, messages, response.clone());
                    messages.extend(response.as_ref().map(answer_message));
                }
                Act::Rewind(to) => messages.truncate(to.index(messages.len() + 1)),
                Act::Turn(to) => current = to,
                Act::Set(key, Some(value)) => {
                    rest.insert(key, value);
                }
                Act::Set(key, None) => {
                    rest.remove(&key);
                }
            }
        }
        let log = speaker.log();
        for (seq, made) in &speaker.made {
            let expanded = expand(&log, *seq).unwrap().unwrap();
            prop_assert_eq!(canonical(&expanded), canonical(made));
            // And from the log that there was when the request was made.
            let so_far = &log[..usize::try_from(seq.number()).unwrap()];
            prop_assert_eq!(expand(so_far, *seq).unwrap().unwrap(), expanded);
        }
    }
}

/// A conversation with one model in each of `threads`, taking turns.
fn conversation(turns: usize, threads: usize) -> Speaker {
    let mut speaker = Speaker::new();
    let mut messages = vec![Vec::new(); threads];
    for turn in 0..turns {
        let thread = turn % threads;
        let rest = rest(&format!("model {thread}"));
        messages[thread].push(user(format!("thread {thread}, turn {turn}: {}", "x".repeat(100))));
        let response = json!({"content": [{"text": format!("{turn}: {}", "y".repeat(100))}]});
        speaker.asks(&rest, &messages[thread], Some(response.clone()));
        messages[thread].push(answer_message(&response));
    }
    speaker
}

#[test]
fn a_conversation_of_n_turns_is_recorded_in_o_of_n() {
    let message = user("x".repeat(110)).to_string().len();
    for threads in [1, 3] {
        let bytes = conversation(200, threads).recorded_bytes();
        assert!(bytes < 200 * (message + 400), "{threads} threads: {bytes} bytes");
    }
}

#[test]
fn a_later_turn_keeps_what_there_was_and_names_the_answer() {
    let speaker = conversation(2, 1);
    let Event::ModelCallRequested { request: Some(first), .. } = &speaker.events[1] else { panic!() };
    assert_eq!((first.base, first.keep, first.messages.len(), first.set.len()), (None, 0, 1, 2));
    let Event::ModelCallRequested { request: Some(second), .. } = &speaker.events[3] else { panic!() };
    let RecordedRequest { base, keep, messages, set, unset } = second;
    assert_eq!((*base, *keep, set.len(), unset.len()), (Some(seq(2)), 1, 0, 0));
    assert!(
        matches!(&messages[..], [RecordedMessage::Answer(answer), RecordedMessage::Message(_)] if *answer == seq(3))
    );
}

#[test]
fn what_two_conversations_share_beside_their_messages_is_recorded_once() {
    let tools = json!([{"name": "t", "description": "z".repeat(1_000)}]);
    let rest = Map::from_iter([("tools".to_owned(), tools)]);
    let mut speaker = Speaker::new();
    for question in 0..10 {
        speaker.asks(&rest, &[user(question)], Some(json!({"content": []})));
    }
    assert!(speaker.recorded_bytes() < 10 * 450 + 1_000, "{}", speaker.recorded_bytes());
    for (seq, made) in &speaker.made {
        assert_eq!(expand(&speaker.log(), *seq).unwrap().as_ref(), Some(made));
    }
}

#[test]
fn a_request_recorded_as_a_hash_expands_to_nothing() {
    let log = log([started(), Event::model_call_requested(hash("a"), None)]);
    assert_eq!(expand(&log, seq(2)), Ok(None));
}

#[track_caller]
fn check_broken(requests: Vec<Option<RecordedRequest>>, at: u64, named: u64, expected: &str) {
    let mut events = vec![started()];
    for request in requests {
        let intent = seq(events.len() as u64 + 1);
        events.push(Event::model_call_requested(hash("a"), request));
        events.push(Event::model_call_completed(intent, json!({}), TokenUsage::default()));
    }
    let error = expand(&log(events), seq(at)).unwrap_err();
    assert_eq!(error, LogError::Corrupt { run: run(), seq: seq(named), why: expected.to_owned() });
}

#[test]
fn a_request_that_names_what_is_not_there_is_damage_and_no_loop() {
    let against = |base: u64| Some(RecordedRequest { base: Some(seq(base)), ..RecordedRequest::default() });
    let whole = || Some(RecordedRequest::default());
    let keeps = |keep| Some(RecordedRequest { base: Some(seq(2)), keep, ..RecordedRequest::default() });
    let names = |answer| {
        let messages = vec![RecordedMessage::Answer(seq(answer))];
        Some(RecordedRequest { messages, ..RecordedRequest::default() })
    };
    check_broken(vec![against(2)], 2, 2, "it is recorded against event 2");
    check_broken(vec![against(4), whole()], 2, 2, "it is recorded against event 4");
    check_broken(vec![whole(), against(3)], 4, 3, "it should be a model request");
    check_broken(vec![whole(), against(1)], 4, 1, "it should be a model request");
    check_broken(vec![whole()], 3, 3, "it should be a model request");
    check_broken(vec![whole()], u64::MAX, u64::MAX, "it should be a model request");
    check_broken(
        vec![None, against(2)],
        4,
        2,
        "a later request is recorded against it, but it holds only a hash",
    );
    check_broken(vec![whole(), keeps(1)], 4, 4, "it keeps more messages than there were");
    check_broken(vec![whole(), keeps(usize::MAX)], 4, 4, "it keeps more messages than there were");
    check_broken(vec![names(2)], 2, 2, "it names event 2 as an answer");
    check_broken(vec![names(3)], 2, 2, "it names event 3 as an answer");
    check_broken(vec![names(u64::MAX)], 2, 2, "it names event 18446744073709551615 as an answer");
}

#[test]
fn a_part_of_a_log_is_not_taken_for_all_of_it() {
    let speaker = conversation(2, 1);
    let tail = &speaker.log()[2..];
    assert!(expand(tail, seq(2)).is_err());
}
