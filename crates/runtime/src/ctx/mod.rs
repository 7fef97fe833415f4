//! `RunCtx`: what code may do inside a run. Everything it returns is recorded, or was.

mod budget;
mod model;
mod tool;

use std::{collections::BTreeMap, fmt, sync::Arc};

use relight_core::{Event, EventEnvelope, Lane, RunId, RunState, replay::Replay, request::Transcript};
use relight_llm::LlmError;
use relight_store::EventStore;
use serde::Serialize;
use serde_json::Value;

use crate::{
    error::RuntimeError,
    observer::Unobserved,
    process::{Active, this_process},
    schema::Schema,
    sequencer::Sequencer,
    sources::{ClockFn, Hooks, RandomFn},
};

pub use model::ModelTurn;

/// The version of the code that drives, as [`Event::DriveStarted`] names it.
const CODE: &str = concat!("relight ", env!("CARGO_PKG_VERSION"));

/// One drive's view of a run: it replays what the log records and does the rest live.
///
/// Operations are called one after another. An operation whose future is dropped before it ends leaves its outcome
/// unknown; the context then refuses to go on ([`RuntimeError::Dropped`]), and the run is resumed with a new one.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use relight_core::RunId;
/// use relight_llm::{MessageRequest, Message, Provider};
/// use relight_runtime::{RunCtx, RuntimeError, system_clock, system_random};
/// use relight_store::EventStore;
///
/// async fn ask(store: Arc<dyn EventStore>, run: RunId, model: &dyn Provider) -> Result<String, RuntimeError> {
///     let log = match store.head(run).await? {
///         Some(_) => store.read_log(run).await?,
///         None => Vec::new(),
///     };
///     let mut ctx = RunCtx::with_hooks(store, run, log, system_clock(), system_random())?;
///     ctx.begin("ask/1", "why is the sky blue?").await?;
///     let request = MessageRequest::new("a-model", 256).push_message(Message::user("Why is the sky blue?"));
///     let turn = ctx.model_call(model, &request).await?;
///     ctx.complete(turn.response.text()).await?;
///     Ok(turn.response.text())
/// }
/// ```
pub struct RunCtx {
    run: RunId,
    lane: Lane,
    replay: Replay,
    sequencer: Sequencer,
    #[expect(dead_code, reason = "deterministic sources of the code's own draw from it")]
    random: RandomFn,
    phase: Phase,
    driver: Driver,
    /// What the next request is recorded against; built when the first one is live.
    transcript: Option<Transcript>,
    recording: Recording,
    /// The schemas of tools that were called, by the tool's name.
    schemas: BTreeMap<String, Schema>,
    /// A model error that the code was given and that is history only if the code goes on.
    failure: Option<(relight_core::Seq, LlmError)>,
}

/// How much of a model request is recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Recording {
    /// All of it, each message once: anybody can see later what the model was asked.
    #[default]
    Full,
    /// Its hash only: what was asked stays out of the log, and a divergence shows hashes.
    HashOnly,
}

/// Whether the context may be used.
///
/// ```text
///  Fresh ──begin──▶ Ready ──operation──▶ Busy ──ends──▶ Ready
///                                         ├──fails────▶ Stopped
///                                         └──dropped─── stays Busy: refused from then on
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Fresh,
    Ready,
    Busy,
    Stopped,
}

/// Who drives, and whether the log says so yet.
#[derive(Debug)]
enum Driver {
    /// Code of the user's own: noted only before a tool runs again.
    Bare { noted: bool },
    /// The runtime: noted with the start, or before the first live act.
    Runtime { noted: bool, active: Active },
}

impl RunCtx {
    /// A context over a log that was read from `store`, empty for a new run.
    ///
    /// Every `recorded_at` comes from `clock`. The caller makes sure that no earlier drive of the run is still
    /// alive; [`Runtime`](crate::Runtime) does that by itself.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Log`] where the log is not one that a run leaves.
    pub fn with_hooks(
        store: Arc<dyn EventStore>,
        run_id: RunId,
        log: Vec<EventEnvelope>,
        clock: ClockFn,
        random: RandomFn,
    ) -> Result<Self, RuntimeError> {
        let hooks = Hooks { store, clock, random, observer: Arc::new(Unobserved) };
        Self::new(hooks, run_id, log, Driver::Bare { noted: false })
    }

    /// A context for a drive by the runtime.
    pub(crate) fn driven(
        hooks: Hooks,
        run: RunId,
        log: Vec<EventEnvelope>,
        active: Active,
    ) -> Result<Self, RuntimeError> {
        Self::new(hooks, run, log, Driver::Runtime { noted: false, active })
    }

    fn new(hooks: Hooks, run: RunId, log: Vec<EventEnvelope>, driver: Driver) -> Result<Self, RuntimeError> {
        let replay = Replay::new(run, log)?;
        let random = hooks.random.clone();
        Ok(Self {
            run,
            lane: Lane::ROOT,
            sequencer: Sequencer::new(hooks, run, replay.state().clone()),
            replay,
            random,
            phase: Phase::Fresh,
            driver,
            transcript: None,
            recording: Recording::Full,
            schemas: BTreeMap::new(),
            failure: None,
        })
    }

    /// The same context, which records this much of the requests that it makes from now on.
    #[must_use]
    pub const fn with_recording(mut self, recording: Recording) -> Self {
        self.recording = recording;
        self
    }

    /// The run.
    pub const fn run_id(&self) -> RunId {
        self.run
    }

    /// What the run has done, with all that this context recorded.
    pub const fn state(&self) -> &RunState {
        self.sequencer.state()
    }

    /// Whether every recorded call was asked for again, so that the next one is live.
    pub const fn is_live(&self) -> bool {
        self.replay.is_live()
    }

    /// Begins the run, or checks that the log was begun by the same code with the same input.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Diverged`] where it was not, [`RuntimeError::NotJson`] for an input with NaN or infinities in
    /// it, and a [conflict](relight_store::StoreError::Conflict) where the run exists already.
    pub async fn begin(
        &mut self,
        agent_hash: impl Into<String>,
        input: &(impl Serialize + ?Sized),
    ) -> Result<(), RuntimeError> {
        let input = relight_canonical::to_value(input)?;
        self.begin_labelled(agent_hash.into(), input, BTreeMap::new()).await
    }

    pub(crate) async fn begin_labelled(
        &mut self,
        agent_hash: String,
        input: Value,
        labels: BTreeMap<String, String>,
    ) -> Result<(), RuntimeError> {
        if self.phase != Phase::Fresh {
            return Err(self.misuse("begin is called once, before anything else"));
        }
        self.phase = Phase::Busy;
        if !self.replay.begin(&agent_hash, &input)? {
            self.sequencer.queue(&self.lane, Event::run_started_with_labels(agent_hash, input, labels))?;
            self.note_driver()?;
            self.sequencer.flush().await?;
        }
        self.phase = Phase::Ready;
        Ok(())
    }

    /// Ends the run with an output.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Diverged`] where the log records calls that the code did not make, or another end.
    pub async fn complete(&mut self, output: impl Serialize) -> Result<(), RuntimeError> {
        let output = relight_canonical::to_value(&output)?;
        self.end(Event::run_completed(output)).await
    }

    /// Ends the run as failed.
    ///
    /// # Errors
    ///
    /// As [`complete`](RunCtx::complete).
    pub async fn fail(&mut self, code: &str, message: &str) -> Result<(), RuntimeError> {
        self.end(Event::run_failed(code, message)).await
    }

    async fn end(&mut self, event: Event) -> Result<(), RuntimeError> {
        self.enter()?;
        if !self.replay.finish(&event)? {
            self.prepare_live()?;
            self.sequencer.queue(&self.lane, event)?;
            self.sequencer.flush().await?;
        }
        // Nothing follows the end.
        self.phase = Phase::Stopped;
        Ok(())
    }

    /// Claims the context for one operation; it stays claimed if the operation is dropped.
    fn enter(&mut self) -> Result<(), RuntimeError> {
        match self.phase {
            Phase::Ready => {
                self.phase = Phase::Busy;
                Ok(())
            }
            Phase::Fresh => Err(self.misuse("call begin before anything else")),
            Phase::Busy => Err(RuntimeError::Dropped { run: self.run }),
            Phase::Stopped => Err(RuntimeError::Stopped { run: self.run }),
        }
    }

    /// Gives the context back after an operation. Code may go on from a model's error; every other one stops it.
    fn leave<T>(&mut self, result: Result<T, RuntimeError>) -> Result<T, RuntimeError> {
        self.phase = match &result {
            Ok(_) | Err(RuntimeError::Model(_)) => Phase::Ready,
            Err(_) => Phase::Stopped,
        };
        result
    }

    /// Queues what must stand in the log before anything live: the failure that the code went on from, and, for a
    /// drive by the runtime, that it drives, so that a rival loses before it does anything.
    fn prepare_live(&mut self) -> Result<(), RuntimeError> {
        if let Some((intent, error)) = self.failure.take() {
            let error = serde_json::to_value(&error).expect("a model error is plain data");
            self.sequencer.queue(&self.lane, Event::model_call_failed(intent, error))?;
        }
        match self.driver {
            Driver::Runtime { noted: false, .. } => self.note_driver(),
            Driver::Runtime { .. } | Driver::Bare { .. } => Ok(()),
        }
    }

    /// Queues what must stand in the log before a tool runs again.
    fn prepare_again(&mut self) -> Result<(), RuntimeError> {
        self.prepare_live()?;
        match &mut self.driver {
            Driver::Bare { noted: noted @ false } => {
                *noted = true;
                self.queue_drive_started()
            }
            Driver::Bare { .. } | Driver::Runtime { .. } => Ok(()),
        }
    }

    fn note_driver(&mut self) -> Result<(), RuntimeError> {
        match &mut self.driver {
            Driver::Runtime { noted: noted @ false, .. } => {
                *noted = true;
                self.queue_drive_started()
            }
            Driver::Bare { .. } | Driver::Runtime { .. } => Ok(()),
        }
    }

    fn queue_drive_started(&mut self) -> Result<(), RuntimeError> {
        let drive = self.sequencer.state().progress().map_or(0, |progress| progress.drives) + 1;
        self.sequencer.queue(&Lane::ROOT, Event::drive_started(drive, this_process().clone(), CODE))?;
        Ok(())
    }

    fn misuse(&self, what: &'static str) -> RuntimeError {
        RuntimeError::Misuse { run: self.run, what }
    }
}

impl fmt::Debug for RunCtx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunCtx")
            .field("run", &self.run)
            .field("lane", &self.lane)
            .field("phase", &self.phase)
            .field("live", &self.is_live())
            .finish_non_exhaustive()
    }
}
