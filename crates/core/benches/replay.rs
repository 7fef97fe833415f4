//! What the core costs: verifying, decoding and replaying a run of 1,000 model calls, against hashing the same bytes and
//! parsing their JSON once.
//!
//! `cargo bench -p relight-core --bench replay`

use relight_core::{
    Digest, Event, EventEnvelope, Lane, Record, RunId, SCHEMA_VERSION, Seq, TokenUsage, chain,
    chain::Verifier,
    replay::{Ask, Replay, Settled, Step},
    request::{RecordedMessage, RecordedRequest},
};
use relight_testkit::paired::{Paired, timed};
use serde_json::{Value, json};

fn main() {
    let log = model_calls();
    let records = seal(&log);
    let bytes: usize = records.iter().map(|record| record.bytes.len()).sum();
    println!("{CALLS} model calls, {} events, {bytes} bytes", log.len());

    let hash_and_parse = || timed(|| hash_and_parse(&records));
    let whole = Paired::measure(PAIRS, || timed(|| replay(read(&records))), hash_and_parse);
    println!("verify, decode and replay against hash and parse:  {whole}");
    let decode = Paired::measure(PAIRS, || timed(|| read(&records)), hash_and_parse);
    println!("verify and decode against hash and parse:          {decode}");
    let machine = Paired::measure(PAIRS, || timed(|| replay(log.clone())), || timed(|| parse_only(&records)));
    println!("replay of a decoded log against parsing it:        {machine}");
}

const CALLS: u64 = 1_000;

/// A run that asks a model 1,000 times, with a new message of 1 KiB each time, and ends.
fn model_calls() -> Vec<EventEnvelope> {
    let mut events = vec![Event::run_started("bench/1", json!("input"))];
    for call in 0..CALLS {
        let content = json!([{"type": "text", "text": "word ".repeat(205)}]);
        let message = json!({"role": "user", "content": content});
        let request = RecordedRequest {
            base: Seq::new(2 * call).filter(|_| call > 0),
            keep: usize::try_from(2 * call).expect("small"),
            messages: vec![RecordedMessage::Message(message)],
            ..RecordedRequest::default()
        };
        events.push(Event::model_call_requested(hash(call), Some(request)));
        let response = json!({"id": "msg_1", "model": "m", "content": content, "stop_reason": "end_turn"});
        let intent = Seq::new(events.len() as u64).expect("not zero");
        events.push(Event::model_call_completed(intent, response, TokenUsage::default()));
    }
    events.push(Event::run_completed(json!("output")));
    (1..).zip(events).map(|(number, event)| envelope(number, event)).collect()
}

fn envelope(number: u64, event: Event) -> EventEnvelope {
    EventEnvelope {
        run_id: run(),
        seq: Seq::new(number).expect("not zero"),
        schema_version: SCHEMA_VERSION,
        recorded_at: "2026-11-30T12:00:00.123456789Z".parse().expect("a time"),
        lane: Lane::ROOT,
        event,
    }
}

fn run() -> RunId {
    "0190f5d2-7c1a-7b6e-8f00-3c1d2e4f5a6b".parse().expect("a run id")
}

fn hash(call: u64) -> Digest {
    Digest::of_bytes(&call.to_be_bytes())
}

fn seal(log: &[EventEnvelope]) -> Vec<Record> {
    let mut link = chain::GENESIS;
    let sealed = log.iter().map(|envelope| {
        let record = Record::seal(link, envelope).expect("it is flat");
        link = record.link;
        record
    });
    sealed.collect()
}

/// What reading a log costs once its bytes are there.
fn read(records: &[Record]) -> Vec<EventEnvelope> {
    let mut verifier = Verifier::new(run());
    records.iter().map(|record| verifier.accept(record).expect("it verifies")).collect()
}

/// What the machine costs: the index, the fold, and 1,000 questions.
fn replay(log: Vec<EventEnvelope>) -> usize {
    let mut replay = Replay::new(run(), log).expect("it folds");
    assert_eq!(replay.begin("bench/1", &json!("input")), Ok(true));
    let request = || Value::Null;
    let mut answered = 0;
    for call in 0..CALLS {
        replay.check_budget(&Lane::ROOT);
        let ask = Ask::ModelCall { request_hash: hash(call), request: &request };
        match replay.ask(&Lane::ROOT, ask).expect("it agrees").step {
            Step::Recorded(Settled::Answered { response, .. }) => {
                answered += response.as_object().map_or(0, |r| r.len())
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(replay.finish(&Event::run_completed(json!("output"))), Ok(true));
    answered
}

/// The least that any reader of such a log must do.
fn hash_and_parse(records: &[Record]) -> Vec<Value> {
    let mut link = chain::GENESIS;
    let parse = |record: &Record| {
        link = chain::link(link, &record.bytes);
        serde_json::from_slice(&record.bytes).expect("it is JSON")
    };
    records.iter().map(parse).collect()
}

fn parse_only(records: &[Record]) -> Vec<Value> {
    records.iter().map(|record| serde_json::from_slice(&record.bytes).expect("it is JSON")).collect()
}

const PAIRS: usize = 25;
