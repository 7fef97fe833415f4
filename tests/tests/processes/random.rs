//! Random numbers from a seed that can be given again.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use relight_conformance::SplitMix;

/// Moments drawn from a seed.
pub(crate) struct Random(SplitMix);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(SplitMix::new(seed))
    }

    /// A time that is less than `most`.
    pub(crate) fn below(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.0.draw() as f64 / u64::MAX as f64)
    }
}

/// The seed that was asked for, else any. A test that fails shows it.
pub(crate) fn seed() -> u64 {
    let seed = match std::env::var(SEED) {
        Ok(seed) => seed.parse().unwrap_or_else(|_| panic!("{SEED} is a number, not {seed:?}")),
        Err(_) => RandomState::new().hash_one(0),
    };
    println!("to repeat this, as far as moments can be repeated: {SEED}={seed}");
    seed
}

const SEED: &str = "RELIGHT_TEST_SEED";
