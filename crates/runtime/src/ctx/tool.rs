//! Tool calls: what is recorded around them, and what a call that an earlier drive began and never settled means.

use std::{panic::AssertUnwindSafe, pin::pin};

use futures::FutureExt;
use relight_core::{
    Digest, Effect, Event, EventEnvelope, Lane, RunId, RunState, Seq, ToolOutcome, WaitReason,
    replay::{Ask, Settled, Step},
};
use serde_json::Value;
use tokio::{
    runtime::Handle,
    time::{Duration, timeout},
};

use super::{
    RunCtx,
    outcome::{failed, returned, shortened},
};
use crate::{
    error::{RuntimeError, UnknownWrite},
    observer::Notice,
    process::is_alive,
    schema::Schema,
    tool::{Reconciled, Tool, ToolCall, ToolError, ToolSpec},
};

impl RunCtx {
    /// Calls a tool, or returns how the call ended before.
    ///
    /// The intent of an [`Effect::Idempotent`] or [`Effect::Write`] is durable before the tool starts, and so is the
    /// outcome before it is returned. An input that does not fit the tool's schema is an outcome too: the tool does
    /// not run. A call that an earlier drive began and did not settle is made again, with the same key; a write is
    /// reconciled instead.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::NeedsReconciliation`] where nothing can tell whether a write happened: the run is suspended.
    ///
    /// # Panics
    ///
    /// A panic of the tool is an outcome. But a tool for reading that does not answer at once needs a clock: inside a
    /// tokio runtime that was built without one (`enable_time`), the call panics as every timer there does.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the call unsettled, and the context refuses to go on.
    ///
    /// # Examples
    ///
    /// ```
    /// use relight_core::ToolOutcome;
    /// use relight_runtime::{RunCtx, RuntimeError, Tool};
    /// use serde_json::json;
    ///
    /// async fn pay(ctx: &mut RunCtx, bank: &dyn Tool) -> Result<(), RuntimeError> {
    ///     match ctx.tool_call(bank, json!({"to": "alice", "amount": 5})).await? {
    ///         ToolOutcome::Returned(receipt) => println!("paid: {receipt}"),
    ///         ToolOutcome::Failed(failure) => println!("not paid: {failure}"),
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub async fn tool_call(&mut self, tool: &dyn Tool, input: Value) -> Result<ToolOutcome, RuntimeError> {
        self.enter().await?;
        let result = self.tool_outcome(tool, input).await;
        self.leave(result)
    }

    async fn tool_outcome(&mut self, tool: &dyn Tool, input: Value) -> Result<ToolOutcome, RuntimeError> {
        // Asked once: what is recorded and what is done speak of one and the same tool.
        let spec = tool.spec();
        let found = self.replay.ask(&self.lane, Ask::ToolCall { tool: &spec.name, input: &input })?;
        let key = || idempotency_key(self.run, &self.lane, found.ordinal);
        match found.step {
            Step::Recorded(Settled::Outcome(outcome)) => {
                let outcome = outcome.clone();
                self.sequencer.observer().observe(Notice::Replayed);
                Ok(outcome)
            }
            Step::Recorded(_) => unreachable!("a tool call is not settled by a model"),
            Step::Live => {
                let key = key();
                self.begin_tool(tool, spec, input, key).await
            }
            Step::Dangling(dangling) => {
                let attempt = Attempt {
                    tool,
                    name: &spec.name,
                    intent: dangling.intent,
                    // A tool that was declared otherwise when the call began is treated as the more careful of both.
                    effect: careful(dangling.effect.unwrap_or(spec.effect), spec.effect),
                    key: dangling.idempotency_key.map_or_else(key, str::to_owned),
                    input,
                };
                let cleared = dangling.cleared;
                match attempt.effect {
                    Effect::Write if !cleared => self.reconcile_earlier(attempt).await,
                    Effect::Read | Effect::Idempotent | Effect::Write => self.run_again(attempt).await,
                }
            }
        }
    }

    async fn begin_tool(
        &mut self,
        tool: &dyn Tool,
        spec: &ToolSpec,
        input: Value,
        key: String,
    ) -> Result<ToolOutcome, RuntimeError> {
        let misfit = self.misfit(spec, &input);
        self.prepare_live()?;
        let recorded_key = (spec.effect != Effect::Read).then(|| key.clone());
        let event = Event::tool_call_requested(&spec.name, input.clone(), spec.effect, recorded_key);
        // A read's intent waits for its outcome, unless something else has to be durable first.
        let may_wait = spec.effect == Effect::Read && !self.sequencer.has_waiting();
        let intent = self.sequencer.queue(&self.lane, event)?;
        if let Some(misfit) = misfit {
            return self.settle(intent, misfit).await;
        }
        if !may_wait {
            self.sequencer.flush().await?;
        }
        self.run(Attempt { tool, name: &spec.name, intent, effect: spec.effect, key, input }).await
    }

    /// Why an input must not reach its tool. Schemas are compiled once; a tool of the same name may have another one.
    fn misfit(&mut self, spec: &ToolSpec, input: &Value) -> Option<ToolOutcome> {
        if self.schemas.get(&spec.name).is_none_or(|schema| *schema.source() != spec.input_schema) {
            match Schema::compile(&spec.input_schema) {
                Ok(schema) => drop(self.schemas.insert(spec.name.clone(), schema)),
                Err(error) => return Some(failed("invalid_schema", error)),
            }
        }
        let misfit = self.schemas[&spec.name].check(input).err()?;
        Some(failed("invalid_input", format!("the input was refused: {misfit}")))
    }

    async fn run_again(&mut self, attempt: Attempt<'_>) -> Result<ToolOutcome, RuntimeError> {
        self.prepare_again()?;
        self.sequencer.flush().await?;
        self.run(attempt).await
    }

    async fn run(&mut self, attempt: Attempt<'_>) -> Result<ToolOutcome, RuntimeError> {
        let error = match self.called(&attempt).await? {
            Ok(value) => return self.settle(attempt.intent, returned(value)).await,
            Err(error) => error,
        };
        let failure = failed(&error.failure().code, &error.failure().message);
        if attempt.effect != Effect::Write || error.is_not_done() {
            return self.settle(attempt.intent, failure).await;
        }
        // What a failed write did is unknown. It is never handed over as a failure, to be called again.
        match attempt.reconciled(self.run).await {
            Reconciled::Done(value) => self.settle(attempt.intent, returned(value)).await,
            Reconciled::NotDone => self.settle(attempt.intent, failure).await,
            Reconciled::NotDoneYet => {
                let why = format!("it failed with: {error}; it was not done so far, but may still be");
                self.suspend(attempt, why).await
            }
            Reconciled::Unknown(why) => {
                self.suspend(attempt, format!("it failed with: {error}; {why}")).await
            }
        }
    }

    /// Calls the tool. A read's intent that still waits is appended while a slow read runs, so that it shows.
    async fn called(&mut self, attempt: &Attempt<'_>) -> Result<Result<Value, ToolError>, RuntimeError> {
        let run = self.run;
        // The call stands inside the block, since a tool may panic before it gives its future back.
        let mut call =
            pin!(AssertUnwindSafe(async { attempt.tool.call(attempt.call(run)).await }).catch_unwind());
        let early = match self.sequencer.has_waiting() {
            true => quickly(&mut call).await,
            false => None,
        };
        let result = match early {
            Some(result) => result,
            None => {
                self.sequencer.flush().await?;
                call.await
            }
        };
        let panicked = || ToolError::new("panicked", format!("the tool {} panicked", attempt.name));
        Ok(result.unwrap_or_else(|_| Err(panicked())))
    }

    /// Settles a write that an earlier drive began.
    async fn reconcile_earlier(&mut self, attempt: Attempt<'_>) -> Result<ToolOutcome, RuntimeError> {
        match attempt.reconciled(self.run).await {
            Reconciled::Done(value) => {
                self.prepare_live()?;
                self.settle(attempt.intent, returned(value)).await
            }
            Reconciled::NotDone => self.run_again(attempt).await,
            Reconciled::NotDoneYet => match may_still_act(self.replay.log(), attempt.intent) {
                None => self.run_again(attempt).await,
                Some(who) => {
                    self.suspend(attempt, format!("it was not done so far, but {who} may still do it")).await
                }
            },
            Reconciled::Unknown(why) => self.suspend(attempt, why).await,
        }
    }

    async fn settle(&mut self, intent: Seq, outcome: ToolOutcome) -> Result<ToolOutcome, RuntimeError> {
        self.sequencer.queue(&self.lane, Event::tool_call_completed(intent, outcome.clone()))?;
        self.sequencer.flush().await?;
        Ok(outcome)
    }

    async fn suspend(&mut self, attempt: Attempt<'_>, why: String) -> Result<ToolOutcome, RuntimeError> {
        let (intent, why) = (attempt.intent, shortened(why));
        let waits_already = matches!(
            self.sequencer.state(),
            RunState::Waiting { reason: WaitReason::Reconciliation { intent: awaited, .. }, .. } if *awaited == intent
        );
        if !waits_already {
            self.prepare_live()?;
            let reason = WaitReason::Reconciliation { intent, why: why.clone() };
            self.sequencer.queue(&self.lane, Event::suspended(reason))?;
            self.sequencer.flush().await?;
        }
        Err(RuntimeError::NeedsReconciliation(Box::new(UnknownWrite {
            run: self.run,
            intent,
            tool: attempt.name.to_owned(),
            input: attempt.input,
            idempotency_key: attempt.key,
            why,
        })))
    }
}

/// One attempt at a tool call.
struct Attempt<'a> {
    tool: &'a dyn Tool,
    name: &'a str,
    intent: Seq,
    effect: Effect,
    key: String,
    input: Value,
}

impl Attempt<'_> {
    fn call(&self, run: RunId) -> ToolCall<'_> {
        ToolCall::new(&self.input, &self.key, run, self.intent)
    }

    /// Asks the tool what became of a write; one that panics does not know.
    async fn reconciled(&self, run: RunId) -> Reconciled {
        let asked =
            AssertUnwindSafe(async { self.tool.reconcile(self.call(run)).await }).catch_unwind().await;
        asked.unwrap_or_else(|_| Reconciled::Unknown("the tool panicked when it was asked".to_owned()))
    }
}

/// Waits a moment for a read, so that its intent and its outcome make one append.
async fn quickly<T>(call: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    if let Some(result) = (&mut *call).now_or_never() {
        return Some(result);
    }
    // Other executors have no clock that could be asked.
    Handle::try_current().ok()?;
    timeout(QUICK, call).await.ok()
}

/// Who might still do a write that is not done so far; `None` where every process that may have tried is known dead.
///
/// This very process is not: what an earlier drive of it sent may still be under way.
fn may_still_act(log: &[EventEnvelope], intent: Seq) -> Option<String> {
    let process = |envelope: &EventEnvelope| match &envelope.event {
        Event::DriveStarted { process, .. } => Some((envelope.seq, process.clone())),
        _ => None,
    };
    // The drive that wrote the intent is the last that began before it; later ones may have tried again.
    let Some((began, _)) = log.iter().rev().filter_map(process).find(|(seq, _)| *seq < intent) else {
        return Some("the drive that began it, which left no note of its process,".to_owned());
    };
    let tried = log.iter().filter_map(process).filter(|(seq, _)| *seq >= began);
    let mut alive = tried.filter(|(_, process)| is_alive(process) != Some(false));
    alive.next().map(|(_, process)| format!("process {} on host {}", process.pid, process.host))
}

const fn careful(recorded: Effect, declared: Effect) -> Effect {
    match (recorded, declared) {
        (Effect::Write, _) | (_, Effect::Write) => Effect::Write,
        (Effect::Idempotent, _) | (_, Effect::Idempotent) => Effect::Idempotent,
        (Effect::Read, Effect::Read) => Effect::Read,
    }
}

/// The same on every attempt of a call, and different for every other call of any run.
fn idempotency_key(run: RunId, lane: &Lane, ordinal: u64) -> String {
    let call = format!("{run}\n{lane}\n{ordinal}");
    let digest = Digest::of_parts(KEY_DOMAIN, &[call.as_bytes()]).to_string();
    digest.trim_start_matches("sha256:").to_owned()
}

const KEY_DOMAIN: &str = "relight/idempotency-key/1\n";

/// How long the intent of a read waits to be appended together with its outcome.
const QUICK: Duration = Duration::from_millis(20);
