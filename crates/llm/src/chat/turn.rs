//! A message as the messages of this API, encoded once.

use serde_json::{Value, json};

use super::PROTOCOL;
use crate::openai::{Medium, broken_arguments, medium};
use crate::vocabulary::{Content, ContentBlock, Message, Role, foreign_of};

/// The messages that one of ours becomes.
pub(crate) struct Turns(Vec<Turn>);

pub(super) enum Turn {
    /// By the user.
    Asked(Box<[u8]>),
    /// By a tool; it must follow its call.
    Result {
        id: String,
        json: Box<[u8]>,
        /// What a tool may not say, pictures above all: the user shows it, behind all results.
        shown: Option<Box<[u8]>>,
    },
    /// By the model. Which calls are sent depends on which were answered.
    Answered {
        /// An object left open, with its role and content.
        open: Box<[u8]>,
        says_something: bool,
        /// Goes with the calls only, as a further field.
        thoughts: Option<Box<[u8]>>,
        calls: Vec<(String, Box<[u8]>)>,
    },
}

impl Turns {
    pub(crate) fn of(message: &Message) -> Turns {
        match message.role() {
            Role::Assistant => Turns(vec![answered(message.content())]),
            Role::User => Turns(asked(message.content())),
        }
    }

    pub(super) fn turns(&self) -> &[Turn] {
        &self.0
    }
}

/// Results first, since nothing may stand between them and their calls.
fn asked(content: &Content) -> Vec<Turn> {
    let mut turns = Vec::new();
    for block in content {
        if let ContentBlock::ToolResult { tool_use_id, content, is_error } = block {
            turns.push(result(tool_use_id, content, *is_error));
        }
    }
    if let Some(said) = user_content(content) {
        turns.push(Turn::Asked(bytes(&json!({ "role": "user", "content": said }))));
    }
    turns
}

fn result(id: &str, content: &Content, is_error: bool) -> Turn {
    let mut text = content.text();
    if is_error {
        text = format!("Error: {text}");
    }
    let media: Content =
        content.iter().filter(|block| !matches!(block, ContentBlock::Text { .. })).cloned().collect();
    let shown = user_content(&media).map(|parts| {
        let mut parts = match parts {
            Value::Array(parts) => parts,
            text => vec![json!({ "type": "text", "text": text })],
        };
        parts.insert(0, json!({ "type": "text", "text": format!("Part of the result of the call {id}:") }));
        bytes(&json!({ "role": "user", "content": parts }))
    });
    let json = bytes(&json!({ "role": "tool", "tool_call_id": id, "content": text }));
    Turn::Result { id: id.to_owned(), json, shown }
}

fn answered(content: &Content) -> Turn {
    let (mut text, mut refusal, mut calls, mut thoughts) = (String::new(), String::new(), Vec::new(), None);
    for (position, block) in content.iter().enumerate() {
        let own = foreign_of(PROTOCOL, block, content.extra(position));
        match block {
            ContentBlock::Text { text: said } if own.is_some_and(|own| own.contains_key("refusal")) => {
                refusal.push_str(said);
            }
            ContentBlock::Text { text: said } => text.push_str(said),
            ContentBlock::Thinking { thinking, .. } => {
                let field = own.and_then(|own| own.get("field")).and_then(Value::as_str);
                if let Some(field) = field.filter(|_| !thinking.is_empty()) {
                    thoughts = Some(format!(",{}:{}", json!(field), json!(thinking)).into_bytes().into());
                }
            }
            ContentBlock::ToolUse { id, name, input } => calls.push(call(id, name, &input.to_string())),
            ContentBlock::InvalidToolUse { id, name, raw } => {
                calls.push(call(id, name, &broken_arguments(raw)))
            }
            _ => {}
        }
    }
    let says_something = !text.is_empty() || !refusal.is_empty();
    let said = if text.is_empty() { Value::Null } else { Value::String(text) };
    let mut message = json!({ "role": "assistant", "content": said });
    if !refusal.is_empty() {
        message["refusal"] = Value::String(refusal);
    }
    let mut open = message.to_string().into_bytes();
    open.pop();
    Turn::Answered { open: open.into(), says_something, thoughts, calls }
}

fn call(id: &str, name: &str, arguments: &str) -> (String, Box<[u8]>) {
    let call = json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
    (id.to_owned(), bytes(&call))
}

/// What a user says: text, since some servers take nothing else, or parts where there is more than text.
fn user_content(content: &Content) -> Option<Value> {
    let parts: Vec<Value> = content.iter().filter_map(part).collect();
    if parts.is_empty() {
        return None;
    }
    if parts.iter().all(|part| part["type"] == "text") {
        let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
        return Some(Value::String(texts.join("\n\n")));
    }
    Some(Value::Array(parts))
}

fn part(block: &ContentBlock) -> Option<Value> {
    match block {
        ContentBlock::Text { text } if text.is_empty() => None,
        ContentBlock::Text { text } => Some(json!({ "type": "text", "text": text })),
        ContentBlock::Image { source } => match medium(source)? {
            Medium::Url(url) | Medium::Data(url) => {
                Some(json!({ "type": "image_url", "image_url": { "url": url } }))
            }
            Medium::File(_) | Medium::Text(_) => None,
        },
        ContentBlock::Document { source } => Some(match medium(source)? {
            Medium::Data(url) => {
                json!({ "type": "file", "file": { "filename": "document", "file_data": url } })
            }
            Medium::File(id) => json!({ "type": "file", "file": { "file_id": id } }),
            Medium::Url(text) | Medium::Text(text) => json!({ "type": "text", "text": text }),
        }),
        _ => None,
    }
}

fn bytes(value: &Value) -> Box<[u8]> {
    value.to_string().into_bytes().into()
}
