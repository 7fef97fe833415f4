//! The tools that an agent file can give to its agent.

mod command;
pub(crate) mod guard;
mod ledger;
mod read_file;

pub(crate) use command::{CommandTool, Limits, Program};
pub(crate) use ledger::Ledger;
pub(crate) use read_file::ReadFile;
