//! `docs/log-format.md`: every example and every vector on the page holds.

use relight_core::{
    Digest, Event, EventEnvelope, ExportLine, MAX_DEPTH, Role, RunState, SCHEMA_VERSION, Seq, StatusKind,
    TokenUsage, chain,
    request::{FullRequest, expand},
};
use serde_json::{Value, json};

use crate::{
    golden::{import, request_hash, verified},
    support::{log, run, seal, started},
    walk::walk,
};

const PAGE: &str = include_str!("../../../../docs/log-format.md");

/// The texts of all blocks of code in a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("\n```{language}\n");
    let blocks: Vec<_> = PAGE.split(&fence).skip(1).map(|rest| rest.split_once("\n```").unwrap().0).collect();
    assert!(!blocks.is_empty(), "the page has no block in {language}");
    blocks
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn digest(text: &str) -> Digest {
    text.parse().unwrap()
}

/// Reads an event as the record of an otherwise unremarkable log.
fn read(event: &Value) -> Event {
    let record = json!({
        "run_id": run(), "seq": 1, "schema_version": SCHEMA_VERSION, "recorded_at": "2026-11-30T12:00:00Z",
        "event": event,
    });
    EventEnvelope::from_bytes(run(), Seq::FIRST, record.to_string().as_bytes()).unwrap().event
}

#[test]
fn each_kind_of_event_has_its_section_with_an_example_and_its_part() {
    let mut sections = PAGE.split("\n### ").skip(1).map(|section| section.split("\n## ").next().unwrap());
    for kind in Event::KINDS {
        let section = sections.next().unwrap();
        assert_eq!(section.lines().next(), Some(kind));
        let examples: Vec<_> = section.split("\n```json\n").skip(1).collect();
        assert!(!examples.is_empty(), "{kind} has no example");
        for example in examples {
            let written = json(example.split_once("\n```").unwrap().0);
            let event = read(&written);
            assert_eq!(event.kind(), kind);
            assert_eq!(serde_json::to_value(&event).unwrap(), written, "all fields are known ones");
            let part = match event.role() {
                Role::Opening => "*Opens.*",
                Role::Asked => "*Asked.*",
                Role::Settles(_) => "*Settles.*",
                Role::Note => "*Note.*",
                Role::Closing => "*Closes.*",
            };
            assert!(section.contains(part), "{kind} is {part}");
            let names = written["payload"].as_object().unwrap().keys();
            for name in names
                .filter(|name| !["by", "intent", "output", "message", "request"].contains(&name.as_str()))
            {
                assert!(section.contains(&format!("`{name}")), "{kind} does not explain {name}");
            }
        }
    }
    assert_eq!(sections.next(), None);
}

#[test]
fn the_vectors_of_the_chain_hold() {
    for vector in blocks("vectors")[0].split("\n\n") {
        let field = |line: &str, name: &str| line.strip_prefix(name).unwrap().trim_start().to_owned();
        let lines: Vec<&str> = vector.lines().collect();
        let [previous, record, link] = lines[..] else { panic!("{vector}") };
        let previous = digest(&field(previous, "previous"));
        let expected = digest(&field(link, "link"));
        assert_eq!(chain::link(previous, field(record, "record").as_bytes()), expected, "{vector}");
    }
    assert!(PAGE.contains(&format!("{:?}", chain::DOMAIN)), "the page names the domain");
    assert_eq!(chain::GENESIS, Digest::from_bytes([0; 32]));
}

#[test]
fn the_exported_log_verifies_and_replays() {
    for text in blocks("jsonl") {
        let records = import(text);
        let log = verified(&records);
        walk(&log);
        assert_eq!(RunState::fold(&log).unwrap().status().unwrap().kind(), StatusKind::Completed);
        assert_eq!(seal(&log), records, "this version writes it the same");
        let lines: Vec<_> = records.into_iter().map(|record| ExportLine(record).to_string()).collect();
        assert_eq!(lines.join("\n"), text);
    }
}

#[test]
fn the_worked_request_expands_to_what_the_page_says() {
    let mut events = vec![started()];
    for line in blocks("request")[0].lines() {
        let line = json(line);
        assert_eq!(line["seq"], events.len() + 1);
        events.push(match line.get("response") {
            Some(response) => {
                Event::model_call_completed(Seq::FIRST.next(), response.clone(), TokenUsage::default())
            }
            None => read(&json!({"kind": "model_call_requested", "payload": {
                "request_hash": Digest::of_bytes(b""), "request": line["request"],
            }})),
        });
    }
    let last = Seq::new(events.len() as u64).unwrap();
    let FullRequest { rest, messages } = expand(&log(events), last).unwrap().unwrap();
    let mut full = Value::Object(rest);
    full["messages"] = Value::Array(messages);
    assert_eq!(full, json(blocks("expanded")[0]));
}

#[test]
fn the_request_hashes_hold() {
    let golden = include_str!("../../../llm/tests/golden/request_hashes.json");
    for pair in blocks("hashes")[0].split("\n\n") {
        let (request, hash) = pair.split_once('\n').unwrap();
        let Value::Object(mut rest) = json(request) else { panic!("{request}") };
        let Some(Value::Array(messages)) = rest.remove("messages") else { panic!("{request}") };
        assert_eq!(request_hash(&FullRequest { rest, messages }), digest(hash), "{request}");
        assert!(golden.contains(hash), "{hash} is not among the golden values");
    }
    let message = json!({"role": "user", "content": [{"type": "text", "text": "Hello"}]});
    let none = Digest::of_bytes(b"relight/conversation/1");
    let one = Digest::of_value(&message);
    let both = Digest::of_bytes(&[none.as_bytes().as_slice(), one.as_bytes()].concat());
    for digest in [none, one, both] {
        let hex = digest.to_string().replace("sha256:", "`");
        assert!(PAGE.contains(&hex), "{hex}");
    }
}

#[test]
fn the_canonical_example_holds() {
    let lines: Vec<&str> = blocks("canonical")[0].lines().collect();
    let [written, canonical, expected] = lines[..] else { panic!("{lines:?}") };
    assert_eq!(Digest::of_value(&json(written)), digest(expected));
    assert_eq!(Digest::of_bytes(canonical.as_bytes()), digest(expected));
}

#[test]
fn the_numbers_on_the_page_are_those_of_the_code() {
    assert!(PAGE.contains(&format!("nests deeper than {MAX_DEPTH} levels")));
    assert!(PAGE.contains(&format!("the version of this format: {SCHEMA_VERSION}")));
}
