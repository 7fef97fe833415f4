//! Two drives of one run: one loses before it does anything, and changes nothing.

use std::sync::Arc;

use relight_core::Effect;
use relight_runtime::{Agent, RunOutcome, Runtime, RuntimeError, Start};
use relight_store::{EventStore, StoreError};
use relight_testkit::{Answer, At, Script, ScriptedServer};
use serde_json::json;

use crate::support::{
    Behaviour, Ledger, begun, client, context, fixed_clock, fixed_random, kinds, log, question, run_id,
    stores,
};

fn runtime(store: &Arc<dyn EventStore>) -> Runtime {
    Runtime::new(store.clone()).with_clock(fixed_clock()).with_random(fixed_random())
}

/// The loser of two drives by the runtime: it met the conflict, or saw that the other is alive.
fn has_lost<T>(result: &Result<T, RuntimeError>) -> bool {
    is_conflict(result) || matches!(result, Err(RuntimeError::StillDriven { .. }))
}

fn is_conflict<T>(result: &Result<T, RuntimeError>) -> bool {
    matches!(result, Err(RuntimeError::Store(StoreError::Conflict { .. })))
}

#[tokio::test]
async fn of_two_starts_with_one_id_one_loses_before_it_asks_the_model() {
    for store in stores() {
        let server = ScriptedServer::start(Script::new().turn(Answer::text("done"))).await.unwrap();
        let agent =
            Agent::builder().provider(Arc::new(client(&server.base_url()))).model("model").build().unwrap();
        let (left, right) = (runtime(&store), runtime(&store));
        let start = || Start::from("go").with_run_id(run_id());
        let (left, right) = tokio::join!(left.start(&agent, start()), right.start(&agent, start()));
        assert!(is_conflict(&left) != is_conflict(&right), "{left:?} {right:?}");
        assert_eq!(server.requests().len(), 1);
        assert_eq!(kinds(&log(&store).await).last(), Some(&"run_completed"));
    }
}

#[tokio::test]
async fn of_two_resumes_one_loses_before_it_does_anything_live() {
    for store in stores() {
        let script = Script::new()
            .turn(Answer::tool_use("toolu_1", "ledger", json!({"pay": 1})))
            .attempts([Answer::text("cut").cut(At::Events(2)), Answer::text("done")]);
        let server = ScriptedServer::start(script).await.unwrap();
        let ledger = Ledger::new("ledger", Effect::Write, Behaviour::Reconciles);
        let provider = Arc::new(client(&server.base_url()));
        let agent = Agent::builder().provider(provider).model("model").tool(ledger.clone()).build().unwrap();
        let start = Start::from("go").with_run_id(run_id());
        let cut = runtime(&store).start(&agent, start).await;
        assert!(matches!(cut, Err(RuntimeError::Model(_))), "{cut:?}");
        let before = server.requests().len();
        let (left, right) = (runtime(&store), runtime(&store));
        let (left, right) = tokio::join!(left.resume(&agent, run_id()), right.resume(&agent, run_id()));
        let finished =
            |result: &Result<RunOutcome, RuntimeError>| matches!(result, Ok(RunOutcome::Completed { .. }));
        assert!(finished(&left) != finished(&right), "{left:?} {right:?}");
        assert!(has_lost(&left) != has_lost(&right), "{left:?} {right:?}");
        assert_eq!(server.requests().len() - before, 1, "the loser asked no model");
        assert_eq!(ledger.keys().len(), 1);
        let log = log(&store).await;
        assert_eq!(
            kinds(&log).iter().filter(|kind| **kind == "drive_started").count(),
            2,
            "{:?}",
            kinds(&log)
        );
    }
}

#[tokio::test]
async fn of_two_bare_contexts_one_records_and_the_other_changes_nothing() {
    for store in stores() {
        let server = ScriptedServer::start(Script::new().turn(Answer::text("done"))).await.unwrap();
        let client = client(&server.base_url());
        begun(&store).await;
        let (mut left, mut right) = (begun(&store).await, begun(&store).await);
        let request = question("hello");
        let (left, right) =
            tokio::join!(left.model_call(&client, &request), right.model_call(&client, &request));
        assert!(is_conflict(&left) != is_conflict(&right));
        assert_eq!(server.requests().len(), 1, "the loser met the conflict with its intent");
        assert_eq!(log(&store).await.len(), 3);
    }
}

#[tokio::test]
async fn of_two_bare_contexts_over_a_dangling_call_both_may_ask_and_one_records() {
    for store in stores() {
        let script = Script::new().attempts([Answer::text("cut").cut(At::Events(2)), Answer::text("done")]);
        let server = ScriptedServer::start(script).await.unwrap();
        let client = client(&server.base_url());
        let request = question("hello");
        begun(&store).await.model_call_streaming(&client, &request, |_| {}).await.unwrap_err();
        let (mut left, mut right) = (begun(&store).await, begun(&store).await);
        let (left, right) =
            tokio::join!(left.model_call(&client, &request), right.model_call(&client, &request));
        assert!(is_conflict(&left) != is_conflict(&right));
        assert_eq!(
            kinds(&log(&store).await),
            ["run_started", "model_call_requested", "model_call_completed"]
        );
    }
}

#[tokio::test]
async fn two_bare_contexts_that_begin_one_run_meet_in_its_first_event() {
    for store in stores() {
        let (mut left, mut right) = (context(&store).await, context(&store).await);
        left.begin("test", &json!("input")).await.unwrap();
        assert!(is_conflict(&right.begin("test", &json!("input")).await));
        assert_eq!(log(&store).await.len(), 1);
    }
}
