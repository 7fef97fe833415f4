//! Requests on their way out, and answers on their way back.

use super::*;
use crate::messages::Mode;
use crate::vocabulary::{Content, Message, MessageRequest, Thinking, Tool, ToolChoice};

fn encoded_for(request: &MessageRequest, dialect: Dialect) -> Value {
    let whole: Value = serde_json::from_slice(&encode(request, Mode::Whole, dialect).unwrap()).unwrap();
    let mut streamed: Value =
        serde_json::from_slice(&encode(request, Mode::Stream, dialect).unwrap()).unwrap();
    let fields = streamed.as_object_mut().unwrap();
    assert_eq!(fields.remove("stream"), Some(json!(true)));
    assert_eq!(fields.remove("stream_options"), Some(json!({ "include_usage": true })));
    assert_eq!(streamed, whole, "the streamed body is otherwise the same");
    whole
}

fn encoded(request: &MessageRequest) -> Value {
    encoded_for(request, Dialect::Compatible)
}

fn request() -> MessageRequest {
    MessageRequest::new("m", 16)
}

fn messages(said: impl IntoIterator<Item = Message>) -> Value {
    encoded(&request().push_messages(said))["messages"].clone()
}

fn asked(id: &str) -> Value {
    json!({ "id": id, "type": "function", "function": { "name": "look", "arguments": "{}" } })
}

fn result(id: &str, content: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": content })
}

#[test]
fn a_plain_request_has_nothing_that_was_not_asked_for() {
    let body = encoded(&request().push_message(Message::user("Hi")));
    assert_eq!(
        body,
        json!({ "model": "m", "max_tokens": 16, "messages": [{ "role": "user", "content": "Hi" }] })
    );
    assert_eq!(encoded(&request())["messages"], json!([]));
}

#[test]
fn every_setting_has_its_place_on_the_wire() {
    let schema = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    let full = request()
        .with_system(Content::from([ContentBlock::text("Be terse."), ContentBlock::text("Be kind.")]))
        .push_tool(Tool::new("look", schema.clone()).with_description("Looks.").with_strict_schema())
        .push_tool(Tool::new("see", json!({ "type": "object" })))
        .with_tool_choice(ToolChoice::Tool("look".into()))
        .with_serial_tool_calls()
        .with_temperature(0.5)
        .with_top_p(0.9)
        .with_top_k(40)
        .with_stop_sequences(["END"])
        .with_effort("high")
        .with_output_schema(schema.clone())
        .with_service_tier("flex")
        .with_previous_response_id("resp_1")
        .with_metadata("n", json!(7))
        .with_extra("seed", json!(1));
    let expected = json!({
        "model": "m", "max_tokens": 16,
        "tools": [
            { "type": "function", "function": { "name": "look", "description": "Looks.", "parameters": schema, "strict": true } },
            { "type": "function", "function": { "name": "see", "parameters": { "type": "object", "properties": {} } } },
        ],
        "tool_choice": { "type": "function", "function": { "name": "look" } }, "parallel_tool_calls": false,
        "temperature": 0.5, "top_p": 0.9, "top_k": 40, "stop": ["END"], "reasoning_effort": "high",
        "response_format": { "type": "json_schema", "json_schema": { "name": "answer", "schema": schema, "strict": true } },
        "service_tier": "flex", "metadata": { "n": "7" }, "seed": 1,
        "messages": [{ "role": "system", "content": "Be terse.\n\nBe kind." }],
    });
    assert_eq!(encoded(&full), expected);
    let choice = |choice| encoded(&request().with_tool_choice(choice))["tool_choice"].clone();
    assert_eq!(
        [choice(ToolChoice::Auto), choice(ToolChoice::Any), choice(ToolChoice::None)],
        [json!("auto"), json!("required"), json!("none")]
    );
    for quiet in
        [request().with_effort("none"), request().with_effort("low").with_thinking(Thinking::Disabled)]
    {
        assert_eq!(encoded(&quiet).get("reasoning_effort"), None);
    }
}

#[test]
fn the_limit_is_called_as_the_host_calls_it() {
    assert_eq!(Dialect::of_host("api.openai.com"), Dialect::OpenAi);
    assert_eq!(Dialect::of_host("mine.openai.azure.com"), Dialect::OpenAi);
    assert_eq!(Dialect::of_host("notopenai.com"), Dialect::Compatible);
    let body = encoded_for(&request().with_top_k(40), Dialect::OpenAi);
    assert_eq!(body, json!({ "model": "m", "max_completion_tokens": 16, "messages": [] }));
    let named = encoded(&request().with_extra("max_completion_tokens", json!(8)));
    assert_eq!(named, json!({ "model": "m", "max_completion_tokens": 8, "messages": [] }));
}

#[test]
fn pictures_and_files_travel_in_parts() {
    let picture = json!({ "type": "base64", "media_type": "image/png", "data": "aGk=" });
    let blocks = [
        ContentBlock::text("See:"),
        ContentBlock::Image { source: picture },
        ContentBlock::Document {
            source: json!({ "type": "base64", "media_type": "application/pdf", "data": "aGk=" }),
        },
        ContentBlock::Document { source: json!({ "type": "text", "data": "plain" }) },
    ];
    let parts = json!([
        { "type": "text", "text": "See:" },
        { "type": "image_url", "image_url": { "url": "data:image/png;base64,aGk=" } },
        { "type": "file", "file": { "filename": "document", "file_data": "data:application/pdf;base64,aGk=" } },
        { "type": "text", "text": "plain" },
    ]);
    assert_eq!(messages([Message::user_blocks(blocks)])[0]["content"], parts);
}

#[test]
fn calls_and_results_follow_each_other_and_pictures_of_results_come_behind() {
    let picture =
        ContentBlock::Image { source: json!({ "type": "url", "url": "https://example.com/a.png" }) };
    let call = |id: &str| look(id, json!({}));
    let said = messages([
        Message::user("Hi"),
        Message::assistant_blocks([
            ContentBlock::text("I look."),
            call("1"),
            call("2"),
            ContentBlock::InvalidToolUse { id: "3".into(), name: "look".into(), raw: "{\"a".into() },
        ]),
        Message::tool_result("1", Content::from([ContentBlock::text("Here."), picture])),
        Message::tool_error("2", "broken"),
        Message::user_blocks([
            ContentBlock::text("Go on."),
            ContentBlock::ToolResult { tool_use_id: "3".into(), content: "cut".into(), is_error: false },
        ]),
    ]);
    let mut broken = asked("3");
    broken["function"]["arguments"] = json!("{\"INVALID_JSON\":\"{\\\"a\"}");
    assert_eq!(
        said,
        json!([
            { "role": "user", "content": "Hi" },
            { "role": "assistant", "content": "I look.", "tool_calls": [asked("1"), asked("2"), broken] },
            result("1", "Here."), result("2", "Error: broken"), result("3", "cut"),
            { "role": "user", "content": [
                { "type": "text", "text": "Part of the result of the call 1:" },
                { "type": "image_url", "image_url": { "url": "https://example.com/a.png" } } ] },
            { "role": "user", "content": "Go on." },
        ])
    );
}

#[test]
fn orphaned_calls_and_tool_messages_are_left_out() {
    let said = messages([
        Message::tool_result("0", "lost its call"),
        Message::assistant_blocks([look("1", json!({})), look("2", json!({}))]),
        Message::tool_result("1", "42"),
        Message::assistant_blocks([look("3", json!({}))]),
    ]);
    assert_eq!(
        said,
        json!([{ "role": "assistant", "content": null, "tool_calls": [asked("1")] }, result("1", "42")])
    );
}

#[test]
fn empty_text_is_never_encoded() {
    let hand_built = Message::assistant_blocks([ContentBlock::text(""), look("1", json!({}))]);
    let said = messages([Message::user(""), hand_built, Message::tool_result("1", "")]);
    assert_eq!(
        said,
        json!([{ "role": "assistant", "content": null, "tool_calls": [asked("1")] }, result("1", "")])
    );
}

#[test]
fn thoughts_go_back_with_the_calls_they_led_to_under_the_name_they_came_by() {
    let thinks = |field: &str, with_call: bool| {
        let mut message = json!({ "content": "I look." });
        message[field] = json!("Hm.");
        if with_call {
            message["tool_calls"] = json!([asked("1")]);
        }
        let answer = decode_body(body(message, "stop").to_string().as_bytes(), "m").unwrap();
        messages([answer.to_message(), Message::tool_result("1", "42")])[0].clone()
    };
    assert_eq!(thinks("reasoning_content", true)["reasoning_content"], "Hm.");
    assert_eq!(thinks("reasoning", true)["reasoning"], "Hm.");
    assert_eq!(thinks("reasoning", false), json!({ "role": "assistant", "content": "I look." }));
}

#[test]
fn what_only_another_protocol_knows_is_not_sent() {
    let content = json!([
        { "type": "thinking", "thinking": "Hm.", "signature": "c2ln" },
        { "type": "thinking", "thinking": "Hm.", "signature": "gAAA", "foreign": { "responses": { "id": "rs_1" } } },
        { "type": "web_search_call", "foreign": { "responses": {} } },
        { "type": "server_tool_use", "id": "s", "name": "n", "input": {} },
        { "type": "text", "text": "Hello", "foreign": { "responses": { "phase": "commentary" } } },
    ]);
    let message = Message::assistant_blocks(serde_json::from_value::<Content>(content).unwrap());
    assert_eq!(messages([message]), json!([{ "role": "assistant", "content": "Hello" }]));

    let answer = body(json!({ "reasoning": "Hm.", "content": "Hello" }), "stop");
    let answer = decode_body(answer.to_string().as_bytes(), "m").unwrap();
    let sent: Value = serde_json::from_slice(answer.to_message().messages_api()).unwrap();
    assert_eq!(
        sent["content"],
        json!([{ "type": "text", "text": "Hello" }]),
        "nor are its thoughts sent elsewhere"
    );
}

#[test]
fn a_refusal_goes_back_as_one() {
    let answer = decode_body(body(json!({ "refusal": "No." }), "stop").to_string().as_bytes(), "m").unwrap();
    let said = messages([answer.to_message()]);
    assert_eq!(said, json!([{ "role": "assistant", "content": null, "refusal": "No." }]));
}

#[test]
fn what_cannot_be_sent_is_refused_by_name() {
    for (request, named) in [
        (request().with_extra("messages", json!([])), "\"messages\""),
        (request().with_system(ContentBlock::Image { source: json!({}) }), "system prompt"),
    ] {
        let error = encode(&request, Mode::Stream, Dialect::Compatible).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
        assert!(error.message.contains(named), "{error}");
    }
}
