//! Speed as a ratio: subject and baseline measured in turn, so that a noisy machine slows both alike.

use std::{
    fmt,
    time::{Duration, Instant},
};

/// How long a subject takes beside its baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Paired {
    /// How many pairs were measured.
    pub pairs: usize,
    /// The median time of one slice of the subject.
    pub subject: Duration,
    /// The median time of one slice of the baseline.
    pub baseline: Duration,
    /// The median of the ratios of time, pair by pair: below one, the subject is faster.
    pub ratio: f64,
    /// The smallest and the largest ratio.
    pub spread: (f64, f64),
}

impl Paired {
    /// Measures slices of both in turn, after one of each that does not count. Each function does one slice and says
    /// how long the part that counts took; [`timed`] helps.
    ///
    /// # Panics
    ///
    /// Where `pairs` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use relight_testkit::paired::{Paired, timed};
    /// let text = "word ".repeat(1000);
    /// let chars = || timed(|| text.chars().filter(|c| *c == ' ').count());
    /// let bytes = || timed(|| text.bytes().filter(|b| *b == b' ').count());
    /// println!("chars against bytes: {}", Paired::measure(21, chars, bytes));
    /// ```
    pub fn measure(
        pairs: usize,
        mut subject: impl FnMut() -> Duration,
        mut baseline: impl FnMut() -> Duration,
    ) -> Self {
        assert!(pairs > 0, "a median needs a value");
        subject();
        baseline();
        let (mut subjects, mut baselines, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for pair in 0..pairs {
            // Which one comes first changes from pair to pair, so that neither always finds a warm cache.
            let (s, b) = if pair % 2 == 0 {
                let s = subject();
                (s, baseline())
            } else {
                let b = baseline();
                (subject(), b)
            };
            subjects.push(s);
            baselines.push(b);
            ratios.push(s.as_secs_f64() / b.as_secs_f64());
        }
        subjects.sort_unstable();
        baselines.sort_unstable();
        ratios.sort_unstable_by(f64::total_cmp);
        Self {
            pairs,
            subject: subjects[pairs / 2],
            baseline: baselines[pairs / 2],
            ratio: ratios[pairs / 2],
            spread: (ratios[0], ratios[pairs - 1]),
        }
    }
}

/// As in “12.1ms against 10.0ms: 1.21 times (1.10 to 1.35 in 21 pairs)”.
impl fmt::Display for Paired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pairs, subject, baseline, ratio, spread: (low, high) } = self;
        write!(
            f,
            "{subject:.3?} against {baseline:.3?}: {ratio:.2} times ({low:.2} to {high:.2} in {pairs} pairs)"
        )
    }
}

/// Runs `work` and says how long it took; its result is kept from the optimiser.
pub fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let started = Instant::now();
    std::hint::black_box(work());
    started.elapsed()
}
