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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// It happened, with this outcome.
    Outcome(ToolOutcome),
    /// It did not happen and cannot any more: it may be run again.
    NotDone {},
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
