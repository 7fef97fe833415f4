//! What the model may call, and whether it must.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{is_default, is_nothing, no_empty_text, null_as_default, without_own};

/// A tool that the model may ask for.
///
/// # Examples
///
/// ```
/// use relight_llm::Tool;
/// use serde_json::json;
///
/// let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
/// let tool = Tool::new("weather", schema).with_description("The weather in a city, now.");
/// assert_eq!(tool.name, "weather");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tool {
    /// The name by which the model calls it.
    pub name: String,
    /// Tells the model what it does and when to use it.
    #[serde(default, deserialize_with = "no_empty_text", skip_serializing_if = "is_nothing")]
    pub description: Option<String>,
    /// The JSON Schema of its arguments; `null` for a tool that the server runs.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input_schema: Value,
    /// Whether the server must hold the model to the schema.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub strict: bool,
    /// Further fields, sent as they are (`cache_control`, or the `type` of a tool that the server runs). One with the
    /// name of a field above is not.
    #[serde(flatten, serialize_with = "further")]
    pub extra: Map<String, Value>,
}

impl Tool {
    /// A tool with a JSON Schema of its arguments.
    pub fn new(name: impl Into<String>, input_schema: Value) -> Tool {
        Tool { name: name.into(), description: None, input_schema, strict: false, extra: Map::new() }
    }

    /// A tool that the server itself runs, by its `type` (`web_search_20250305`, say).
    pub fn hosted(kind: impl Into<String>, name: impl Into<String>) -> Tool {
        Tool::new(name, Value::Null).with_extra("type", Value::String(kind.into()))
    }

    /// Tells the model what the tool does and when to use it.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Tool {
        self.description = Some(description.into()).filter(|text| !text.is_empty());
        self
    }

    /// Makes the server hold the model to the schema.
    #[must_use]
    pub fn with_strict_schema(mut self) -> Tool {
        self.strict = true;
        self
    }

    /// Adds a field that is sent as it is.
    #[must_use]
    pub fn with_extra(mut self, name: impl Into<String>, value: Value) -> Tool {
        self.extra.insert(name.into(), value);
        self
    }
}

fn further<S: Serializer>(extra: &Map<String, Value>, serializer: S) -> Result<S::Ok, S::Error> {
    without_own(extra, &["name", "description", "input_schema", "strict"], serializer)
}

/// Whether the model must call a tool.
///
/// Recorded as `"auto"`, `"any"`, `"none"` or `{"tool": name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// The model must call some tool.
    Any,
    /// The model must call none.
    None,
    /// The model must call the tool of this name.
    Tool(String),
}
