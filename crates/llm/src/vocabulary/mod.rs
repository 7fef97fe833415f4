//! The words in which every protocol is spoken: requests, messages, blocks, answers and their usage.
//!
//! The shape follows the Messages API, since that is the richest. What a server sends beyond it is carried along
//! untouched, and our own optional fields are left out where they are absent, `null`, empty or the default.

mod block;
mod content;
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

use serde::{Deserialize, Deserializer};

/// Reads `null` as if the field were absent.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
