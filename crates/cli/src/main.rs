//! The relight binary.
fn main() {}
