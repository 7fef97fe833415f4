//! Budget checks: a recorded decision is replayed, never computed again.

use relight_core::{
    Event, WaitReason,
    budget::{Budget, Limit},
    replay::Checked,
};

use super::RunCtx;
use crate::error::RuntimeError;

impl RunCtx {
    /// Makes sure that there is budget left for another model call; where there is not, the run suspends until a
    /// person raises the limit.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::OverBudget`] where a limit is used up.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the run was suspended, and the context refuses to go on.
    ///
    /// # Examples
    ///
    /// ```
    /// use relight_runtime::{Budget, RunCtx, RuntimeError};
    ///
    /// async fn before_each_call(ctx: &mut RunCtx) -> Result<(), RuntimeError> {
    ///     ctx.check_budget(&Budget { steps: Some(20), ..Budget::default() }).await
    /// }
    /// ```
    pub async fn check_budget(&mut self, budget: &Budget) -> Result<(), RuntimeError> {
        self.enter().await?;
        let result = self.checked_budget(budget).await;
        self.leave(result)
    }

    async fn checked_budget(&mut self, budget: &Budget) -> Result<(), RuntimeError> {
        loop {
            match self.replay.check_budget(&self.lane) {
                Checked::Passed => return Ok(()),
                Checked::Raised => {}
                Checked::Exceeded(limit) => return Err(self.over(limit)),
                Checked::Live => break,
            }
        }
        let Some(progress) = self.sequencer.state().progress() else { return Ok(()) };
        let spent = progress.spent;
        let Some((limit, allowed)) = budget.exceeded(&progress.raised, &spent) else { return Ok(()) };
        self.prepare_live()?;
        self.sequencer.queue(&self.lane, Event::budget_exceeded(limit, allowed, spent.of(limit)))?;
        self.sequencer.queue(&self.lane, Event::suspended(WaitReason::Budget { limit }))?;
        self.sequencer.flush().await?;
        self.replay.budget_was_exceeded(&self.lane);
        Err(self.over(limit))
    }

    const fn over(&self, limit: Limit) -> RuntimeError {
        RuntimeError::OverBudget { run: self.run, limit }
    }
}
