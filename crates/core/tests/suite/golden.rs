//! Logs that released versions wrote, kept under `tests/logs/`: every later version reads and replays them.
//!
//! A new version keeps its own with `RELIGHT_WRITE_LOGS=1 cargo test -p relight-core --test suite this_version_writes`.
//! What an older version wrote is never changed.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use relight_core::{
    Digest, Effect, Event, EventEnvelope, ExportLine, Record, Resolution, RunState, StatusKind, ToolFailure,
    ToolOutcome, WaitReason,
    budget::Limit,
    chain::Verifier,
    request::{FullRequest, Transcript, answer_message, expand},
};
use serde_json::{Map, Value, json};

use crate::{
    support::{drive, log, run, seal, seq, usage},
    walk::walk,
};

/// What this version writes: every kind of event, in runs that end in every way.
fn logs_of_this_version() -> BTreeMap<&'static str, Vec<EventEnvelope>> {
    BTreeMap::from([
        ("cancelled", cancelled()),
        ("completed", completed()),
        ("dangling", dangling()),
        ("failed", failed()),
        ("suspended", suspended()),
    ])
}

const ENDS: [(&str, StatusKind); 5] = [
    ("cancelled", StatusKind::Cancelled),
    ("completed", StatusKind::Completed),
    ("dangling", StatusKind::Running),
    ("failed", StatusKind::Failed),
    ("suspended", StatusKind::Waiting),
];

const AGENT: &str = "sha256:4b6c0f0a2f8f5a1f4f9f3e3ad1c2a5e79f0d6b1f7f0d9f3f5b8a3c2d1e0f9a8b";

const KEY: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn completed() -> Vec<EventEnvelope> {
    let labels = BTreeMap::from([("team".to_owned(), "blue".to_owned())]);
    let mut run = Writing::new(Event::run_started_with_labels(AGENT, json!({"order": 7}), labels));
    run.push(drive(1));
    let mut messages = vec![user("Pay order 7.")];
    let response = json!({
        "id": "msg_1", "model": "some-model", "stop_reason": "tool_use",
        "content": [
            {"type": "thinking", "thinking": "It is due.", "signature": "c2ln"},
            {"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {"order": 7, "amount": 12.5}},
        ],
        "usage": {"input_tokens": 21, "output_tokens": 9},
    });
    run.model_call(&mut messages, &response);

    // The process dies while it pays; nobody can say what became of it, until a person does.
    let input = json!({"order": 7, "amount": 12.5});
    let pay = run.push(Event::tool_call_requested("pay", input, Effect::Write, Some(KEY.to_owned())));
    run.push(drive(2));
    let why = "the tool cannot be asked".to_owned();
    run.push(Event::suspended(WaitReason::Reconciliation { intent: pay, why }));
    let receipt = json!({
        "receipt": 18_446_744_073_709_551_615_u64, "rate": -0.0, "fee": 1e-7, "note": null, "by": "Zoë \u{1f680}\n",
    });
    run.push(Event::resolved(pay, Resolution::Outcome(ToolOutcome::Returned(receipt)), "ada@example.com"));
    run.push(drive(3));

    // A tool that has the shape of an outcome, a model that fails, and a budget that is raised.
    messages.push(json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "paid"}]},
    ]}));
    let look = run.push(Event::tool_call_requested("look", json!(null), Effect::Read, None));
    run.push(Event::tool_call_completed(look, ToolOutcome::Returned(json!({"failed": {"code": "none"}}))));
    let failed = run.ask_model(&messages);
    run.push(Event::model_call_failed(failed, json!({"kind": "overloaded", "status": 529})));
    let tell =
        run.push(Event::tool_call_requested("tell", json!("ada"), Effect::Idempotent, Some(KEY.to_owned())));
    let failure = ToolFailure { code: "no_such_person".to_owned(), message: "ada is away".to_owned() };
    run.push(Event::tool_call_completed(tell, ToolOutcome::Failed(failure)));
    run.push(Event::budget_exceeded(Limit::Steps, 1, 1));
    run.push(Event::suspended(WaitReason::Budget { limit: Limit::Steps }));
    run.push(Event::budget_raised(Limit::Steps, 5, "ada@example.com"));
    run.push(drive(4));
    let response = json!({
        "id": "msg_2", "model": "some-model", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Order 7 is paid."}],
        "usage": {"input_tokens": 40, "output_tokens": 6, "cache_read_input_tokens": 21},
    });
    run.model_call(&mut messages, &response);
    run.push(Event::run_completed(json!({"paid": [7], "total": 12.50})));
    run.log()
}

fn failed() -> Vec<EventEnvelope> {
    log([
        Event::run_started(AGENT, Value::Null),
        drive(1),
        Event::run_failed("refused", "the model refused to answer"),
    ])
}

fn cancelled() -> Vec<EventEnvelope> {
    log([
        Event::run_started(AGENT, json!("pay all")),
        drive(1),
        Event::tool_call_requested("pay", json!({"order": 8}), Effect::Write, Some(KEY.to_owned())),
        Event::resolved(seq(3), Resolution::NotDone {}, "ada@example.com"),
        drive(2),
        Event::cancel_requested("ada@example.com"),
        Event::run_cancelled(vec![seq(3)]),
    ])
}

fn dangling() -> Vec<EventEnvelope> {
    let hash = request_hash(&FullRequest { rest: rest(), messages: vec![user("Hello")] });
    log([Event::run_started(AGENT, json!("hello")), Event::model_call_requested(hash, None)])
}

fn suspended() -> Vec<EventEnvelope> {
    log([
        Event::run_started(AGENT, json!([])),
        Event::budget_exceeded(Limit::Tokens, 0, 0),
        Event::suspended(WaitReason::Budget { limit: Limit::Tokens }),
        Event::budget_raised(Limit::Steps, 3, "ada@example.com"),
    ])
}

fn rest() -> Map<String, Value> {
    Map::from_iter([("model".to_owned(), json!("some-model")), ("max_tokens".to_owned(), json!(256))])
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

/// A log in the making, with its requests recorded as the runtime records them.
struct Writing {
    events: Vec<Event>,
    transcript: Transcript,
}

impl Writing {
    fn new(start: Event) -> Self {
        Self { events: vec![start], transcript: Transcript::default() }
    }

    fn push(&mut self, event: Event) -> relight_core::Seq {
        self.events.push(event);
        seq(self.events.len() as u64)
    }

    fn ask_model(&mut self, messages: &[Value]) -> relight_core::Seq {
        let digests: Vec<Digest> = messages.iter().map(Digest::of_value).collect();
        let recorded = self.transcript.record(&digests, &rest(), |index| messages[index].clone());
        let hash = request_hash(&FullRequest { rest: rest(), messages: messages.to_vec() });
        let intent = self.push(Event::model_call_requested(hash, Some(recorded)));
        self.transcript.requested(intent, digests, rest());
        intent
    }

    fn model_call(&mut self, messages: &mut Vec<Value>, response: &Value) {
        let intent = self.ask_model(messages);
        let count = |name: &str| response["usage"][name].as_u64().unwrap_or(0);
        let tokens = relight_core::TokenUsage {
            cache_read_input_tokens: count("cache_read_input_tokens"),
            ..usage(count("input_tokens"), count("output_tokens"))
        };
        let completion = self.push(Event::model_call_completed(intent, response.clone(), tokens));
        messages.push(answer_message(response));
        self.transcript.answered(Digest::of_value(&answer_message(response)), completion);
    }

    fn log(self) -> Vec<EventEnvelope> {
        log(self.events)
    }
}

/// The hash of a request, as `docs/log-format.md` specifies it.
pub(crate) fn request_hash(request: &FullRequest) -> Digest {
    let start = Digest::of_bytes(b"relight/conversation/1");
    let conversation = request.messages.iter().fold(start, |before, message| {
        Digest::of_bytes(&[before.as_bytes().as_slice(), Digest::of_value(message).as_bytes()].concat())
    });
    let mut fields = request.rest.clone();
    fields.insert("messages".to_owned(), json!(conversation));
    Digest::of_value(&Value::Object(fields))
}

fn logs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs")
}

fn file_of_this_version(name: &str) -> PathBuf {
    logs().join(concat!("v", env!("CARGO_PKG_VERSION"))).join(format!("{name}.jsonl"))
}

fn export(log: &[EventEnvelope]) -> String {
    seal(log).into_iter().map(|record| format!("{}\n", ExportLine(record))).collect()
}

/// The records of an exported log.
pub(crate) fn import(text: &str) -> Vec<Record> {
    text.lines().map(|line| line.parse::<ExportLine>().unwrap().0).collect()
}

/// Checks the chain of an exported log up to its last record, and decodes it.
pub(crate) fn verified(records: &[Record]) -> Vec<EventEnvelope> {
    let mut verifier = Verifier::new(run());
    let log = records.iter().map(|record| verifier.accept(record).unwrap()).collect();
    let head = records.last().unwrap();
    verifier.finish(head.seq, head.link).unwrap();
    log
}

/// Every kept log, with its path.
fn kept() -> Vec<(PathBuf, String)> {
    let mut kept = Vec::new();
    for version in fs::read_dir(logs()).unwrap() {
        for file in fs::read_dir(version.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            kept.push((path.clone(), fs::read_to_string(&path).unwrap()));
        }
    }
    assert!(kept.len() >= ENDS.len(), "logs are missing: {kept:?}");
    kept
}

#[test]
fn this_version_writes_its_logs_as_they_are_kept() {
    for (name, log) in logs_of_this_version() {
        let path = file_of_this_version(name);
        if std::env::var_os("RELIGHT_WRITE_LOGS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, export(&log)).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == export(&log),
            "{} is not what this version writes; if the format grew on purpose, give it a new version and write its \
             logs with RELIGHT_WRITE_LOGS=1",
            path.display()
        );
    }
}

#[test]
fn logs_of_every_version_are_read_byte_for_byte_and_replay() {
    for (path, text) in kept() {
        let records = import(&text);
        let lines: String =
            records.iter().map(|record| format!("{}\n", ExportLine(record.clone()))).collect();
        assert_eq!(lines, text, "{}", path.display());
        let log = verified(&records);
        walk(&log);
        let name = path.file_stem().unwrap().to_str().unwrap();
        let (_, end) = ENDS.iter().find(|(of, _)| *of == name).unwrap();
        assert_eq!(RunState::fold(&log).unwrap().status().unwrap().kind(), *end, "{}", path.display());
    }
}

#[test]
fn requests_in_kept_logs_expand_to_what_was_hashed() {
    let mut expanded = 0;
    for (path, text) in kept() {
        let log = verified(&import(&text));
        for envelope in &log {
            if let Event::ModelCallRequested { request_hash: recorded, request: Some(_), .. } =
                &envelope.event
            {
                let full = expand(&log, envelope.seq).unwrap().unwrap();
                assert_eq!(request_hash(&full), *recorded, "event {} of {}", envelope.seq, path.display());
                expanded += 1;
            }
        }
    }
    assert!(expanded >= 3);
}

#[test]
fn the_kept_logs_of_this_version_hold_every_kind() {
    let logs = logs_of_this_version();
    let kinds: Vec<_> = logs.values().flatten().map(|envelope| envelope.event.kind()).collect();
    for kind in Event::KINDS {
        assert!(kinds.contains(&kind), "no log holds {kind}");
    }
}
