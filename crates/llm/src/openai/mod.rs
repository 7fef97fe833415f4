//! What the two dialects of OpenAI have in common, Responses and Chat Completions: errors, usage, media, schemas.

mod error;
mod media;
mod schema;
mod usage;

pub(crate) use error::{error_of_body, error_of_fields, is_error};
pub(crate) use media::{Medium, joined_text, medium};
pub(crate) use schema::{Strictness, accepted, strictness};
pub(crate) use usage::usage;

use serde_json::{Map, Value};

/// Takes a text out of an object; nothing if it is of another kind.
pub(crate) fn take_text(fields: &mut Map<String, Value>, name: &str) -> Option<String> {
    match fields.remove(name)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// Takes a text that says something.
pub(crate) fn take_name(fields: &mut Map<String, Value>, name: &str) -> Option<String> {
    take_text(fields, name).filter(|text| !text.is_empty())
}

pub(crate) fn take_object(fields: &mut Map<String, Value>, name: &str) -> Option<Map<String, Value>> {
    match fields.remove(name)? {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

pub(crate) fn take_objects(fields: &mut Map<String, Value>, name: &str) -> Vec<Map<String, Value>> {
    let Some(Value::Array(items)) = fields.remove(name) else { return Vec::new() };
    let objects = items.into_iter().filter_map(|item| match item {
        Value::Object(object) => Some(object),
        _ => None,
    });
    objects.collect()
}

/// A call's arguments as JSON text. They come as text, and from some servers as the object itself.
pub(crate) fn take_arguments(fields: &mut Map<String, Value>, name: &str) -> Option<String> {
    match fields.remove(name)? {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

/// The arguments of a call that cannot be run, on their way back to the model: some servers parse what they are given,
/// and fail at broken JSON.
pub(crate) fn broken_arguments(raw: &str) -> String {
    Value::Object(Map::from_iter([("INVALID_JSON".to_owned(), Value::from(raw))])).to_string()
}

pub(crate) fn without_nulls(mut fields: Map<String, Value>) -> Map<String, Value> {
    fields.retain(|_, value| !value.is_null());
    fields
}

/// Metadata as these APIs accept it: texts only.
pub(crate) fn metadata(fields: &Map<String, Value>) -> Value {
    let text = |value: &Value| match value {
        Value::String(text) => Value::String(text.clone()),
        other => Value::String(other.to_string()),
    };
    Value::Object(fields.iter().map(|(name, value)| (name.clone(), text(value))).collect())
}

/// The effort to ask for. These APIs are told of no effort at all by leaving the field out: not every model knows
/// `none`.
pub(crate) fn effort(effort: Option<&str>) -> Option<&str> {
    effort.filter(|effort| *effort != "none")
}
