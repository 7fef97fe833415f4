//! Errors as servers of OpenAI's dialects report them, in every shape that was seen.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

use super::take_text;
use crate::error::{ErrorKind, LlmError};
use crate::messages::{beginning_of, count, read_object, start_of};

/// The error that a body with an unsuccessful status reports. Some servers say in it when the limit will be lifted.
pub(crate) fn error_of_body(status: u16, body: &[u8], now: SystemTime) -> LlmError {
    let body = String::from_utf8_lossy(body);
    let mut error = match read_object("the body", &body) {
        Ok(fields) => {
            let wait = wait(&fields, now);
            let mut error = error_of_fields(fields);
            error.retry_after = wait;
            error
        }
        Err(_) => LlmError::new(ErrorKind::Server, beginning_of(&body)),
    };
    error.kind = match (ErrorKind::of_status(status), error.kind) {
        // A 429 may be a rate, which passes, or a quota, which does not.
        (ErrorKind::RateLimited, ErrorKind::Billing) => ErrorKind::Billing,
        (kind, _) => kind,
    };
    error.with_status(status)
}

/// Whether an event or a body reports an error: by its type, or by nothing but a field of that name.
pub(crate) fn is_error(fields: &Map<String, Value>) -> bool {
    match fields.get("type").and_then(Value::as_str) {
        Some("error" | "response.error") => true,
        Some(kind) if kind.starts_with("response.") => false,
        _ => fields.get("error").is_some_and(says_something),
    }
}

fn says_something(error: &Value) -> bool {
    !matches!(error, Value::Null | Value::Bool(false)) && error != ""
}

/// The error in an object of the shape `{"error": {..}}`, `{"error": "text"}` or `{"code": .., "message": ..}`.
pub(crate) fn error_of_fields(mut fields: Map<String, Value>) -> LlmError {
    let request_id = take_text(&mut fields, "request_id");
    let status =
        ["status", "status_code"].iter().find_map(|name| fields.remove(*name)).and_then(|s| count(&s));
    let mut reported = match fields.remove("error") {
        Some(Value::Object(nested)) => nested,
        Some(Value::String(message)) => Map::from_iter([("message".to_owned(), Value::String(message))]),
        _ => fields,
    };
    let code = match reported.remove("code") {
        Some(Value::Number(number)) => Some(number.to_string()),
        Some(Value::String(code)) => Some(code),
        _ => None,
    };
    let kind =
        take_text(&mut reported, "type").filter(|kind| kind != "error" && !kind.starts_with("response."));
    // From the most to the least telling; the kind is that of the first one known.
    let names = [code, kind];
    let status =
        status.and_then(|status| u16::try_from(status).ok()).filter(|status| (400..600).contains(status));
    let kind = names
        .iter()
        .flatten()
        .find_map(|name| kind_of_code(name))
        .or(status.map(ErrorKind::of_status))
        .unwrap_or(ErrorKind::Server);
    let message = ["message", "detail"]
        .iter()
        .find_map(|name| take_text(&mut reported, name))
        .unwrap_or_else(|| beginning_of(&Value::Object(reported).to_string()));

    let mut error = LlmError::new(kind, start_of(&message, 2000));
    error.status = status;
    error.code = names.into_iter().flatten().next().map(|code| beginning_of(&code));
    error.request_id = request_id.map(|id| beginning_of(&id));
    error
}

fn kind_of_code(code: &str) -> Option<ErrorKind> {
    match code {
        "invalid_request_error"
        | "invalid_request"
        | "invalid_prompt"
        | "bad_request"
        | "not_found_error"
        | "model_not_found"
        | "context_length_exceeded"
        | "string_above_max_length"
        | "unsupported_parameter"
        | "unsupported_value"
        | "previous_response_not_found"
        | "bio_policy"
        | "data_residency_mismatch" => Some(ErrorKind::InvalidRequest),
        "invalid_api_key" | "authentication_error" | "permission_error" | "permission_denied" => {
            Some(ErrorKind::Authentication)
        }
        "insufficient_quota"
        | "usage_limit_reached"
        | "usage_not_included"
        | "billing_error"
        | "billing_hard_limit_reached"
        | "insufficient_credits" => Some(ErrorKind::Billing),
        "rate_limit_exceeded" | "rate_limit_error" | "requests" | "tokens" => Some(ErrorKind::RateLimited),
        "server_is_overloaded" | "slow_down" | "overloaded_error" | "engine_overloaded" => {
            Some(ErrorKind::Overloaded)
        }
        "server_error"
        | "api_error"
        | "internal_error"
        | "internal_server_error"
        | "vector_store_timeout" => Some(ErrorKind::Server),
        code => match code.parse() {
            Ok(status @ 400..=599) => Some(ErrorKind::of_status(status)),
            _ => None,
        },
    }
}

/// How long until the limit is lifted, from `resets_at` (seconds since 1970) or `resets_in_seconds`.
fn wait(fields: &Map<String, Value>, now: SystemTime) -> Option<Duration> {
    let reported = fields.get("error").and_then(Value::as_object).unwrap_or(fields);
    let seconds = |name: &str| {
        let seconds = reported.get(name).and_then(Value::as_f64)?;
        Duration::try_from_secs_f64(seconds).ok()
    };
    let until = |at: Duration| SystemTime::UNIX_EPOCH.checked_add(at)?.duration_since(now).ok();
    seconds("resets_in_seconds").or_else(|| until(seconds("resets_at")?)).filter(|wait| !wait.is_zero())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of_body(status: u16, body: Value) -> LlmError {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        error_of_body(status, body.to_string().as_bytes(), now)
    }

    #[test]
    fn a_429_that_is_a_quota_is_told_apart_from_a_rate() {
        for code in ["insufficient_quota", "usage_limit_reached"] {
            let error = of_body(429, json!({ "error": { "message": "m", "type": code, "code": code } }));
            assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::Billing, Some(code)));
        }
        let rate = json!({ "error": { "message": "m", "type": "tokens", "code": "rate_limit_exceeded" } });
        assert_eq!(of_body(429, rate).kind, ErrorKind::RateLimited);
    }

    #[test]
    fn a_429_with_resets_at_says_how_long_to_wait() {
        for fields in [json!({ "resets_at": 1042 }), json!({ "resets_in_seconds": 42.0 })] {
            for body in [json!({ "error": fields }), fields] {
                assert_eq!(of_body(429, body).retry_after, Some(Duration::from_secs(42)));
            }
        }
        for nonsense in [json!(999), json!(-5), json!("soon"), json!(1e300), json!(null)] {
            assert_eq!(of_body(429, json!({ "error": { "resets_at": nonsense } })).retry_after, None);
        }
    }

    #[test]
    fn a_402_is_a_matter_of_money() {
        let error =
            of_body(402, json!({ "error": { "message": "You can only afford 12 tokens.", "code": 402 } }));
        assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::Billing, Some("402")));
    }

    #[test]
    fn bodies_of_any_shape_are_the_error_they_report() {
        for body in [
            json!({ "error": { "message": "m" } }),
            json!({ "error": "m" }),
            json!({ "message": "m" }),
            json!({ "object": "error", "message": "m", "type": "BadRequestError", "code": 400 }),
            json!({ "detail": "m" }),
        ] {
            let error = of_body(400, body.clone());
            assert_eq!((error.kind, error.message.as_str()), (ErrorKind::InvalidRequest, "m"), "{body}");
        }
        let html = error_of_body(502, b"<html>Bad Gateway</html>", SystemTime::UNIX_EPOCH);
        assert_eq!((html.kind, html.message.as_str()), (ErrorKind::Server, "<html>Bad Gateway</html>"));
    }
}
