//! A request as the body of `POST {base}/chat/completions`.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::turn::Turn;
use crate::error::LlmError;
use crate::messages::Mode;
use crate::openai::{Strictness, accepted, effort, joined_text, metadata, strictness};
use crate::vocabulary::{Message, MessageRequest, Thinking, Tool, ToolChoice};

/// Whose Chat Completions it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI's own, at OpenAI or Azure: newer models know `max_completion_tokens` only, and unknown fields are refused.
    OpenAi,
    /// That of everybody else, who know `max_tokens` and more ways to draw words.
    Compatible,
}

impl Dialect {
    /// The dialect of the server of this name.
    pub fn of_host(host: &str) -> Dialect {
        let is_openai = host == "openai.com" || host.ends_with(".openai.com");
        if is_openai || host.ends_with(".openai.azure.com") { Dialect::OpenAi } else { Dialect::Compatible }
    }
}

/// Writes a request as the body of `POST {base}/chat/completions`.
///
/// Messages are encoded once and copied from then on. A call without its result, or a result without its call, is
/// refused by servers and left out. So is what this API has no place for: `previous_response_id`, thoughts that another
/// protocol signed, blocks that only another protocol knows, and to OpenAI `top_k`.
///
/// # Errors
///
/// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest), before anything is sent: as
/// [`MessageRequest::check`], and for a system prompt that is
/// not text.
///
/// # Examples
///
/// ```
/// use relight_llm::chat::{Dialect, encode};
/// use relight_llm::messages::Mode;
/// use relight_llm::{Message, MessageRequest};
///
/// let request = MessageRequest::new("some-model", 256).push_message(Message::user("Hello"));
/// let body: serde_json::Value = serde_json::from_slice(&encode(&request, Mode::Stream, Dialect::Compatible)?)?;
/// assert_eq!(body["stream_options"]["include_usage"], true);
/// assert_eq!(body["messages"][0]["content"], "Hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn encode(request: &MessageRequest, mode: Mode, dialect: Dialect) -> Result<Vec<u8>, LlmError> {
    request.check()?;
    let system = joined_text("the system prompt", request.system())?;
    let fields = fields(request, mode, dialect);
    let mut messages = Messages(Vec::with_capacity(512));
    if let Some(system) = system {
        messages.push(&[json!({ "role": "system", "content": system }).to_string().as_bytes()]);
    }
    say(&mut messages, request.messages());

    let mut body = serde_json::to_vec(&fields).expect("JSON values are JSON");
    // The object is left open for the messages, whose bytes are there already.
    body.pop();
    body.extend_from_slice(b",\"messages\":[");
    body.extend_from_slice(&messages.0);
    body.push(b']');
    if mode == Mode::Stream {
        body.extend_from_slice(b",\"stream\":true");
    }
    body.push(b'}');
    Ok(body)
}

/// JSON values with commas between them.
struct Messages(Vec<u8>);

impl Messages {
    fn push(&mut self, pieces: &[&[u8]]) {
        if !self.0.is_empty() {
            self.0.push(b',');
        }
        for piece in pieces {
            self.0.extend_from_slice(piece);
        }
    }
}

fn say(messages: &mut Messages, said: &[Message]) {
    let turns = || said.iter().flat_map(|message| message.chat_api().turns());
    let (mut calls, mut results) = (HashSet::new(), HashSet::new());
    for turn in turns() {
        match turn {
            Turn::Answered { calls: asked, .. } => calls.extend(asked.iter().map(|(id, _)| id)),
            Turn::Result { id, .. } => {
                results.insert(id);
            }
            Turn::Asked(_) => {}
        }
    }
    // Nothing may stand between a call and the results of its answer.
    let mut shown_later = Vec::new();
    for turn in turns() {
        if let Turn::Result { id, json, shown } = turn {
            if calls.contains(id) {
                messages.push(&[json]);
                shown_later.extend(shown.as_deref());
            }
            continue;
        }
        for shown in shown_later.drain(..) {
            messages.push(&[shown]);
        }
        match turn {
            Turn::Asked(json) => messages.push(&[json]),
            Turn::Answered { open, says_something, thoughts, calls } => {
                let calls: Vec<&[u8]> =
                    calls.iter().filter(|(id, _)| results.contains(id)).map(|(_, call)| &**call).collect();
                if !calls.is_empty() {
                    let calls = calls.join(&b","[..]);
                    let thoughts = thoughts.as_deref().unwrap_or_default();
                    messages.push(&[open, thoughts, b",\"tool_calls\":[", &calls, b"]}"]);
                } else if *says_something {
                    messages.push(&[open, b"}"]);
                }
            }
            Turn::Result { .. } => {}
        }
    }
    for shown in shown_later {
        messages.push(&[shown]);
    }
}

/// Everything but the messages, and whether they are streamed.
fn fields(request: &MessageRequest, mode: Mode, dialect: Dialect) -> Map<String, Value> {
    let settings = request.settings();
    let mut fields = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    set("model", Some(json!(settings.model)));
    let limit = match dialect {
        Dialect::OpenAi => "max_completion_tokens",
        Dialect::Compatible => "max_tokens",
    };
    // Whoever knows the server better names the other one, and both are refused.
    let is_named =
        ["max_tokens", "max_completion_tokens"].iter().any(|name| settings.extra.contains_key(*name));
    set(limit, (!is_named).then(|| json!(settings.max_tokens)));
    set("tools", (!settings.tools.is_empty()).then(|| settings.tools.iter().map(tool).collect()));
    set("tool_choice", settings.tool_choice.as_ref().map(tool_choice));
    set("parallel_tool_calls", settings.serial_tool_calls.then_some(json!(false)));
    set("temperature", settings.temperature.map(Value::from));
    set("top_p", settings.top_p.map(Value::from));
    set("top_k", settings.top_k.filter(|_| dialect == Dialect::Compatible).map(Value::from));
    set("stop", (!settings.stop_sequences.is_empty()).then(|| json!(settings.stop_sequences)));
    let effort = match settings.thinking {
        Some(Thinking::Disabled) => None,
        _ => effort(settings.effort.as_deref()),
    };
    set("reasoning_effort", effort.map(Value::from));
    set("response_format", settings.output_schema.as_ref().map(response_format));
    set("service_tier", settings.service_tier.as_ref().map(|tier| json!(tier)));
    set("metadata", (!settings.metadata.is_empty()).then(|| metadata(&settings.metadata)));
    set("stream_options", (mode == Mode::Stream).then(|| json!({ "include_usage": true })));
    fields.extend(settings.extra.clone());
    fields
}

fn tool(tool: &Tool) -> Value {
    let mut fields = tool.extra.clone();
    // Tools that the server runs, where one does.
    if tool.input_schema.is_null() && fields.contains_key("type") {
        return Value::Object(fields);
    }
    let mut function = Map::new();
    function.insert("name".to_owned(), json!(tool.name));
    if let Some(description) = &tool.description {
        function.insert("description".to_owned(), json!(description));
    }
    let schema = accepted(&tool.input_schema);
    if tool.strict && strictness(&schema) == Strictness::Possible {
        function.insert("strict".to_owned(), json!(true));
    }
    function.insert("parameters".to_owned(), schema);
    fields.remove("cache_control");
    fields.insert("type".to_owned(), json!("function"));
    fields.insert("function".to_owned(), Value::Object(function));
    Value::Object(fields)
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::Any => json!("required"),
        ToolChoice::None => json!("none"),
        ToolChoice::Tool(name) => json!({ "type": "function", "function": { "name": name } }),
    }
}

fn response_format(schema: &Value) -> Value {
    let schema = accepted(schema);
    let strict = strictness(&schema) == Strictness::Possible;
    json!({ "type": "json_schema", "json_schema": { "name": "answer", "schema": schema, "strict": strict } })
}
