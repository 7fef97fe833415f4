//! What a Relight log is and means: event types, hash chain, replay and state, all pure.
//!
//! Nothing here does IO, reads a clock, draws randomness or awaits. A log goes in as events;
//! what the run may do next comes out.
//!
//! | to learn | read |
//! |---|---|
//! | what is recorded | [`Event`], [`EventEnvelope`] |
//! | how records are linked and checked | [`chain`] |
//! | what a run may do next | [`replay`] |
//! | what a run is up to | [`RunState`], [`RunStatus`], [`RunSummary`] |
//! | how model requests are recorded | [`request`] |
//! | limits on steps and tokens | [`budget`] |
//! | how a log is exported | [`ExportLine`] |

pub mod budget;
pub mod chain;
mod depth;
mod envelope;
mod error;
mod event;
mod export;
mod ids;
mod outcome;
mod process;
mod progress;
pub mod replay;
pub mod request;
mod state;
mod summary;
mod wire;

pub use chain::Record;
pub use depth::MAX_DEPTH;
pub use envelope::{EventEnvelope, SCHEMA_VERSION};
pub use error::LogError;
pub use event::{Event, Role};
pub use export::{ExportError, ExportLine};
pub use ids::{Effect, Lane, LaneStep, ParseIdError, RunId, Seq, TokenUsage};
pub use outcome::{Resolution, ToolFailure, ToolOutcome, WaitReason};
pub use process::Process;
pub use progress::{OpenIntent, Progress};
pub use relight_canonical::Digest;
pub use replay::Divergence;
pub use state::RunState;
pub use summary::{RunStatus, RunSummary, StatusKind};
