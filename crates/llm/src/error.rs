//! Why a call to a model failed, as plain data that can be recorded and read back.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::vocabulary::{MessageResponse, is_default, null_as_default};

/// Why a call failed.
///
/// All of it is plain data, equal to what is read back from its recorded form. The live [`Error::source`], if there is
/// one, hangs beside it and takes no part in either.
///
/// # Examples
///
/// ```
/// use relight_llm::{ErrorKind, LlmError};
///
/// let error = LlmError::new(ErrorKind::Overloaded, "the model is busy").with_status(529);
/// assert_eq!(error.to_string(), "the server is overloaded; try again later (status 529): the model is busy");
///
/// let recorded = serde_json::to_string(&error)?;
/// assert_eq!(serde_json::from_str::<LlmError>(&recorded)?, error);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LlmError {
    /// What a caller would act on.
    pub kind: ErrorKind,
    /// How far the answer had come.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub stage: Stage,
    /// The HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The server's own code (`overloaded_error`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What is wrong, for a person.
    pub message: String,
    /// The server's name for the call, to be quoted to its support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// How long the server asks to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// The answer as far as it came. Calls of tools in it must not be run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Box<MessageResponse>>,
    #[serde(skip)]
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl LlmError {
    /// An error of this kind; `message` is shown to people and recorded, so it must hold no secret.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> LlmError {
        LlmError {
            kind,
            stage: Stage::BeforeAnswer,
            status: None,
            code: None,
            message: message.into(),
            request_id: None,
            retry_after: None,
            partial: None,
            source: None,
        }
    }

    /// States the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> LlmError {
        self.status = Some(status);
        self
    }

    /// States the server's own code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> LlmError {
        self.code = Some(code.into());
        self
    }

    /// States the server's name for the call.
    #[must_use]
    pub fn with_request_id(mut self, id: impl Into<String>) -> LlmError {
        self.request_id = Some(id.into());
        self
    }

    /// States how long the server asks to wait.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> LlmError {
        self.retry_after = Some(wait);
        self
    }

    /// Keeps the answer as far as it came.
    #[must_use]
    pub fn with_partial(mut self, partial: MessageResponse) -> LlmError {
        self.partial = Some(Box::new(partial));
        self
    }

    /// Says that the answer had begun to arrive.
    #[must_use]
    pub fn mid_stream(mut self) -> LlmError {
        self.stage = Stage::MidStream;
        self
    }

    /// Hangs the error below beside this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> LlmError {
        self.source = Some(Arc::new(source));
        self
    }
}

/// What a caller would act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The client's settings contradict each other or name nothing that exists.
    Configuration,
    /// The request is at fault; it will fail again.
    InvalidRequest,
    /// The key is missing, wrong, or not allowed to do this.
    Authentication,
    /// The account has no money or no quota left.
    Billing,
    /// Too many requests; it may work later.
    RateLimited,
    /// The server has too much to do; it may work later.
    Overloaded,
    /// The server failed.
    Server,
    /// The server could not be reached, or the connection broke.
    Connection,
    /// A time limit of the client ran out.
    Timeout,
    /// The answer ended before it was complete.
    Truncated,
    /// What the server sent is not what its protocol promises.
    Protocol,
    /// The answer is larger than the client's limits allow.
    TooLarge,
    /// A kind that this version does not know, from a record by a newer one, or of a provider of one's own.
    #[serde(other)]
    Other,
}

impl ErrorKind {
    /// The kind for an HTTP status that is not a success.
    pub fn of_status(status: u16) -> ErrorKind {
        match status {
            401 | 403 => ErrorKind::Authentication,
            402 => ErrorKind::Billing,
            429 => ErrorKind::RateLimited,
            503 | 529 => ErrorKind::Overloaded,
            400..=499 => ErrorKind::InvalidRequest,
            500..=599 => ErrorKind::Server,
            _ => ErrorKind::Protocol,
        }
    }

    fn says(self) -> &'static str {
        match self {
            ErrorKind::Configuration => "the client's settings are at fault",
            ErrorKind::InvalidRequest => "the request is at fault",
            ErrorKind::Authentication => {
                "the server refuses the key; check that it is set, valid and allowed to do this"
            }
            ErrorKind::Billing => "the account's money or quota is used up; check its billing",
            ErrorKind::RateLimited => "the rate limit is reached; try again later",
            ErrorKind::Overloaded => "the server is overloaded; try again later",
            ErrorKind::Server => "the server failed",
            ErrorKind::Connection => "the connection failed",
            ErrorKind::Timeout => "a time limit ran out",
            ErrorKind::Truncated => "the answer was cut off",
            ErrorKind::Protocol => "the server's answer cannot be understood",
            ErrorKind::TooLarge => "the answer is over the client's limit",
            ErrorKind::Other => "the model call failed",
        }
    }
}

/// How far the answer had come when the call failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Nothing of the answer had arrived.
    #[default]
    BeforeAnswer,
    /// The answer had begun to arrive.
    MidStream,
}

impl fmt::Display for LlmError {
    /// One line: the stage, what happened, the status and the server's code, the message, the wait that the server asks
    /// for, the request's id.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.stage == Stage::MidStream {
            f.write_str("Stream error: ")?;
        }
        f.write_str(self.kind.says())?;
        match (self.status, self.code.as_deref().map(one_line)) {
            (Some(status), Some(code)) => write!(f, " (status {status}, {code})")?,
            (Some(status), None) => write!(f, " (status {status})")?,
            (None, Some(code)) => write!(f, " ({code})")?,
            (None, None) => {}
        }
        if !self.message.is_empty() {
            write!(f, ": {}", one_line(&self.message))?;
        }
        if let Some(wait) = self.retry_after {
            write!(f, " [retry after {wait:?}]")?;
        }
        if let Some(id) = &self.request_id {
            write!(f, " [request {}]", one_line(id))?;
        }
        Ok(())
    }
}

/// A text by a server, without what would break the line or drive the terminal.
fn one_line(text: &str) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    text.chars().map(|c| if breaks(c) { ' ' } else { c }).collect()
}

impl fmt::Debug for LlmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The source is left out: a foreign error's text may hold what must not be shown.
        f.debug_struct("LlmError")
            .field("kind", &self.kind)
            .field("stage", &self.stage)
            .field("status", &self.status)
            .field("code", &self.code)
            .field("message", &self.message)
            .field("request_id", &self.request_id)
            .field("retry_after", &self.retry_after)
            .field("partial", &self.partial)
            .finish_non_exhaustive()
    }
}

impl PartialEq for LlmError {
    fn eq(&self, other: &LlmError) -> bool {
        self.kind == other.kind
            && self.stage == other.stage
            && self.status == other.status
            && self.code == other.code
            && self.message == other.message
            && self.request_id == other.request_id
            && self.retry_after == other.retry_after
            && self.partial == other.partial
    }
}

impl Error for LlmError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::{ContentBlock, StopReason};

    fn full() -> LlmError {
        LlmError::new(ErrorKind::RateLimited, "slow\ndown")
            .with_status(429)
            .with_code("rate_limit_error")
            .with_request_id("req_1")
            .with_retry_after(Duration::from_millis(1500))
            .with_partial(MessageResponse::new("msg_1", "m", ContentBlock::text("Hel"), StopReason::Missing))
    }

    #[test]
    fn a_recorded_error_reads_back_equal_and_without_its_source() {
        let live = full().mid_stream().with_source(std::io::Error::other("reset"));
        assert!(live.source().is_some());
        let recorded = serde_json::to_string(&live).unwrap();
        assert!(!recorded.contains("reset"), "{recorded}");
        let read: LlmError = serde_json::from_str(&recorded).unwrap();
        assert_eq!(read, live);
        assert!(read.source().is_none());
    }

    #[test]
    fn an_error_is_shown_on_one_line() {
        let shown = full().to_string();
        assert_eq!(
            shown,
            "the rate limit is reached; try again later (status 429, rate_limit_error): slow down \
             [retry after 1.5s] [request req_1]"
        );
    }

    #[test]
    fn an_error_after_the_first_event_says_so_at_its_start() {
        assert!(full().mid_stream().to_string().starts_with("Stream error"));
    }

    #[test]
    fn a_refused_key_names_the_way_out() {
        let error = LlmError::new(ErrorKind::of_status(401), "invalid x-api-key");
        assert!(error.to_string().contains("check that it is set"), "{error}");
    }

    #[test]
    fn a_kind_of_a_newer_version_is_read_as_other() {
        let read: LlmError = serde_json::from_str(r#"{"kind":"brand_new","message":"m"}"#).unwrap();
        assert_eq!(read.kind, ErrorKind::Other);
    }

    #[test]
    fn an_error_is_small_enough_to_return_by_value() {
        assert!(size_of::<LlmError>() <= 128, "{}", size_of::<LlmError>());
    }
}
