//! The driver's side: starts a guard, gives it its job, and waits for the report.

use std::{ffi::OsString, fmt, process::Stdio};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::Command,
};

use super::{COMMAND, Job, KeyLock, Report};
use crate::own_binary;

/// A guard that did not report.
#[derive(Debug)]
pub(crate) enum GuardError {
    /// It was not started, so nothing was done.
    NotStarted(String),
    /// It is gone, and nobody knows what became of the command.
    Lost(String),
}

/// Runs a command under a guard.
///
/// # Cancel safety
///
/// Dropping the future closes the guard's pipe, which ends the command and all that it started.
pub(crate) async fn run(
    job: &Job,
    lock: KeyLock,
    variables: &[(&str, String)],
    without: &[OsString],
) -> Result<Report, GuardError> {
    let not_started =
        |error: &dyn fmt::Display| GuardError::NotStarted(format!("its guard cannot start: {error}"));
    let mut line = serde_json::to_string(job).map_err(|error| not_started(&error))?;
    line.push('\n');
    let mut command = Command::new(own_binary::path().map_err(|error| not_started(&error))?);
    command.arg0("relight").arg(COMMAND).envs(variables.iter().map(|(name, value)| (name, value)));
    for name in without {
        command.env_remove(name);
    }
    // A group of its own, so that Ctrl-C reaches the driver alone, which then ends the command.
    command
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::from(lock.into_file()));
    let mut guard = command.spawn().map_err(|error| not_started(&error))?;
    // The lock is the guard's alone from here on.
    drop(command);
    let (mut pipe, mut answer) =
        (guard.stdin.take().expect("it is piped"), guard.stdout.take().expect("it is piped"));
    let lost = |error: &dyn fmt::Display| GuardError::Lost(format!("its guard is gone: {error}"));
    pipe.write_all(line.as_bytes()).await.map_err(|error| lost(&error))?;
    let mut report = String::new();
    answer.read_to_string(&mut report).await.map_err(|error| lost(&error))?;
    let status = guard.wait().await.map_err(|error| lost(&error))?;
    drop(pipe);
    serde_json::from_str(&report).map_err(|_| lost(&status))
}
