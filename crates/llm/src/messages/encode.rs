//! A request as the body of `POST /v1/messages`.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::error::LlmError;
use crate::vocabulary::{Form, Message, MessageRequest, Thinking, ToolChoice};

/// How the server shall answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As one JSON body.
    Whole,
    /// As a stream of events.
    Stream,
}

/// Writes a request as the body of `POST /v1/messages`.
///
/// Messages are encoded once and copied from then on. `previous_response_id` is left out, since this API keeps no
/// answers. So is text that is empty or blank, and with it a message that holds nothing else: this API rejects both,
/// though models answer so, and reads two messages of one role as one.
///
/// # Errors
///
/// As [`MessageRequest::check`].
///
/// # Examples
///
/// ```
/// use relight_llm::messages::{Mode, encode};
/// use relight_llm::{Message, MessageRequest};
///
/// let request = MessageRequest::new("some-model", 256).push_message(Message::user("Hello"));
/// let body: serde_json::Value = serde_json::from_slice(&encode(&request, Mode::Stream)?)?;
/// assert_eq!(body["stream"], true);
/// assert_eq!(body["messages"][0]["content"][0]["text"], "Hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn encode(request: &MessageRequest, mode: Mode) -> Result<Vec<u8>, LlmError> {
    request.check()?;
    let fields = fields(request);
    let says_something = |message: &&Message| !message.content().is_empty_in(Form::MessagesApi);
    let messages: Vec<&[u8]> =
        request.messages().iter().filter(says_something).map(Message::messages_api).collect();
    let size: usize = messages.iter().map(|message| message.len() + 1).sum();
    let mut body = Vec::with_capacity(size + 256);

    serde_json::to_writer(&mut body, &fields).expect("JSON values are JSON");
    // The object is left open for the messages, whose bytes are there already.
    body.pop();
    body.extend_from_slice(b",\"messages\":[");
    for (position, message) in messages.into_iter().enumerate() {
        if position > 0 {
            body.push(b',');
        }
        body.extend_from_slice(message);
    }
    body.push(b']');
    if mode == Mode::Stream {
        body.extend_from_slice(b",\"stream\":true");
    }
    body.push(b'}');
    Ok(body)
}

/// Everything but the messages.
fn fields(request: &MessageRequest) -> Map<String, Value> {
    let settings = request.settings();
    let mut fields = Map::new();
    fields.insert("model".to_owned(), json!(settings.model));
    fields.insert("max_tokens".to_owned(), json!(settings.max_tokens));
    if !settings.system.is_empty_in(Form::MessagesApi) {
        fields.insert("system".to_owned(), to_value(&settings.system.in_form(Form::MessagesApi)));
    }
    if !settings.tools.is_empty() {
        fields.insert("tools".to_owned(), settings.tools.iter().map(to_value).collect());
    }
    if let Some(choice) = tool_choice(settings.tool_choice.as_ref(), settings.serial_tool_calls) {
        fields.insert("tool_choice".to_owned(), choice);
    }
    for (name, number) in [("temperature", settings.temperature), ("top_p", settings.top_p)] {
        if let Some(number) = number {
            fields.insert(name.to_owned(), json!(number));
        }
    }
    if let Some(top_k) = settings.top_k {
        fields.insert("top_k".to_owned(), json!(top_k));
    }
    if !settings.stop_sequences.is_empty() {
        fields.insert("stop_sequences".to_owned(), json!(settings.stop_sequences));
    }
    if let Some(thinking) = &settings.thinking {
        fields.insert("thinking".to_owned(), thinking_of(thinking));
    }
    if let Some(config) = output_config(settings.effort.as_deref(), settings.output_schema.as_ref()) {
        fields.insert("output_config".to_owned(), config);
    }
    if let Some(tier) = &settings.service_tier {
        fields.insert("service_tier".to_owned(), json!(tier));
    }
    if !settings.metadata.is_empty() {
        fields.insert("metadata".to_owned(), Value::Object(settings.metadata.clone()));
    }
    fields.extend(settings.extra.clone());
    fields
}

fn tool_choice(choice: Option<&ToolChoice>, serial: bool) -> Option<Value> {
    let mut choice = match choice {
        Some(ToolChoice::Auto) => json!({ "type": "auto" }),
        Some(ToolChoice::Any) => json!({ "type": "any" }),
        // No call is not more than one.
        Some(ToolChoice::None) => return Some(json!({ "type": "none" })),
        Some(ToolChoice::Tool(name)) => json!({ "type": "tool", "name": name }),
        None if serial => json!({ "type": "auto" }),
        None => return None,
    };
    if serial {
        choice["disable_parallel_tool_use"] = json!(true);
    }
    Some(choice)
}

fn thinking_of(thinking: &Thinking) -> Value {
    match thinking {
        Thinking::Disabled => json!({ "type": "disabled" }),
        Thinking::Adaptive => json!({ "type": "adaptive" }),
        Thinking::BudgetTokens(budget) => json!({ "type": "enabled", "budget_tokens": budget }),
    }
}

fn output_config(effort: Option<&str>, schema: Option<&Value>) -> Option<Value> {
    let mut config = Map::new();
    if let Some(effort) = effort {
        config.insert("effort".to_owned(), json!(effort));
    }
    if let Some(schema) = schema {
        config.insert("format".to_owned(), json!({ "type": "json_schema", "schema": schema }));
    }
    (!config.is_empty()).then_some(Value::Object(config))
}

fn to_value(part: &impl Serialize) -> Value {
    serde_json::to_value(part).expect("texts and JSON values are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::{Content, ContentBlock, Tool};

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

    #[test]
    fn a_plain_request_has_nothing_that_was_not_asked_for() {
        let body = encoded(&request().push_message(Message::user("Hi")));
        let message = json!({ "role": "user", "content": [{ "type": "text", "text": "Hi" }] });
        assert_eq!(body, json!({ "model": "m", "max_tokens": 16, "messages": [message] }));
        assert_eq!(encoded(&request())["messages"], json!([]));
    }

    #[test]
    fn every_setting_has_its_place_on_the_wire() {
        let full = request()
            .with_system(
                Content::from("Be terse.").with_extra("cache_control", json!({ "type": "ephemeral" })),
            )
            .push_tool(
                Tool::new("look", json!({ "type": "object" }))
                    .with_description("Looks.")
                    .with_strict_schema(),
            )
            .push_tool(Tool::hosted("web_search_20250305", "web_search").with_extra("max_uses", json!(5)))
            .with_tool_choice(ToolChoice::Tool("look".into()))
            .with_serial_tool_calls()
            .with_temperature(0.5)
            .with_top_p(0.9)
            .with_top_k(40)
            .with_stop_sequences(["END"])
            .with_thinking(Thinking::BudgetTokens(2048))
            .with_effort("high")
            .with_output_schema(json!({ "type": "object" }))
            .with_service_tier("auto")
            .with_previous_response_id("resp_1")
            .with_metadata("user_id", json!("u1"))
            .with_extra("container", json!(null));
        let expected = json!({
            "model": "m", "max_tokens": 16,
            "system": [{ "type": "text", "text": "Be terse.", "cache_control": { "type": "ephemeral" } }],
            "tools": [
                { "name": "look", "description": "Looks.", "input_schema": { "type": "object" }, "strict": true },
                { "type": "web_search_20250305", "name": "web_search", "max_uses": 5 },
            ],
            "tool_choice": { "type": "tool", "name": "look", "disable_parallel_tool_use": true },
            "temperature": 0.5, "top_p": 0.9, "top_k": 40, "stop_sequences": ["END"],
            "thinking": { "type": "enabled", "budget_tokens": 2048 },
            "output_config": { "effort": "high", "format": { "type": "json_schema", "schema": { "type": "object" } } },
            "service_tier": "auto", "metadata": { "user_id": "u1" }, "container": null, "messages": [],
        });
        assert_eq!(encoded(&full), expected);
    }

    #[test]
    fn tool_choices_and_thinking_are_spelled_as_the_api_spells_them() {
        let choice = |choice| encoded(&request().with_tool_choice(choice))["tool_choice"].clone();
        assert_eq!(choice(ToolChoice::Auto), json!({ "type": "auto" }));
        assert_eq!(choice(ToolChoice::Any), json!({ "type": "any" }));
        assert_eq!(choice(ToolChoice::None), json!({ "type": "none" }));
        let serial = encoded(&request().with_serial_tool_calls());
        assert_eq!(serial["tool_choice"], json!({ "type": "auto", "disable_parallel_tool_use": true }));
        let thinking = |thinking| encoded(&request().with_thinking(thinking))["thinking"].clone();
        assert_eq!(thinking(Thinking::Disabled), json!({ "type": "disabled" }));
        assert_eq!(thinking(Thinking::Adaptive), json!({ "type": "adaptive" }));
    }

    #[test]
    fn blocks_go_out_as_they_came_in() {
        let content = json!([
            { "type": "thinking", "thinking": "Hm.", "signature": "c2ln" },
            { "type": "redacted_thinking", "data": "b3Bh" },
            { "type": "text", "text": "I look.", "citations": [{ "a": null }] },
            { "type": "tool_use", "id": "1", "name": "look", "input": { "n": null } },
            { "type": "image", "source": { "type": "url", "url": "https://example.com/a.png" } },
            { "type": "document", "source": { "type": "text", "data": "x" }, "title": "T" },
            { "type": "web_search_tool_result", "content": [{ "x": null }] },
            { "type": "tool_result", "tool_use_id": "1", "content": [{ "type": "text", "text": "42" }], "is_error": true },
        ]);
        let read: Content = serde_json::from_value(content.clone()).unwrap();
        let body = encoded(&request().push_message(Message::assistant_blocks(read)));
        assert_eq!(body["messages"][0]["content"], content);
    }

    #[test]
    fn empty_and_blank_text_is_never_encoded() {
        let call = ContentBlock::ToolUse { id: "1".into(), name: "look".into(), input: json!({}) };
        for nothing in ["", "\n\n"] {
            let asked = Message::assistant_blocks([ContentBlock::text(nothing), call.clone()]);
            let result = Message::tool_result("1", ContentBlock::text(nothing));
            let system = ContentBlock::text(nothing);
            let body = encoded(&request().with_system(system).push_message(asked).push_message(result));
            assert_eq!(body.get("system"), None);
            assert_eq!(body["messages"][0]["content"].as_array().unwrap().len(), 1);
            assert_eq!(
                body["messages"][1]["content"],
                json!([{ "type": "tool_result", "tool_use_id": "1" }])
            );
        }
    }

    #[test]
    fn a_message_that_says_nothing_is_left_out() {
        let silent = [Message::assistant(""), Message::assistant_blocks(ContentBlock::text(" "))];
        let said = [Message::user("Hi"), Message::user("Still there?")];
        let full =
            request().push_message(said[0].clone()).push_messages(silent).push_message(said[1].clone());
        assert_eq!(encoded(&full), encoded(&request().push_messages(said)));
    }

    #[test]
    fn a_message_is_encoded_once_and_copied_from_then_on() {
        let message = Message::user("Hi");
        let first = message.messages_api().as_ptr();
        encoded(&request().push_message(message.clone()));
        encoded(&request().push_message(message.clone()).push_message(Message::user("again")));
        assert_eq!(message.clone().messages_api().as_ptr(), first);
    }
}
