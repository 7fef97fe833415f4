//! What a listing shows of a run: the projection of its log that a store keeps in columns.

use std::{collections::BTreeMap, fmt, str::FromStr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{ParseIdError, RunId, Seq, TokenUsage, WaitReason};

/// What a run is up to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunStatus {
    /// It is driven, or may be at once.
    Running,
    /// It waits for something outside.
    Waiting {
        /// For what.
        reason: WaitReason,
    },
    /// A write's outcome is unknown, and a person has to say.
    NeedsReconciliation {
        /// The write's intent.
        intent: Seq,
        /// Why nothing could find out by itself.
        why: String,
    },
    /// It is asked to end and settles what is open.
    Cancelling,
    /// It ended with an output.
    Completed,
    /// It ended because its code gave up.
    Failed {
        /// A short word for programs.
        code: String,
        /// One line for people.
        message: String,
    },
    /// It was ended from outside.
    Cancelled,
}

impl RunStatus {
    /// The status without its details.
    pub const fn kind(&self) -> StatusKind {
        match self {
            Self::Running => StatusKind::Running,
            Self::Waiting { .. } => StatusKind::Waiting,
            Self::NeedsReconciliation { .. } => StatusKind::NeedsReconciliation,
            Self::Cancelling => StatusKind::Cancelling,
            Self::Completed => StatusKind::Completed,
            Self::Failed { .. } => StatusKind::Failed,
            Self::Cancelled => StatusKind::Cancelled,
        }
    }
}

/// A [`RunStatus`] without its details, for filters and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StatusKind {
    /// [`RunStatus::Running`].
    Running,
    /// [`RunStatus::Waiting`].
    Waiting,
    /// [`RunStatus::NeedsReconciliation`].
    NeedsReconciliation,
    /// [`RunStatus::Cancelling`].
    Cancelling,
    /// [`RunStatus::Completed`].
    Completed,
    /// [`RunStatus::Failed`].
    Failed,
    /// [`RunStatus::Cancelled`].
    Cancelled,
}

impl StatusKind {
    /// Every kind, in the order of a run's life.
    pub const ALL: [Self; 7] = [
        Self::Running,
        Self::Waiting,
        Self::NeedsReconciliation,
        Self::Cancelling,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The word for it in columns and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::NeedsReconciliation => "needs_reconciliation",
            Self::Cancelling => "cancelling",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the run is over.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

impl fmt::Display for StatusKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for StatusKind {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| ParseIdError::new("status", text))
    }
}

/// What a listing shows of a run. Computed from the log by whoever appends to it; a store only keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The run.
    pub run_id: RunId,
    /// Which agent's code it belongs to.
    pub agent_hash: String,
    /// For searching.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What it is up to.
    pub status: RunStatus,
    /// When its first event was recorded.
    pub started_at: Timestamp,
    /// When its last event was recorded.
    pub updated_at: Timestamp,
    /// When it wants to be driven again, where it waits for a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_at: Option<Timestamp>,
    /// How many events its log holds.
    pub events: u64,
    /// How many drives it has had that noted their start.
    pub drives: u64,
    /// How many model calls completed.
    pub model_calls: u64,
    /// How many tool calls ended.
    pub tool_calls: u64,
    /// Tokens of all completed model calls.
    pub usage: TokenUsage,
}
