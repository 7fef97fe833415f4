//! Tool calls: what is recorded around them, and what a call that an earlier drive began and never settled means.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use relight_core::{
    Digest, Effect, Event, Lane, RunId, RunState, Seq, ToolFailure, ToolOutcome, WaitReason,
    replay::{Ask, Settled, Step},
};
use serde_json::Value;
use tokio::time::{Duration, timeout};

use super::{Driver, RunCtx};
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
    /// # Cancel safety
    ///
    /// Dropping the future leaves the call unsettled, and the context refuses to go on.
    pub async fn tool_call(&mut self, tool: &dyn Tool, input: Value) -> Result<ToolOutcome, RuntimeError> {
        self.enter()?;
        let result = self.tool_outcome(tool, input).await;
        self.leave(result)
    }

    async fn tool_outcome(&mut self, tool: &dyn Tool, input: Value) -> Result<ToolOutcome, RuntimeError> {
        let spec = tool.spec();
        let found = self.replay.ask(&self.lane, Ask::ToolCall { tool: &spec.name, input: &input })?;
        let ordinal = found.ordinal;
        match found.step {
            Step::Recorded(Settled::Outcome(outcome)) => {
                let outcome = outcome.clone();
                self.sequencer.observer().observe(Notice::Replayed);
                Ok(outcome)
            }
            Step::Recorded(_) => unreachable!("a tool call is not settled by a model"),
            Step::Live => {
                let key = idempotency_key(self.run, &self.lane, ordinal);
                self.begin_tool(tool, input, key).await
            }
            Step::Dangling(dangling) => {
                let attempt = Attempt {
                    intent: dangling.intent,
                    // A tool that was declared otherwise when the call began is treated as the more careful of both.
                    effect: careful(dangling.effect.unwrap_or(spec.effect), spec.effect),
                    key: match dangling.idempotency_key {
                        Some(key) => key.to_owned(),
                        None => idempotency_key(self.run, &self.lane, ordinal),
                    },
                    input,
                };
                let cleared = dangling.cleared;
                match attempt.effect {
                    Effect::Write if !cleared => self.reconcile_earlier(tool, attempt).await,
                    Effect::Read | Effect::Idempotent | Effect::Write => self.run_again(tool, attempt).await,
                }
            }
        }
    }

    async fn begin_tool(
        &mut self,
        tool: &dyn Tool,
        input: Value,
        key: String,
    ) -> Result<ToolOutcome, RuntimeError> {
        let spec = tool.spec();
        let misfit = self.misfit(spec, &input);
        self.prepare_live()?;
        let recorded_key = (spec.effect != Effect::Read).then(|| key.clone());
        let event = Event::tool_call_requested(&spec.name, input.clone(), spec.effect, recorded_key);
        // A read's intent waits for its outcome, unless something else has to be durable first.
        let may_wait = spec.effect == Effect::Read && !self.sequencer.has_waiting();
        let intent = self.sequencer.queue(&self.lane, event)?;
        if let Some(failure) = misfit {
            return self.settle(intent, ToolOutcome::Failed(failure)).await;
        }
        let attempt = Attempt { intent, effect: spec.effect, key, input };
        if !may_wait {
            self.sequencer.flush().await?;
        }
        self.run_attempt(tool, attempt).await
    }

    /// Why an input must not reach its tool. Schemas are compiled once; a tool of the same name may have another one.
    fn misfit(&mut self, spec: &ToolSpec, input: &Value) -> Option<ToolFailure> {
        let failure = |code: &str, message: String| Some(ToolFailure { code: code.to_owned(), message });
        if self.schemas.get(&spec.name).is_none_or(|schema| *schema.source() != spec.input_schema) {
            match Schema::compile(&spec.input_schema) {
                Ok(schema) => drop(self.schemas.insert(spec.name.clone(), schema)),
                Err(error) => return failure("invalid_schema", error),
            }
        }
        let misfit = self.schemas[&spec.name].check(input).err()?;
        failure("invalid_input", format!("the input was refused: {misfit}"))
    }

    async fn run_again(&mut self, tool: &dyn Tool, attempt: Attempt) -> Result<ToolOutcome, RuntimeError> {
        self.prepare_again()?;
        self.sequencer.flush().await?;
        self.run_attempt(tool, attempt).await
    }

    async fn run_attempt(&mut self, tool: &dyn Tool, attempt: Attempt) -> Result<ToolOutcome, RuntimeError> {
        let result = {
            let mut call = std::pin::pin!(AssertUnwindSafe(tool.call(attempt.call(self.run))).catch_unwind());
            match timeout(QUICK, &mut call).await {
                Ok(result) => result,
                Err(_) => {
                    // A slow read shows in the log while it runs.
                    self.sequencer.flush().await?;
                    call.await
                }
            }
        };
        let error = match result {
            Ok(Ok(value)) => return self.settle(attempt.intent, returned(value)).await,
            Ok(Err(error)) => error,
            Err(_) => ToolError::new("panicked", format!("the tool {} panicked", tool.spec().name)),
        };
        if attempt.effect != Effect::Write || error.is_not_done() {
            return self.settle(attempt.intent, ToolOutcome::Failed(error.into_failure())).await;
        }
        // What a failed write did is unknown. It is never handed over as a failure, to be called again.
        match reconciled(tool, attempt.call(self.run)).await {
            Reconciled::Done(value) => self.settle(attempt.intent, returned(value)).await,
            Reconciled::NotDone => {
                self.settle(attempt.intent, ToolOutcome::Failed(error.into_failure())).await
            }
            Reconciled::NotDoneYet => {
                let why = format!("it failed with: {error}; it was not done so far, but may still be");
                self.suspend(tool, attempt, why).await
            }
            Reconciled::Unknown(why) => {
                self.suspend(tool, attempt, format!("it failed with: {error}; {why}")).await
            }
        }
    }

    /// Settles a write that an earlier drive began.
    async fn reconcile_earlier(
        &mut self,
        tool: &dyn Tool,
        attempt: Attempt,
    ) -> Result<ToolOutcome, RuntimeError> {
        match reconciled(tool, attempt.call(self.run)).await {
            Reconciled::Done(value) => {
                self.prepare_live()?;
                self.settle(attempt.intent, returned(value)).await
            }
            Reconciled::NotDone => self.run_again(tool, attempt).await,
            Reconciled::NotDoneYet => match self.earlier_attempt_may_act(attempt.intent) {
                None => self.run_again(tool, attempt).await,
                Some(why) => self.suspend(tool, attempt, why).await,
            },
            Reconciled::Unknown(why) => self.suspend(tool, attempt, why).await,
        }
    }

    /// Why an earlier attempt might still do the write; `None` where every process that may have tried is dead.
    fn earlier_attempt_may_act(&self, intent: Seq) -> Option<String> {
        if let Driver::Runtime { active, .. } = &self.driver
            && active.has_rival()
        {
            return Some(
                "it was not done so far, but another drive of this run is alive in this process".to_owned(),
            );
        }
        let log = self.replay.log();
        // The drive that wrote the intent is the last that began before it; later ones may have tried again.
        let before = log.iter().rfind(|e| e.seq < intent && matches!(e.event, Event::DriveStarted { .. }));
        let after = log.iter().filter(|e| e.seq > intent);
        before.into_iter().chain(after).find_map(|envelope| {
            let Event::DriveStarted { process, .. } = &envelope.event else { return None };
            if process == crate::process::this_process() || is_alive(process) == Some(false) {
                return None;
            }
            let (pid, host) = (process.pid, &process.host);
            Some(format!("it was not done so far, but process {pid} on host {host} may still do it"))
        })
    }

    async fn settle(&mut self, intent: Seq, outcome: ToolOutcome) -> Result<ToolOutcome, RuntimeError> {
        self.sequencer.queue(&self.lane, Event::tool_call_completed(intent, outcome.clone()))?;
        self.sequencer.flush().await?;
        Ok(outcome)
    }

    async fn suspend(
        &mut self,
        tool: &dyn Tool,
        attempt: Attempt,
        why: String,
    ) -> Result<ToolOutcome, RuntimeError> {
        let intent = attempt.intent;
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
            tool: tool.spec().name.clone(),
            input: attempt.input,
            idempotency_key: attempt.key,
            why,
        })))
    }
}

/// One attempt at a tool call.
struct Attempt {
    intent: Seq,
    effect: Effect,
    key: String,
    input: Value,
}

impl Attempt {
    fn call(&self, run: RunId) -> ToolCall<'_> {
        ToolCall::new(&self.input, &self.key, run, self.intent)
    }
}

/// Asks a tool what became of a write; one that panics does not know.
async fn reconciled(tool: &dyn Tool, call: ToolCall<'_>) -> Reconciled {
    let asked = AssertUnwindSafe(tool.reconcile(call)).catch_unwind().await;
    asked.unwrap_or_else(|_| Reconciled::Unknown("the tool panicked when it was asked".to_owned()))
}

/// The outcome of a tool that returned, unless its value is too large to record.
fn returned(value: Value) -> ToolOutcome {
    let failed =
        |code: &str, message: String| ToolOutcome::Failed(ToolFailure { code: code.to_owned(), message });
    if is_deeper(&value, MAX_OUTPUT_DEPTH) {
        let message = format!("it was done, but its output nests deeper than {MAX_OUTPUT_DEPTH} levels");
        return failed("output_too_deep", message);
    }
    let bytes = value.to_string().len();
    if bytes > MAX_OUTPUT_BYTES {
        let message =
            format!("it was done, but its output of {bytes} bytes is over the limit of {MAX_OUTPUT_BYTES}");
        return failed("output_too_large", message);
    }
    ToolOutcome::Returned(value)
}

/// Whether a value nests deeper than `levels`; never looks further down than that.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return value.is_array() || value.is_object() };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper(item, below)),
        Value::Object(fields) => fields.values().any(|field| is_deeper(field, below)),
        _ => false,
    }
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

/// What a tool may return, in bytes of JSON.
const MAX_OUTPUT_BYTES: usize = 8 << 20;

/// How deep the JSON that a tool returns may nest: it stands a few levels down in the event that records it.
const MAX_OUTPUT_DEPTH: usize = relight_core::MAX_DEPTH - 8;

/// How long the intent of a read waits to be appended together with its outcome.
const QUICK: Duration = Duration::from_millis(20);
