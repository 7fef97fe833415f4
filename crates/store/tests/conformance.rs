//! The SQLite store keeps every promise, in a file and in memory.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod support;

use relight_conformance::store;
use support::{InFile, InMemory};

#[tokio::test]
async fn a_store_in_a_file_keeps_every_promise() {
    let report = store::run_all(&InFile).await;
    assert!(report.is_kept(), "{report}");
    assert_eq!(report.not_applicable().count(), 0, "{report}");
}

#[tokio::test]
async fn a_store_in_memory_keeps_every_promise_that_applies() {
    let report = store::run_all(&InMemory).await;
    assert!(report.is_kept(), "{report}");
    let not_applicable: Vec<&str> = report.not_applicable().map(|(promise, _)| promise).collect();
    assert_eq!(
        not_applicable,
        [
            "promise_1_what_was_answered_ok_outlives_the_store",
            "promise_3_a_batch_sent_again_is_known_after_reopening",
            "promise_6_damage_is_named_and_other_runs_stay_readable",
            "promise_6_a_damaged_summary_hides_no_other_run",
        ]
    );
}
