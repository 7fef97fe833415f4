//! What is written down in a log: one enum, a constructor for each variant, and how they relate.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Digest, Effect, Process, Resolution, Seq, TokenUsage, ToolOutcome, WaitReason, budget::Limit,
    request::RecordedRequest, wire::null_as_default,
};

/// One thing that happened in a run.
///
/// On disk: `{"kind": "run_started", "payload": {..}}`. Fields are only ever added, and only such that old bytes
/// stay valid; an optional field that is absent equals one that is null. The payloads of inputs, outcomes and
/// responses are kept as they were given.
///
/// # Examples
///
/// ```
/// use relight_core::Event;
/// let event = Event::run_started("sha256:…", serde_json::json!({"question": "why?"}));
/// assert_eq!(event.kind(), "run_started");
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "payload", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The run exists.
    #[non_exhaustive]
    RunStarted {
        /// Which agent's code the run belongs to; opaque.
        agent_hash: String,
        /// What the run was given.
        input: Value,
        /// For searching in lists.
        #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
        labels: BTreeMap<String, String>,
    },
    /// A process began to drive the run.
    #[non_exhaustive]
    DriveStarted {
        /// How many drives there have been, this one included.
        drive: u64,
        /// Who drives.
        process: Process,
        /// The lease's epoch, where the drive holds one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<u64>,
        /// The version of the code that drives.
        code: String,
    },
    /// Intent: a model is about to be called.
    #[non_exhaustive]
    ModelCallRequested {
        /// What identifies the request in replay.
        request_hash: Digest,
        /// The request itself, unless the run records hashes only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RecordedRequest>,
    },
    /// Completion: the model answered.
    #[non_exhaustive]
    ModelCallCompleted {
        /// The intent that this settles.
        intent: Seq,
        /// The answer.
        response: Value,
        /// What it cost.
        usage: TokenUsage,
    },
    /// Completion: the model failed, and the code went on from there.
    #[non_exhaustive]
    ModelCallFailed {
        /// The intent that this settles.
        intent: Seq,
        /// The error that the code was given.
        error: Value,
    },
    /// Intent: a tool is about to be called.
    #[non_exhaustive]
    ToolCallRequested {
        /// The tool's name.
        tool: String,
        /// What it is given.
        input: Value,
        /// What it does to the world.
        effect: Effect,
        /// What makes repeated attempts recognisable to the tool's target.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
    },
    /// Completion: the tool call ended.
    #[non_exhaustive]
    ToolCallCompleted {
        /// The intent that this settles.
        intent: Seq,
        /// How it ended.
        outcome: ToolOutcome,
    },
    /// A person said what became of a write.
    #[non_exhaustive]
    Resolved {
        /// The intent they spoke of.
        intent: Seq,
        /// What became of it.
        #[serde(flatten)]
        resolution: Resolution,
        /// Who said so.
        by: String,
    },
    /// The run stopped to wait.
    #[non_exhaustive]
    Suspended {
        /// What it waits for.
        reason: WaitReason,
    },
    /// The code was about to go over a limit.
    #[non_exhaustive]
    BudgetExceeded {
        /// Which limit.
        limit: Limit,
        /// What was allowed.
        allowed: u64,
        /// What had been spent.
        spent: u64,
    },
    /// A person raised a limit of this run.
    #[non_exhaustive]
    BudgetRaised {
        /// Which limit.
        limit: Limit,
        /// What is allowed now.
        to: u64,
        /// Who raised it.
        by: String,
    },
    /// A person asked that the run end.
    #[non_exhaustive]
    CancelRequested {
        /// Who asked.
        by: String,
    },
    /// The run ended with this output.
    #[non_exhaustive]
    RunCompleted {
        /// What the code returned.
        output: Value,
    },
    /// The run ended because its code gave up.
    #[non_exhaustive]
    RunFailed {
        /// A short word for programs.
        code: String,
        /// One line for people.
        message: String,
    },
    /// The run was ended from outside.
    #[non_exhaustive]
    RunCancelled {
        /// Intents whose outcome stays unknown.
        #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
        unsettled: Vec<Seq>,
    },
}

/// How an event takes part in replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The run's first event.
    Opening,
    /// The code asked for this; it has an ordinal in its lane.
    Asked,
    /// It settles the intent at this position.
    Settles(Seq),
    /// A driver or an operator wrote it; it has no ordinal and never diverges.
    Note,
    /// The run's last event.
    Closing,
}

impl Event {
    /// The kinds that this version knows, as they are written.
    pub const KINDS: [&'static str; 15] = [
        "run_started",
        "drive_started",
        "model_call_requested",
        "model_call_completed",
        "model_call_failed",
        "tool_call_requested",
        "tool_call_completed",
        "resolved",
        "suspended",
        "budget_exceeded",
        "budget_raised",
        "cancel_requested",
        "run_completed",
        "run_failed",
        "run_cancelled",
    ];

    /// How this event takes part in replay.
    pub const fn role(&self) -> Role {
        match self {
            Self::RunStarted { .. } => Role::Opening,
            Self::ModelCallRequested { .. }
            | Self::ToolCallRequested { .. }
            | Self::BudgetExceeded { .. } => Role::Asked,
            Self::ModelCallCompleted { intent, .. }
            | Self::ModelCallFailed { intent, .. }
            | Self::ToolCallCompleted { intent, .. } => Role::Settles(*intent),
            Self::DriveStarted { .. }
            | Self::Resolved { .. }
            | Self::Suspended { .. }
            | Self::BudgetRaised { .. }
            | Self::CancelRequested { .. } => Role::Note,
            Self::RunCompleted { .. } | Self::RunFailed { .. } | Self::RunCancelled { .. } => Role::Closing,
        }
    }

    /// The kind as it is written.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::RunStarted { .. } => "run_started",
            Self::DriveStarted { .. } => "drive_started",
            Self::ModelCallRequested { .. } => "model_call_requested",
            Self::ModelCallCompleted { .. } => "model_call_completed",
            Self::ModelCallFailed { .. } => "model_call_failed",
            Self::ToolCallRequested { .. } => "tool_call_requested",
            Self::ToolCallCompleted { .. } => "tool_call_completed",
            Self::Resolved { .. } => "resolved",
            Self::Suspended { .. } => "suspended",
            Self::BudgetExceeded { .. } => "budget_exceeded",
            Self::BudgetRaised { .. } => "budget_raised",
            Self::CancelRequested { .. } => "cancel_requested",
            Self::RunCompleted { .. } => "run_completed",
            Self::RunFailed { .. } => "run_failed",
            Self::RunCancelled { .. } => "run_cancelled",
        }
    }

    /// [`Event::RunStarted`] without labels.
    pub fn run_started(agent_hash: impl Into<String>, input: Value) -> Self {
        Self::run_started_with_labels(agent_hash, input, BTreeMap::new())
    }

    /// [`Event::RunStarted`] with labels.
    pub fn run_started_with_labels(
        agent_hash: impl Into<String>,
        input: Value,
        labels: BTreeMap<String, String>,
    ) -> Self {
        Self::RunStarted { agent_hash: agent_hash.into(), input, labels }
    }

    /// [`Event::DriveStarted`] without a lease.
    pub fn drive_started(drive: u64, process: Process, code: impl Into<String>) -> Self {
        Self::DriveStarted { drive, process, epoch: None, code: code.into() }
    }

    /// [`Event::ModelCallRequested`].
    pub const fn model_call_requested(request_hash: Digest, request: Option<RecordedRequest>) -> Self {
        Self::ModelCallRequested { request_hash, request }
    }

    /// [`Event::ModelCallCompleted`].
    pub const fn model_call_completed(intent: Seq, response: Value, usage: TokenUsage) -> Self {
        Self::ModelCallCompleted { intent, response, usage }
    }

    /// [`Event::ModelCallFailed`].
    pub const fn model_call_failed(intent: Seq, error: Value) -> Self {
        Self::ModelCallFailed { intent, error }
    }

    /// [`Event::ToolCallRequested`].
    pub fn tool_call_requested(
        tool: impl Into<String>,
        input: Value,
        effect: Effect,
        idempotency_key: Option<String>,
    ) -> Self {
        Self::ToolCallRequested { tool: tool.into(), input, effect, idempotency_key }
    }

    /// [`Event::ToolCallCompleted`].
    pub const fn tool_call_completed(intent: Seq, outcome: ToolOutcome) -> Self {
        Self::ToolCallCompleted { intent, outcome }
    }

    /// [`Event::Resolved`].
    pub fn resolved(intent: Seq, resolution: Resolution, by: impl Into<String>) -> Self {
        Self::Resolved { intent, resolution, by: by.into() }
    }

    /// [`Event::Suspended`].
    pub const fn suspended(reason: WaitReason) -> Self {
        Self::Suspended { reason }
    }

    /// [`Event::BudgetExceeded`].
    pub const fn budget_exceeded(limit: Limit, allowed: u64, spent: u64) -> Self {
        Self::BudgetExceeded { limit, allowed, spent }
    }

    /// [`Event::BudgetRaised`].
    pub fn budget_raised(limit: Limit, to: u64, by: impl Into<String>) -> Self {
        Self::BudgetRaised { limit, to, by: by.into() }
    }

    /// [`Event::CancelRequested`].
    pub fn cancel_requested(by: impl Into<String>) -> Self {
        Self::CancelRequested { by: by.into() }
    }

    /// [`Event::RunCompleted`].
    pub const fn run_completed(output: Value) -> Self {
        Self::RunCompleted { output }
    }

    /// [`Event::RunFailed`].
    pub fn run_failed(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::RunFailed { code: code.into(), message: message.into() }
    }

    /// [`Event::RunCancelled`].
    pub const fn run_cancelled(unsettled: Vec<Seq>) -> Self {
        Self::RunCancelled { unsettled }
    }
}
