//! What servers other than the vendor's own were seen to send.

use super::*;

fn piece(index: Value, id: Value, name: Value, arguments: Value) -> Value {
    let mut piece = json!({ "type": "function", "function": { "name": name, "arguments": arguments } });
    for (field, value) in [("index", index), ("id", id)] {
        if !value.is_null() {
            piece[field] = value;
        }
    }
    call(piece)
}

#[test]
fn tool_calls_that_are_null_are_none() {
    let chunks = [chunk(json!({ "content": "Hi", "tool_calls": null })), finished("stop"), costs()];
    let answer = check_equal(&chunks, &body(json!({ "content": "Hi", "tool_calls": null }), "stop"));
    assert_eq!(answer.content, vec![ContentBlock::text("Hi")]);
}

#[test]
fn arguments_may_be_an_object_instead_of_its_text() {
    let chunks =
        [piece(json!(0), json!("call_1"), json!("look"), json!({ "a": 1 })), finished("tool_calls"), costs()];
    let message = json!({ "tool_calls": [{ "id": "call_1", "function": { "name": "look", "arguments": { "a": 1 } } }] });
    assert_eq!(
        check_equal(&chunks, &body(message, "tool_calls")).content,
        vec![look("call_1", json!({ "a": 1 }))]
    );
}

#[test]
fn malformed_arguments_do_not_become_an_empty_object() {
    for raw in ["{\"path\":\"a\",\"content\":\"xy", "nonsense", "[1]", "{} {}"] {
        let chunks =
            [piece(json!(0), json!("call_1"), json!("look"), json!(raw)), finished("tool_calls"), costs()];
        let message =
            json!({ "tool_calls": [{ "id": "call_1", "function": { "name": "look", "arguments": raw } }] });
        let answer = check_equal(&chunks, &body(message, "tool_calls"));
        let marked =
            ContentBlock::InvalidToolUse { id: "call_1".into(), name: "look".into(), raw: raw.into() };
        assert_eq!(answer.content, vec![marked]);
    }
}

#[test]
fn empty_content_beside_calls_makes_no_block() {
    let mut last = finished("tool_calls");
    last["choices"][0]["delta"] = json!({ "content": "" });
    let chunks = [piece(json!(0), json!("call_1"), json!("look"), json!("{}")), last, costs()];
    let message = json!({ "content": "", "tool_calls": [{ "id": "call_1", "function": { "name": "look", "arguments": "{}" } }] });
    assert_eq!(check_equal(&chunks, &body(message, "tool_calls")).content, vec![look("call_1", json!({}))]);
}

#[test]
fn calls_still_pending_at_done_without_a_finish_reason_are_calls() {
    let whole = [piece(json!(0), json!("call_1"), json!("look"), json!("{\"a\":1}"))];
    let answer = check(&whole).unwrap();
    assert_eq!(
        (&answer.content[..], &answer.stop_reason),
        (&[look("call_1", json!({ "a": 1 }))][..], &StopReason::ToolUse)
    );
    let cut = [piece(json!(0), json!("call_1"), json!("look"), json!("{\"a\":"))];
    let answer = check(&cut).unwrap();
    assert_eq!((answer.tool_uses().count(), answer.stop_reason), (0, StopReason::Missing));
}

#[test]
fn a_missing_finish_reason_stays_missing() {
    assert_eq!(check(&[text("Hi")]).unwrap().stop_reason, StopReason::Missing);
    let mut whole = body(json!({ "content": "Hi" }), "stop");
    whole["choices"][0]["finish_reason"] = json!(null);
    assert_eq!(decode_body(whole.to_string().as_bytes(), "m").unwrap().stop_reason, StopReason::Missing);
}

#[test]
fn calls_without_an_index_or_with_one_index_for_all_are_told_apart() {
    let none = || json!(null);
    let streams = [
        // No index, an id each, with and without more pieces.
        vec![
            piece(none(), json!("a"), json!("look"), json!("{\"n\"")),
            piece(none(), none(), none(), json!(":1}")),
            piece(none(), json!("b"), json!("look"), json!("{\"n\":2}")),
        ],
        // One index for two calls.
        vec![
            piece(json!(0), json!("a"), json!("look"), json!("{\"n\":1}")),
            piece(json!(0), json!("b"), json!("look"), json!("{\"n\"")),
            piece(json!(0), none(), none(), json!(":2}")),
        ],
        // The id in every piece.
        vec![
            piece(json!(0), json!("a"), json!("look"), json!("{\"n\"")),
            piece(json!(1), json!("b"), json!("look"), json!("{\"n\":2}")),
            piece(json!(0), json!("a"), json!("look"), json!(":1}")),
        ],
        // All in one chunk.
        vec![chunk(json!({ "tool_calls": [
            { "id": "a", "function": { "name": "look", "arguments": "{\"n\":1}" } },
            { "id": "b", "function": { "name": "look", "arguments": "{\"n\":2}" } } ] }))],
    ];
    for chunks in streams {
        let answer = check(&[&chunks[..], &[finished("tool_calls")]].concat()).unwrap();
        let expected = vec![look("a", json!({ "n": 1 })), look("b", json!({ "n": 2 }))];
        assert_eq!(answer.content, expected, "{chunks:?}");
    }
}

#[test]
fn calls_without_ids_get_some_that_no_other_call_of_the_conversation_has() {
    let chunks = [
        piece(json!(null), json!(""), json!("look"), json!("{\"n\":1}")),
        piece(json!(null), json!(null), json!("look"), json!("{\"n\":2}")),
        finished("tool_calls"),
        costs(),
    ];
    let message = json!({ "tool_calls": [{ "function": { "name": "look", "arguments": { "n": 1 } } },
                                         { "function": { "name": "look", "arguments": { "n": 2 } } }] });
    let answer = check_equal(&chunks, &body(message, "tool_calls"));
    assert_eq!(
        answer.content,
        vec![look("chat_1_call_0", json!({ "n": 1 })), look("chat_1_call_1", json!({ "n": 2 }))]
    );

    let nameless =
        check(&[piece(json!(0), json!("a"), json!(null), json!("{}")), finished("tool_calls")]).unwrap();
    assert_eq!((nameless.tool_uses().count(), nameless.content.len()), (0, 1));
}

#[test]
fn choices_that_are_null_or_empty_are_passed_over() {
    let null = json!({ "id": "chat_1", "choices": null, "usage": null });
    // Azure begins with what its filters say.
    let filters = json!({ "id": "", "model": "", "choices": [], "prompt_filter_results": [] });
    let answer = check(&[filters, null.clone(), text("Hi"), null, finished("stop"), costs()]).unwrap();
    assert_eq!(
        (answer.id.as_str(), answer.model.as_str(), answer.text().as_str()),
        ("chat_1", "some-model", "Hi")
    );
}

#[test]
fn a_content_token_that_is_a_number_is_its_text() {
    let chunks = [text("4"), chunk(json!({ "content": 2 })), finished("stop"), costs()];
    assert_eq!(check_equal(&chunks, &body(json!({ "content": "42" }), "stop")).text(), "42");
}

#[test]
fn content_may_come_in_typed_parts_with_thoughts_among_them() {
    // Mistral.
    let parts = json!([{ "type": "thinking", "thinking": [{ "type": "text", "text": "Hm." }] }, { "type": "text", "text": "42" }]);
    let chunks = [
        chunk(json!({ "content": [parts[0]] })),
        chunk(json!({ "content": [parts[1]] })),
        finished("stop"),
        costs(),
    ];
    let answer = check_equal(&chunks, &body(json!({ "content": parts }), "stop"));
    let thoughts = ContentBlock::Thinking { thinking: "Hm.".into(), signature: String::new() };
    assert_eq!(answer.content[..], [thoughts, ContentBlock::text("42")]);
}

#[test]
fn thoughts_come_by_either_name_and_once_if_by_both() {
    for (delta, field) in [
        (json!({ "reasoning_content": "Hm." }), "reasoning_content"),
        (json!({ "reasoning": "Hm.", "content": "" }), "reasoning"),
        (json!({ "reasoning_content": "Hm.", "reasoning": "Hm." }), "reasoning_content"),
    ] {
        let mut message = delta.clone();
        message["content"] = json!("42");
        let answer =
            check_equal(&[chunk(delta), text("42"), finished("stop"), costs()], &body(message, "stop"));
        assert_eq!(
            answer.content[0],
            ContentBlock::Thinking { thinking: "Hm.".into(), signature: String::new() }
        );
        assert_eq!(answer.content.extra(0).unwrap()["foreign"]["chat_completions"]["field"], field);
        assert_eq!(answer.text(), "42");
    }
}

#[test]
fn an_error_envelope_inside_a_200_is_the_error_its_code_a_text_or_a_number() {
    let cases = [
        (
            json!({ "error": { "message": "m", "code": "rate_limit_exceeded" } }),
            ErrorKind::RateLimited,
            "rate_limit_exceeded",
        ),
        (json!({ "error": { "message": "m", "code": 429 } }), ErrorKind::RateLimited, "429"),
        (json!({ "error": { "message": "m", "code": 402, "metadata": {} } }), ErrorKind::Billing, "402"),
        (
            json!({ "id": "chat_1", "choices": [{ "index": 0, "delta": {}, "finish_reason": "error" }],
                 "error": { "message": "m", "code": "server_error" } }),
            ErrorKind::Server,
            "server_error",
        ),
    ];
    for (envelope, kind, code) in cases {
        for begun in [vec![], vec![text("Hel")]] {
            let error = check(&[begun, vec![envelope.clone()]].concat()).unwrap_err();
            assert_eq!(
                (error.kind, error.code.as_deref(), error.message.as_str()),
                (kind, Some(code), "m"),
                "{envelope}"
            );
        }
    }
    let error = decode_body(br#"{"error":{"message":"m","code":503}}"#, "m").unwrap_err();
    assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::Overloaded, Some("503")));
    let broken_off = check(&[text("Hel"), finished("error")]).unwrap_err();
    assert_eq!(broken_off.partial.unwrap().text(), "Hel");
}

#[test]
fn usage_comes_in_a_last_chunk_with_empty_choices_in_each_or_never() {
    let mut early = text("Hi");
    early["usage"] = json!({ "prompt_tokens": 10, "completion_tokens": 1 });
    let cached = json!({ "choices": [], "usage": { "prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": { "cached_tokens": 4 },
                         "completion_tokens_details": { "reasoning_tokens": 3 } } });
    let answer = check(&[early, finished("stop"), cached]).unwrap();
    assert_eq!(
        (answer.usage.input_tokens, answer.usage.cache_read_input_tokens, answer.usage.output_tokens),
        (6, 4, 5)
    );
    assert_eq!(answer.usage.extra["output_tokens_details"]["reasoning_tokens"], 3);
    assert_eq!(check(&[text("Hi"), finished("stop")]).unwrap().usage, Usage::default());
}

#[test]
fn other_choices_are_other_answers() {
    let mut other = text("Bye");
    other["choices"][0]["index"] = json!(1);
    assert_eq!(check(&[text("Hi"), other, finished("stop")]).unwrap().text(), "Hi");
}

#[test]
fn comments_and_what_comes_after_the_end_are_passed_over() {
    let stream = String::from(": OPENROUTER PROCESSING\n\n") + &framed(&[text("Hi"), finished("stop")]);
    let stream = stream + "data: [DONE]\n\n" + &framed(&[text("!")]);
    assert_eq!(check_end(&stream, End::Clean).unwrap().text(), "Hi");
}

#[test]
fn an_id_and_a_model_that_are_missing_or_late_harm_nothing() {
    let bare = json!({ "choices": [{ "delta": { "content": "Hi" } }] });
    let answer = check(&[bare.clone(), json!({ "choices": [{ "finish_reason": "stop" }] })]).unwrap();
    assert_eq!(
        (answer.id.as_str(), answer.model.as_str(), answer.text().as_str()),
        ("", "asked-model", "Hi")
    );
    let answer = check(&[bare, text("!"), finished("stop")]).unwrap();
    assert_eq!(
        (answer.id.as_str(), answer.model.as_str(), answer.text().as_str()),
        ("chat_1", "some-model", "Hi!")
    );
}
