//! What code asks of a log, and what the log has for it.

use std::fmt;

use relight_canonical::Digest;
use serde_json::{Value, json};

use super::difference::same;
use crate::{Effect, Event, Seq, TokenUsage, ToolOutcome, budget::Limit};

/// What the code asks for.
#[derive(Clone, Copy)]
pub enum Ask<'a> {
    /// An answer from a model.
    ModelCall {
        /// The request's hash.
        request_hash: Digest,
        /// The request in full, asked for only to explain a divergence.
        request: &'a dyn Fn() -> Value,
    },
    /// A tool's outcome.
    ToolCall {
        /// The tool's name.
        tool: &'a str,
        /// What it is given.
        input: &'a Value,
    },
}

impl Ask<'_> {
    pub(super) fn agrees_with(&self, event: &Event) -> bool {
        match (self, event) {
            (
                Ask::ModelCall { request_hash, .. },
                Event::ModelCallRequested { request_hash: recorded, .. },
            ) => request_hash == recorded,
            (Ask::ToolCall { tool, input }, Event::ToolCallRequested { tool: name, input: recorded, .. }) => {
                tool == name && same(recorded, input)
            }
            _ => false,
        }
    }

    pub(super) fn describe(&self) -> Value {
        match self {
            Ask::ModelCall { request_hash, .. } => {
                json!({"kind": "model_call_requested", "request_hash": request_hash})
            }
            Ask::ToolCall { tool, input } => {
                json!({"kind": "tool_call_requested", "tool": tool, "input": input})
            }
        }
    }
}

impl fmt::Debug for Ask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ask({})", self.describe())
    }
}

/// What the log has for a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found<'a> {
    /// How many calls the code made in this lane before.
    pub ordinal: u64,
    /// What to do.
    pub step: Step<'a>,
}

/// What to do for a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step<'a> {
    /// Return this; do nothing.
    Recorded(Settled<'a>),
    /// It was begun, and nothing says how it ended.
    Dangling(Dangling<'a>),
    /// It was never asked for: do it.
    Live,
}

/// How a recorded call ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Settled<'a> {
    /// A model answered.
    Answered {
        /// What it answered.
        response: &'a Value,
        /// What it cost.
        usage: TokenUsage,
    },
    /// A model failed, and the code went on from there.
    Failed(&'a Value),
    /// A tool call ended.
    Outcome(&'a ToolOutcome),
}

/// A call that was begun and not settled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dangling<'a> {
    /// Its intent.
    pub intent: Seq,
    /// How many drives noted their start since: each of them may have tried it again.
    pub drives_since: u64,
    /// What a tool call does to the world; `None` for a model call.
    pub effect: Option<Effect>,
    /// The recorded key of a tool call.
    pub idempotency_key: Option<&'a str>,
    /// Whether a person said that it was not done, and no drive has started since.
    pub cleared: bool,
}

/// What the log says of a budget check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    /// The check found room, as the recorded calls after it show.
    Passed,
    /// It found a limit used up, and a person has raised it since: check again.
    Raised,
    /// It found a limit used up.
    Exceeded(Limit),
    /// It was not made before.
    Live,
}

/// One side of a divergence: what an event asks for, without what belongs to one attempt.
pub(super) fn describe(event: &Event) -> Value {
    match event {
        Event::ModelCallRequested { request_hash, .. } => {
            json!({"kind": event.kind(), "request_hash": request_hash})
        }
        Event::ToolCallRequested { tool, input, .. } => {
            json!({"kind": event.kind(), "tool": tool, "input": input})
        }
        Event::BudgetExceeded { limit, .. } => json!({"kind": event.kind(), "limit": limit}),
        Event::RunCompleted { output } => json!({"kind": event.kind(), "output": output}),
        Event::RunFailed { code, message } => json!({"kind": event.kind(), "code": code, "message": message}),
        _ => json!({"kind": event.kind()}),
    }
}
