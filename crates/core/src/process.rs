//! Which process drives a run, so that another can tell whether it still lives.

use serde::{Deserialize, Serialize};

/// The identity of an operating system process, unique across hosts and reboots.
///
/// What reads it from the system lives in `relight-runtime`; an empty field means that the system does not tell.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Process {
    /// The host's name or machine id.
    pub host: String,
    /// An id that changes with each boot of the host.
    pub boot: String,
    /// The namespace in which `pid` counts.
    pub pid_namespace: String,
    /// The process id.
    pub pid: u32,
    /// When the process started, in a unit of the system's own.
    pub started: String,
}
