//! A request as the body of `POST {base}/responses`.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::input::{Item, Needs};
use crate::error::{ErrorKind, LlmError};
use crate::messages::Mode;
use crate::openai::{Strictness, accepted, effort, joined_text, metadata, strictness};
use crate::vocabulary::{Message, MessageRequest, Role, Thinking, Tool, ToolChoice};

/// Writes a request as the body of `POST {base}/responses`.
///
/// Messages are encoded once and copied from then on. A request that names its `previous_response_id` says only what
/// came after the last message by the model, since the server has the rest; all others say everything, so that a
/// gateway that keeps no answers misses nothing.
///
/// A call without its result, or a result without its call, is refused by servers and left out. So is what this API has
/// no place for: `top_k`, thoughts that another protocol signed, blocks that only another protocol knows. `store` is
/// sent only if it is given as an extra field; a server then stores the answer by default.
///
/// # Errors
///
/// [`ErrorKind::InvalidRequest`], before anything is sent: as [`MessageRequest::check`], for stop sequences, which this
/// API does not have, for a system prompt that is not text, for an extra field `input`, and for a `prompt_cache_key` of
/// more than 64 characters.
///
/// # Examples
///
/// ```
/// use relight_llm::messages::Mode;
/// use relight_llm::{Message, MessageRequest, responses};
///
/// let request = MessageRequest::new("some-model", 256).with_system("Be terse.").push_message(Message::user("Hello"));
/// let body: serde_json::Value = serde_json::from_slice(&responses::encode(&request, Mode::Stream)?)?;
/// assert_eq!(body["stream"], true);
/// assert_eq!(body["instructions"], "Be terse.");
/// assert_eq!(body["input"][0]["content"][0]["text"], "Hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn encode(request: &MessageRequest, mode: Mode) -> Result<Vec<u8>, LlmError> {
    request.check()?;
    let fields = fields(request)?;
    let items = items(request);
    let size: usize = items.iter().map(|item| item.json.len() + 1).sum();
    let mut body = Vec::with_capacity(size + 512);

    serde_json::to_writer(&mut body, &fields).expect("JSON values are JSON");
    // The object is left open for the items, whose bytes are there already.
    body.pop();
    body.extend_from_slice(b",\"input\":[");
    for (position, item) in items.into_iter().enumerate() {
        if position > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&item.json);
    }
    body.push(b']');
    if mode == Mode::Stream {
        body.extend_from_slice(b",\"stream\":true");
    }
    body.push(b'}');
    Ok(body)
}

/// Everything but the input, and whether it is streamed.
fn fields(request: &MessageRequest) -> Result<Map<String, Value>, LlmError> {
    let settings = request.settings();
    check(request)?;
    let mut fields = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    set("model", Some(json!(settings.model)));
    set("max_output_tokens", Some(json!(settings.max_tokens)));
    set("instructions", joined_text("the system prompt", &settings.system)?.map(Value::String));
    set("tools", (!settings.tools.is_empty()).then(|| settings.tools.iter().map(tool).collect()));
    set("tool_choice", settings.tool_choice.as_ref().map(tool_choice));
    set("parallel_tool_calls", settings.serial_tool_calls.then_some(json!(false)));
    set("temperature", settings.temperature.map(Value::from));
    set("top_p", settings.top_p.map(Value::from));
    let thinks = matches!(settings.thinking, Some(Thinking::Adaptive | Thinking::BudgetTokens(_)));
    let effort = match settings.thinking {
        Some(Thinking::Disabled) => None,
        _ => effort(settings.effort.as_deref()),
    };
    set("reasoning", reasoning(thinks, effort));
    // Models that do not think refuse this, so it is asked for only where thinking is.
    let encrypted = thinks || effort.is_some();
    set("include", encrypted.then(|| json!(["reasoning.encrypted_content"])));
    set("text", settings.output_schema.as_ref().map(|schema| json!({ "format": format(schema) })));
    set("service_tier", settings.service_tier.as_ref().map(|tier| json!(tier)));
    set("previous_response_id", request.previous_response_id().map(|id| json!(id)));
    set("metadata", (!settings.metadata.is_empty()).then(|| metadata(&settings.metadata)));
    fields.extend(settings.extra.clone());
    Ok(fields)
}

fn check(request: &MessageRequest) -> Result<(), LlmError> {
    let invalid = |message: &str| Err(LlmError::new(ErrorKind::InvalidRequest, message));
    let settings = request.settings();
    if !settings.stop_sequences.is_empty() {
        return invalid("the Responses API has no stop sequences; leave them out, or use another protocol");
    }
    if settings.extra.contains_key("input") {
        return invalid("the extra field \"input\" is written by the client itself; leave it out");
    }
    let key = settings.extra.get("prompt_cache_key").and_then(Value::as_str).unwrap_or_default();
    if key.chars().count() > LONGEST_CACHE_KEY {
        return invalid(
            "prompt_cache_key is longer than 64 characters, which the Responses API refuses; shorten it",
        );
    }
    Ok(())
}

/// The items that are said: all, or the new ones where the server has the others.
fn items(request: &MessageRequest) -> Vec<&Item> {
    fn said(messages: &[Message]) -> impl Iterator<Item = &Item> {
        messages.iter().flat_map(|message| message.responses_api().items())
    }
    let messages = request.messages();
    if request.previous_response_id().is_some() {
        let known =
            messages.iter().rposition(|message| message.role() == Role::Assistant).map_or(0, |at| at + 1);
        return said(&messages[known..]).collect();
    }
    let (mut calls, mut results) = (HashSet::new(), HashSet::new());
    for item in said(messages) {
        match &item.needs {
            Needs::ResultOf(id) => calls.insert(id),
            Needs::CallOf(id) => results.insert(id),
            Needs::Nothing | Needs::Outcome | Needs::OutcomeAndStorage => false,
        };
    }
    let is_stored = request.settings().extra.get("store") != Some(&Value::Bool(false));
    let mut kept = Vec::new();
    for message in messages {
        let begin = kept.len();
        // Backwards, so that it is known what thoughts led to.
        for item in message.responses_api().items().iter().rev() {
            let has_outcome = kept.len() > begin;
            let is_accepted = match &item.needs {
                Needs::Nothing => true,
                Needs::ResultOf(id) => results.contains(id),
                Needs::CallOf(id) => calls.contains(id),
                Needs::Outcome => has_outcome,
                Needs::OutcomeAndStorage => has_outcome && is_stored,
            };
            if is_accepted {
                kept.push(item);
            }
        }
        kept[begin..].reverse();
    }
    kept
}

fn tool(tool: &Tool) -> Value {
    let mut fields = tool.extra.clone();
    if tool.input_schema.is_null() && fields.contains_key("type") {
        // Tools that the server runs go by their type; only those of one's own have a name.
        if fields["type"] == "custom" {
            fields.insert("name".to_owned(), json!(tool.name));
        }
    } else {
        fields.remove("cache_control");
        fields.insert("type".to_owned(), json!("function"));
        fields.insert("name".to_owned(), json!(tool.name));
        let schema = accepted(&tool.input_schema);
        // Left out, it would mean yes.
        fields.insert("strict".to_owned(), json!(tool.strict && strictness(&schema) == Strictness::Possible));
        fields.insert("parameters".to_owned(), schema);
    }
    if let Some(description) = &tool.description {
        fields.insert("description".to_owned(), json!(description));
    }
    Value::Object(fields)
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::Any => json!("required"),
        ToolChoice::None => json!("none"),
        ToolChoice::Tool(name) => json!({ "type": "function", "name": name }),
    }
}

fn reasoning(thinks: bool, effort: Option<&str>) -> Option<Value> {
    let mut fields = Map::new();
    if let Some(effort) = effort {
        fields.insert("effort".to_owned(), json!(effort));
    }
    if thinks {
        fields.insert("summary".to_owned(), json!("auto"));
    }
    (!fields.is_empty()).then_some(Value::Object(fields))
}

fn format(schema: &Value) -> Value {
    let schema = accepted(schema);
    let strict = strictness(&schema) == Strictness::Possible;
    json!({ "type": "json_schema", "name": "answer", "schema": schema, "strict": strict })
}

const LONGEST_CACHE_KEY: usize = 64;
