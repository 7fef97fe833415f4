//! `Runtime`: starts, resumes and repairs runs in a store.

mod operate;
mod outcome;
mod start;
mod workflow;

use std::{collections::BTreeMap, fmt, sync::Arc};

use relight_core::{Event, EventEnvelope, Process, RunId};
use relight_store::{EventStore, StoreError};
use serde_json::Value;

use crate::{
    Recording, RunCtx, RuntimeError,
    observer::{Observer, Unobserved},
    process::{Active, is_alive, this_process},
    sources::{ClockFn, Hooks, RandomFn, system_clock, system_random},
};

pub use outcome::RunOutcome;
pub use start::Start;
pub use workflow::Workflow;

/// Starts, resumes and repairs runs in a store.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use async_trait::async_trait;
/// use relight_runtime::{RunCtx, RunOutcome, Runtime, RuntimeError, Start, Workflow};
/// use relight_store::MemoryStore;
/// use serde_json::Value;
///
/// struct Greet;
///
/// #[async_trait]
/// impl Workflow for Greet {
///     fn agent_hash(&self) -> String {
///         "greet/1".to_owned()
///     }
///     async fn run(&self, _: &mut RunCtx, name: Value) -> Result<Value, RuntimeError> {
///         let name = name.as_str().ok_or_else(|| RuntimeError::failed("no_name", "the input is no name"))?;
///         Ok(format!("hello {name}").into())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), RuntimeError> {
/// let runtime = Runtime::new(Arc::new(MemoryStore::new()));
/// let run = runtime.new_run_id();
/// let outcome = runtime.start(&Greet, Start::from("Ada").with_run_id(run)).await?;
/// assert_eq!(outcome, RunOutcome::Completed { output: "hello Ada".into() });
/// // A run that is over answers with how it ended.
/// assert_eq!(runtime.resume(&Greet, run).await?, outcome);
/// # Ok(())
/// # }
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
    /// Whatever ended the drive; what was recorded stays, and the run may be resumed. A
    /// [conflict](StoreError::Conflict) where there is a run of this id already.
    ///
    /// # Panics
    ///
    /// A panic of the workflow, of a provider or of an observer passes through, and ends the drive as a crash would.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the drive as a crash would: cleanly, and resumably.
    pub async fn start(
        &self,
        workflow: &dyn Workflow,
        start: impl Into<Start>,
    ) -> Result<RunOutcome, RuntimeError> {
        let Start { run, input, labels } = start.into();
        let run = run.unwrap_or_else(|| self.new_run_id());
        let active = Active::enter(run, &self.hooks.store);
        let ctx = self.context(run, Vec::new(), active)?;
        drive(ctx, workflow, input, labels).await
    }

    /// Goes on with a run from where its log ends. A run that is over answers with how it ended.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::StillDriven`] where the process that drives the run is alive, and as
    /// [`start`](Runtime::start).
    ///
    /// # Panics
    ///
    /// As [`start`](Runtime::start).
    ///
    /// # Cancel safety
    ///
    /// As [`start`](Runtime::start).
    pub async fn resume(&self, workflow: &dyn Workflow, run: RunId) -> Result<RunOutcome, RuntimeError> {
        let Some(active) = Active::enter_alone(run, &self.hooks.store) else {
            return Err(still_driven(run, this_process()));
        };
        let log = self.hooks.store.read_log(run).await?;
        let (input, labels) = match log.first().map(|first| &first.event) {
            Some(Event::RunStarted { input, labels, .. }) => (input.clone(), labels.clone()),
            // What a log may begin with is checked below; there is nothing to drive in an empty one.
            Some(_) => Default::default(),
            None => return Err(StoreError::UnknownRun { run }.into()),
        };
        let driver = driver_elsewhere(&log).cloned();
        let ctx = self.context(run, log, active)?;
        match (RunOutcome::of(ctx.state()), driver) {
            (Some(RunOutcome::Waiting { .. }), _) | (None, None) => drive(ctx, workflow, input, labels).await,
            (Some(ended), _) => Ok(ended),
            (None, Some(process)) => Err(still_driven(run, &process)),
        }
    }

    fn context(&self, run: RunId, log: Vec<EventEnvelope>, active: Active) -> Result<RunCtx, RuntimeError> {
        Ok(RunCtx::driven(self.hooks.clone(), run, log, active)?.with_recording(self.recording))
    }
}

async fn drive(
    mut ctx: RunCtx,
    workflow: &dyn Workflow,
    input: Value,
    labels: BTreeMap<String, String>,
) -> Result<RunOutcome, RuntimeError> {
    ctx.begin_labelled(workflow.agent_hash(), input.clone(), labels).await?;
    let result = workflow.run(&mut ctx, input).await;
    // What the code made of an error that suspended the run does not count.
    if let Some(outcome) = ctx.conclusion() {
        return Ok(outcome);
    }
    match result {
        Ok(output) => {
            ctx.complete(&output).await?;
            Ok(RunOutcome::Completed { output })
        }
        Err(RuntimeError::Failed { code, message }) => {
            ctx.fail(&code, &message).await?;
            Ok(RunOutcome::Failed { code, message })
        }
        Err(error) => Err(error),
    }
}

/// The process that drives a run, as far as its log tells, if it is another one and seen to be alive. It would lose
/// its work to a second drive; drives of this same process settle it between them by their appends.
fn driver_elsewhere(log: &[EventEnvelope]) -> Option<&Process> {
    let last = log.iter().rev().find_map(|envelope| match &envelope.event {
        Event::DriveStarted { process, .. } => Some(Some(process)),
        // A drive that suspends the run has ended, though its process may go on with other things.
        Event::Suspended { .. } => Some(None),
        _ => None,
    });
    last.flatten().filter(|process| *process != this_process() && is_alive(process) == Some(true))
}

fn still_driven(run: RunId, process: &Process) -> RuntimeError {
    RuntimeError::StillDriven { run, process: Box::new(process.clone()) }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").finish_non_exhaustive()
    }
}
