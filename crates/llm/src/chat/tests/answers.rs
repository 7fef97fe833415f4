//! Whole answers, streamed and not: what comes out is what was meant, and what breaks is an error.

use std::time::SystemTime;

use super::*;

#[test]
fn a_stream_as_documented_equals_the_same_answer_in_a_body() {
    let chunks = [
        chunk(json!({ "role": "assistant", "content": "", "refusal": null })),
        text("Hel"),
        text("lo, 世界"),
        finished("stop"),
        costs(),
    ];
    let answer = check_equal(
        &chunks,
        &body(json!({ "role": "assistant", "content": "Hello, 世界", "refusal": null }), "stop"),
    );
    let expected = MessageResponse::new("chat_1", "some-model", "Hello, 世界", StopReason::EndTurn);
    assert_eq!(answer, expected.with_usage(Usage::new(10, 5)));
}

#[test]
fn calls_in_pieces_equal_those_of_a_body() {
    let chunks = [
        text("I look."),
        call(
            json!({ "index": 0, "id": "call_1", "type": "function", "function": { "name": "look", "arguments": "" } }),
        ),
        call(json!({ "index": 0, "function": { "arguments": "{\"ci" } })),
        call(
            json!({ "index": 1, "id": "call_2", "type": "function", "function": { "name": "look", "arguments": "" } }),
        ),
        call(json!({ "index": 0, "function": { "arguments": "ty\":\"X\"}" } })),
        finished("tool_calls"),
        costs(),
    ];
    let message = json!({ "role": "assistant", "content": "I look.", "tool_calls": [
        { "id": "call_1", "type": "function", "function": { "name": "look", "arguments": "{\"city\":\"X\"}" } },
        { "id": "call_2", "type": "function", "function": { "name": "look", "arguments": "{}" } },
    ]});
    let answer = check_equal(&chunks, &body(message, "tool_calls"));
    let expected = vec![
        ContentBlock::text("I look."),
        look("call_1", json!({ "city": "X" })),
        look("call_2", json!({})),
    ];
    assert_eq!((&answer.content, &answer.stop_reason), (&expected.into(), &StopReason::ToolUse));
}

#[test]
fn every_finish_reason_is_a_reason_to_stop() {
    let cases = [
        ("stop", StopReason::EndTurn),
        ("length", StopReason::MaxTokens),
        ("content_filter", StopReason::Refusal),
        ("eos_token", StopReason::EndTurn),
        ("brand_new", StopReason::Other("brand_new".into())),
    ];
    for (reason, stop_reason) in cases {
        assert_eq!(check(&[text("Hi"), finished(reason)]).unwrap().stop_reason, stop_reason);
    }
    // Some say stop though they call.
    let piece = json!({ "index": 0, "id": "call_1", "function": { "name": "look", "arguments": "{}" } });
    assert_eq!(check(&[call(piece), finished("stop")]).unwrap().stop_reason, StopReason::ToolUse);
}

#[test]
fn a_refusal_is_content_and_the_reason_to_stop() {
    let chunks = [
        chunk(json!({ "refusal": "I will " })),
        chunk(json!({ "refusal": "not." })),
        finished("stop"),
        costs(),
    ];
    let answer = check_equal(&chunks, &body(json!({ "content": null, "refusal": "I will not." }), "stop"));
    assert_eq!((answer.text().as_str(), answer.stop_reason), ("I will not.", StopReason::Refusal));
}

#[test]
fn further_fields_and_the_tier_survive() {
    let mut end = costs();
    end["citations"] = json!(["https://example.com"]);
    end["service_tier"] = json!("default");
    let mut whole = body(json!({ "content": "Hi" }), "stop");
    whole["citations"] = end["citations"].clone();
    whole["service_tier"] = json!("default");
    let answer = check_equal(&[text("Hi"), finished("stop"), end], &whole);
    assert_eq!(
        (answer.extra["citations"][0].as_str(), answer.service_tier.as_deref()),
        (Some("https://example.com"), Some("default"))
    );
}

#[test]
fn the_end_before_done_or_a_finish_reason_is_an_error_with_the_partial_answer() {
    let begun = [
        text("Hel"),
        call(json!({ "index": 0, "id": "call_1", "function": { "name": "look", "arguments": "{}" } })),
    ];
    let error = check_end(&framed(&begun), End::Clean).unwrap_err();
    assert_eq!((error.kind, error.stage), (ErrorKind::Truncated, Stage::MidStream));
    let partial = error.partial.unwrap();
    assert_eq!((partial.text().as_str(), partial.tool_uses().count()), ("Hel", 0));
    assert_eq!(check_end("", End::Clean).unwrap_err().kind, ErrorKind::Truncated);
}

#[test]
fn the_stream_may_end_after_a_finish_reason_if_it_ends_cleanly() {
    let stream = framed(&[text("Hi"), finished("stop"), costs()]);
    for end in ["\n\n", "\n", ""] {
        let stream = format!("{}{end}", stream.trim_end());
        let answer = check_end(&stream, End::Clean).unwrap();
        assert_eq!((answer.text().as_str(), &answer.usage), ("Hi", &Usage::new(10, 5)));
    }
    assert_eq!(check_end(&stream, End::Broken).unwrap_err().kind, ErrorKind::Truncated);
}

#[test]
fn events_that_are_no_json_objects_are_errors() {
    for data in ["not json", "[1]"] {
        let error = check_end(&format!("data: {data}\n\n"), End::Clean).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol, "{data}");
    }
}

#[test]
fn a_body_that_is_no_answer_is_an_error_that_shows_it() {
    for body in ["", "hello", "[]", "{}", r#"{"choices":[]}"#, r#"{"choices":null}"#] {
        assert_eq!(decode_body(body.as_bytes(), "m").unwrap_err().kind, ErrorKind::Protocol, "{body}");
    }
    let refused = error_of_body(
        404,
        br#"{"error":{"message":"no such model","code":"model_not_found"}}"#,
        SystemTime::UNIX_EPOCH,
    );
    assert_eq!((refused.kind, refused.message.as_str()), (ErrorKind::InvalidRequest, "no such model"));
}
