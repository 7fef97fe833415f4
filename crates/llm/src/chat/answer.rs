//! Whole answers and refusals of this API.

use std::time::SystemTime;

use serde_json::Value;

use super::Decoder;
use crate::error::{ErrorKind, LlmError};
use crate::fold::Fold;
use crate::messages::read_object;
use crate::openai::{self, error_of_fields, is_error};
use crate::vocabulary::MessageResponse;

/// Reads a body that is a whole answer, by way of the same decoder and fold as a stream. `model` is the request's, for
/// a server that does not name its own.
///
/// # Errors
///
/// [`ErrorKind::Protocol`] if it is no answer; or the error that it reports in spite of its status.
pub fn decode_body(body: &[u8], model: &str) -> Result<MessageResponse, LlmError> {
    let fields = read_object("the body", &String::from_utf8_lossy(body))?;
    let has_choice =
        fields.get("choices").and_then(Value::as_array).is_some_and(|choices| !choices.is_empty());
    if !has_choice && is_error(&fields) {
        return Err(error_of_fields(fields));
    }
    if !has_choice {
        return Err(LlmError::new(ErrorKind::Protocol, "the answer has no choice"));
    }
    let mut decoder = Decoder::new(model);
    decoder.take(fields);
    decoder.end();
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
