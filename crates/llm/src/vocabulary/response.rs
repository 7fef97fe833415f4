//! What a model answered, and why it stopped.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{Content, ContentBlock, Message, Usage, is_default, null_as_default, without_own};

/// An answer, whole. How it came is no part of it: one answer is the same whether it was streamed or not.
///
/// # Recorded form
///
/// A JSON object with the fields below; `stop_sequence`, `service_tier`, a missing stop reason and counts of zero are
/// left out, and further fields stand among them. The markers of the wire (`"type": "message"`,
/// `"role": "assistant"`) are not recorded.
///
/// # Examples
///
/// ```
/// use relight_llm::{ContentBlock, MessageResponse, StopReason, Usage};
///
/// let response = MessageResponse::new("msg_1", "some-model", ContentBlock::text("Hello"), StopReason::EndTurn)
///     .with_usage(Usage::new(10, 2));
/// assert_eq!(response.text(), "Hello");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MessageResponse {
    /// The server's name for this answer.
    pub id: String,
    /// The model that answered.
    pub model: String,
    /// What it answered.
    #[serde(default, deserialize_with = "null_as_default")]
    pub content: Content,
    /// Why it stopped.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub stop_reason: StopReason,
    /// Which of the request's stop sequences it ran into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_sequence: Option<String>,
    /// What it cost.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub usage: Usage,
    /// The service tier that really served it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// Further fields, as they came. One with the name of a field above is not recorded.
    #[serde(flatten, serialize_with = "further")]
    pub extra: Map<String, Value>,
}

impl MessageResponse {
    /// An answer that cost nothing, as a provider of one's own may give it.
    pub fn new(
        id: impl Into<String>,
        model: impl Into<String>,
        content: impl Into<Content>,
        stop_reason: StopReason,
    ) -> MessageResponse {
        MessageResponse {
            id: id.into(),
            model: model.into(),
            content: content.into(),
            stop_reason,
            ..MessageResponse::default()
        }
    }

    /// Says what the answer cost.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> MessageResponse {
        self.usage = usage;
        self
    }

    /// All text of the answer, joined.
    pub fn text(&self) -> String {
        self.content.text()
    }

    /// The calls the model asks for: id, name and arguments. Calls that were cut off are not among them.
    pub fn tool_uses(&self) -> impl Iterator<Item = (&str, &str, &Value)> {
        self.content.iter().filter_map(|block| match block {
            ContentBlock::ToolUse { id, name, input } => Some((id.as_str(), name.as_str(), input)),
            _ => None,
        })
    }

    /// The answer as the conversation's next message, with everything the model said, signatures included.
    pub fn to_message(&self) -> Message {
        Message::assistant_blocks(self.content.clone())
    }
}

/// The fields that have their own place in an answer, and the wire's markers.
pub(crate) const OWN_FIELDS: [&str; 9] =
    ["type", "role", "id", "model", "content", "stop_reason", "stop_sequence", "usage", "service_tier"];

fn further<S: Serializer>(extra: &Map<String, Value>, serializer: S) -> Result<S::Ok, S::Error> {
    without_own(extra, &OWN_FIELDS, serializer)
}

/// Why a model stopped.
///
/// Recorded as the Messages API spells it (`"end_turn"`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum StopReason {
    /// No reason was given: the answer was cut, or the server leaves it out.
    #[default]
    Missing,
    /// The answer is finished.
    EndTurn,
    /// The request's `max_tokens` were used up; the answer is cut.
    MaxTokens,
    /// One of the request's stop sequences came up.
    StopSequence,
    /// The model waits for the results of the tools it called.
    ToolUse,
    /// A long turn was interrupted; sending the answer back goes on with it.
    PauseTurn,
    /// The model refuses to answer.
    Refusal,
    /// The model's context window is full; the answer is cut.
    ModelContextWindowExceeded,
    /// A reason that this version does not know, as it came.
    Other(String),
}

impl StopReason {
    /// As the Messages API spells it; empty for [`StopReason::Missing`].
    pub fn as_str(&self) -> &str {
        match self {
            StopReason::Missing => "",
            StopReason::EndTurn => "end_turn",
            StopReason::MaxTokens => "max_tokens",
            StopReason::StopSequence => "stop_sequence",
            StopReason::ToolUse => "tool_use",
            StopReason::PauseTurn => "pause_turn",
            StopReason::Refusal => "refusal",
            StopReason::ModelContextWindowExceeded => "model_context_window_exceeded",
            StopReason::Other(reason) => reason,
        }
    }
}

impl From<String> for StopReason {
    fn from(reason: String) -> StopReason {
        match reason.as_str() {
            "" => StopReason::Missing,
            "end_turn" => StopReason::EndTurn,
            "max_tokens" => StopReason::MaxTokens,
            "stop_sequence" => StopReason::StopSequence,
            "tool_use" => StopReason::ToolUse,
            "pause_turn" => StopReason::PauseTurn,
            "refusal" => StopReason::Refusal,
            "model_context_window_exceeded" => StopReason::ModelContextWindowExceeded,
            _ => StopReason::Other(reason),
        }
    }
}

impl From<StopReason> for String {
    fn from(reason: StopReason) -> String {
        reason.as_str().to_owned()
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopReason::Missing => f.write_str("no reason given"),
            reason => f.write_str(reason.as_str()),
        }
    }
}
