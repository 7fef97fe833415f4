//! Numbers survive the log, and those that JSON cannot hold are refused at the door.

use std::sync::Arc;

use async_trait::async_trait;
use proptest::{prelude::*, test_runner::TestRunner};
use relight_core::{Effect, ToolOutcome};
use relight_runtime::{RuntimeError, Tool, ToolCall, ToolError, ToolSpec};
use relight_store::{EventStore, SqliteStore};
use serde_json::{Value, json};

use crate::support::{begun, context, log, stores};

/// Returns what it was built to return.
struct Returns(ToolSpec, Value);

#[async_trait]
impl Tool for Returns {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _: ToolCall<'_>) -> Result<Value, ToolError> {
        Ok(self.1.clone())
    }
}

/// Runs a tool that returns `value`, replays it, and compares both bit for bit.
async fn check_survives(store: Arc<dyn EventStore>, value: Value) {
    let tool = Returns(ToolSpec::new("source", "Returns numbers.", Effect::Read), value.clone());
    let live = begun(&store).await.tool_call(&tool, json!({})).await.unwrap();
    let replayed = begun(&store).await.tool_call(&tool, json!({})).await.unwrap();
    let text = |outcome: &ToolOutcome| serde_json::to_string(outcome).unwrap();
    assert_eq!(live, ToolOutcome::Returned(value));
    assert_eq!(live, replayed);
    assert_eq!(text(&live), text(&replayed), "also the sign of zero");
    assert_eq!(log(&store).await.len(), 3);
}

#[test]
fn every_finite_double_and_every_integer_replays_as_it_was() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let numbers = (
        proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL | proptest::num::f64::ZERO,
        any::<u64>(),
        any::<i64>(),
    );
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() });
    runner
        .run(&prop::collection::vec(numbers, 1..20), |numbers| {
            let store: Arc<dyn EventStore> =
                runtime.block_on(async { Arc::new(SqliteStore::in_memory().unwrap()) });
            runtime.block_on(check_survives(store, json!(numbers)));
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn the_ends_of_each_range_replay_as_they_were() {
    for store in stores() {
        let ends = json!([
            f64::MAX,
            f64::MIN_POSITIVE,
            5e-324,
            -0.0,
            0.1 + 0.2,
            u64::MAX,
            i64::MIN,
            9_007_199_254_740_993_u64
        ]);
        check_survives(store, ends).await;
    }
}

#[tokio::test]
async fn an_output_of_any_shape_replays_as_what_it_was() {
    let shapes = [
        json!(null),
        json!(""),
        json!({"failed": {"code": "x", "message": "y"}}),
        json!({"returned": null}),
        json!([{"kind": "run_completed", "payload": {}}]),
        json!({"outcome": {"ok": false}, "error": "not one"}),
    ];
    for shape in shapes {
        for store in stores() {
            check_survives(store, shape.clone()).await;
        }
    }
}

#[tokio::test]
async fn nan_and_infinities_are_refused_and_nothing_is_recorded() {
    for store in stores() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let refused = context(&store).await.begin("test", &[1.0, bad]).await.unwrap_err();
            assert!(matches!(refused, RuntimeError::NotJson(_)), "{refused:?}");
            assert_eq!(log(&store).await.len(), 0);
        }
        let mut ctx = begun(&store).await;
        assert!(matches!(ctx.complete(f32::NAN).await, Err(RuntimeError::NotJson(_))));
        assert_eq!(log(&store).await.len(), 1);
    }
}
