//! The guard: a small process beside each command tool, so that a command never outlives the drive that started it.
//!
//! ```text
//!  driver ──pipe──▶ guard ──group──▶ command, and whatever it starts
//!     ╰───────────── lock of the call's key ─────────────╯
//! ```
//!
//! The driver holds one end of a pipe. When it closes (the driver ended the call, or was killed by SIGKILL), the guard
//! kills the command's process group. On Linux it also adopts what left the group (by `setsid`, or as a daemon) and
//! kills it; elsewhere such a process escapes.
//!
//! A lock on a file named by the call's idempotency key passes from the driver to the guard and to all that the command
//! starts, and is free only when all of them are gone: also if the guard itself was killed, and without a moment
//! between driver and guard in which nobody holds it. A later drive waits for it before it asks what became of the call.

mod client;
mod group;
mod lock;
mod serve;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub(crate) use client::{GuardError, run};
pub(crate) use lock::{KEY_VARIABLE, KeyLock};
pub(crate) use serve::serve;

/// By which the binary knows that it is to be a guard.
pub(crate) const COMMAND: &str = "guard";

/// What a guard is told: one line of JSON on its stdin, which stays open as long as the driver wants the command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) folder: PathBuf,
    /// What the command reads from its stdin.
    pub(crate) input: String,
    pub(crate) timeout_ms: u64,
    pub(crate) max_output_bytes: usize,
    /// The file whose lock the guard inherits as its stderr; removed when nothing is left that could need it.
    pub(crate) lock: PathBuf,
}

/// What a guard answers: one line of JSON on its stdout, when the command and all that it started are gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum Report {
    /// Nothing was started.
    NotStarted { why: String },
    /// The command ended by itself.
    Exited {
        /// `None` where a signal ended it.
        code: Option<i32>,
        signal: Option<i32>,
        /// `None` where it is not UTF-8.
        stdout: Option<String>,
        stderr: String,
    },
    /// It was ended at its time limit.
    TimedOut { stderr: String },
    /// It was ended because it wrote more than it may.
    TooMuchOutput { stderr: String },
    /// It was ended because the driver is gone; nobody reads this.
    DriverGone,
}
