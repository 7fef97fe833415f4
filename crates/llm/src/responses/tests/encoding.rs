//! Requests on their way out, and answers on their way back.

use super::*;
use crate::messages::Mode;
use crate::vocabulary::{Content, Message, MessageRequest, Thinking, Tool, ToolChoice};

fn encoded(request: &MessageRequest) -> Value {
    let whole: Value = serde_json::from_slice(&encode(request, Mode::Whole).unwrap()).unwrap();
    let mut streamed: Value = serde_json::from_slice(&encode(request, Mode::Stream).unwrap()).unwrap();
    assert_eq!(streamed.as_object_mut().unwrap().remove("stream"), Some(json!(true)));
    assert_eq!(streamed, whole, "the streamed body is otherwise the same");
    whole
}

fn request() -> MessageRequest {
    MessageRequest::new("m", 16)
}

fn input(messages: impl IntoIterator<Item = Message>) -> Value {
    encoded(&request().push_messages(messages))["input"].clone()
}

fn asks(id: &str) -> Message {
    Message::assistant_blocks(ContentBlock::ToolUse {
        id: id.into(),
        name: "look".into(),
        input: json!({ "n": 1 }),
    })
}

fn asked(id: &str) -> Value {
    json!({ "type": "function_call", "call_id": id, "name": "look", "arguments": "{\"n\":1}" })
}

fn result(id: &str, output: &str) -> Value {
    json!({ "type": "function_call_output", "call_id": id, "output": output })
}

fn said(role: &str, kind: &str, text: &str) -> Value {
    json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": text }] })
}

#[test]
fn a_plain_request_has_nothing_that_was_not_asked_for() {
    let body = encoded(&request().push_message(Message::user("Hi")));
    assert_eq!(
        body,
        json!({ "model": "m", "max_output_tokens": 16, "input": [said("user", "input_text", "Hi")] })
    );
}

#[test]
fn every_setting_has_its_place_on_the_wire() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"],
                         "additionalProperties": false });
    let full = request()
        .with_system(Content::from([ContentBlock::text("Be terse."), ContentBlock::text("Be kind.")]))
        .push_tool(Tool::new("look", schema.clone()).with_description("Looks.").with_strict_schema())
        .push_tool(Tool::new("see", json!({ "type": "object" })))
        .push_tool(Tool::hosted("web_search", "web_search").with_extra("search_context_size", json!("low")))
        .with_tool_choice(ToolChoice::Tool("look".into()))
        .with_serial_tool_calls()
        .with_temperature(0.5)
        .with_top_p(0.9)
        .with_thinking(Thinking::Adaptive)
        .with_effort("high")
        .with_output_schema(schema.clone())
        .with_service_tier("flex")
        .with_metadata("user_id", json!("u1"))
        .with_metadata("n", json!(7))
        .with_extra("store", json!(false))
        .with_extra("prompt_cache_key", json!("k"))
        .with_extra("truncation", json!(null));
    let expected = json!({
        "model": "m", "max_output_tokens": 16, "instructions": "Be terse.\n\nBe kind.",
        "tools": [
            { "type": "function", "name": "look", "description": "Looks.", "parameters": schema, "strict": true },
            { "type": "function", "name": "see", "parameters": { "type": "object", "properties": {} }, "strict": false },
            { "type": "web_search", "search_context_size": "low" },
        ],
        "tool_choice": { "type": "function", "name": "look" }, "parallel_tool_calls": false,
        "temperature": 0.5, "top_p": 0.9,
        "reasoning": { "effort": "high", "summary": "auto" }, "include": ["reasoning.encrypted_content"],
        "text": { "format": { "type": "json_schema", "name": "answer", "schema": schema, "strict": true } },
        "service_tier": "flex", "metadata": { "user_id": "u1", "n": "7" },
        "store": false, "prompt_cache_key": "k", "truncation": null, "input": [],
    });
    assert_eq!(encoded(&full), expected);
}

#[test]
fn tool_choices_and_efforts_are_spelled_as_the_api_spells_them() {
    let choice = |choice| encoded(&request().with_tool_choice(choice))["tool_choice"].clone();
    assert_eq!(
        [choice(ToolChoice::Auto), choice(ToolChoice::Any), choice(ToolChoice::None)],
        [json!("auto"), json!("required"), json!("none")]
    );
    let reasoning = |request: MessageRequest| encoded(&request).get("reasoning").cloned();
    assert_eq!(reasoning(request().with_effort("low")), Some(json!({ "effort": "low" })));
    assert_eq!(
        reasoning(request().with_thinking(Thinking::BudgetTokens(2048))),
        Some(json!({ "summary": "auto" }))
    );
    assert_eq!(reasoning(request().with_effort("none")), None, "no effort is asked for by leaving it out");
    assert_eq!(reasoning(request().with_effort("low").with_thinking(Thinking::Disabled)), None);
}

#[test]
fn a_schema_that_cannot_be_kept_strictly_is_not_asked_to_be() {
    let open = json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": "(?=x)" } } });
    let body = encoded(
        &request().with_output_schema(open.clone()).push_tool(Tool::new("t", open).with_strict_schema()),
    );
    assert_eq!(body["text"]["format"]["strict"], false);
    assert_eq!(body["tools"][0]["strict"], false);
    assert_eq!(body["tools"][0]["parameters"]["properties"]["a"], json!({ "type": "string" }));
}

#[test]
fn what_the_api_does_not_have_is_refused_by_name_before_it_is_sent() {
    let refused = [
        (request().with_stop_sequences(["END"]), "stop sequences"),
        (request().with_extra("input", json!([])), "\"input\""),
        (request().with_extra("stream", json!(false)), "\"stream\""),
        (request().with_extra("prompt_cache_key", json!("é".repeat(65))), "prompt_cache_key"),
        (request().with_temperature(f64::NAN), "temperature"),
        (request().with_system(ContentBlock::Image { source: json!({}) }), "system prompt"),
    ];
    for (request, named) in refused {
        let error = encode(&request, Mode::Stream).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
        assert!(error.message.contains(named), "{error}");
    }
    assert!(encode(&request().with_extra("prompt_cache_key", json!("é".repeat(64))), Mode::Stream).is_ok());
}

#[test]
fn pictures_and_files_travel_as_addresses() {
    let data = json!({ "type": "base64", "media_type": "image/png", "data": "aGk=" });
    let pdf = json!({ "type": "base64", "media_type": "application/pdf", "data": "aGk=" });
    let blocks = [
        ContentBlock::text("See:"),
        ContentBlock::Image { source: data.clone() },
        ContentBlock::Image { source: json!({ "type": "url", "url": "https://example.com/a.png" }) },
        ContentBlock::Image { source: json!({ "type": "file", "file_id": "file_1" }) },
        ContentBlock::Document { source: pdf },
        ContentBlock::Document { source: json!({ "type": "url", "url": "https://example.com/a.pdf" }) },
        ContentBlock::Document { source: json!({ "type": "file", "file_id": "file_2" }) },
        ContentBlock::Document { source: json!({ "type": "text", "data": "plain" }) },
    ];
    let parts = json!([
        { "type": "input_text", "text": "See:" },
        { "type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto" },
        { "type": "input_image", "image_url": "https://example.com/a.png", "detail": "auto" },
        { "type": "input_image", "file_id": "file_1", "detail": "auto" },
        { "type": "input_file", "filename": "document", "file_data": "data:application/pdf;base64,aGk=" },
        { "type": "input_file", "file_url": "https://example.com/a.pdf" },
        { "type": "input_file", "file_id": "file_2" },
        { "type": "input_text", "text": "plain" },
    ]);
    assert_eq!(input([Message::user_blocks(blocks)])[0]["content"], parts);

    let shown = Content::from([ContentBlock::text("Here."), ContentBlock::Image { source: data }]);
    let answered = input([asks("1"), Message::tool_result("1", shown)]);
    assert_eq!(
        answered[1]["output"],
        json!([parts[0].clone(), parts[1].clone()])
            .to_string()
            .replace("See:", "Here.")
            .parse::<Value>()
            .unwrap()
    );
}

#[test]
fn calls_and_results_travel_by_call_id() {
    let conversation = [
        Message::user("Hi"),
        Message::assistant_blocks([
            ContentBlock::text("I look."),
            ContentBlock::ToolUse { id: "1".into(), name: "look".into(), input: json!({ "n": 1 }) },
            ContentBlock::InvalidToolUse { id: "2".into(), name: "look".into(), raw: "{\"a".into() },
        ]),
        Message::tool_result("1", "42"),
        Message::tool_error("2", "cut"),
    ];
    let expected = json!([
        said("user", "input_text", "Hi"), said("assistant", "output_text", "I look."), asked("1"),
        { "type": "function_call", "call_id": "2", "name": "look", "arguments": "{\"INVALID_JSON\":\"{\\\"a\"}" },
        result("1", "42"), result("2", "Error: cut"),
    ]);
    assert_eq!(input(conversation), expected);
}

#[test]
fn empty_text_is_never_encoded() {
    let hand_built = Message::assistant_blocks([ContentBlock::text(""), asks("1").content()[0].clone()]);
    let sent = input([Message::user(""), hand_built, Message::tool_result("1", "")]);
    assert_eq!(sent, json!([asked("1"), result("1", "")]));
    assert_eq!(encoded(&request().with_system("")).get("instructions"), None);
}

#[test]
fn a_call_or_a_result_that_lost_the_other_is_left_out() {
    let sent = input([asks("1"), Message::user("Go on."), Message::tool_result("2", "42")]);
    assert_eq!(sent, json!([said("user", "input_text", "Go on.")]));
}

#[test]
fn a_request_that_names_what_it_continues_says_only_what_is_new() {
    let conversation =
        [Message::user("Hi"), asks("1"), Message::tool_result("1", "42"), Message::user("And?")];
    let named = request().push_messages(conversation.clone()).with_previous_response_id("resp_1");
    let body = encoded(&named);
    assert_eq!(body["previous_response_id"], "resp_1");
    assert_eq!(body["input"], json!([result("1", "42"), said("user", "input_text", "And?")]));
    // Without a name everything is said, so a gateway that keeps no answers misses nothing.
    assert_eq!(input(conversation).as_array().unwrap().len(), 4);
}

/// What a server answered, as the items of the next request.
fn replayed(output: &Value, store: Option<bool>) -> Value {
    let body = response("completed", output.clone());
    let answer = decode_body(body.to_string().as_bytes(), "m").unwrap();
    let recorded = serde_json::to_value(answer.to_message()).unwrap();
    let message: Message = serde_json::from_value(recorded).unwrap();
    let mut request = request().push_message(message).push_message(Message::tool_result("call_1", "42"));
    if let Some(store) = store {
        request = request.with_extra("store", json!(store));
    }
    encoded(&request)["input"].clone()
}

#[test]
fn an_answer_goes_back_as_it_came() {
    let thoughts = json!({ "type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA",
                           "summary": [{ "type": "summary_text", "text": "Hm." }] });
    let open = json!({ "type": "reasoning", "id": "rs_2", "summary": [],
                       "content": [{ "type": "reasoning_text", "text": "Hm." }] });
    let search = json!({ "type": "web_search_call", "id": "ws_1", "status": "completed", "action": { "query": null } });
    let cited = json!([{ "type": "url_citation", "url": "https://example.com" }]);
    let said = json!({ "type": "message", "role": "assistant", "phase": "commentary",
                       "content": [{ "type": "output_text", "text": "I look.", "annotations": cited }] });
    let refusal = json!({ "type": "message", "role": "assistant", "content": [{ "type": "refusal", "refusal": "No." }] });
    let call = json!({ "type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}", "namespace": "crm" });
    let output = json!([thoughts, open, search, said, refusal, call]);
    let mut sent = replayed(&output, Some(false));
    let result = sent.as_array_mut().unwrap().pop();
    assert_eq!((sent, result), (output, Some(result_42())));
}

fn result_42() -> Value {
    result("call_1", "42")
}

#[test]
fn thoughts_go_back_with_a_summary_and_with_what_they_led_to_only() {
    let bare = json!({ "type": "reasoning", "id": "rs_1", "summary": [] });
    let call = json!({ "type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}" });
    assert_eq!(replayed(&json!([bare, call]), None), json!([bare, call, result_42()]));
    // Of thoughts without their content only a server that stores knows anything.
    assert_eq!(replayed(&json!([bare, call]), Some(false)), json!([call, result_42()]));
    let encrypted = json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA" });
    assert_eq!(replayed(&json!([encrypted]), None), json!([]), "they led to nothing");
}

#[test]
fn what_another_protocol_signed_or_made_up_is_not_sent_here() {
    let content = json!([
        { "type": "thinking", "thinking": "Hm.", "signature": "c2ln" },
        { "type": "redacted_thinking", "data": "b3Bh" },
        { "type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {} },
        { "type": "text", "text": "Hello", "citations": [{ "a": 1 }], "cache_control": { "type": "ephemeral" } },
    ]);
    let message = Message::assistant_blocks(serde_json::from_value::<Content>(content).unwrap());
    assert_eq!(input([message]), json!([said("assistant", "output_text", "Hello")]));
}

#[test]
fn what_this_protocol_has_of_its_own_is_not_sent_to_a_messages_server() {
    let mut commented = message("I look.");
    commented["phase"] = json!("commentary");
    let output = json!([
        { "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA" },
        { "type": "web_search_call", "id": "ws_1" }, commented, call("{}"),
    ]);
    let answer = decode_body(response("completed", output).to_string().as_bytes(), "m").unwrap();
    let sent: Value = serde_json::from_slice(answer.to_message().messages_api()).unwrap();
    let expected = json!([
        { "type": "text", "text": "I look." },
        { "type": "tool_use", "id": "call_1", "name": "look", "input": {} },
    ]);
    assert_eq!(sent["content"], expected);
}

#[test]
fn a_message_is_encoded_once_and_copied_from_then_on() {
    let message = Message::user("Hi");
    let first: *const Input = message.responses_api();
    encoded(&request().push_message(message.clone()));
    assert_eq!(first, std::ptr::from_ref(message.clone().responses_api()));
}
