//! What a log is and means, tried from outside: laws on random logs, examples of each refusal, logs of old versions.
#![expect(clippy::unwrap_used, reason = "a test stops where it is surprised")]

mod chain;
mod dangling;
mod divergence;
mod encoding;
mod golden;
mod hostile;
mod json;
mod laws;
mod page;
mod program;
mod requests;
mod support;
mod transitions;
mod walk;
