//! Why a command did not do what it was asked: one line for people, one code for scripts.

use std::fmt;

use relight::{
    RuntimeError, StoreError,
    core::{LogError, ParseIdError},
};

use crate::{exit::Exit, output::text::one_line};

/// Ends a command. Printed as `error: MESSAGE`, on one line.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// The arguments, a file that was given, or the environment are at fault.
    pub(crate) fn bad_input(message: impl Into<String>) -> Self {
        Self::new(Exit::BadInput, message)
    }

    /// The same failure with a way to go on.
    #[must_use]
    pub(crate) fn with_hint(mut self, hint: &str) -> Self {
        self.message = format!("{}; {hint}", self.message);
        self
    }
}

/// Whatever the message is made of (file contents, answers of servers), it stays on one line.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&self.message))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let exit = match &error {
            StoreError::Conflict { .. } | StoreError::Fenced { .. } => Exit::Refused,
            StoreError::UnknownRun { .. } => Exit::NoSuchRun,
            StoreError::Corrupt { .. } | StoreError::Damaged { .. } => Exit::Damaged,
            _ => Exit::StoreFailed,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        let exit = match &error {
            LogError::Corrupt { .. } => Exit::Damaged,
            LogError::Newer { .. } => Exit::StoreFailed,
            _ => Exit::Unexpected,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Self {
        let exit = match error {
            RuntimeError::Store(error) => return error.into(),
            RuntimeError::Log(error) => return error.into(),
            RuntimeError::Model(_) => Exit::ModelFailed,
            RuntimeError::Diverged(_) => Exit::Damaged,
            RuntimeError::NeedsReconciliation(_) | RuntimeError::OverBudget { .. } => Exit::RunWaits,
            RuntimeError::Failed { .. } => Exit::RunFailed,
            RuntimeError::Ended { .. } | RuntimeError::StillDriven { .. } | RuntimeError::NotOpen { .. } => {
                Exit::Refused
            }
            RuntimeError::NotJson(_) | RuntimeError::InvalidAgent(_) => Exit::BadInput,
            _ => Exit::Unexpected,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<ParseIdError> for Failure {
    fn from(error: ParseIdError) -> Self {
        Self::bad_input(error.to_string())
    }
}
