//! Who drives, and what stands in the log before a drive does anything live.

use relight_core::{Event, Lane};

use super::RunCtx;
use crate::{
    error::RuntimeError,
    process::{Active, this_process},
};

/// Who drives, and whether the log says so yet.
#[derive(Debug)]
pub(super) struct Driver {
    kind: Kind,
    noted: bool,
}

#[derive(Debug)]
enum Kind {
    /// Code of the user's own: noted only before a tool runs again.
    Bare,
    /// The runtime: noted with the start, or before the first live act.
    Runtime { _active: Active },
}

impl Driver {
    pub(super) const fn bare() -> Self {
        Self { kind: Kind::Bare, noted: false }
    }

    pub(super) const fn runtime(active: Active) -> Self {
        Self { kind: Kind::Runtime { _active: active }, noted: false }
    }
}

impl RunCtx {
    /// Queues what must stand in the log before anything live: the failure that the code went on from, and, for a
    /// drive by the runtime, that it drives, so that a rival loses before it does anything.
    pub(super) fn prepare_live(&mut self) -> Result<(), RuntimeError> {
        if let Some((intent, error)) = self.failure.take() {
            let error = serde_json::to_value(&error).expect("a model error is plain data");
            self.sequencer.queue(&self.lane, Event::model_call_failed(intent, error))?;
        }
        match self.driver.kind {
            Kind::Runtime { .. } => self.note_driver(),
            Kind::Bare => Ok(()),
        }
    }

    /// Queues what must stand in the log before a tool runs again: also a bare context says that it tries.
    pub(super) fn prepare_again(&mut self) -> Result<(), RuntimeError> {
        self.prepare_live()?;
        self.note_driver()
    }

    fn note_driver(&mut self) -> Result<(), RuntimeError> {
        if self.driver.noted {
            return Ok(());
        }
        self.driver.noted = true;
        let drive = self.sequencer.state().progress().map_or(0, |progress| progress.drives) + 1;
        self.sequencer.queue(&Lane::ROOT, Event::drive_started(drive, this_process().clone(), CODE))?;
        Ok(())
    }
}

/// The version of the code that drives, as [`Event::DriveStarted`] names it.
const CODE: &str = concat!("relight ", env!("CARGO_PKG_VERSION"));
