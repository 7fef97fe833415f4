//! What a test and its child process say to each other: one JSON value a line.

use std::path::PathBuf;

use relight_core::RunId;
use relight_runtime::{RunOutcome, RuntimeError};
use relight_store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a child is started with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// The SQLite file.
    pub(crate) store: PathBuf,
    /// Where its tools read and write.
    pub(crate) folder: PathBuf,
    /// The model server's address.
    pub(crate) model: String,
    /// How many pages the file may have.
    pub(crate) max_pages: Option<u32>,
}

/// What a child is told.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Start this run, or resume it where it has a log; over the one store handle that this child has.
    Drive { run: RunId, pause: Option<Pause> },
    /// Hold the store's file locked.
    Lock,
    /// Let go of it.
    Unlock,
}

/// Where a drive stops by itself and waits for its death.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Pause {
    /// Before this append, counted from zero.
    BeforeAppend(usize),
    /// After this append, which is done but not answered.
    AfterAppend(usize),
    /// When this tool is called, before it does anything.
    BeforeWork(Work),
    /// When this tool has done its work, before it returns.
    AfterWork(Work),
}

/// The agent's tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Reads.
    Look,
    /// Writes, once.
    Pay,
    /// Writes, as often as it likes.
    Note,
}

/// What a child says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// It runs and waits for orders; no store is open yet.
    Ready,
    /// The drive is where it was told to stop.
    Paused,
    /// The file is locked.
    Locked,
    /// The file is free again.
    Unlocked,
    /// The drive ended, and with it the run.
    Completed(Value),
    /// The drive ended without the run's end.
    Stopped(Stop, String),
}

/// Why a drive ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stop {
    Conflict,
    StillDriven,
    Full,
    Model,
    Other,
}

impl Report {
    pub(crate) fn of(ended: Result<RunOutcome, RuntimeError>) -> Report {
        let error = match ended {
            Ok(RunOutcome::Completed { output }) => return Report::Completed(output),
            Ok(other) => return Report::Stopped(Stop::Other, format!("{other:?}")),
            Err(error) => error,
        };
        let stop = match &error {
            RuntimeError::Store(StoreError::Conflict { .. }) => Stop::Conflict,
            RuntimeError::Store(StoreError::Full { .. }) => Stop::Full,
            RuntimeError::StillDriven { .. } => Stop::StillDriven,
            RuntimeError::Model(_) => Stop::Model,
            _ => Stop::Other,
        };
        Report::Stopped(stop, error.to_string())
    }

    pub(crate) fn stop(&self) -> Option<Stop> {
        match self {
            Report::Stopped(stop, _) => Some(*stop),
            _ => None,
        }
    }
}
