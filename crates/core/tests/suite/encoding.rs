//! Records as bytes: what is written is read, and nothing of it is told apart by its shape.

use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;
use relight_core::{
    Digest, Effect, Event, EventEnvelope, LogError, MAX_DEPTH, Process, Resolution, Seq, TokenUsage,
    ToolFailure, ToolOutcome, WaitReason,
    budget::Limit,
    request::{RecordedMessage, RecordedRequest},
};
use serde_json::{Map, Value, json};

use crate::{
    json::{any_json, any_number, any_text},
    support::{asks_tool, envelope, run, seq},
};

fn any_seq() -> impl Strategy<Value = Seq> {
    prop_oneof![1_u64..9, Just(u64::MAX)].prop_map(seq)
}

fn any_outcome() -> impl Strategy<Value = ToolOutcome> {
    prop_oneof![
        any_json().prop_map(ToolOutcome::Returned),
        (any_text(), any_text())
            .prop_map(|(code, message)| ToolOutcome::Failed(ToolFailure { code, message })),
    ]
}

fn any_digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 32]>().prop_map(Digest::from_bytes)
}

fn any_request() -> impl Strategy<Value = RecordedRequest> {
    let message = prop_oneof![
        any_seq().prop_map(RecordedMessage::Answer),
        any_json().prop_map(RecordedMessage::Message)
    ];
    let set = prop::collection::vec((any_text(), any_json()), 0..3).prop_map(Map::from_iter);
    (
        prop::option::of(any_seq()),
        0_usize..3,
        prop::collection::vec(message, 0..3),
        set,
        prop::collection::vec(any_text(), 0..2),
    )
        .prop_map(|(base, keep, messages, set, unset)| RecordedRequest {
            base,
            keep,
            messages,
            set,
            unset,
        })
}

fn any_usage() -> impl Strategy<Value = TokenUsage> {
    let count = || prop_oneof![Just(0), any::<u64>()];
    (count(), count(), count(), count()).prop_map(|(input, output, read, created)| TokenUsage {
        input_tokens: input,
        output_tokens: output,
        cache_read_input_tokens: read,
        cache_creation_input_tokens: created,
    })
}

fn any_event() -> impl Strategy<Value = Event> {
    let effect = prop::sample::select(vec![Effect::Read, Effect::Idempotent, Effect::Write]);
    let limit = || prop::sample::select(vec![Limit::Steps, Limit::Tokens]);
    let labels = prop::collection::btree_map(any_text(), any_text(), 0..3);
    let process = (any_text(), any_text(), any::<u32>()).prop_map(|(host, boot, pid)| Process {
        host,
        boot,
        pid_namespace: String::new(),
        pid,
        started: "1".to_owned(),
    });
    let resolution = prop_oneof![any_outcome().prop_map(Resolution::Outcome), Just(Resolution::NotDone {})];
    let reason = prop_oneof![
        (any_seq(), any_text()).prop_map(|(intent, why)| WaitReason::Reconciliation { intent, why }),
        limit().prop_map(|limit| WaitReason::Budget { limit }),
    ];
    prop_oneof![
        (any_text(), any_json(), labels)
            .prop_map(|(agent, input, labels)| Event::run_started_with_labels(agent, input, labels)),
        (any::<u64>(), process, any_text())
            .prop_map(|(n, process, code)| Event::drive_started(n, process, code)),
        (any_digest(), prop::option::of(any_request()))
            .prop_map(|(hash, request)| Event::model_call_requested(hash, request)),
        (any_seq(), any_json(), any_usage())
            .prop_map(|(intent, response, usage)| Event::model_call_completed(intent, response, usage)),
        (any_seq(), any_json()).prop_map(|(intent, error)| Event::model_call_failed(intent, error)),
        (any_text(), any_json(), effect, prop::option::of(any_text()))
            .prop_map(|(tool, input, effect, key)| Event::tool_call_requested(tool, input, effect, key)),
        (any_seq(), any_outcome()).prop_map(|(intent, outcome)| Event::tool_call_completed(intent, outcome)),
        (any_seq(), resolution, any_text())
            .prop_map(|(intent, resolution, by)| Event::resolved(intent, resolution, by)),
        reason.prop_map(Event::suspended),
        (limit(), any::<u64>(), any::<u64>())
            .prop_map(|(limit, allowed, spent)| Event::budget_exceeded(limit, allowed, spent)),
        (limit(), any::<u64>(), any_text()).prop_map(|(limit, to, by)| Event::budget_raised(limit, to, by)),
        any_text().prop_map(Event::cancel_requested),
        any_json().prop_map(Event::run_completed),
        (any_text(), any_text()).prop_map(|(code, message)| Event::run_failed(code, message)),
        prop::collection::vec(any_seq(), 0..3).prop_map(Event::run_cancelled),
    ]
}

proptest! {
    #[test]
    fn every_event_reads_back_as_it_was(
        event in any_event(),
        seconds in -377_705_023_201_i64..=253_402_207_200,
        nanos in 0_i32..1_000_000_000,
    ) {
        let recorded_at = Timestamp::new(seconds, nanos).unwrap();
        let written = EventEnvelope { recorded_at, ..envelope(3, event) };
        let bytes = written.to_bytes().unwrap();
        let read = EventEnvelope::from_bytes(run(), seq(3), &bytes).unwrap();
        prop_assert_eq!(&read, &written);
        // Equality of values takes -0.0 for 0.0; that of bytes does not.
        prop_assert_eq!(read.to_bytes().unwrap(), bytes);
    }

    #[test]
    fn an_event_with_its_fields_in_another_order_reads_the_same(event in any_event()) {
        let written = envelope(3, event);
        let Value::Object(fields) = serde_json::to_value(&written).unwrap() else { panic!("an object") };
        // Here the payload comes before its kind.
        let Value::Object(event) = &fields["event"] else { panic!("an object") };
        let event = format!(r#"{{"payload":{},"kind":{}}}"#, event["payload"], event["kind"]);
        let rest: Vec<_> = fields.iter().filter(|(name, _)| *name != "event").collect();
        let rest: Vec<_> = rest.iter().rev().map(|(name, value)| format!("{:?}:{value}", name)).collect();
        let bytes = format!(r#"{{"event":{event},{}}}"#, rest.join(","));
        prop_assert_eq!(EventEnvelope::from_bytes(run(), seq(3), bytes.as_bytes()).unwrap(), written);
    }

    #[test]
    fn every_number_that_a_tool_returns_keeps_its_bits(number in any_number()) {
        let returned = ToolOutcome::Returned(json!({"measured": [number.clone()]}));
        let bytes = envelope(1, Event::tool_call_completed(seq(1), returned)).to_bytes().unwrap();
        let read = EventEnvelope::from_bytes(run(), seq(1), &bytes).unwrap();
        let Event::ToolCallCompleted { outcome: ToolOutcome::Returned(value), .. } = read.event else { panic!() };
        let read = &value["measured"][0];
        prop_assert_eq!(read.as_u64(), number.as_u64());
        prop_assert_eq!(read.as_i64(), number.as_i64());
        prop_assert_eq!(read.as_f64().map(f64::to_bits), number.as_f64().map(f64::to_bits));
    }
}

/// Reads a record whose event is this JSON.
fn read(event: &str) -> Result<Event, LogError> {
    read_record(&record(event))
}

fn record(event: &str) -> String {
    format!(
        r#"{{"run_id":"{}","seq":1,"schema_version":1,"recorded_at":"2026-11-30T12:00:00Z","event":{event}}}"#,
        run()
    )
}

fn read_record(record: &str) -> Result<Event, LogError> {
    EventEnvelope::from_bytes(run(), Seq::FIRST, record.as_bytes()).map(|envelope| envelope.event)
}

#[test]
fn for_our_own_optional_fields_null_equals_absent() {
    let digest = Digest::of_bytes(b"");
    let process = r#"{"host":"","boot":"","pid_namespace":"","pid":1,"started":""}"#;
    for (with_null, without) in [
        (
            r#"{"kind":"run_started","payload":{"agent_hash":"a","input":1,"labels":null}}"#.to_owned(),
            r#"{"kind":"run_started","payload":{"agent_hash":"a","input":1}}"#.to_owned(),
        ),
        (
            format!(
                r#"{{"kind":"drive_started","payload":{{"drive":1,"process":{process},"epoch":null,"code":"c"}}}}"#
            ),
            format!(r#"{{"kind":"drive_started","payload":{{"drive":1,"process":{process},"code":"c"}}}}"#),
        ),
        (
            format!(
                r#"{{"kind":"model_call_requested","payload":{{"request_hash":"{digest}","request":null}}}}"#
            ),
            format!(r#"{{"kind":"model_call_requested","payload":{{"request_hash":"{digest}"}}}}"#),
        ),
        (
            format!(
                r#"{{"kind":"model_call_requested","payload":{{"request_hash":"{digest}","request":
                    {{"base":null,"keep":null,"messages":null,"set":null,"unset":null}}}}}}"#
            ),
            format!(r#"{{"kind":"model_call_requested","payload":{{"request_hash":"{digest}","request":{{}}}}}}"#),
        ),
        (
            r#"{"kind":"model_call_completed","payload":{"intent":1,"response":1,"usage":{"input_tokens":null,
                "output_tokens":null,"cache_read_input_tokens":null,"cache_creation_input_tokens":null}}}"#
                .to_owned(),
            r#"{"kind":"model_call_completed","payload":{"intent":1,"response":1,"usage":{}}}"#.to_owned(),
        ),
        (
            r#"{"kind":"tool_call_requested","payload":{"tool":"t","input":1,"effect":"read",
                "idempotency_key":null}}"#
                .to_owned(),
            r#"{"kind":"tool_call_requested","payload":{"tool":"t","input":1,"effect":"read"}}"#.to_owned(),
        ),
        (
            r#"{"kind":"resolved","payload":{"intent":1,"outcome":null,"not_done":{},"by":"ada"}}"#.to_owned(),
            r#"{"kind":"resolved","payload":{"intent":1,"not_done":{},"by":"ada"}}"#.to_owned(),
        ),
        (
            r#"{"kind":"resolved","payload":{"intent":1,"outcome":{"returned":null},"not_done":null,"by":"ada"}}"#
                .to_owned(),
            r#"{"kind":"resolved","payload":{"intent":1,"outcome":{"returned":null},"by":"ada"}}"#.to_owned(),
        ),
        (
            r#"{"kind":"run_cancelled","payload":{"unsettled":null}}"#.to_owned(),
            r#"{"kind":"run_cancelled","payload":{}}"#.to_owned(),
        ),
    ] {
        assert_eq!(read(&with_null).unwrap(), read(&without).unwrap(), "{with_null}");
    }
    let lane =
        record(r#"{"kind":"run_completed","payload":{"output":1}}"#).replacen('{', r#"{"lane":null,"#, 1);
    assert_eq!(read_record(&lane).unwrap(), Event::run_completed(json!(1)));
}

#[test]
fn null_is_a_value_like_any_other_in_what_code_and_models_gave() {
    for (event, kept) in [
        (Event::run_started("a", Value::Null), r#""input":null"#),
        (Event::run_completed(Value::Null), r#""output":null"#),
        (Event::run_completed(json!({"a": null})), r#"{"a":null}"#),
        (Event::model_call_completed(seq(1), Value::Null, TokenUsage::default()), r#""response":null"#),
        (Event::model_call_failed(seq(1), Value::Null), r#""error":null"#),
        (asks_tool("t", json!([null, {"a": null}]), Effect::Read), r#"[null,{"a":null}]"#),
        (Event::tool_call_completed(seq(1), ToolOutcome::Returned(Value::Null)), r#"{"returned":null}"#),
        (
            Event::resolved(seq(1), Resolution::Outcome(ToolOutcome::Returned(Value::Null)), "ada"),
            r#""outcome":{"returned":null}"#,
        ),
        (
            Event::model_call_requested(
                Digest::of_bytes(b""),
                Some(RecordedRequest {
                    messages: vec![RecordedMessage::Message(Value::Null)],
                    set: Map::from_iter([("a".to_owned(), Value::Null)]),
                    ..RecordedRequest::default()
                }),
            ),
            r#""messages":[{"message":null}],"set":{"a":null}"#,
        ),
    ] {
        let bytes = envelope(1, event.clone()).to_bytes().unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(text.contains(kept), "{text}");
        assert_eq!(EventEnvelope::from_bytes(run(), seq(1), &bytes).unwrap().event, event);
    }
    // What is missing is not null.
    let error = read(r#"{"kind":"run_completed","payload":{}}"#).unwrap_err();
    assert!(error.to_string().contains("missing field `output`"), "{error}");
}

#[test]
fn fields_that_a_later_version_adds_are_passed_over() {
    let event = read(r#"{"later":1,"kind":"cancel_requested","payload":{"by":"ada","later":{"deep":[]}}}"#);
    assert_eq!(event.unwrap(), Event::cancel_requested("ada"));
    let event =
        read(r#"{"kind":"resolved","payload":{"intent":1,"later":1,"not_done":{"later":2},"by":"ada"}}"#);
    assert_eq!(event.unwrap(), Event::resolved(seq(1), Resolution::NotDone {}, "ada"));
}

#[test]
fn the_root_lane_and_empty_fields_are_left_out() {
    let text = |event| String::from_utf8(envelope(1, event).to_bytes().unwrap()).unwrap();
    let start = text(Event::run_started_with_labels("a", json!(1), BTreeMap::new()));
    assert_eq!(start, {
        let head = format!(
            r#"{{"run_id":"{}","seq":1,"schema_version":1,"recorded_at":"2026-11-30T12:00:01Z","#,
            run()
        );
        head + r#""event":{"kind":"run_started","payload":{"agent_hash":"a","input":1}}}"#
    });
    assert!(text(Event::run_cancelled(Vec::new())).ends_with(r#"{"kind":"run_cancelled","payload":{}}}"#));
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| Value::Array(vec![inner]))
}

#[test]
fn an_event_is_refused_exactly_where_it_could_not_be_read_again() {
    // How many levels stand around the value: the record, the event and the payload, at the least.
    type Wrap = fn(Value) -> Event;
    let wraps: [(usize, Wrap); 6] = [
        (3, |value| Event::run_started("a", value)),
        (3, |value| Event::model_call_completed(Seq::FIRST, value, TokenUsage::default())),
        (3, |value| asks_tool("t", value, Effect::Read)),
        (4, |value| Event::tool_call_completed(Seq::FIRST, ToolOutcome::Returned(value))),
        (4, |value| Event::resolved(Seq::FIRST, Resolution::Outcome(ToolOutcome::Returned(value)), "ada")),
        (6, |value| {
            let messages = vec![RecordedMessage::Message(value)];
            let request = RecordedRequest { messages, ..RecordedRequest::default() };
            Event::model_call_requested(Digest::of_bytes(b""), Some(request))
        }),
    ];
    for (around, wrap) in wraps {
        let deepest = envelope(1, wrap(nested(MAX_DEPTH - around)));
        let bytes = deepest.to_bytes().unwrap();
        assert_eq!(EventEnvelope::from_bytes(run(), seq(1), &bytes).unwrap(), deepest);

        let refused = envelope(1, wrap(nested(MAX_DEPTH - around + 1))).to_bytes().unwrap_err();
        let kind = deepest.event.kind();
        assert_eq!(refused, LogError::TooDeep { run: run(), seq: seq(1), kind });
        assert!(refused.to_string().contains("was not recorded; make the value flatter"), "{refused}");
    }
}

#[test]
fn nesting_without_end_is_refused_before_it_overflows_the_stack() {
    let deep = envelope(1, Event::run_completed(nested(200_000)));
    let refused = deep.to_bytes();
    // Taken apart by hand, since dropping it whole would overflow the stack.
    let Event::RunCompleted { mut output, .. } = deep.event else { panic!("it was just made") };
    while let Value::Array(items) = &mut output {
        output = items.pop().unwrap();
    }
    assert!(matches!(refused, Err(LogError::TooDeep { .. })), "{refused:?}");
}
