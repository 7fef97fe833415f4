//! `Runtime`: starts, resumes and repairs runs in a store.

mod operate;

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;
use relight_core::{Event, EventEnvelope, RunId, RunState, WaitReason};
use relight_store::EventStore;
use serde_json::Value;

use crate::{
    Recording, RunCtx, RuntimeError,
    observer::{Observer, Unobserved},
    process::{Active, is_alive, this_process},
    sources::{ClockFn, Hooks, RandomFn, system_clock, system_random},
};

/// Code that a run executes: an [`Agent`](crate::Agent), or one's own.
///
/// The code may be run many times for one run, by many processes. Whatever it does to the world, and whatever could
/// turn out otherwise the next time, goes through `ctx`.
///
/// # Examples
///
/// ```
/// use async_trait::async_trait;
/// use relight_llm::{Message, MessageRequest, Provider};
/// use relight_runtime::{RunCtx, RuntimeError, Workflow};
/// use serde_json::Value;
///
/// struct Translate<P>(P);
///
/// #[async_trait]
/// impl<P: Provider> Workflow for Translate<P> {
///     fn agent_hash(&self) -> String {
///         "translate/1".to_owned()
///     }
///     async fn run(&self, ctx: &mut RunCtx, input: Value) -> Result<Value, RuntimeError> {
///         let ask = |text: String| MessageRequest::new("a-model", 1024).push_message(Message::user(text));
///         let draft = ctx.model_call(&self.0, &ask(format!("Translate to French: {input}"))).await?;
///         let check = ctx.model_call(&self.0, &ask(format!("Improve: {}", draft.response.text()))).await?;
///         Ok(Value::String(check.response.text()))
///     }
/// }
/// ```
#[async_trait]
pub trait Workflow: Send + Sync {
    /// Identifies the code. It changes when the code asks for other things than before.
    fn agent_hash(&self) -> String;

    /// Runs from the start; what was recorded is replayed.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Failed`] ends the run as failed. Every other error ends the drive only, and the run may be
    /// resumed.
    async fn run(&self, ctx: &mut RunCtx, input: Value) -> Result<Value, RuntimeError>;
}

/// How a drive ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RunOutcome {
    /// The run is over.
    Completed {
        /// What the code returned.
        output: Value,
    },
    /// The run is over: its code gave up.
    Failed {
        /// A short word for programs.
        code: String,
        /// One line for people.
        message: String,
    },
    /// The run was ended from outside.
    Cancelled,
    /// The run waits; resume it when what it waits for has come.
    Waiting {
        /// What for.
        reason: WaitReason,
    },
}

/// What a new run is given.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Start {
    /// Its id; drawn where there is none.
    pub run: Option<RunId>,
    /// Its input.
    pub input: Value,
    /// For searching in lists.
    pub labels: BTreeMap<String, String>,
}

impl<T: Into<Value>> From<T> for Start {
    fn from(input: T) -> Self {
        Self { input: input.into(), ..Self::default() }
    }
}

impl Start {
    /// The same with an id that was drawn before, by [`Runtime::new_run_id`].
    #[must_use]
    pub const fn with_run_id(mut self, run: RunId) -> Self {
        self.run = Some(run);
        self
    }

    /// The same with one more label.
    #[must_use]
    pub fn with_label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }
}

/// Starts, resumes and repairs runs in a store.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use relight_runtime::{RunOutcome, Runtime, RuntimeError, Workflow};
/// use relight_store::MemoryStore;
///
/// async fn run(workflow: &dyn Workflow) -> Result<RunOutcome, RuntimeError> {
///     let runtime = Runtime::new(Arc::new(MemoryStore::new()));
///     runtime.start(workflow, "hello").await
/// }
/// ```
#[derive(Clone)]
pub struct Runtime {
    hooks: Hooks,
    recording: Recording,
}

impl Runtime {
    /// A runtime over a store, with the system's clock and entropy.
    pub fn new(store: Arc<dyn EventStore>) -> Self {
        let (clock, random) = (system_clock(), system_random());
        let hooks = Hooks { store, clock, random, observer: Arc::new(Unobserved) };
        Self { hooks, recording: Recording::Full }
    }

    /// The same with another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: ClockFn) -> Self {
        self.hooks.clock = clock;
        self
    }

    /// The same with another source of randomness.
    #[must_use]
    pub fn with_random(mut self, random: RandomFn) -> Self {
        self.hooks.random = random;
        self
    }

    /// The same, watched.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.hooks.observer = observer;
        self
    }

    /// The same, with this much of each model request recorded.
    #[must_use]
    pub const fn with_recording(mut self, recording: Recording) -> Self {
        self.recording = recording;
        self
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn EventStore> {
        &self.hooks.store
    }

    /// Draws an id for a new run: a version 7 UUID from this runtime's clock and randomness.
    pub fn new_run_id(&self) -> RunId {
        let mut random = [0; 10];
        random[..8].copy_from_slice(&(self.hooks.random)().to_le_bytes());
        random[8..].copy_from_slice(&(self.hooks.random)().to_le_bytes()[..2]);
        RunId::from_parts((self.hooks.clock)(), random)
    }

    /// Starts a run and drives it until it ends or waits.
    ///
    /// # Errors
    ///
    /// Whatever ended the drive; what was recorded stays, and the run may be resumed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the drive as a crash would: cleanly, and resumably.
    pub async fn start(
        &self,
        workflow: &dyn Workflow,
        start: impl Into<Start>,
    ) -> Result<RunOutcome, RuntimeError> {
        let start = start.into();
        let run = start.run.unwrap_or_else(|| self.new_run_id());
        let active = Active::enter(run, &self.hooks.store);
        self.drive(workflow, active, run, Vec::new(), start.input, start.labels).await
    }

    /// Goes on with a run from where its log ends. A run that is over answers with how it ended.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::StillDriven`] where the process that drives the run is alive, and as
    /// [`start`](Runtime::start).
    ///
    /// # Cancel safety
    ///
    /// As [`start`](Runtime::start).
    pub async fn resume(&self, workflow: &dyn Workflow, run: RunId) -> Result<RunOutcome, RuntimeError> {
        let Some(active) = Active::enter_alone(run, &self.hooks.store) else {
            return Err(RuntimeError::StillDriven { run, process: Box::new(this_process().clone()) });
        };
        let log = self.hooks.store.read_log(run).await?;
        match RunState::fold(&log)? {
            RunState::Completed { output, .. } => return Ok(RunOutcome::Completed { output }),
            RunState::Failed { code, message, .. } => return Ok(RunOutcome::Failed { code, message }),
            RunState::Cancelled(_) | RunState::Cancelling(_) => return Ok(RunOutcome::Cancelled),
            RunState::Running(_) => refuse_while_driven(run, &log)?,
            RunState::Waiting { .. } | RunState::NotStarted => {}
        }
        let (input, labels) = match &log[0].event {
            Event::RunStarted { input, labels, .. } => (input.clone(), labels.clone()),
            _ => unreachable!("the state fold refuses a log that does not begin with its start"),
        };
        self.drive(workflow, active, run, log, input, labels).await
    }

    async fn drive(
        &self,
        workflow: &dyn Workflow,
        active: Active,
        run: RunId,
        log: Vec<EventEnvelope>,
        input: Value,
        labels: BTreeMap<String, String>,
    ) -> Result<RunOutcome, RuntimeError> {
        let mut ctx = RunCtx::driven(self.hooks.clone(), run, log, active)?.with_recording(self.recording);
        ctx.begin_labelled(workflow.agent_hash(), input.clone(), labels).await?;
        match workflow.run(&mut ctx, input).await {
            Ok(output) => {
                ctx.complete(&output).await?;
                Ok(RunOutcome::Completed { output })
            }
            Err(RuntimeError::Failed { code, message }) => {
                ctx.fail(&code, &message).await?;
                Ok(RunOutcome::Failed { code, message })
            }
            Err(RuntimeError::NeedsReconciliation(write)) => {
                let reason = WaitReason::Reconciliation { intent: write.intent, why: write.why };
                Ok(RunOutcome::Waiting { reason })
            }
            Err(RuntimeError::OverBudget { limit, .. }) => {
                Ok(RunOutcome::Waiting { reason: WaitReason::Budget { limit } })
            }
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").finish_non_exhaustive()
    }
}

/// A process that is seen to be alive would lose its work to a second drive. Drives of this same process settle it
/// between them by their appends.
fn refuse_while_driven(run: RunId, log: &[EventEnvelope]) -> Result<(), RuntimeError> {
    let last = log.iter().rev().find_map(|envelope| match &envelope.event {
        Event::DriveStarted { process, .. } => Some(process),
        _ => None,
    });
    match last {
        Some(process) if process != this_process() && is_alive(process) == Some(true) => {
            Err(RuntimeError::StillDriven { run, process: Box::new(process.clone()) })
        }
        _ => Ok(()),
    }
}
