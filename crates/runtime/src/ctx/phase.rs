//! Whether a context may be used.

use relight_core::StatusKind;

use super::RunCtx;
use crate::{RunOutcome, error::RuntimeError};

/// Whether the context may be used.
///
/// ```text
///  Fresh ──begin──▶ Ready ──operation──▶ Busy ──ends─────▶ Ready
///                                         ├────is over───▶ Ended
///                                         ├────waits─────▶ Suspended
///                                         ├────fails─────▶ Stopped
///                                         └────dropped───▶ stays Busy: refused from then on
/// ```
#[derive(Debug)]
pub(super) enum Phase {
    Fresh,
    Ready,
    Busy,
    /// The run waits for something outside.
    Suspended {
        why: String,
    },
    /// Some other error stopped it.
    Stopped {
        why: String,
    },
    /// The run is over.
    Ended,
}

impl RunCtx {
    /// Claims the context for one operation; it stays claimed if the operation is dropped.
    pub(super) async fn enter(&mut self) -> Result<(), RuntimeError> {
        // In replay, and where store and tools answer at once, nothing else would ever let other tasks of the thread
        // go on.
        tokio::task::consume_budget().await;
        let run = self.run;
        match &self.phase {
            Phase::Ready => {
                self.phase = Phase::Busy;
                Ok(())
            }
            Phase::Fresh => Err(RuntimeError::Misuse { run, what: "call begin before anything else" }),
            Phase::Busy => Err(RuntimeError::Dropped { run }),
            Phase::Suspended { why } | Phase::Stopped { why } => {
                Err(RuntimeError::Stopped { run, why: why.clone() })
            }
            Phase::Ended => {
                let status = self.state().status().map_or(StatusKind::Completed, |status| status.kind());
                Err(RuntimeError::Ended { run, status })
            }
        }
    }

    /// Claims the context for its beginning.
    pub(super) fn enter_first(&mut self) -> Result<(), RuntimeError> {
        match self.phase {
            Phase::Fresh => {
                self.phase = Phase::Busy;
                Ok(())
            }
            Phase::Busy => Err(RuntimeError::Dropped { run: self.run }),
            Phase::Ready | Phase::Suspended { .. } | Phase::Stopped { .. } | Phase::Ended => {
                let what = "begin is called once, before anything else";
                Err(RuntimeError::Misuse { run: self.run, what })
            }
        }
    }

    /// Gives the context back after an operation. Code may go on from a model's error; every other one stops it.
    pub(super) fn leave<T>(&mut self, result: Result<T, RuntimeError>) -> Result<T, RuntimeError> {
        self.phase = match &result {
            Ok(_) | Err(RuntimeError::Model(_)) => Phase::Ready,
            Err(error @ (RuntimeError::NeedsReconciliation(_) | RuntimeError::OverBudget { .. })) => {
                Phase::Suspended { why: error.to_string() }
            }
            Err(error) => Phase::Stopped { why: error.to_string() },
        };
        result
    }

    /// How the drive ended, where an operation of this context ended it, whatever the code made of that.
    pub(crate) fn conclusion(&self) -> Option<RunOutcome> {
        match self.phase {
            Phase::Suspended { .. } | Phase::Ended => RunOutcome::of(self.state()),
            Phase::Fresh | Phase::Ready | Phase::Busy | Phase::Stopped { .. } => None,
        }
    }
}
