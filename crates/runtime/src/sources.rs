//! Where time and randomness come from: two functions that a test may replace.

use std::sync::Arc;

use jiff::Timestamp;
use relight_store::EventStore;

use crate::observer::Observer;

/// Tells the time; every `recorded_at` comes from it.
pub type ClockFn = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Draws 64 random bits, for whatever a run makes up.
pub type RandomFn = Arc<dyn Fn() -> u64 + Send + Sync>;

/// What a drive is given from outside.
#[derive(Clone)]
pub(crate) struct Hooks {
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) clock: ClockFn,
    pub(crate) random: RandomFn,
    pub(crate) observer: Arc<dyn Observer>,
}

/// The system's clock.
pub fn system_clock() -> ClockFn {
    Arc::new(Timestamp::now)
}

/// The operating system's entropy.
///
/// # Panics
///
/// The function panics where the operating system has no entropy to give.
pub fn system_random() -> RandomFn {
    Arc::new(|| getrandom::u64().expect("the operating system gives entropy"))
}
