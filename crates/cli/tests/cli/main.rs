//! The `relight` binary as its users meet it: a process with arguments, files, signals, output and an exit code.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod anywhere;
mod crashes;
mod demo;
mod guard;
mod inspect;
mod mistakes;
mod output;
mod protocols;
mod repair;
mod run;
mod secrets;
mod signals;
mod stores;
mod support;
