//! Whole answers and refusals of the Responses API.

use std::time::SystemTime;

use serde_json::{Map, Value};

use super::Decoder;
use crate::error::{ErrorKind, LlmError};
use crate::fold::Fold;
use crate::messages::read_object;
use crate::openai::{
    self, error_of_fields, is_error, take_name, take_object, take_text, usage, without_nulls,
};
use crate::vocabulary::{MessageResponse, StopReason, UsageUpdate};

/// Reads a body that is a whole answer, by way of the same decoder and fold as a stream. `model` is the request's, for
/// a server that does not name its own.
///
/// # Errors
///
/// [`ErrorKind::Protocol`] if it is no answer; or the error that it reports in spite of its status.
pub fn decode_body(body: &[u8], model: &str) -> Result<MessageResponse, LlmError> {
    let mut fields = read_object("the body", &String::from_utf8_lossy(body))?;
    if is_error(&fields) && !fields.contains_key("output") {
        return Err(error_of_fields(fields));
    }
    if let Some(response) = take_object(&mut fields, "response") {
        fields = response;
    }
    if !fields.get("output").is_some_and(Value::is_array) && !fields.contains_key("status") {
        return Err(LlmError::new(ErrorKind::Protocol, "the answer has no output"));
    }
    let mut decoder = Decoder::new(model);
    decoder.end("response.completed", fields);
    let mut fold = Fold::new();
    while let Some(event) = decoder.next_event() {
        match event {
            Ok(event) => fold.apply(&event)?,
            Err(error) if fold.has_started() => return Err(error.with_partial(fold.partial())),
            Err(error) => return Err(error),
        }
    }
    fold.finish()
}

/// The error that a body with an unsuccessful status reports, whatever shape it has; `now` tells how long it is until
/// a limit is lifted.
pub fn error_of_body(status: u16, body: &[u8], now: SystemTime) -> LlmError {
    openai::error_of_body(status, body, now)
}

/// What the last word on an answer says, beside its output.
pub(super) struct Ending {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) service_tier: Option<String>,
    pub(super) usage: UsageUpdate,
    pub(super) outcome: Outcome,
    pub(super) extra: Map<String, Value>,
}

pub(super) enum Outcome {
    /// The answer is finished; what it holds says how.
    Completed,
    /// The answer was stopped.
    Incomplete(StopReason),
    Failed(LlmError),
}

impl Ending {
    /// Reads a response object. Some servers end with an event that says otherwise than the object's `status`, which
    /// then counts.
    pub(super) fn read(event: &str, mut fields: Map<String, Value>) -> Ending {
        let status = take_name(&mut fields, "status");
        let status = status.as_deref().filter(|status| !["in_progress", "queued"].contains(status));
        let status = status.or_else(|| event.strip_prefix("response.")).unwrap_or_default();
        let error = take_object(&mut fields, "error");
        let reason = fields
            .get("incomplete_details")
            .and_then(|details| details.get("reason"))
            .and_then(Value::as_str)
            .unwrap_or_default();
        let outcome = match status {
            "failed" => Outcome::Failed(failure(error)),
            "cancelled" => {
                let message = "the response was cancelled at the server";
                Outcome::Failed(LlmError::new(ErrorKind::Other, message).with_code("cancelled"))
            }
            "incomplete" => Outcome::Incomplete(stop_reason(reason)),
            _ => Outcome::Completed,
        };
        let usage = take_object(&mut fields, "usage").map(usage).unwrap_or_default();
        let mut name = |field| take_name(&mut fields, field);
        let (id, model, service_tier) = (name("id"), name("model"), name("service_tier"));
        fields.retain(|name, _| !ECHOES.contains(&name.as_str()));
        Ending { id, model, service_tier, usage, outcome, extra: without_nulls(fields) }
    }
}

fn failure(error: Option<Map<String, Value>>) -> LlmError {
    let Some(mut error) = error else {
        return LlmError::new(ErrorKind::Server, "the response failed, and the server does not say why");
    };
    let message = take_text(&mut error, "message");
    let message = message.unwrap_or_else(|| "the response failed".to_owned());
    error.insert("message".to_owned(), Value::String(message));
    error_of_fields(error)
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "max_output_tokens" | "max_tokens" | "length" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refusal,
        "" => StopReason::Other("incomplete".to_owned()),
        other => StopReason::Other(other.to_owned()),
    }
}

/// Fields of a response that repeat the request, or are read elsewhere. An answer is recorded without them.
const ECHOES: [&str; 32] = [
    "object",
    "created_at",
    "completed_at",
    "background",
    "billing",
    "conversation",
    "error",
    "frequency_penalty",
    "include",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "output",
    "output_text",
    "parallel_tool_calls",
    "presence_penalty",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];
