//! What a drive does when anything around it fails: its store, its model, its tools, its process, its people.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "helpers of tests stand outside of test functions")]

mod agent;
mod budgets;
mod drops;
mod faults;
mod keys;
mod models;
mod people;
mod processes;
mod rivals;
mod send;
mod support;
mod surroundings;
mod tools;
