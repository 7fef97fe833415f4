//! What a run is up to, folded from its events.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    Effect, Event, EventEnvelope, LogError, Resolution, Role, RunId, RunStatus, RunSummary, Seq, TokenUsage,
    WaitReason,
    budget::{Raised, Spent},
};

/// What a run is up to.
///
/// ```text
///  NotStarted ──RunStarted──▶ Running ──Suspended──▶ Waiting
///                              │  ▲                   │  │
///                              │  └─Resolved, raised, ┘  │
///                              │     driven again        │
///                              ├──────CancelRequested────┤
///                              │            ▼            │
///                              │       Cancelling        │
///                              ▼            ▼            │
///                  Completed, Failed    Cancelled ◀──────┘
/// ```
///
/// Nothing follows the three ends. `fold` of a log and of the log that replay leaves are the same.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum RunState {
    /// No event is recorded.
    #[default]
    NotStarted,
    /// It is driven, or may be at once.
    Running(Progress),
    /// It stopped to wait.
    Waiting {
        /// What was done so far.
        progress: Progress,
        /// What it waits for.
        reason: WaitReason,
    },
    /// It is asked to end and settles what is open.
    Cancelling(Progress),
    /// It ended with an output.
    Completed {
        /// What was done.
        progress: Progress,
        /// What the code returned.
        output: Value,
    },
    /// It ended because its code gave up.
    Failed {
        /// What was done.
        progress: Progress,
        /// A short word for programs.
        code: String,
        /// One line for people.
        message: String,
    },
    /// It was ended from outside.
    Cancelled(Progress),
}

/// What a run has done so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The run.
    pub run_id: RunId,
    /// Which agent's code it belongs to.
    pub agent_hash: String,
    /// For searching.
    pub labels: BTreeMap<String, String>,
    /// When its first event was recorded.
    pub started_at: Timestamp,
    /// When its last event was recorded.
    pub updated_at: Timestamp,
    /// Its last position.
    pub head: Seq,
    /// How many drives noted their start.
    pub drives: u64,
    /// How many tool calls ended.
    pub tool_calls: u64,
    /// Model calls and tokens, as limits count them.
    pub spent: Spent,
    /// Tokens of all completed model calls.
    pub usage: TokenUsage,
    /// Limits raised for this run.
    pub raised: Raised,
    /// Intents that nothing has settled.
    pub open: BTreeMap<Seq, OpenIntent>,
}

/// An intent that nothing has settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenIntent {
    /// A model call.
    ModelCall,
    /// A tool call.
    ToolCall {
        /// The tool's name.
        tool: String,
        /// What the tool does to the world.
        effect: Effect,
    },
}

impl RunState {
    /// Folds a whole log.
    ///
    /// # Errors
    ///
    /// [`LogError::Corrupt`] at the first event that cannot follow those before it.
    pub fn fold<'a>(log: impl IntoIterator<Item = &'a EventEnvelope>) -> Result<Self, LogError> {
        let mut state = Self::NotStarted;
        for envelope in log {
            state = state.apply(envelope)?;
        }
        Ok(state)
    }

    /// The state after one more event.
    ///
    /// # Errors
    ///
    /// [`LogError::Corrupt`] where the event cannot follow those before it.
    pub fn apply(self, envelope: &EventEnvelope) -> Result<Self, LogError> {
        let corrupt = |why: &str| LogError::Corrupt {
            run: envelope.run_id,
            seq: envelope.seq,
            why: format!("{} {why}", envelope.event.kind()),
        };
        let (mut progress, waiting, cancelling) = match (self, envelope.event.role()) {
            (Self::NotStarted, Role::Opening) => return Ok(Self::Running(Progress::started(envelope))),
            (Self::NotStarted, _) => return Err(corrupt("stands before the run was started")),
            (_, Role::Opening) => return Err(corrupt("stands inside a run")),
            (Self::Completed { .. } | Self::Failed { .. } | Self::Cancelled(_), _) => {
                return Err(corrupt("stands after the end of the run"));
            }
            (Self::Running(progress), _) => (progress, None, false),
            (Self::Waiting { progress, reason }, _) => (progress, Some(reason), false),
            (Self::Cancelling(progress), _) => (progress, None, true),
        };
        progress.note(envelope).map_err(|why| corrupt(&why))?;
        Ok(match &envelope.event {
            Event::RunCompleted { output } => Self::Completed { progress, output: output.clone() },
            Event::RunFailed { code, message } => {
                Self::Failed { progress, code: code.clone(), message: message.clone() }
            }
            Event::RunCancelled { .. } => Self::Cancelled(progress),
            Event::CancelRequested { .. } => Self::Cancelling(progress),
            _ if cancelling => Self::Cancelling(progress),
            Event::Suspended { reason } => Self::Waiting { progress, reason: reason.clone() },
            event => match waiting {
                Some(reason) if !ends_wait(&reason, event) => Self::Waiting { progress, reason },
                _ => Self::Running(progress),
            },
        })
    }

    /// What was done so far; `None` before the first event.
    pub const fn progress(&self) -> Option<&Progress> {
        match self {
            Self::NotStarted => None,
            Self::Running(progress)
            | Self::Waiting { progress, .. }
            | Self::Cancelling(progress)
            | Self::Completed { progress, .. }
            | Self::Failed { progress, .. }
            | Self::Cancelled(progress) => Some(progress),
        }
    }

    /// What listings show; `None` before the first event.
    pub fn status(&self) -> Option<RunStatus> {
        Some(match self {
            Self::NotStarted => return None,
            Self::Running(_) => RunStatus::Running,
            Self::Waiting { reason: WaitReason::Reconciliation { intent, why }, .. } => {
                RunStatus::NeedsReconciliation { intent: *intent, why: why.clone() }
            }
            Self::Waiting { reason, .. } => RunStatus::Waiting { reason: reason.clone() },
            Self::Cancelling(_) => RunStatus::Cancelling,
            Self::Completed { .. } => RunStatus::Completed,
            Self::Failed { code, message, .. } => {
                RunStatus::Failed { code: code.clone(), message: message.clone() }
            }
            Self::Cancelled(_) => RunStatus::Cancelled,
        })
    }

    /// What a store keeps beside the log; `None` before the first event.
    pub fn summary(&self) -> Option<RunSummary> {
        let progress = self.progress()?;
        Some(RunSummary {
            run_id: progress.run_id,
            agent_hash: progress.agent_hash.clone(),
            labels: progress.labels.clone(),
            status: self.status()?,
            started_at: progress.started_at,
            updated_at: progress.updated_at,
            wake_at: None,
            events: progress.head.number(),
            drives: progress.drives,
            model_calls: progress.spent.steps,
            tool_calls: progress.tool_calls,
            usage: progress.usage,
        })
    }
}

impl Progress {
    fn started(envelope: &EventEnvelope) -> Self {
        let (agent_hash, labels) = match &envelope.event {
            Event::RunStarted { agent_hash, labels, .. } => (agent_hash.clone(), labels.clone()),
            _ => unreachable!("only RunStarted opens a run"),
        };
        Self {
            run_id: envelope.run_id,
            agent_hash,
            labels,
            started_at: envelope.recorded_at,
            updated_at: envelope.recorded_at,
            head: envelope.seq,
            drives: 0,
            tool_calls: 0,
            spent: Spent::default(),
            usage: TokenUsage::default(),
            raised: Raised::default(),
            open: BTreeMap::new(),
        }
    }

    fn note(&mut self, envelope: &EventEnvelope) -> Result<(), String> {
        self.head = envelope.seq;
        self.updated_at = envelope.recorded_at;
        if let Role::Settles(intent) = envelope.event.role() {
            self.settle(intent, &envelope.event)?;
        }
        match &envelope.event {
            Event::DriveStarted { drive, .. } => self.drives = *drive,
            Event::ModelCallRequested { .. } => {
                self.open.insert(envelope.seq, OpenIntent::ModelCall);
            }
            Event::ModelCallCompleted { usage, .. } => {
                self.spent.add_model_call(usage);
                self.usage = self.usage.plus(usage);
            }
            Event::ToolCallRequested { tool, effect, .. } => {
                self.open.insert(envelope.seq, OpenIntent::ToolCall { tool: tool.clone(), effect: *effect });
            }
            Event::ToolCallCompleted { .. } => self.tool_calls += 1,
            Event::Resolved { intent, resolution, .. } => match resolution {
                Resolution::Outcome(_) => {
                    self.settle(*intent, &envelope.event)?;
                    self.tool_calls += 1;
                }
                Resolution::NotDone {} if !self.open.contains_key(intent) => {
                    return Err(format!("speaks of event {intent}, which is not open"));
                }
                Resolution::NotDone {} => {}
            },
            Event::BudgetRaised { limit, to, .. } => self.raised = self.raised.to(*limit, *to),
            _ => {}
        }
        Ok(())
    }

    fn settle(&mut self, intent: Seq, event: &Event) -> Result<(), String> {
        let fits = |open: &OpenIntent| {
            let of_model = matches!(event, Event::ModelCallCompleted { .. } | Event::ModelCallFailed { .. });
            of_model == matches!(open, OpenIntent::ModelCall)
        };
        match self.open.get(&intent) {
            Some(open) if fits(open) => {
                self.open.remove(&intent);
                Ok(())
            }
            Some(_) => Err(format!("settles event {intent}, which is of another kind")),
            None => Err(format!("settles event {intent}, which is not open")),
        }
    }
}

/// Whether an event shows that what a run waited for has come.
fn ends_wait(reason: &WaitReason, event: &Event) -> bool {
    match (event, reason) {
        (Event::Resolved { intent, .. }, WaitReason::Reconciliation { intent: awaited, .. }) => {
            intent == awaited
        }
        (Event::BudgetRaised { limit, .. }, WaitReason::Budget { limit: reached }) => limit == reached,
        (Event::Resolved { .. } | Event::BudgetRaised { .. }, _) => false,
        _ => true,
    }
}
