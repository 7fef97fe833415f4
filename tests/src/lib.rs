//! Tests that cross crates.

/// The README, whose program runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
