//! Durable execution of agents: `RunCtx`, tools, agents and the runtime that drives them.
//!
//! A run is an event log. What the code asks for is written down before it starts and when it ends; run again over
//! the same log, the code gets the recorded results and goes on from where the log ends.
//!
//! | to learn | read |
//! |---|---|
//! | what code may do inside a run | [`RunCtx`] |
//! | how runs are started, resumed and repaired | [`Runtime`] |
//! | what a tool is, and what a crash in it means | [`Tool`] |
//! | the loop of model and tools | [`Agent`] |
//! | code of one's own | [`Workflow`] |

mod agent;
mod ctx;
mod error;
mod observer;
mod process;
mod runtime;
mod schema;
mod sequencer;
mod sources;
mod tool;

pub use agent::{Agent, AgentBuilder};
pub use ctx::{ModelTurn, Recording, RunCtx};
pub use error::{RuntimeError, UnknownWrite};
pub use observer::{Notice, Observer};
pub use process::{is_alive, this_process};
pub use relight_core::budget::{Budget, Limit};
pub use runtime::{RunOutcome, Runtime, Start, Workflow};
pub use schema::{Misfit, Schema};
pub use sources::{ClockFn, RandomFn, system_clock, system_random};
pub use tool::{Reconciled, Tool, ToolCall, ToolError, ToolSpec};
