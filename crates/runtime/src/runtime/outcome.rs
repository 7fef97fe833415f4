//! How a drive ended.

use relight_core::{RunState, WaitReason};
use serde_json::Value;

/// How a drive ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RunOutcome {
    /// The run is over.
    Completed {
        /// What the code returned.
        output: Value,
    },
    /// The run is over: its code gave up.
    Failed {
        /// A short word for programs.
        code: String,
        /// One line for people.
        message: String,
    },
    /// The run was ended from outside.
    Cancelled,
    /// The run waits; resume it when what it waits for has come.
    Waiting {
        /// What for.
        reason: WaitReason,
    },
}

impl RunOutcome {
    /// What a log says; `None` where the run may be driven at once.
    pub(crate) fn of(state: &RunState) -> Option<Self> {
        match state {
            RunState::NotStarted | RunState::Running(_) => None,
            RunState::Waiting { reason, .. } => Some(Self::Waiting { reason: reason.clone() }),
            RunState::Completed { output, .. } => Some(Self::Completed { output: output.clone() }),
            RunState::Failed { code, message, .. } => {
                Some(Self::Failed { code: code.clone(), message: message.clone() })
            }
            RunState::Cancelling(_) | RunState::Cancelled(_) => Some(Self::Cancelled),
        }
    }
}
