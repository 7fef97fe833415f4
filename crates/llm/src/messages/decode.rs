//! What a Messages server answers: bodies, events of a stream, and errors in every shape that was seen.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::json::read_object;
use crate::error::{ErrorKind, LlmError};
use crate::event::StreamEvent;
use crate::fold::Fold;
use crate::sse;
use crate::vocabulary::{ContentBlock, MessageResponse, OWN_FIELDS, StopReason, UsageUpdate};

/// Reads one event of a stream; `None` for `[DONE]`, which this API does not send but gateways do.
///
/// The kind of an event is what its data says; its SSE name counts only where the data says nothing.
///
/// # Errors
///
/// What the server reports in an `error` event, or [`ErrorKind::Protocol`] for data that is not a JSON object or
/// lacks what its kind promises.
///
/// # Examples
///
/// ```
/// use relight_llm::messages::decode_event;
/// use relight_llm::sse::Event;
///
/// let data = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}"#;
/// let event = decode_event(&Event { name: "".into(), data: data.into() })?;
/// assert_eq!(event.unwrap().text(), Some("Hel"));
/// # Ok::<(), relight_llm::LlmError>(())
/// ```
pub fn decode_event(event: &sse::Event<'_>) -> Result<Option<StreamEvent>, LlmError> {
    // Nearly every event of a stream is one of these, so they are read without building a tree.
    if let Some(delta) = decode_delta(&event.data) {
        return Ok(Some(delta));
    }
    match read_object("an event", &event.data) {
        Ok(fields) => decode_fields(&event.name, fields).map(Some),
        Err(_) if event.data.trim() == "[DONE]" => Ok(None),
        Err(_) if event.name == "error" => Err(LlmError::new(ErrorKind::Server, beginning_of(&event.data))),
        Err(error) => Err(error),
    }
}

/// Reads a body that is a whole answer, by way of the same fold as a stream.
///
/// # Errors
///
/// [`ErrorKind::Protocol`] if it is no answer, or the error that it reports in spite of its status.
pub fn decode_body(body: &[u8]) -> Result<MessageResponse, LlmError> {
    let mut fields = read_object("the body", &String::from_utf8_lossy(body))?;
    if is_error(&fields) {
        return Err(error_of_fields(fields));
    }
    let Some(Value::Array(blocks)) = fields.remove("content") else {
        return Err(protocol("the answer has no content"));
    };
    let ending = StreamEvent::MessageDelta {
        stop_reason: take_stop_reason(&mut fields),
        stop_sequence: take_text(&mut fields, "stop_sequence"),
        usage: UsageUpdate::default(),
        service_tier: None,
        extra: Map::new(),
    };
    let mut fold = Fold::new();
    fold.apply(&message_start(fields)?)?;
    for (index, block) in (0..).zip(blocks) {
        fold.apply(&block_start(index, block)?)?;
        fold.apply(&StreamEvent::BlockStop { index })?;
    }
    fold.apply(&ending)?;
    fold.apply(&StreamEvent::MessageStop)?;
    fold.finish()
}

/// The error that a body with an unsuccessful status reports, whatever shape it has.
pub fn error_of_body(status: u16, body: &[u8]) -> LlmError {
    let body = String::from_utf8_lossy(body);
    let mut error = match read_object("the body", &body) {
        Ok(fields) => error_of_fields(fields),
        Err(_) => LlmError::new(ErrorKind::Server, beginning_of(&body)),
    };
    error.kind = match ErrorKind::of_status(status) {
        ErrorKind::RateLimited if error.code.as_deref() == Some(SPENT) => ErrorKind::Billing,
        kind => kind,
    };
    error.with_status(status)
}

#[derive(Deserialize)]
struct DeltaEvent<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    index: u64,
    #[serde(borrow)]
    delta: Delta<'a>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    partial_json: Option<Cow<'a, str>>,
    #[serde(borrow)]
    thinking: Option<Cow<'a, str>>,
}

/// The event, if it is a delta of one of the three kinds that come by the thousand.
fn decode_delta(data: &str) -> Option<StreamEvent> {
    let DeltaEvent { kind, index, delta } = serde_json::from_str(data).ok()?;
    if kind != "content_block_delta" {
        return None;
    }
    match &*delta.kind {
        "text_delta" => Some(StreamEvent::TextDelta { index, text: delta.text?.into_owned() }),
        "input_json_delta" => {
            Some(StreamEvent::InputJsonDelta { index, json: delta.partial_json?.into_owned() })
        }
        "thinking_delta" => {
            Some(StreamEvent::ThinkingDelta { index, thinking: delta.thinking?.into_owned() })
        }
        _ => None,
    }
}

fn decode_fields(name: &str, mut fields: Map<String, Value>) -> Result<StreamEvent, LlmError> {
    if is_error(&fields) || name == "error" {
        return Err(error_of_fields(fields));
    }
    let kind = match fields.get("type") {
        Some(Value::String(kind)) => kind.clone(),
        _ => name.to_owned(),
    };
    match kind.as_str() {
        "message_start" => match fields.remove("message") {
            Some(Value::Object(message)) => message_start(message),
            _ => Err(protocol("message_start has no message")),
        },
        "content_block_start" => {
            let index = index_of(&kind, &fields)?;
            block_start(index, fields.remove("content_block").unwrap_or_default())
        }
        "content_block_delta" => {
            let index = index_of(&kind, &fields)?;
            block_delta(index, fields.remove("delta").unwrap_or_default())
        }
        "content_block_stop" => Ok(StreamEvent::BlockStop { index: index_of(&kind, &fields)? }),
        "message_delta" => Ok(message_delta(fields)),
        "message_stop" => Ok(StreamEvent::MessageStop),
        "ping" => Ok(StreamEvent::Ping),
        _ if reports_error(&fields) => Err(error_of_fields(fields)),
        _ => Ok(StreamEvent::Unknown { kind, data: Value::Object(fields) }),
    }
}

fn message_start(mut message: Map<String, Value>) -> Result<StreamEvent, LlmError> {
    let id = take_text(&mut message, "id").unwrap_or_default();
    let model = take_text(&mut message, "model").unwrap_or_default();
    let (usage, service_tier) = take_usage(&mut message);
    let service_tier = service_tier.or_else(|| take_text(&mut message, "service_tier"));
    Ok(StreamEvent::MessageStart { id, model, usage, service_tier, extra: further(message) })
}

fn block_start(index: u64, block: Value) -> Result<StreamEvent, LlmError> {
    let Value::Object(block) = block else {
        return Err(protocol(format!("block {index} is not a JSON object")));
    };
    let (block, extra) = ContentBlock::from_map(block);
    Ok(StreamEvent::BlockStart { index, block, extra })
}

fn block_delta(index: u64, delta: Value) -> Result<StreamEvent, LlmError> {
    let Value::Object(mut delta) = delta else {
        return Err(protocol(format!("the delta of block {index} is not a JSON object")));
    };
    let kind = take_text(&mut delta, "type").unwrap_or_default();
    let lacks = |field: &str| protocol(format!("a {kind} of block {index} has no {field}"));
    Ok(match kind.as_str() {
        "text_delta" => StreamEvent::TextDelta {
            index,
            text: take_text(&mut delta, "text").ok_or_else(|| lacks("text"))?,
        },
        "thinking_delta" => StreamEvent::ThinkingDelta {
            index,
            thinking: take_text(&mut delta, "thinking").ok_or_else(|| lacks("thinking"))?,
        },
        "input_json_delta" => StreamEvent::InputJsonDelta {
            index,
            json: take_text(&mut delta, "partial_json").ok_or_else(|| lacks("partial_json"))?,
        },
        "signature_delta" => StreamEvent::SignatureDelta {
            index,
            signature: take_text(&mut delta, "signature").ok_or_else(|| lacks("signature"))?,
        },
        "citations_delta" => StreamEvent::CitationDelta {
            index,
            citation: delta.remove("citation").ok_or_else(|| lacks("citation"))?,
        },
        _ => StreamEvent::OtherDelta { index, fields: delta },
    })
}

fn message_delta(mut fields: Map<String, Value>) -> StreamEvent {
    let (usage, service_tier) = take_usage(&mut fields);
    let mut delta = match fields.remove("delta") {
        Some(Value::Object(delta)) => delta,
        _ => Map::new(),
    };
    let stop_reason = take_stop_reason(&mut delta);
    let stop_sequence = take_text(&mut delta, "stop_sequence");
    // What a body has at its top level stands in the delta or beside it.
    delta.append(&mut fields);
    StreamEvent::MessageDelta { stop_reason, stop_sequence, usage, service_tier, extra: further(delta) }
}

/// Usage, and the service tier that this API reports within it.
fn take_usage(fields: &mut Map<String, Value>) -> (UsageUpdate, Option<String>) {
    let Some(Value::Object(mut usage)) = fields.remove("usage") else {
        return (UsageUpdate::default(), None);
    };
    let service_tier = take_text(&mut usage, "service_tier");
    let mut take_count = |name| usage.remove(name).as_ref().and_then(count);
    let update = UsageUpdate {
        input_tokens: take_count("input_tokens"),
        output_tokens: take_count("output_tokens"),
        cache_read_input_tokens: take_count("cache_read_input_tokens"),
        cache_creation_input_tokens: take_count("cache_creation_input_tokens"),
        extra: without_nulls(usage),
    };
    (update, service_tier)
}

fn take_stop_reason(fields: &mut Map<String, Value>) -> StopReason {
    take_text(fields, "stop_reason").map_or(StopReason::Missing, StopReason::from)
}

fn take_text(fields: &mut Map<String, Value>, name: &str) -> Option<String> {
    match fields.remove(name)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// The fields of an answer that have no place of their own.
fn further(mut fields: Map<String, Value>) -> Map<String, Value> {
    fields.retain(|name, value| !value.is_null() && !OWN_FIELDS.contains(&name.as_str()));
    fields
}

fn without_nulls(mut fields: Map<String, Value>) -> Map<String, Value> {
    fields.retain(|_, value| !value.is_null());
    fields
}

fn index_of(kind: &str, fields: &Map<String, Value>) -> Result<u64, LlmError> {
    fields.get("index").and_then(count).ok_or_else(|| protocol(format!("a {kind} has no index")))
}

/// A whole number, however it is spelled (`10`, `10.0`); nothing for any other value.
pub(crate) fn count(value: &Value) -> Option<u64> {
    let whole = |double: f64| (0.0..=9_007_199_254_740_992.0).contains(&double) && double.fract() == 0.0;
    value.as_u64().or_else(|| {
        let double = value.as_f64().filter(|double| whole(*double))?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and in range")]
        Some(double as u64)
    })
}

/// Whether an event or a body reports an error: by its type, or by nothing but a field of that name.
fn is_error(fields: &Map<String, Value>) -> bool {
    match fields.get("type") {
        Some(kind) => kind == "error",
        None => reports_error(fields),
    }
}

fn reports_error(fields: &Map<String, Value>) -> bool {
    let says_nothing = |error: &Value| matches!(error, Value::Null | Value::Bool(false)) || error == "";
    fields.get("error").is_some_and(|error| !says_nothing(error))
}

/// The error in an object of the shape `{"error": {..}}`, `{"error": "text"}` or `{"code": .., "message": ..}`.
fn error_of_fields(mut fields: Map<String, Value>) -> LlmError {
    let request_id = take_text(&mut fields, "request_id");
    let mut reported = match fields.remove("error") {
        Some(Value::Object(nested)) => nested,
        Some(Value::String(message)) => Map::from_iter([("message".to_owned(), Value::String(message))]),
        _ => {
            fields.remove("type");
            fields
        }
    };
    let detail = match reported.remove("details") {
        Some(Value::Object(mut details)) => take_text(&mut details, "error_code"),
        _ => None,
    };
    // Gateways give the code of the server behind them in `code`, as text or as a number.
    let code = match reported.remove("code") {
        Some(Value::Number(number)) => Some(number.to_string()),
        Some(Value::String(code)) => Some(code),
        _ => None,
    };
    // From the most to the least telling; the kind is that of the first one known.
    let names = [detail, code, take_text(&mut reported, "type")];
    let kind = names.iter().flatten().find_map(|name| kind_of_code(name)).unwrap_or(ErrorKind::Server);
    let code = names.into_iter().flatten().next();
    let message = match take_text(&mut reported, "message") {
        Some(message) => message,
        None if reported.is_empty() => String::new(),
        None => Value::Object(reported).to_string(),
    };

    let mut error = LlmError::new(kind, start_of(&message, 2000));
    error.code = code.map(|code| beginning_of(&code));
    error.request_id = request_id.map(|id| beginning_of(&id));
    error
}

fn kind_of_code(code: &str) -> Option<ErrorKind> {
    match code {
        "invalid_request_error" | "not_found_error" | "conflict_error" | "request_too_large" => {
            Some(ErrorKind::InvalidRequest)
        }
        "authentication_error" | "permission_error" => Some(ErrorKind::Authentication),
        "billing_error" | SPENT => Some(ErrorKind::Billing),
        "rate_limit_error" => Some(ErrorKind::RateLimited),
        "overloaded_error" => Some(ErrorKind::Overloaded),
        "api_error" | "timeout_error" => Some(ErrorKind::Server),
        code => match code.parse() {
            Ok(status @ 400..=599) => Some(ErrorKind::of_status(status)),
            _ => None,
        },
    }
}

pub(super) fn protocol(message: impl Into<String>) -> LlmError {
    LlmError::new(ErrorKind::Protocol, message)
}

/// Enough of a text to recognise it by.
pub(crate) fn beginning_of(text: &str) -> String {
    start_of(text.trim(), 200)
}

/// At most so many characters of a text by a server, since it is recorded and shown.
pub(crate) fn start_of(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text.to_owned(),
    }
}

/// A 429 with this detail is a spending limit, not a rate; waiting does not help.
const SPENT: &str = "enforced_spend_limit_reached";
