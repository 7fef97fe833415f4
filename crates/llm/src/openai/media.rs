//! Pictures and documents, from the Messages API's form to what these APIs take: an address, or the data as one.

use serde_json::Value;

use crate::error::{ErrorKind, LlmError};
use crate::vocabulary::{Content, ContentBlock};

/// Where a picture or document is.
pub(crate) enum Medium {
    /// At an address, which may hold the data itself (`data:`).
    Url(String),
    /// Data, as a `data:` address.
    Data(String),
    /// At the server already.
    File(String),
    /// Right here, as text.
    Text(String),
}

/// Reads a source in the Messages API's form; `None` if it is none that can be given to these APIs.
pub(crate) fn medium(source: &Value) -> Option<Medium> {
    let text = |name: &str| source.get(name).and_then(Value::as_str);
    match text("type")? {
        "base64" => Some(Medium::Data(format!("data:{};base64,{}", text("media_type")?, text("data")?))),
        "url" => Some(Medium::Url(text("url")?.to_owned())),
        "file" => Some(Medium::File(text("file_id")?.to_owned())),
        "text" => Some(Medium::Text(text("data")?.to_owned())),
        "content" => {
            let content: Content = serde_json::from_value(source.get("content")?.clone()).ok()?;
            Some(Medium::Text(content.text()))
        }
        _ => None,
    }
}

/// Texts as one: these APIs take a single system prompt.
pub(crate) fn joined_text(what: &str, content: &Content) -> Result<Option<String>, LlmError> {
    let mut texts = Vec::new();
    for block in content {
        match block {
            ContentBlock::Text { text } if text.is_empty() => {}
            ContentBlock::Text { text } => texts.push(text.as_str()),
            _ => {
                let message =
                    format!("{what} holds a block that is not text, which this API does not take there");
                return Err(LlmError::new(ErrorKind::InvalidRequest, message));
            }
        }
    }
    Ok((!texts.is_empty()).then(|| texts.join("\n\n")))
}
