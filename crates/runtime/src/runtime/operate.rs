//! What people do to runs: resolve an unknown write, raise a limit, cancel. Each appends at the head that it read;
//! a live driver meets the conflict and stops.

use relight_core::{
    Effect, Event, EventEnvelope, Lane, OpenIntent, Progress, Resolution, RunId, RunState, Seq, budget::Limit,
};
use relight_store::StoreError;

use super::Runtime;
use crate::{RuntimeError, sequencer::Sequencer};

/// How often an operation reads again when a driver appends in between.
const TRIES: u32 = 16;

impl Runtime {
    /// Says what became of a tool call whose outcome is unknown; the run may be resumed then.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::NotOpen`] where `intent` is no such call, [`RuntimeError::Ended`] where the run is over.
    pub async fn resolve(
        &self,
        run: RunId,
        intent: Seq,
        resolution: Resolution,
        by: &str,
    ) -> Result<(), RuntimeError> {
        self.note(run, |progress| match progress.open.get(&intent) {
            Some(OpenIntent::ToolCall { .. }) => Ok(vec![Event::resolved(intent, resolution.clone(), by)]),
            Some(OpenIntent::ModelCall) | None => Err(RuntimeError::NotOpen { run, intent }),
        })
        .await
    }

    /// Raises a limit of this run to `to`; it may be resumed then.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Ended`] where the run is over.
    pub async fn raise(&self, run: RunId, limit: Limit, to: u64, by: &str) -> Result<(), RuntimeError> {
        self.note(run, |_| Ok(vec![Event::budget_raised(limit, to, by)])).await
    }

    /// Ends a run. Writes whose outcome is unknown are listed in its last event and stay so.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Ended`] where the run is over.
    pub async fn cancel(&self, run: RunId, by: &str) -> Result<(), RuntimeError> {
        self.note(run, |progress| {
            let is_write =
                |open: &OpenIntent| matches!(open, OpenIntent::ToolCall { effect: Effect::Write, .. });
            let unsettled = progress.open.iter().filter(|(_, open)| is_write(open)).map(|(seq, _)| *seq);
            Ok(vec![Event::cancel_requested(by), Event::run_cancelled(unsettled.collect())])
        })
        .await
    }

    /// Appends what `decide` makes of the run's progress, at the head that it was read at.
    async fn note(
        &self,
        run: RunId,
        decide: impl Fn(&Progress) -> Result<Vec<Event>, RuntimeError>,
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
            let events = decide(progress)?;
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
