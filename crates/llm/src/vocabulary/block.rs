//! One block of a message's content, and the two JSON forms it is written in.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::{Content, FOREIGN, is_deeper};

/// A block of content.
///
/// Fields that a server adds to a known block (citations, say) stand beside it, in [`Content::extra`].
///
/// # Examples
///
/// ```
/// use relight_llm::ContentBlock;
/// use serde_json::json;
///
/// let call = ContentBlock::ToolUse { id: "toolu_1".into(), name: "add".into(), input: json!({ "a": 1, "b": 2 }) };
/// assert_ne!(call, ContentBlock::text("3"));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ContentBlock {
    /// Text for or by the model.
    Text {
        /// The text itself.
        text: String,
    },
    /// What the model thought before it answered. It must be sent back as it came.
    Thinking {
        /// The thoughts, in full or summarised; may be empty where the server keeps them to itself.
        thinking: String,
        /// The server's proof that the thoughts are its own; empty where there is none.
        signature: String,
    },
    /// Thoughts that only the server can read. They must be sent back as they came.
    RedactedThinking {
        /// The encrypted thoughts.
        data: String,
    },
    /// The model asks for a tool to be called.
    ToolUse {
        /// Names this call; its result carries the same id.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments: always a JSON object.
        input: Value,
    },
    /// A call whose arguments were cut off or are not a JSON object. It must not be run.
    InvalidToolUse {
        /// Names this call; its result carries the same id.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments as far as they came.
        raw: String,
    },
    /// What a tool answered.
    ToolResult {
        /// The id of the [`ContentBlock::ToolUse`] that this answers.
        tool_use_id: String,
        /// The answer: text, images.
        content: Content,
        /// Whether the tool failed.
        is_error: bool,
    },
    /// A picture.
    Image {
        /// Where it is, in the Messages API's form (`{"type": "base64", "media_type": .., "data": ..}`).
        source: Value,
    },
    /// A document, such as a PDF.
    Document {
        /// Where it is, in the Messages API's form.
        source: Value,
    },
    /// A block of a kind that this version does not know, with its `type`, as it came.
    Other(Map<String, Value>),
}

impl ContentBlock {
    /// A text block.
    pub fn text(text: impl Into<String>) -> ContentBlock {
        ContentBlock::Text { text: text.into() }
    }

    /// Reads a block from its JSON form, and gives back the fields that the block itself has no place for.
    ///
    /// A known kind whose fields are not what they should be is kept whole, as a block of an unknown kind.
    pub(crate) fn from_map(mut map: Map<String, Value>) -> (ContentBlock, Map<String, Value>) {
        if !is_known(&map) {
            return (ContentBlock::Other(map), Map::new());
        }
        let block = take_known(&mut map);
        map.retain(|_, value| !value.is_null());
        (block, map)
    }

    /// The fields that the JSON form has for the block's own, beside `type`. Further fields have other names.
    pub(crate) fn own_fields(&self) -> &'static [&'static str] {
        match self {
            ContentBlock::Text { .. } => &["text"],
            ContentBlock::Thinking { .. } => &["thinking", "signature"],
            ContentBlock::RedactedThinking { .. } => &["data"],
            ContentBlock::ToolUse { .. } => &["id", "name", "input"],
            // The last one stands in the form for the Messages API.
            ContentBlock::InvalidToolUse { .. } => &["id", "name", "raw", "input"],
            ContentBlock::ToolResult { .. } => &["tool_use_id", "content", "is_error"],
            ContentBlock::Image { .. } | ContentBlock::Document { .. } => &["source"],
            ContentBlock::Other(_) => &[],
        }
    }
}

/// Whether the block is of a known kind, and its fields are what they should be.
fn is_known(map: &Map<String, Value>) -> bool {
    let text = |name| map.get(name).is_some_and(Value::is_string);
    let text_or_nothing = |name| map.get(name).is_none_or(|value| value.is_string() || value.is_null());
    match map.get("type").and_then(Value::as_str) {
        Some("text") => text_or_nothing("text"),
        Some("thinking") => text_or_nothing("thinking") && text_or_nothing("signature"),
        Some("redacted_thinking") => text("data"),
        Some("tool_use") => text("id") && text("name"),
        Some("invalid_tool_use") => text("id") && text("name") && text_or_nothing("raw"),
        Some("tool_result") => {
            let content = map.get("content").is_none_or(|content| match content {
                Value::Array(blocks) => blocks.iter().all(Value::is_object),
                other => other.is_string() || other.is_null(),
            });
            let flag = map.get("is_error").is_none_or(|flag| flag.is_boolean() || flag.is_null());
            text("tool_use_id") && content && flag
        }
        Some("image" | "document") => map.contains_key("source"),
        _ => false,
    }
}

/// Takes the fields of a known block out of its JSON form.
fn take_known(map: &mut Map<String, Value>) -> ContentBlock {
    let kind = take_text(map, "type");
    match kind.as_str() {
        "text" => ContentBlock::Text { text: take_text(map, "text") },
        "thinking" => ContentBlock::Thinking {
            thinking: take_text(map, "thinking"),
            signature: take_text(map, "signature"),
        },
        "redacted_thinking" => ContentBlock::RedactedThinking { data: take_text(map, "data") },
        "tool_use" => {
            let input = map.remove("input").unwrap_or_default();
            tool_call(take_text(map, "id"), take_text(map, "name"), input)
        }
        "invalid_tool_use" => ContentBlock::InvalidToolUse {
            id: take_text(map, "id"),
            name: take_text(map, "name"),
            raw: take_text(map, "raw"),
        },
        "tool_result" => ContentBlock::ToolResult {
            tool_use_id: take_text(map, "tool_use_id"),
            content: content_of(map.remove("content").unwrap_or_default()),
            is_error: map.remove("is_error").as_ref().and_then(Value::as_bool).unwrap_or_default(),
        },
        "image" => ContentBlock::Image { source: map.remove("source").unwrap_or_default() },
        _ => ContentBlock::Document { source: map.remove("source").unwrap_or_default() },
    }
}

/// A call with these arguments, or an invalid one if they are no object or nest too deep to be recorded. No arguments
/// at all are the empty object.
pub(crate) fn tool_call(id: String, name: String, input: Value) -> ContentBlock {
    match input {
        Value::Null => ContentBlock::ToolUse { id, name, input: Value::Object(Map::new()) },
        Value::Object(_) if !is_deeper(&input, DEEPEST_ARGUMENTS) => {
            ContentBlock::ToolUse { id, name, input }
        }
        other => ContentBlock::InvalidToolUse { id, name, raw: other.to_string() },
    }
}

fn take_text(map: &mut Map<String, Value>, name: &str) -> String {
    match map.remove(name) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

fn content_of(value: Value) -> Content {
    let mut content = Content::new();
    match value {
        Value::String(text) => content = Content::from(text),
        Value::Array(blocks) => {
            for block in blocks {
                if let Value::Object(fields) = block {
                    content.push_map(fields);
                }
            }
        }
        _ => {}
    }
    content
}

/// In which form a block is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As it is recorded and hashed: nothing lost, nothing said that is the default.
    Recorded,
    /// As the Messages API accepts it: no empty text, no block of our own invention.
    MessagesApi,
}

/// A block with its further fields, on its way into JSON.
pub(crate) struct BlockForm<'a> {
    pub(crate) block: &'a ContentBlock,
    pub(crate) extra: Option<&'a Map<String, Value>>,
    pub(crate) form: Form,
}

impl BlockForm<'_> {
    pub(crate) fn to_map(&self) -> Map<String, Value> {
        match serde_json::to_value(self).expect("texts and JSON values are JSON") {
            Value::Object(fields) => fields,
            other => unreachable!("a block is an object, not {other}"),
        }
    }
}

impl Serialize for BlockForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.block {
            ContentBlock::Text { text } => {
                map.serialize_entry("type", "text")?;
                map.serialize_entry("text", text)?;
            }
            ContentBlock::Thinking { thinking, signature } => {
                map.serialize_entry("type", "thinking")?;
                map.serialize_entry("thinking", thinking)?;
                if !signature.is_empty() {
                    map.serialize_entry("signature", signature)?;
                }
            }
            ContentBlock::RedactedThinking { data } => {
                map.serialize_entry("type", "redacted_thinking")?;
                map.serialize_entry("data", data)?;
            }
            ContentBlock::ToolUse { id, name, input } => {
                map.serialize_entry("type", "tool_use")?;
                map.serialize_entry("id", id)?;
                map.serialize_entry("name", name)?;
                map.serialize_entry("input", input)?;
            }
            ContentBlock::InvalidToolUse { id, name, raw } => match self.form {
                Form::Recorded => {
                    map.serialize_entry("type", "invalid_tool_use")?;
                    map.serialize_entry("id", id)?;
                    map.serialize_entry("name", name)?;
                    map.serialize_entry("raw", raw)?;
                }
                // The vendor's advice for handing broken arguments back to the model.
                Form::MessagesApi => {
                    map.serialize_entry("type", "tool_use")?;
                    map.serialize_entry("id", id)?;
                    map.serialize_entry("name", name)?;
                    map.serialize_entry(
                        "input",
                        &Map::from_iter([("INVALID_JSON".to_owned(), Value::from(raw.as_str()))]),
                    )?;
                }
            },
            ContentBlock::ToolResult { tool_use_id, content, is_error } => {
                map.serialize_entry("type", "tool_result")?;
                map.serialize_entry("tool_use_id", tool_use_id)?;
                if !content.is_empty_in(self.form) {
                    map.serialize_entry("content", &content.in_form(self.form))?;
                }
                if *is_error {
                    map.serialize_entry("is_error", is_error)?;
                }
            }
            ContentBlock::Image { source } => {
                map.serialize_entry("type", "image")?;
                map.serialize_entry("source", source)?;
            }
            ContentBlock::Document { source } => {
                map.serialize_entry("type", "document")?;
                map.serialize_entry("source", source)?;
            }
            ContentBlock::Other(fields) => {
                for (name, value) in fields {
                    map.serialize_entry(name, value)?;
                }
            }
        }
        let is_sent = |name: &str| self.form == Form::Recorded || name != FOREIGN;
        for (name, value) in self.extra.into_iter().flatten().filter(|(name, _)| is_sent(name)) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// How many levels of arrays and objects a call's arguments may have. Readers of JSON stop at some depth (`serde_json`
/// at 128), and what cannot be read again must not be recorded; this leaves room for what a call is put into.
const DEEPEST_ARGUMENTS: usize = 100;
