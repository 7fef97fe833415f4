//! Answers by servers that mean harm or do not know better: an error or a readable record, never a crash.

use super::answers::check_equal;
use super::*;

fn event(data: &str) -> Result<Option<crate::StreamEvent>, LlmError> {
    decode_event(&sse::Event { name: "".into(), data: data.into() })
}

fn nested(levels: usize) -> String {
    format!("{{\"a\":{}{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1))
}

#[test]
fn counts_that_are_no_counts_are_not_stated() {
    let odd = json!({ "input_tokens": -5, "output_tokens": "7", "cache_read_input_tokens": 1.5,
                      "cache_creation_input_tokens": 3.0 });
    let mut begin = start();
    begin["message"]["usage"] = odd.clone();
    let end = json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" },
                      "usage": { "output_tokens": null, "input_tokens": [1], "cache_read_input_tokens": 1e30 } });
    let body = json!({ "id": "msg_1", "model": "some-model", "content": [], "stop_reason": "end_turn", "usage": odd });
    let response = check_equal(&[begin, end, stop()], body);
    assert_eq!(response.usage, Usage { cache_creation_input_tokens: 3, ..Usage::default() });
}

#[test]
fn counts_up_to_the_largest_are_kept_and_never_overflow() {
    let most =
        json!({ "input_tokens": u64::MAX, "output_tokens": u64::MAX, "cache_read_input_tokens": u64::MAX });
    let body = json!({ "id": "m", "model": "m", "content": [], "stop_reason": "end_turn", "usage": most });
    let response = decode_body(body.to_string().as_bytes()).unwrap();
    assert_eq!(response.usage.output_tokens, u64::MAX);
    assert_eq!(response.usage.total_input_tokens(), u64::MAX);
}

/// A name that stood twice in a record could not be read again.
#[test]
fn a_field_in_the_wrong_place_never_stands_beside_the_one_of_its_name() {
    let mut begin = start();
    begin["message"]["service_tier"] = json!("batch");
    begin["message"]["usage"]["extra"] = json!(1);
    let events = [
        begin,
        open(0, json!({ "type": "text", "text": "" })),
        delta(0, json!({ "type": "brand_new_delta", "text": "shadow", "signature": "s", "type_": 1 })),
        text(0, "own"),
        close(0),
        open(1, json!({ "type": "tool_use", "id": "1", "name": "look", "input": 12, "raw": "shadow" })),
        close(1),
        json!({ "type": "message_delta", "usage": { "output_tokens": 5 }, "id": "shadow", "role": "user",
                "delta": { "stop_reason": "end_turn", "id": "shadow", "model": "shadow", "content": [], "usage": {},
                           "type": "shadow", "service_tier": "shadow" } }),
        stop(),
    ];
    let body = json!({
        "id": "msg_1", "model": "some-model", "stop_reason": "end_turn", "service_tier": "batch",
        "content": [
            { "type": "text", "text": "own", "signature": "s", "type_": 1 },
            { "type": "tool_use", "id": "1", "name": "look", "input": 12, "raw": "shadow" },
        ],
        "usage": { "input_tokens": 10, "output_tokens": 5, "extra": 1 },
    });
    let response = check_equal(&events, body);
    assert_eq!((response.id.as_str(), response.text().as_str()), ("msg_1", "own"));
    assert_eq!(response.service_tier.as_deref(), Some("batch"));
    let call = ContentBlock::InvalidToolUse { id: "1".into(), name: "look".into(), raw: "12".into() };
    assert_eq!(response.content[1], call);
    assert!(response.extra.is_empty(), "{:?}", response.extra);
}

#[test]
fn nulls_everywhere_are_as_good_as_nothing() {
    let body = json!({
        "id": null, "model": null, "type": null, "role": null, "stop_reason": null, "stop_sequence": null,
        "content": [{ "type": "text", "text": null }, { "type": "thinking", "thinking": null, "signature": null }],
        "usage": { "input_tokens": null, "cache_creation": null, "service_tier": null }, "container": null,
    });
    let thought = ContentBlock::Thinking { thinking: String::new(), signature: String::new() };
    let content = vec![ContentBlock::text(""), thought];
    let response = decode_body(body.to_string().as_bytes()).unwrap();
    assert_eq!(response, MessageResponse::new("", "", content, StopReason::Missing));
    for kind in
        ["message_start", "content_block_start", "content_block_delta", "message_delta", "error", "ping"]
    {
        let nulls = json!({ "type": kind, "message": null, "index": 0, "content_block": null, "delta": null,
                            "usage": null, "error": null });
        let _ = event(&nulls.to_string());
    }
}

#[test]
fn deep_nesting_is_an_error_and_no_overflow() {
    for levels in [111, 127, 128, 100_000] {
        let deep = nested(levels);
        let shapes = [
            deep.clone(),
            format!("{{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{deep}}}"),
            format!("{{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{deep}}}"),
            format!("{{\"type\":\"ping\",\"x\":{deep}}}"),
        ];
        for shape in &shapes {
            assert_eq!(event(shape).unwrap_err().kind, ErrorKind::Protocol, "{levels}");
        }
        let body = format!("{{\"id\":\"m\",\"model\":\"m\",\"content\":[{deep}]}}");
        assert_eq!(decode_body(body.as_bytes()).unwrap_err().kind, ErrorKind::Protocol, "{levels}");
        assert_eq!(error_of_body(500, deep.as_bytes()).kind, ErrorKind::Server, "{levels}");
        // The decoder itself asks whether an unterminated event is JSON.
        let stream = format!("data: {deep}");
        assert!(fold_chunks([stream.as_bytes()], End::Clean).is_err(), "{levels}");
    }
}

#[test]
fn arguments_that_nest_too_deep_to_be_recorded_are_marked() {
    for (levels, runs) in [(100, true), (101, false)] {
        let deep = nested(levels);
        let events = [start(), open(0, tool()), arguments(0, &deep), close(0), ended("tool_use"), stop()];
        let input: Value = serde_json::from_str(&deep).unwrap();
        let call = json!({ "type": "tool_use", "id": "toolu_1", "name": "look", "input": input });
        let body = json!({ "id": "msg_1", "model": "some-model", "content": [call], "stop_reason": "tool_use",
                           "usage": { "input_tokens": 10, "output_tokens": 5 } });
        assert_eq!(check_equal(&events, body).tool_uses().count() == 1, runs, "{levels}");
    }
    for levels in [127, 128, 100_000] {
        let deep = nested(levels);
        let events = [start(), open(0, tool()), arguments(0, &deep), close(0), ended("tool_use"), stop()];
        let response = fold_chunks([framed(&events, "\n").as_bytes()], End::Clean).unwrap();
        assert!(matches!(&response.content[0], ContentBlock::InvalidToolUse { .. }), "{levels}");
    }
}

#[test]
fn of_names_that_stand_twice_the_last_counts() {
    let twice = event(r#"{"type":"ping","type":"content_block_stop","index":1,"index":2}"#).unwrap();
    assert_eq!(twice, Some(crate::StreamEvent::BlockStop { index: 2 }));
    let twice = event(
        r#"{"type":"content_block_delta","index":0,"index":3,"delta":{"type":"text_delta","text":"a","text":"b"}}"#,
    );
    assert_eq!(twice.unwrap(), Some(crate::StreamEvent::TextDelta { index: 3, text: "b".into() }));
}

#[test]
fn a_broken_character_costs_itself_and_not_the_answer() {
    let begun = [start(), open(0, json!({ "type": "text", "text": "" }))];
    let end = [close(0), ended("end_turn"), stop()];
    let body = |text: &[u8]| {
        let (before, after) = (
            r#"{"id":"msg_1","model":"some-model","content":[{"type":"text","text":""#,
            r#""}],"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":5}}"#,
        );
        [before.as_bytes(), text, after.as_bytes()].concat()
    };
    // Half of a surrogate pair, as an escape; and a byte that is not UTF-8.
    for broken in [&br"a\ud83db"[..], b"a\xffb"] {
        let data = br#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""#;
        let (begun, end) = (framed(&begun, "\n"), framed(&end, "\n"));
        let stream = [begun.as_bytes(), data, broken, b"\"}}\n\n", end.as_bytes()].concat();
        let streamed = fold_chunks([stream.as_slice()], End::Clean).unwrap();
        assert_eq!(streamed, answer("a\u{fffd}b", StopReason::EndTurn));
        assert_eq!(decode_body(&body(broken)).unwrap(), streamed);
    }
}

#[test]
fn a_number_beyond_all_doubles_is_an_error_and_never_another_number() {
    let huge = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","x":1e999}}"#;
    assert_eq!(event(huge).unwrap_err().kind, ErrorKind::Protocol);
    let events =
        [start(), open(0, tool()), arguments(0, r#"{"n":1e999}"#), close(0), ended("tool_use"), stop()];
    let marked = ContentBlock::InvalidToolUse {
        id: "toolu_1".into(),
        name: "look".into(),
        raw: r#"{"n":1e999}"#.into(),
    };
    assert_eq!(check(&events).unwrap().content, vec![marked]);
}

/// A search through all blocks for each event would take minutes here.
#[test]
fn a_hundred_thousand_open_blocks_cost_their_number_and_not_its_square() {
    const BLOCKS: u64 = 100_000;
    let mut fold = Fold::new();
    let block = |index| crate::StreamEvent::BlockStart {
        index,
        block: ContentBlock::text(""),
        extra: serde_json::Map::new(),
    };
    let started = event(&start().to_string()).unwrap().unwrap();
    fold.apply(&started).unwrap();
    for index in 0..BLOCKS {
        fold.apply(&block(index)).unwrap();
    }
    for index in 0..BLOCKS {
        fold.apply(&crate::StreamEvent::TextDelta { index, text: "x".into() }).unwrap();
        fold.apply(&crate::StreamEvent::BlockStop { index }).unwrap();
    }
    assert_eq!(fold.partial().content.len(), 100_000);
}

#[test]
fn what_a_server_says_of_an_error_is_kept_short_and_shown_on_one_line() {
    let long = "é".repeat(100_000);
    let body = json!({ "type": "error", "request_id": format!("req\n{long}"),
                       "error": { "type": format!("a\u{1b}[31m{long}"), "message": format!("m\r\n\u{2028}{long}") } });
    for error in [error_of_body(400, body.to_string().as_bytes()), event(&body.to_string()).unwrap_err()] {
        let shown = error.to_string();
        assert!(!shown.contains(|c: char| c.is_control() || c == '\u{2028}'), "{shown}");
        assert!(shown.len() < 10_000, "{} bytes", shown.len());
        assert!(serde_json::to_string(&error).unwrap().len() < 10_000);
    }
}
