//! A message as input items, encoded once.

use std::mem;

use serde_json::{Map, Value, json};

use super::PROTOCOL;
use crate::openai::{Medium, broken_arguments, medium};
use crate::vocabulary::{Content, ContentBlock, FOREIGN, Message, Role, foreign_of};

/// The items of one message.
pub(crate) struct Input(Vec<Item>);

/// An item, and what must stand beside it for a server to accept it.
pub(super) struct Item {
    pub(super) json: Box<[u8]>,
    pub(super) needs: Needs,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// A call needs its result: its `call_id`.
    ResultOf(String),
    /// A result needs its call: its `call_id`.
    CallOf(String),
    /// Thoughts need what they led to.
    Outcome,
    /// So do thoughts of which only the id came, and a server that has stored them.
    OutcomeAndStorage,
}

impl Input {
    pub(crate) fn of(message: &Message) -> Input {
        let mut items = Items { role: message.role(), parts: Vec::new(), phase: None, done: Vec::new() };
        let content = message.content();
        for (position, block) in content.iter().enumerate() {
            match message.role() {
                Role::Assistant => items.push_answered(block, content.extra(position)),
                Role::User => items.push_asked(block),
            }
        }
        items.end_message();
        Input(items.done)
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.0
    }
}

struct Items {
    role: Role,
    /// The parts of the message item in the making, and the phase it was said in.
    parts: Vec<Value>,
    phase: Option<Value>,
    done: Vec<Item>,
}

impl Items {
    /// A block by the model.
    fn push_answered(&mut self, block: &ContentBlock, extra: Option<&Map<String, Value>>) {
        let own = foreign_of(PROTOCOL, block, extra);
        match (block, own) {
            (ContentBlock::Text { text }, _) if text.is_empty() => {}
            (ContentBlock::Text { text }, own) => {
                let phase = own.and_then(|own| own.get("phase")).cloned();
                if phase != self.phase {
                    self.end_message();
                    self.phase = phase;
                }
                self.parts.push(part_of(text, own));
            }
            (ContentBlock::Thinking { thinking, signature }, Some(own)) => {
                let needs = if signature.is_empty() && !own.contains_key("content") {
                    Needs::OutcomeAndStorage
                } else {
                    Needs::Outcome
                };
                self.push(reasoning(thinking, signature, own), needs);
            }
            (ContentBlock::ToolUse { id, name, input }, own) => {
                self.push_call(id, name, &input.to_string(), own)
            }
            (ContentBlock::InvalidToolUse { id, name, raw }, own) => {
                self.push_call(id, name, &broken_arguments(raw), own);
            }
            (ContentBlock::Other(fields), Some(_)) => {
                let mut item = fields.clone();
                item.remove(FOREIGN);
                self.push(Value::Object(item), Needs::Nothing);
            }
            // What another protocol's server signed or made up says nothing here; pictures by the model are not taken.
            _ => {}
        }
    }

    fn push_call(&mut self, id: &str, name: &str, arguments: &str, own: Option<&Map<String, Value>>) {
        let mut item = own.cloned().unwrap_or_default();
        for (field, text) in
            [("type", "function_call"), ("call_id", id), ("name", name), ("arguments", arguments)]
        {
            item.insert(field.to_owned(), Value::from(text));
        }
        self.push(Value::Object(item), Needs::ResultOf(id.to_owned()));
    }

    /// A block by the user, or by a tool.
    fn push_asked(&mut self, block: &ContentBlock) {
        if let ContentBlock::ToolResult { tool_use_id, content, is_error } = block {
            let item = json!({
                "type": "function_call_output", "call_id": tool_use_id, "output": output(content, *is_error),
            });
            self.push(item, Needs::CallOf(tool_use_id.clone()));
        } else {
            self.parts.extend(input_part(block));
        }
    }

    fn push(&mut self, item: Value, needs: Needs) {
        self.end_message();
        self.done.push(Item { json: item.to_string().into_bytes().into(), needs });
    }

    fn end_message(&mut self) {
        let phase = self.phase.take();
        if self.parts.is_empty() {
            return;
        }
        let mut item = json!({ "type": "message", "role": self.role, "content": mem::take(&mut self.parts) });
        if let Some(phase) = phase {
            item["phase"] = phase;
        }
        self.done.push(Item { json: item.to_string().into_bytes().into(), needs: Needs::Nothing });
    }
}

fn part_of(text: &str, own: Option<&Map<String, Value>>) -> Value {
    let own = |name: &str| own.and_then(|own| own.get(name));
    if own("refusal").is_some() {
        return json!({ "type": "refusal", "refusal": text });
    }
    let mut part = json!({ "type": "output_text", "text": text });
    if let Some(annotations) = own("annotations") {
        part["annotations"] = annotations.clone();
    }
    part
}

/// A reasoning item as it came. Without a `summary`, an empty one if need be, it is refused.
fn reasoning(thinking: &str, signature: &str, own: &Map<String, Value>) -> Value {
    let mut item = own.clone();
    item.insert("type".to_owned(), json!("reasoning"));
    let parts = |kind: &str| match thinking {
        "" => json!([]),
        text => json!([{ "type": kind, "text": text }]),
    };
    if own.contains_key("content") {
        item.insert("summary".to_owned(), json!([]));
        item.insert("content".to_owned(), parts("reasoning_text"));
    } else {
        item.insert("summary".to_owned(), parts("summary_text"));
    }
    if !signature.is_empty() {
        item.insert("encrypted_content".to_owned(), json!(signature));
    }
    Value::Object(item)
}

/// What a tool answered: text, or parts where there is more than text. The API knows no mark for failures.
fn output(content: &Content, is_error: bool) -> Value {
    let only_text = content.iter().all(|block| matches!(block, ContentBlock::Text { .. }));
    if only_text {
        let text = content.text();
        return json!(if is_error { format!("Error: {text}") } else { text });
    }
    let mark = is_error.then(|| json!({ "type": "input_text", "text": "Error:" }));
    mark.into_iter().chain(content.iter().filter_map(input_part)).collect()
}

fn input_part(block: &ContentBlock) -> Option<Value> {
    match block {
        ContentBlock::Text { text } if text.is_empty() => None,
        ContentBlock::Text { text } => Some(json!({ "type": "input_text", "text": text })),
        ContentBlock::Image { source } => match medium(source)? {
            Medium::Url(url) | Medium::Data(url) => {
                Some(json!({ "type": "input_image", "image_url": url, "detail": "auto" }))
            }
            Medium::File(id) => Some(json!({ "type": "input_image", "file_id": id, "detail": "auto" })),
            Medium::Text(_) => None,
        },
        ContentBlock::Document { source } => Some(match medium(source)? {
            Medium::Url(url) => json!({ "type": "input_file", "file_url": url }),
            Medium::Data(url) => json!({ "type": "input_file", "filename": "document", "file_data": url }),
            Medium::File(id) => json!({ "type": "input_file", "file_id": id }),
            Medium::Text(text) => json!({ "type": "input_text", "text": text }),
        }),
        _ => None,
    }
}
