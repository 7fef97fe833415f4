//! The words in which every protocol is spoken: requests, messages, blocks, answers and their usage.
//!
//! The shape follows the Messages API, since that is the richest. What a server sends beyond it is carried along
//! untouched, and our own optional fields are left out where they are absent, `null`, empty or the default.

mod block;
mod content;
mod foreign;
mod message;
mod request;
mod response;
mod tool;
mod usage;

pub use block::ContentBlock;
pub use content::Content;
pub use message::{Message, Role};
pub use request::{MessageRequest, Thinking};
pub use response::{MessageResponse, StopReason};
pub use tool::{Tool, ToolChoice};
pub use usage::{Usage, UsageUpdate};

pub(crate) use block::{BlockForm, Form, tool_call};
pub(crate) use foreign::{FOREIGN, foreign, foreign_of, is_foreign};
pub(crate) use response::OWN_FIELDS;

use serde::{Deserialize, Deserializer, Serializer};
use serde_json::{Map, Value};

/// Reads `null` as if the field were absent.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads empty text as if it were absent.
pub(crate) fn no_empty_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.filter(|text| !text.is_empty()))
}

pub(crate) fn is_nothing(text: &Option<String>) -> bool {
    text.as_deref().is_none_or(str::is_empty)
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Writes further fields beside our own. One with the name of an own field is left out: it would stand there twice, and
/// nothing could read that again.
pub(crate) fn without_own<S: Serializer>(
    fields: &Map<String, Value>,
    own: &[&str],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(fields.iter().filter(|(name, _)| !own.contains(&name.as_str())))
}

/// Whether arrays and objects stand inside each other over more than so many levels.
pub(crate) fn is_deeper(value: &Value, levels: usize) -> bool {
    let below = |value: &Value| levels == 0 || is_deeper(value, levels - 1);
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(below),
        Value::Object(fields) => levels == 0 || fields.values().any(below),
        _ => false,
    }
}
