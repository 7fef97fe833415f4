//! Short ways to write a log down in a test.

use jiff::{SignedDuration, Timestamp};
use relight_core::{
    Digest, Effect, Event, EventEnvelope, Lane, Process, Record, RunId, SCHEMA_VERSION, Seq, TokenUsage,
    chain,
};
use serde_json::Value;

/// The run of all logs in these tests.
pub(crate) fn run() -> RunId {
    "0190f5d2-7c1a-7b6e-8f00-3c1d2e4f5a6b".parse().unwrap()
}

pub(crate) fn seq(number: u64) -> Seq {
    Seq::new(number).unwrap()
}

pub(crate) fn start_time() -> Timestamp {
    "2026-11-30T12:00:00Z".parse().unwrap()
}

/// One event of the run, a second later for each position.
pub(crate) fn envelope(number: u64, event: Event) -> EventEnvelope {
    EventEnvelope {
        run_id: run(),
        seq: seq(number),
        schema_version: SCHEMA_VERSION,
        recorded_at: start_time() + SignedDuration::from_secs(number.try_into().unwrap()),
        lane: Lane::ROOT,
        event,
    }
}

/// A log of these events, one after another.
pub(crate) fn log(events: impl IntoIterator<Item = Event>) -> Vec<EventEnvelope> {
    (1..).zip(events).map(|(number, event)| envelope(number, event)).collect()
}

/// The records of a log, linked.
pub(crate) fn seal(log: &[EventEnvelope]) -> Vec<Record> {
    let mut link = chain::GENESIS;
    log.iter()
        .map(|envelope| {
            let record = Record::seal(link, envelope).unwrap();
            link = record.link;
            record
        })
        .collect()
}

pub(crate) fn process() -> Process {
    Process {
        host: "laptop".to_owned(),
        boot: "b1".to_owned(),
        pid_namespace: "4026531836".to_owned(),
        pid: 4711,
        started: "123456".to_owned(),
    }
}

pub(crate) fn hash(text: &str) -> Digest {
    Digest::of_bytes(text.as_bytes())
}

pub(crate) fn usage(input_tokens: u64, output_tokens: u64) -> TokenUsage {
    TokenUsage { input_tokens, output_tokens, ..TokenUsage::default() }
}

/// `RunStarted` with the agent `agent` and the input `"in"`.
pub(crate) fn started() -> Event {
    Event::run_started("agent", Value::from("in"))
}

pub(crate) fn drive(number: u64) -> Event {
    Event::drive_started(number, process(), "relight 0.1.0")
}

/// A model call whose request has the hash of `text`.
pub(crate) fn asks_model(text: &str) -> Event {
    Event::model_call_requested(hash(text), None)
}

pub(crate) fn asks_tool(tool: &str, input: impl Into<Value>, effect: Effect) -> Event {
    Event::tool_call_requested(tool, input.into(), effect, None)
}
