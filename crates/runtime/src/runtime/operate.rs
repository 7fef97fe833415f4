//! What people do to runs: resolve an unknown write, raise a limit, cancel. Each appends at the head that it read;
//! a live driver meets the conflict and stops.

use relight_core::{
    Effect, Event, EventEnvelope, Lane, OpenIntent, Progress, Resolution, RunId, RunState, Seq, budget::Limit,
};
use relight_store::StoreError;

use super::{Runtime, driver_elsewhere, still_driven};
use crate::{
    RuntimeError,
    process::{Active, this_process},
    sequencer::Sequencer,
};

impl Runtime {
    /// Says what became of a tool call whose outcome is unknown; the run may be resumed then.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::NotOpen`] where `intent` is no such call, [`RuntimeError::Ended`] where the run is over, and
    /// [`RuntimeError::StillDriven`] for *not done* while a process is seen that may be doing it.
    ///
    /// # Examples
    ///
    /// ```
    /// use relight_core::{Resolution, RunId, Seq, ToolOutcome};
    /// use relight_runtime::{Runtime, RuntimeError};
    /// use serde_json::json;
    ///
    /// async fn it_was_paid(runtime: &Runtime, run: RunId, payment: Seq) -> Result<(), RuntimeError> {
    ///     let outcome = ToolOutcome::Returned(json!({"receipt": 4711}));
    ///     runtime.resolve(run, payment, Resolution::Outcome(outcome), "ada").await
    /// }
    /// ```
    pub async fn resolve(
        &self,
        run: RunId,
        intent: Seq,
        resolution: Resolution,
        by: &str,
    ) -> Result<(), RuntimeError> {
        self.note(run, |log, progress| {
            match progress.open.get(&intent) {
                Some(OpenIntent::ToolCall { .. }) => {}
                Some(OpenIntent::ModelCall) | None => return Err(RuntimeError::NotOpen { run, intent }),
            }
            // What is being done now would be done again, since this word lets it run a second time.
            if resolution == (Resolution::NotDone {}) {
                self.refuse_while_driven(run, log)?;
            }
            Ok(vec![Event::resolved(intent, resolution.clone(), by)])
        })
        .await
    }

    /// Raises a limit of this run to `to`; it may be resumed then. A limit that is higher already stays.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Ended`] where the run is over.
    ///
    /// # Examples
    ///
    /// ```
    /// use relight_core::RunId;
    /// use relight_runtime::{Limit, Runtime, RuntimeError};
    ///
    /// async fn twenty_more(runtime: &Runtime, run: RunId) -> Result<(), RuntimeError> {
    ///     runtime.raise(run, Limit::Steps, 40, "ada").await
    /// }
    /// ```
    pub async fn raise(&self, run: RunId, limit: Limit, to: u64, by: &str) -> Result<(), RuntimeError> {
        self.note(run, |_, _| Ok(vec![Event::budget_raised(limit, to, by)])).await
    }

    /// Ends a run. Writes whose outcome is unknown are listed in its last event and stay so.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Ended`] where the run is over.
    ///
    /// # Examples
    ///
    /// ```
    /// use relight_core::RunId;
    /// use relight_runtime::{Runtime, RuntimeError};
    ///
    /// async fn stop(runtime: &Runtime, run: RunId) -> Result<(), RuntimeError> {
    ///     runtime.cancel(run, "ada").await
    /// }
    /// ```
    pub async fn cancel(&self, run: RunId, by: &str) -> Result<(), RuntimeError> {
        self.note(run, |_, progress| {
            let is_write =
                |open: &OpenIntent| matches!(open, OpenIntent::ToolCall { effect: Effect::Write, .. });
            let unsettled = progress.open.iter().filter(|(_, open)| is_write(open)).map(|(seq, _)| *seq);
            Ok(vec![Event::cancel_requested(by), Event::run_cancelled(unsettled.collect())])
        })
        .await
    }

    fn refuse_while_driven(&self, run: RunId, log: &[EventEnvelope]) -> Result<(), RuntimeError> {
        if Active::is_driven(run, &self.hooks.store) {
            return Err(still_driven(run, this_process()));
        }
        driver_elsewhere(log).map_or(Ok(()), |process| Err(still_driven(run, process)))
    }

    /// Appends what `decide` makes of the run's log and progress, at the head that they were read at.
    async fn note(
        &self,
        run: RunId,
        decide: impl Fn(&[EventEnvelope], &Progress) -> Result<Vec<Event>, RuntimeError>,
    ) -> Result<(), RuntimeError> {
        let mut tries = 1;
        loop {
            let log: Vec<EventEnvelope> = self.hooks.store.read_log(run).await?;
            let state = RunState::fold(&log)?;
            let status = state.status().map(|status| status.kind());
            if let Some(status) = status.filter(|status| status.is_ended()) {
                return Err(RuntimeError::Ended { run, status });
            }
            let Some(progress) = state.progress() else { return Err(StoreError::UnknownRun { run }.into()) };
            let events = decide(&log, progress)?;
            let mut sequencer = Sequencer::new(self.hooks.clone(), run, state);
            for event in events {
                sequencer.queue(&Lane::ROOT, event)?;
            }
            match sequencer.flush().await {
                Err(RuntimeError::Store(StoreError::Conflict { .. })) if tries < TRIES => tries += 1,
                result => return result,
            }
        }
    }
}

/// How often an operation reads again when a driver appends in between.
const TRIES: u32 = 16;
