//! The behaviours that the crates promise together: a model over a real socket, a store, and a run between them.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "helpers of tests stand outside of test functions")]

mod crashes;
mod divergence;
mod model_calls;
mod numbers;
mod replays;
mod rivals;
mod stop_reasons;
mod support;
mod writes;
