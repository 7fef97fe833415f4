//! What a run is up to, folded from its events.

use serde_json::Value;

use crate::{Event, EventEnvelope, LogError, Progress, Role, RunStatus, RunSummary, Seq, WaitReason};

/// What a run is up to.
///
/// ```text
///  NotStarted ──RunStarted──▶ Running ──────── Suspended ───────▶ Waiting
///                              │   ▲                              │  │
///                              │   └── Resolved, BudgetRaised, ───┘  │
///                              │       driven again                  │
///                              ├── RunCompleted ──▶ Completed        │
///                              ├── RunFailed ─────▶ Failed           │
///                              ├── CancelRequested ──▶ Cancelling ◀──┤
///                              │                           │         │
///                              └── RunCancelled ──▶ Cancelled ◀──────┘
/// ```
///
/// The code asks for nothing more, and does not end the run by itself, while something stands open: an intent that
/// nothing settled, a limit that is used up and not raised, a cancellation. So replay can follow every log that this
/// fold takes, and only the last call of a log can be open.
///
/// # Examples
///
/// ```
/// use relight_core::{EventEnvelope, LogError, RunState};
///
/// /// Which calls of a run nothing has settled?
/// fn open_calls(log: &[EventEnvelope]) -> Result<Vec<u64>, LogError> {
///     let state = RunState::fold(log)?;
///     let open = state.progress().into_iter().flat_map(|progress| progress.open.keys());
///     Ok(open.map(|intent| intent.number()).collect())
/// }
/// # fn main() -> Result<(), LogError> {
/// assert!(open_calls(&[])?.is_empty());
/// # Ok(())
/// # }
/// ```
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
        check_place(self.progress(), envelope)?;
        let corrupt = |why: &str| LogError::Corrupt {
            run: envelope.run_id,
            seq: envelope.seq,
            why: format!("{} {why}", envelope.event.kind()),
        };
        let (mut progress, was) = match (self, envelope.event.role()) {
            (Self::NotStarted, Role::Opening) => return Ok(Self::Running(Progress::started(envelope))),
            (Self::NotStarted, _) => return Err(corrupt("stands before the run was started")),
            (_, Role::Opening) => return Err(corrupt("stands inside a run")),
            (Self::Completed { .. } | Self::Failed { .. } | Self::Cancelled(_), _) => {
                return Err(corrupt("stands after the end of the run"));
            }
            (Self::Running(progress), _) => (progress, Was::Running),
            (Self::Waiting { progress, reason }, _) => (progress, Was::Waiting(reason)),
            (Self::Cancelling(progress), _) => (progress, Was::Cancelling),
        };
        if needs_nothing_open(&envelope.event) {
            let cancelling = matches!(was, Was::Cancelling).then(|| "a cancellation".to_owned());
            if let Some(what) = cancelling.or_else(|| progress.stands_open()) {
                return Err(corrupt(&format!("stands behind {what}")));
            }
        }
        progress.note(envelope).map_err(|why| corrupt(&why))?;
        Ok(match (&envelope.event, was) {
            (Event::RunCompleted { output }, _) => Self::Completed { progress, output: output.clone() },
            (Event::RunFailed { code, message }, _) => {
                Self::Failed { progress, code: code.clone(), message: message.clone() }
            }
            (Event::RunCancelled { .. }, _) => Self::Cancelled(progress),
            (Event::CancelRequested { .. }, _) | (_, Was::Cancelling) => Self::Cancelling(progress),
            (Event::Suspended { reason }, _) => Self::Waiting { progress, reason: reason.clone() },
            (event, Was::Waiting(reason)) if !ends_wait(&reason, event, &progress) => {
                Self::Waiting { progress, reason }
            }
            (_, Was::Waiting(_) | Was::Running) => Self::Running(progress),
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

/// The state before an event, without what was done so far.
enum Was {
    Running,
    Waiting(WaitReason),
    Cancelling,
}

/// Checks what every event must keep to: its run, place, lane and time.
fn check_place(before: Option<&Progress>, envelope: &EventEnvelope) -> Result<(), LogError> {
    let expected = before.map_or(Seq::FIRST, |before| before.head.next());
    let run = before.map_or(envelope.run_id, |before| before.run_id);
    let corrupt = |why: String| Err(LogError::Corrupt { run, seq: expected, why });
    if envelope.run_id != run {
        return corrupt(format!("it belongs to run {}", envelope.run_id));
    }
    if envelope.seq != expected {
        return corrupt(format!("event {} stands in its place", envelope.seq));
    }
    // No event of this version opens another lane.
    if !envelope.lane.is_root() {
        return corrupt(format!("it stands in lane {}, which no event opened", envelope.lane));
    }
    match before {
        Some(before) if envelope.recorded_at < before.updated_at => corrupt(format!(
            "it is recorded at {}, but the event before it at {}",
            envelope.recorded_at, before.updated_at
        )),
        _ => Ok(()),
    }
}

/// Whether the code must have nothing open when it does this.
fn needs_nothing_open(event: &Event) -> bool {
    event.role() == Role::Asked || matches!(event, Event::RunCompleted { .. } | Event::RunFailed { .. })
}

/// Whether an event shows that what a run waited for has come, or that it is driven again.
fn ends_wait(reason: &WaitReason, event: &Event, progress: &Progress) -> bool {
    match (event, reason) {
        (Event::Resolved { intent, .. }, WaitReason::Reconciliation { intent: awaited, .. }) => {
            intent == awaited
        }
        (Event::BudgetRaised { .. }, WaitReason::Budget { .. }) => progress.exceeded.is_none(),
        (Event::Resolved { .. } | Event::BudgetRaised { .. }, _) => false,
        _ => true,
    }
}
