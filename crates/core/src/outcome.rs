//! How a tool call ended, as typed data: what it returned, how it failed, or what a person said of it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Seq, budget::Limit};

/// How a tool call ended. Told apart by its tag, never by the shape of the value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// The tool returned this value, of any shape.
    Returned(Value),
    /// The tool failed, and nothing is left to settle.
    Failed(ToolFailure),
}

/// Why a tool call failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFailure {
    /// A short word for programs, such as `timed_out`.
    pub code: String,
    /// One line for people and models.
    pub message: String,
}

impl fmt::Display for ToolFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

/// What a person found out about a write whose outcome was unknown.
///
/// Written as one of the fields `outcome` and `not_done` of [`Event::Resolved`](crate::Event::Resolved).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "Word", try_from = "Word")]
pub enum Resolution {
    /// It happened, with this outcome.
    Outcome(ToolOutcome),
    /// It did not happen and cannot any more: it may be run again.
    NotDone {},
}

/// The written form of a [`Resolution`].
#[derive(Serialize, Deserialize)]
struct Word {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome: Option<ToolOutcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_done: Option<NotDone>,
}

/// An object without fields, so that some may be added.
#[derive(Serialize, Deserialize)]
struct NotDone {}

impl From<Resolution> for Word {
    fn from(resolution: Resolution) -> Self {
        match resolution {
            Resolution::Outcome(outcome) => Self { outcome: Some(outcome), not_done: None },
            Resolution::NotDone {} => Self { outcome: None, not_done: Some(NotDone {}) },
        }
    }
}

impl TryFrom<Word> for Resolution {
    type Error = &'static str;

    fn try_from(word: Word) -> Result<Self, Self::Error> {
        match (word.outcome, word.not_done) {
            (Some(outcome), None) => Ok(Self::Outcome(outcome)),
            (None, Some(NotDone {})) => Ok(Self::NotDone {}),
            (Some(_), Some(_)) => Err("a write cannot have an outcome and not be done"),
            (None, None) => Err("neither `outcome` nor `not_done` is given"),
        }
    }
}

/// What a suspended run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "for")]
#[non_exhaustive]
pub enum WaitReason {
    /// Somebody who says whether the write at `intent` happened.
    Reconciliation {
        /// The intent whose outcome is unknown.
        intent: Seq,
        /// Why nothing could find out by itself.
        why: String,
    },
    /// A higher limit.
    Budget {
        /// The limit that was reached.
        limit: Limit,
    },
}
