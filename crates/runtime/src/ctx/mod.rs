//! `RunCtx`: what code may do inside a run. Everything it returns is recorded, or was.

mod budget;
mod driver;
mod model;
mod outcome;
mod phase;
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
    process::Active,
    schema::Schema,
    sequencer::Sequencer,
    sources::{ClockFn, Hooks, RandomFn},
};

use driver::Driver;
pub use model::ModelTurn;
pub(crate) use outcome::{MAX_OUTPUT_DEPTH, is_deeper};
use phase::Phase;

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
/// use relight_store::{EventStore, MemoryStore};
/// # use relight_llm::{ContentBlock, Delivery, LlmError, MessageResponse, MessageStream, StopReason};
/// # struct Parrot;
/// # #[async_trait::async_trait]
/// # impl Provider for Parrot {
/// #     async fn stream(&self, request: &MessageRequest) -> Result<MessageStream, LlmError> {
/// #         let said = ContentBlock::text(request.messages()[0].content().text());
/// #         let answer = MessageResponse::new("msg_1", request.model(), said, StopReason::EndTurn);
/// #         Ok(MessageStream::of_response(&answer, Delivery::default()))
/// #     }
/// # }
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
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let model = Parrot;
/// let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
/// let run: RunId = "0190f5d2-7c1a-7b6e-8f00-3c1d2e4f5a6b".parse()?;
/// let answer = ask(store.clone(), run, &model).await?;
/// // Again over the same log: nobody is asked, and the answer is the same.
/// assert_eq!(ask(store, run, &model).await?, answer);
/// # Ok(())
/// # }
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

impl RunCtx {
    /// A context over a log that was read from `store`, empty for a new run.
    ///
    /// Every `recorded_at` comes from `clock`. The caller makes sure that no earlier drive of the run is still
    /// alive; [`Runtime`](crate::Runtime) does that by itself. A bare context notes its process
    /// in the log only before it runs a tool again; whether a write that it left open may still be done, nobody can see.
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
        Self::new(hooks, run_id, log, Driver::bare())
    }

    /// A context for a drive by the runtime.
    pub(crate) fn driven(
        hooks: Hooks,
        run: RunId,
        log: Vec<EventEnvelope>,
        active: Active,
    ) -> Result<Self, RuntimeError> {
        Self::new(hooks, run, log, Driver::runtime(active))
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
        self.enter_first()?;
        let result = self.begun(agent_hash, input, labels).await;
        self.leave(result)
    }

    async fn begun(
        &mut self,
        agent_hash: String,
        input: Value,
        labels: BTreeMap<String, String>,
    ) -> Result<(), RuntimeError> {
        if self.replay.begin(&agent_hash, &input)? {
            return Ok(());
        }
        self.sequencer.queue(&self.lane, Event::run_started_with_labels(agent_hash, input, labels))?;
        self.prepare_live()?;
        self.sequencer.flush().await
    }

    /// Ends the run with an output.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Diverged`] where the log records calls that the code did not make, or another end, and
    /// [`RuntimeError::NotJson`] for an output with NaN or infinities in it; the run goes on after that one.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the run has ended, and the context refuses to go on.
    pub async fn complete(&mut self, output: impl Serialize) -> Result<(), RuntimeError> {
        let output = relight_canonical::to_value(&output)?;
        self.end(Event::run_completed(output)).await
    }

    /// Ends the run as failed.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Diverged`] where the log records calls that the code did not make, or another end.
    ///
    /// # Cancel safety
    ///
    /// As [`complete`](RunCtx::complete).
    ///
    /// # Examples
    ///
    /// ```
    /// # use relight_runtime::{RunCtx, RuntimeError};
    /// async fn give_up(ctx: &mut RunCtx) -> Result<(), RuntimeError> {
    ///     ctx.fail("no_funds", "the account is empty").await
    /// }
    /// ```
    pub async fn fail(&mut self, code: &str, message: &str) -> Result<(), RuntimeError> {
        self.end(Event::run_failed(code, message)).await
    }

    async fn end(&mut self, event: Event) -> Result<(), RuntimeError> {
        self.enter().await?;
        let result = self.ended(event).await;
        self.leave(result)?;
        self.phase = Phase::Ended;
        Ok(())
    }

    async fn ended(&mut self, event: Event) -> Result<(), RuntimeError> {
        if self.replay.finish(&event)? {
            return Ok(());
        }
        self.prepare_live()?;
        self.sequencer.queue(&self.lane, event)?;
        self.sequencer.flush().await
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
