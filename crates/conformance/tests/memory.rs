//! The memory store keeps every promise that a store without a disk can keep.

use std::sync::Arc;

use relight_conformance::{StoreHarness, Subject, store};
use relight_store::{EventStore, Limits, MemoryStore, StoreError, async_trait};

struct Harness;

#[async_trait]
impl StoreHarness for Harness {
    async fn fresh(&self, limits: Limits) -> Result<Box<dyn Subject>, StoreError> {
        Ok(Box::new(Fresh(Arc::new(MemoryStore::with_limits(limits)))))
    }
}

struct Fresh(Arc<MemoryStore>);

impl Subject for Fresh {
    fn store(&self) -> Arc<dyn EventStore> {
        Arc::clone(&self.0) as _
    }
}

#[tokio::test]
async fn the_memory_store_keeps_every_promise_that_applies() {
    let report = store::run_all(&Harness).await;
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
