//! What can stop a drive, and how to go on.

use relight_canonical::NotJson;
use relight_core::{Divergence, LogError, Process, RunId, Seq, StatusKind, budget::Limit};
use relight_llm::LlmError;
use relight_store::StoreError;
use serde_json::Value;

/// Why a drive stopped, or why an operation on a run was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The store refused or failed. On a conflict another driver is ahead: stop.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log cannot be read or continued.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The model failed. Code may go on from this error, which records it; a run that ends with it may be resumed.
    #[error("{0}")]
    Model(LlmError),
    /// The code asks for something else than the log records.
    #[error(transparent)]
    Diverged(#[from] Box<Divergence>),
    /// An operation of this context was dropped before it ended, so what it did is not known here.
    #[error(
        "an operation of run {run} was dropped before it ended, so this context cannot go on; resume the run \
         (time limits belong inside the operation, not around it)"
    )]
    Dropped {
        /// The run.
        run: RunId,
    },
    /// This context stopped at an earlier error.
    #[error("this context of run {run} stopped at an earlier error; resume the run to go on (it was: {why})")]
    Stopped {
        /// The run.
        run: RunId,
        /// The earlier error.
        why: String,
    },
    /// Nothing can find out whether a write happened; a person has to say.
    #[error(transparent)]
    NeedsReconciliation(#[from] Box<UnknownWrite>),
    /// A limit is used up.
    #[error(
        "run {run} has used up its limit on {limit}; raise it with `relight resume {run} --raise {limit}=N`"
    )]
    OverBudget {
        /// The run.
        run: RunId,
        /// The limit.
        limit: Limit,
    },
    /// The code gave up; the run ends with this.
    #[error("{message} ({code})")]
    Failed {
        /// A short word for programs.
        code: String,
        /// One line for people.
        message: String,
    },
    /// The run has ended.
    #[error("run {run} has ended ({status}); nothing can be added to it")]
    Ended {
        /// The run.
        run: RunId,
        /// How it ended.
        status: StatusKind,
    },
    /// Another process drives the run.
    #[error("run {run} is being driven by process {} on host {}; stop it, or wait for it", process.pid, process.host)]
    StillDriven {
        /// The run.
        run: RunId,
        /// Who drives it.
        process: Box<Process>,
    },
    /// A person spoke of an event that does not wait for their word.
    #[error(
        "event {intent} of run {run} is not a tool call whose outcome is open; `relight show {run}` lists those"
    )]
    NotOpen {
        /// The run.
        run: RunId,
        /// The event.
        intent: Seq,
    },
    /// The context was used before the run was begun, or begun twice.
    #[error("run {run}: {what}")]
    Misuse {
        /// The run.
        run: RunId,
        /// What was done, and what to do.
        what: &'static str,
    },
    /// A value is not JSON.
    #[error(transparent)]
    NotJson(#[from] NotJson),
    /// An agent cannot be built.
    #[error("the agent cannot be built: {0}")]
    InvalidAgent(String),
}

impl RuntimeError {
    /// The code's own decision to end the run.
    pub fn failed(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Failed { code: code.into(), message: message.into() }
    }
}

/// A write whose outcome is unknown, with what a person needs to find out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "run {run} waits for a person: whether {tool} (event {intent}) was done is unknown: {why}; find out, then \
     `relight resolve {run} {intent}`, and resume the run"
)]
#[non_exhaustive]
pub struct UnknownWrite {
    /// The run.
    pub run: RunId,
    /// The write's intent.
    pub intent: Seq,
    /// The tool's name.
    pub tool: String,
    /// What the tool was given.
    pub input: Value,
    /// The key that the tool was given.
    pub idempotency_key: String,
    /// Why nothing could find out.
    pub why: String,
}
