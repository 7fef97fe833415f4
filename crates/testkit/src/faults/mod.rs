//! Stores that fail where a test tells them to.

mod crash;
mod failing;

pub use crash::{CrashPoint, CrashStore};
pub use failing::{FailingStore, Fault, StoreCall};
