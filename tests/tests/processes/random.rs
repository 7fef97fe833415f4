//! Random numbers from a seed that can be given again.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A time that is less than `most`.
    pub(crate) fn below(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.next() as f64 / u64::MAX as f64)
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
