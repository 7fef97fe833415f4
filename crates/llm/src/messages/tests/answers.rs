//! Whole answers, streamed and not: what comes out is what was meant.

use super::*;

/// A stream and a body of the same answer are the same answer.
pub(super) fn check_equal(events: &[Value], body: Value) -> MessageResponse {
    let streamed = check(events).unwrap();
    let whole = decode_body(body.to_string().as_bytes()).unwrap();
    assert_eq!(streamed, whole);
    assert_eq!(serde_json::to_string(&streamed).unwrap(), serde_json::to_string(&whole).unwrap());
    let recorded = serde_json::to_string(&streamed).unwrap();
    assert_eq!(
        serde_json::from_str::<MessageResponse>(&recorded).unwrap(),
        streamed,
        "as recorded: {recorded}"
    );
    streamed
}

#[test]
fn text_in_two_deltas_equals_the_same_text_in_a_body() {
    let events = [
        start(),
        json!({ "type": "ping" }),
        open(0, json!({ "type": "text", "text": "" })),
        text(0, "Hel"),
        text(0, "lo, 世界 \"quoted\""),
        close(0),
        ended("end_turn"),
        stop(),
    ];
    let body = json!({
        "id": "msg_1", "role": "assistant", "model": "some-model",
        "content": [{ "type": "text", "text": "Hello, 世界 \"quoted\"" }],
        "stop_reason": "end_turn", "usage": { "input_tokens": 10, "output_tokens": 5 },
    });
    let response = check_equal(&events, body);
    assert_eq!(response, answer("Hello, 世界 \"quoted\"", StopReason::EndTurn));
}

#[test]
fn several_blocks_thinking_and_a_call_equal_those_of_a_body() {
    let events = [
        start(),
        open(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "Let me " })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "see.", "estimated_tokens": 3 })),
        delta(0, json!({ "type": "signature_delta", "signature": "c2ln" })),
        close(0),
        open(1, json!({ "type": "redacted_thinking", "data": "b3Bh" })),
        close(1),
        open(2, json!({ "type": "text", "text": "" })),
        text(2, "I look."),
        close(2),
        open(
            3,
            json!({ "type": "tool_use", "id": "toolu_1", "name": "look", "input": {}, "caller": { "type": "direct" } }),
        ),
        arguments(3, ""),
        arguments(3, "{\"ci"),
        arguments(3, "ty\": \"X\", \"n\": 1.5"),
        arguments(3, "}"),
        close(3),
        ended("tool_use"),
        stop(),
    ];
    let body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "some-model",
        "content": [
            { "type": "thinking", "thinking": "Let me see.", "signature": "c2ln" },
            { "type": "redacted_thinking", "data": "b3Bh" },
            { "type": "text", "text": "I look.", "citations": null },
            { "type": "tool_use", "id": "toolu_1", "name": "look", "input": { "city": "X", "n": 1.5 },
              "caller": { "type": "direct" } },
        ],
        "stop_reason": "tool_use", "stop_sequence": null, "usage": { "input_tokens": 10, "output_tokens": 5 },
    });
    let response = check_equal(&events, body);
    let calls: Vec<_> = response.tool_uses().collect();
    assert_eq!(calls, [("toolu_1", "look", &json!({ "city": "X", "n": 1.5 }))]);
    assert_eq!(response.content.extra(3).unwrap()["caller"]["type"], "direct");
}

#[test]
fn cache_usage_tier_and_stop_sequence_equal_those_of_a_body() {
    let mut begin = start();
    begin["message"]["usage"] = json!({
        "input_tokens": 50, "cache_read_input_tokens": 2400, "cache_creation_input_tokens": 0, "output_tokens": 1,
        "cache_creation": { "ephemeral_5m_input_tokens": 0 }, "service_tier": "standard", "server_tool_use": null,
    });
    let events = [
        begin,
        open(0, json!({ "type": "text", "text": "" })),
        text(0, "one"),
        close(0),
        json!({ "type": "message_delta", "delta": { "stop_reason": "stop_sequence", "stop_sequence": "two" },
                "usage": { "output_tokens": 7, "cache_read_input_tokens": null } }),
        stop(),
    ];
    let body = json!({
        "id": "msg_1", "model": "some-model", "content": [{ "type": "text", "text": "one" }],
        "stop_reason": "stop_sequence", "stop_sequence": "two",
        "usage": { "input_tokens": 50, "cache_read_input_tokens": 2400, "output_tokens": 7,
                   "cache_creation": { "ephemeral_5m_input_tokens": 0 }, "service_tier": "standard" },
    });
    let response = check_equal(&events, body);
    assert_eq!(response.stop_sequence.as_deref(), Some("two"));
    assert_eq!(response.service_tier.as_deref(), Some("standard"));
    assert_eq!((response.usage.input_tokens, response.usage.cache_read_input_tokens), (50, 2400));
    assert_eq!(response.usage.output_tokens, 7);
}

#[test]
fn usage_is_cumulative_and_never_added() {
    let mut begin = start();
    begin["message"]["usage"] =
        json!({ "input_tokens": 9, "cache_read_input_tokens": 1, "output_tokens": 1 });
    let usage = json!({ "input_tokens": 9, "cache_read_input_tokens": 1, "output_tokens": 16 });
    let grown = json!({ "input_tokens": 12, "output_tokens": 20 });
    let events = [
        begin,
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": usage }),
        json!({ "type": "message_delta", "delta": {}, "usage": grown }),
        stop(),
    ];
    let response = check(&events).unwrap();
    assert_eq!(response.usage, Usage { cache_read_input_tokens: 1, ..Usage::new(12, 20) });
    assert_eq!(response.stop_reason, StopReason::EndTurn);
}

/// As the real service was seen to send it.
#[test]
fn an_update_overwrites_each_field_it_states_also_those_of_the_cache() {
    let mut begin = start();
    begin["message"]["usage"] = json!({ "input_tokens": 2, "cache_creation_input_tokens": 47119,
        "cache_read_input_tokens": 0, "output_tokens": 4,
        "cache_creation": { "ephemeral_5m_input_tokens": 1 }, "inference_geo": "us" });
    let grown = json!({ "input_tokens": 10682, "cache_creation_input_tokens": 47119, "output_tokens": 64,
        "cache_creation": { "ephemeral_1h_input_tokens": 47119 }, "output_tokens_details": { "thinking_tokens": 3 } });
    let end = json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": grown });
    let usage = check(&[begin, end, stop()]).unwrap().usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (10682, 64));
    assert_eq!((usage.cache_creation_input_tokens, usage.total_input_tokens()), (47119, 57801));
    assert_eq!(usage.extra["cache_creation"], json!({ "ephemeral_1h_input_tokens": 47119 }));
    assert_eq!((&usage.extra["inference_geo"], usage.extra.len()), (&json!("us"), 3));
}

#[test]
fn a_stream_without_usage_costs_nothing_that_is_known() {
    let mut begin = start();
    begin["message"].as_object_mut().unwrap().remove("usage");
    let end = json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } });
    assert_eq!(check(&[begin, end, stop()]).unwrap().usage, Usage::default());
}

#[test]
fn thoughts_that_are_kept_back_still_carry_their_signature() {
    let events = [
        start(),
        open(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
        delta(0, json!({ "type": "signature_delta", "signature": "c2ln" })),
        close(0),
        ended("end_turn"),
        stop(),
    ];
    let thought = ContentBlock::Thinking { thinking: String::new(), signature: "c2ln".into() };
    assert_eq!(check(&events).unwrap(), answer(thought, StopReason::EndTurn));
}

#[test]
fn a_signature_is_set_and_thoughts_are_added() {
    let events = [
        start(),
        open(0, json!({ "type": "thinking", "thinking": "", "signature": "draft" })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "a" })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "b" })),
        delta(0, json!({ "type": "signature_delta", "signature": "c2ln" })),
        close(0),
        ended("end_turn"),
        stop(),
    ];
    let thought = ContentBlock::Thinking { thinking: "ab".into(), signature: "c2ln".into() };
    assert_eq!(check(&events).unwrap(), answer(thought, StopReason::EndTurn));
}

#[test]
fn blocks_that_come_whole_are_kept_whole() {
    let blocks = [
        json!({ "type": "redacted_thinking", "data": "b3Bh" }),
        json!({ "type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{ "url": "u", "age": null }] }),
        json!({ "type": "code_execution_tool_result", "tool_use_id": "srv_2", "content": { "return_code": 0 } }),
        json!({ "type": "mcp_tool_use", "id": "mcp_1", "name": "n", "server_name": "s", "input": { "a": 1 } }),
        json!({ "type": "mcp_tool_result", "tool_use_id": "mcp_1", "is_error": false, "content": [] }),
        json!({ "type": "container_upload", "file_id": "file_1" }),
        json!({ "type": "fallback" }),
    ];
    let streamed = (0..).zip(&blocks).flat_map(|(index, block)| [open(index, block.clone()), close(index)]);
    let events: Vec<Value> =
        [start()].into_iter().chain(streamed).chain([ended("pause_turn"), stop()]).collect();
    let body = json!({ "id": "msg_1", "model": "some-model", "content": blocks, "stop_reason": "pause_turn",
                       "usage": { "input_tokens": 10, "output_tokens": 5 } });
    let response = check_equal(&events, body);
    let sent: Value = serde_json::from_slice(response.to_message().messages_api()).unwrap();
    assert_eq!(sent["content"], json!(blocks), "and go back to the server as they came");
}

#[test]
fn pings_and_unknown_events_may_stand_anywhere() {
    let events = [
        start(),
        open(0, json!({ "type": "text", "text": "" })),
        text(0, "a"),
        text(0, "b"),
        close(0),
        ended("end_turn"),
    ];
    for at in 0..=events.len() {
        let noise = [json!({ "type": "ping" }), json!({ "type": "brand_new", "index": 0, "error": null })];
        let noisy = [&events[..at], &noise, &events[at..], &[stop()]].concat();
        assert_eq!(check(&noisy).unwrap(), answer("ab", StopReason::EndTurn), "at {at}");
    }
}

#[test]
fn citations_and_fields_of_known_blocks_survive() {
    let cited =
        json!({ "type": "char_location", "cited_text": "x", "start_char_index": 0, "end_char_index": null });
    let events = [
        start(),
        open(0, json!({ "type": "text", "text": "", "citations": [], "brand_new": 7 })),
        text(0, "cited"),
        delta(0, json!({ "type": "citations_delta", "citation": cited })),
        delta(0, json!({ "type": "citations_delta", "citation": cited })),
        close(0),
        ended("end_turn"),
        stop(),
    ];
    let body = json!({
        "id": "msg_1", "model": "some-model", "stop_reason": "end_turn",
        "content": [{ "type": "text", "text": "cited", "citations": [cited, cited], "brand_new": 7 }],
        "usage": { "input_tokens": 10, "output_tokens": 5 },
    });
    let response = check_equal(&events, body);
    assert_eq!(response.content.extra(0).unwrap()["citations"], json!([cited, cited]));
    let recorded = serde_json::to_value(&response).unwrap();
    assert_eq!(recorded["content"][0]["brand_new"], 7);
    assert_eq!(response.to_message().to_value()["content"], recorded["content"], "and go back to the model");
}

#[test]
fn unknown_blocks_fields_deltas_and_events_are_carried_or_passed_over() {
    let result =
        json!({ "type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{ "x": null }] });
    let events = [
        start(),
        json!({ "type": "brand_new_event", "index": 3 }),
        open(0, json!({ "type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {} })),
        arguments(0, "{\"q\":"),
        arguments(0, "1}"),
        close(0),
        open(1, result.clone()),
        close(1),
        open(2, json!({ "type": "compaction", "content": null })),
        delta(2, json!({ "type": "compaction_delta", "content": "sum", "encrypted_content": "ZW5j" })),
        close(2),
        json!({ "type": "message_delta", "delta": { "stop_reason": "brand_new_reason", "stop_details": { "a": 1 } },
                "usage": { "output_tokens": 5 }, "context_management": { "applied_edits": [] } }),
        stop(),
    ];
    let body = json!({
        "id": "msg_1", "model": "some-model", "stop_reason": "brand_new_reason", "stop_details": { "a": 1 },
        "context_management": { "applied_edits": [] }, "container": null,
        "content": [
            { "type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": { "q": 1 } },
            result,
            { "type": "compaction", "content": "sum", "encrypted_content": "ZW5j" },
        ],
        "usage": { "input_tokens": 10, "output_tokens": 5 },
    });
    let response = check_equal(&events, body);
    assert_eq!(response.stop_reason, StopReason::Other("brand_new_reason".into()));
    assert_eq!(serde_json::to_value(&response).unwrap()["content"][1], result, "nulls within included");
}

#[test]
fn a_known_block_that_is_not_what_it_should_be_is_kept_as_it_came() {
    let odd = json!({ "type": "tool_use", "name": 7, "id": null });
    let body = json!({ "id": "m", "model": "m", "content": [odd], "stop_reason": "end_turn" });
    let response = decode_body(body.to_string().as_bytes()).unwrap();
    assert_eq!(serde_json::to_value(&response.content).unwrap(), json!([odd]));
}

#[test]
fn a_call_without_arguments_has_the_empty_object() {
    for deltas in [vec![], vec![arguments(0, "")], vec![arguments(0, ""), arguments(0, "{}")]] {
        let events =
            [vec![start(), open(0, tool())], deltas, vec![close(0), ended("tool_use"), stop()]].concat();
        let call = ContentBlock::ToolUse { id: "toolu_1".into(), name: "look".into(), input: json!({}) };
        assert_eq!(check(&events).unwrap(), answer(call, StopReason::ToolUse));
    }
}

#[test]
fn arguments_that_are_whole_at_the_start_need_no_delta() {
    let block = json!({ "type": "tool_use", "id": "toolu_1", "name": "look", "input": { "a": 1 } });
    let events = [start(), open(0, block), close(0), ended("tool_use"), stop()];
    let call = ContentBlock::ToolUse { id: "toolu_1".into(), name: "look".into(), input: json!({ "a": 1 }) };
    assert_eq!(check(&events).unwrap().content, vec![call]);
}

#[test]
fn cut_arguments_are_marked_and_never_run() {
    let cut = r#"{"path":"a","content":"xy"#;
    let closed = [start(), open(0, tool()), arguments(0, cut), close(0), ended("max_tokens"), stop()];
    let unclosed = [start(), open(0, tool()), arguments(0, cut), ended("max_tokens"), stop()];
    for events in [&closed[..], &unclosed[..]] {
        let response = check(events).unwrap();
        let marked =
            ContentBlock::InvalidToolUse { id: "toolu_1".into(), name: "look".into(), raw: cut.into() };
        assert_eq!(response, answer(marked, StopReason::MaxTokens));
        assert_eq!(response.tool_uses().count(), 0);
    }
}

#[test]
fn arguments_that_are_no_object_are_marked() {
    for raw in ["12", "\"text\"", "[1]", "{} {}", "{\"a\":1", "nonsense"] {
        let events = [start(), open(0, tool()), arguments(0, raw), close(0), ended("tool_use"), stop()];
        let marked =
            ContentBlock::InvalidToolUse { id: "toolu_1".into(), name: "look".into(), raw: raw.into() };
        assert_eq!(check(&events).unwrap().content, vec![marked]);
    }
}

#[test]
fn a_call_whose_arguments_had_not_begun_when_the_tokens_ran_out_is_marked() {
    let events = [start(), open(0, tool()), close(0), ended("max_tokens"), stop()];
    let body = json!({ "id": "msg_1", "model": "some-model", "content": [tool()], "stop_reason": "max_tokens",
                       "usage": { "input_tokens": 10, "output_tokens": 5 } });
    assert_eq!(check_equal(&events, body).tool_uses().count(), 0);
}

#[test]
fn a_marked_call_goes_back_to_the_model_as_the_call_it_was() {
    let block =
        ContentBlock::InvalidToolUse { id: "toolu_1".into(), name: "look".into(), raw: "{\"a".into() };
    let message = answer(block, StopReason::MaxTokens).to_message();
    let sent: Value = serde_json::from_slice(message.messages_api()).unwrap();
    assert_eq!(sent["content"][0]["type"], "tool_use");
    assert_eq!(sent["content"][0]["input"], json!({ "INVALID_JSON": "{\"a" }));
}

#[test]
fn a_block_index_of_two_to_the_31st_allocates_nothing() {
    for index in [1 << 31, u64::MAX] {
        let events = [
            start(),
            open(index, json!({ "type": "text", "text": "" })),
            text(index, "Hello"),
            close(index),
            ended("end_turn"),
            stop(),
        ];
        assert_eq!(check(&events).unwrap(), answer("Hello", StopReason::EndTurn));
    }
}

#[test]
fn interleaved_blocks_are_told_apart_by_index() {
    let events = [
        start(),
        open(7, json!({ "type": "text", "text": "" })),
        open(3, json!({ "type": "text", "text": "" })),
        text(7, "a"),
        text(3, "b"),
        text(7, "c"),
        close(3),
        close(7),
        ended("end_turn"),
        stop(),
    ];
    let content = vec![ContentBlock::text("ac"), ContentBlock::text("b")];
    assert_eq!(check(&events).unwrap().content, content);
}
