//! The recorded forms of answers and messages: their exact bytes, and that nothing is lost in them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use proptest::prelude::*;
use relight_llm::{
    Content, ContentBlock, ErrorKind, LlmError, Message, MessageResponse, StopReason, Usage,
    messages::decode_body,
};
use serde_json::{Value, json};

fn check(response: &MessageResponse, recorded: &Value) {
    assert_eq!(serde_json::to_value(response).unwrap(), *recorded);
    assert_eq!(serde_json::from_value::<MessageResponse>(recorded.clone()).unwrap(), *response);
}

#[test]
fn a_plain_answer_is_recorded_without_what_is_not_there() {
    let response =
        MessageResponse::new("msg_1", "m", "Hello", StopReason::EndTurn).with_usage(Usage::new(10, 2));
    check(
        &response,
        &json!({
            "id": "msg_1", "model": "m", "content": [{ "type": "text", "text": "Hello" }],
            "stop_reason": "end_turn", "usage": { "input_tokens": 10, "output_tokens": 2 },
        }),
    );
    let nothing = MessageResponse::new("", "", Content::new(), StopReason::Missing);
    check(&nothing, &json!({ "id": "", "model": "", "content": [] }));
}

#[test]
fn every_block_has_its_recorded_form() {
    let blocks = vec![
        ContentBlock::Thinking { thinking: "Hm.".into(), signature: "c2ln".into() },
        ContentBlock::RedactedThinking { data: "b3Bh".into() },
        ContentBlock::text("I look."),
        ContentBlock::ToolUse { id: "1".into(), name: "look".into(), input: json!({ "n": null }) },
        ContentBlock::InvalidToolUse { id: "2".into(), name: "look".into(), raw: "{\"a".into() },
        ContentBlock::ToolResult { tool_use_id: "1".into(), content: "42".into(), is_error: true },
        ContentBlock::ToolResult { tool_use_id: "2".into(), content: Content::new(), is_error: false },
        ContentBlock::Image { source: json!({ "type": "url", "url": "u" }) },
        ContentBlock::Document { source: json!({ "type": "text", "data": "x" }) },
        ContentBlock::Other(json!({ "type": "brand_new", "x": null }).as_object().unwrap().clone()),
    ];
    let recorded = json!([
        { "type": "thinking", "thinking": "Hm.", "signature": "c2ln" },
        { "type": "redacted_thinking", "data": "b3Bh" },
        { "type": "text", "text": "I look." },
        { "type": "tool_use", "id": "1", "name": "look", "input": { "n": null } },
        { "type": "invalid_tool_use", "id": "2", "name": "look", "raw": "{\"a" },
        { "type": "tool_result", "tool_use_id": "1", "content": [{ "type": "text", "text": "42" }], "is_error": true },
        { "type": "tool_result", "tool_use_id": "2" },
        { "type": "image", "source": { "type": "url", "url": "u" } },
        { "type": "document", "source": { "type": "text", "data": "x" } },
        { "type": "brand_new", "x": null },
    ]);
    let content = Content::from(blocks);
    assert_eq!(serde_json::to_value(&content).unwrap(), recorded);
    assert_eq!(serde_json::from_value::<Content>(recorded.clone()).unwrap(), content);
    let message = Message::assistant_blocks(content);
    assert_eq!(message.to_value(), json!({ "role": "assistant", "content": recorded }));
}

#[test]
fn every_stop_reason_reads_back() {
    let known = [
        "end_turn",
        "max_tokens",
        "stop_sequence",
        "tool_use",
        "pause_turn",
        "refusal",
        "model_context_window_exceeded",
    ];
    for name in known {
        let reason: StopReason = serde_json::from_value(json!(name)).unwrap();
        assert!(!matches!(reason, StopReason::Other(_)), "{name}");
        assert_eq!(serde_json::to_value(&reason).unwrap(), name);
    }
    let unknown: StopReason = serde_json::from_value(json!("brand_new")).unwrap();
    assert_eq!(unknown, StopReason::Other("brand_new".into()));
    assert_eq!(serde_json::to_value(&unknown).unwrap(), "brand_new");
}

#[test]
fn an_error_is_recorded_in_one_form() {
    let error = LlmError::new(ErrorKind::RateLimited, "slow down").with_status(429).mid_stream();
    let recorded =
        json!({ "kind": "rate_limited", "stage": "mid_stream", "status": 429, "message": "slow down" });
    assert_eq!(serde_json::to_value(&error).unwrap(), recorded);
}

fn any_number() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("finite", |double| double.is_finite().then(|| Value::from(double))),
        prop::sample::select(&[-0.0, f64::MAX, f64::MIN_POSITIVE, 5e-324, 0.1, 1e21][..])
            .prop_map(Value::from),
        Just(Value::from(u64::MAX)),
    ]
}

proptest! {
    #[test]
    fn numbers_survive_the_record_wherever_they_stand(numbers in prop::collection::vec(any_number(), 1..6)) {
        let body = json!({
            "id": "msg_1", "model": "m", "stop_reason": "tool_use", "brand_new": numbers,
            "content": [
                { "type": "tool_use", "id": "1", "name": "look", "input": { "numbers": numbers } },
                { "type": "text", "text": "", "brand_new": numbers },
                { "type": "brand_new", "numbers": numbers },
            ],
            "usage": { "input_tokens": 1, "brand_new": numbers },
        });
        let response = decode_body(body.to_string().as_bytes()).unwrap();
        let recorded = serde_json::to_string(&response).unwrap();
        let read: MessageResponse = serde_json::from_str(&recorded).unwrap();
        prop_assert_eq!(&read, &response);
        // Equality does not tell -0.0 from 0.0, the text does.
        prop_assert_eq!(serde_json::to_string(&read).unwrap(), recorded);
        let input = response.content.iter().find_map(|block| match block {
            ContentBlock::ToolUse { input, .. } => Some(input["numbers"].to_string()),
            _ => None,
        });
        prop_assert_eq!(input, Some(Value::from(numbers).to_string()));
    }
}
