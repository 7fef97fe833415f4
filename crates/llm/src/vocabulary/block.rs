//! One block of a message's content, and the two JSON forms it is written in.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::Content;

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
    pub(crate) fn from_map(map: Map<String, Value>) -> (ContentBlock, Map<String, Value>) {
        let mut rest = map.clone();
        match ContentBlock::take_known(&mut rest) {
            Some(block) => {
                rest.retain(|_, value| !value.is_null());
                (block, rest)
            }
            None => (ContentBlock::Other(map), Map::new()),
        }
    }

    fn take_known(map: &mut Map<String, Value>) -> Option<ContentBlock> {
        let kind = take_text(map, "type")?;
        Some(match kind.as_str() {
            "text" => ContentBlock::Text { text: take_text_or_empty(map, "text")? },
            "thinking" => ContentBlock::Thinking {
                thinking: take_text_or_empty(map, "thinking")?,
                signature: take_text_or_empty(map, "signature")?,
            },
            "redacted_thinking" => ContentBlock::RedactedThinking { data: take_text(map, "data")? },
            "tool_use" => tool_call(
                take_text(map, "id")?,
                take_text(map, "name")?,
                map.remove("input").unwrap_or_default(),
            ),
            "invalid_tool_use" => ContentBlock::InvalidToolUse {
                id: take_text(map, "id")?,
                name: take_text(map, "name")?,
                raw: take_text_or_empty(map, "raw")?,
            },
            "tool_result" => ContentBlock::ToolResult {
                tool_use_id: take_text(map, "tool_use_id")?,
                content: match map.remove("content") {
                    None | Some(Value::Null) => Content::new(),
                    Some(Value::String(text)) => Content::from(text),
                    Some(blocks) => serde_json::from_value(blocks).ok()?,
                },
                is_error: match map.remove("is_error") {
                    None | Some(Value::Null) => false,
                    Some(flag) => flag.as_bool()?,
                },
            },
            "image" => ContentBlock::Image { source: map.remove("source")? },
            "document" => ContentBlock::Document { source: map.remove("source")? },
            _ => return None,
        })
    }
}

/// A call with these arguments, or an invalid one if they are not an object. No arguments at all are the empty object.
pub(crate) fn tool_call(id: String, name: String, input: Value) -> ContentBlock {
    match input {
        Value::Object(_) => ContentBlock::ToolUse { id, name, input },
        Value::Null => ContentBlock::ToolUse { id, name, input: Value::Object(Map::new()) },
        other => ContentBlock::InvalidToolUse { id, name, raw: other.to_string() },
    }
}

fn take_text(map: &mut Map<String, Value>, name: &str) -> Option<String> {
    match map.remove(name)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn take_text_or_empty(map: &mut Map<String, Value>, name: &str) -> Option<String> {
    match map.remove(name) {
        None | Some(Value::Null) => Some(String::new()),
        Some(Value::String(text)) => Some(text),
        Some(_) => None,
    }
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
        for (name, value) in self.extra.into_iter().flatten() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
