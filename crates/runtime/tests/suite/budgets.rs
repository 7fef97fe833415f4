//! Budgets: a recorded decision is replayed; raising, lowering and changing limits in between.

use std::sync::Arc;

use relight_core::{WaitReason, budget::Limit};
use relight_llm::{MessageResponse, Usage};
use relight_runtime::{Agent, Budget, RunOutcome, Runtime, RuntimeError};
use relight_store::{EventStore, StoreError};
use serde_json::json;

use crate::support::{
    Finds, Ledger, Model, answer, begun, call, calls, go_on, kinds, log, memory, new_run, says, start,
};

fn look(turn: &str) -> MessageResponse {
    calls([call(turn, "look", json!({"turn": turn}))])
}

/// An agent that looks three times and then answers, within this budget.
fn agent(budget: Budget) -> (Agent, Arc<Model>) {
    let model = Model::turns([look("a"), look("b"), look("c"), says("done")]);
    let tool = Ledger::new("look", relight_core::Effect::Read, Finds::Nothing);
    let builder = Agent::builder().provider(model.clone()).model("model").tool(tool);
    (builder.budget(budget).build().unwrap(), model)
}

const fn steps(steps: u64) -> Budget {
    Budget { steps: Some(steps), tokens: None }
}

fn waits(outcome: RunOutcome) -> Limit {
    match outcome {
        RunOutcome::Waiting { reason: WaitReason::Budget { limit } } => limit,
        other => panic!("it waits for a higher limit, not {other:?}"),
    }
}

fn done() -> RunOutcome {
    RunOutcome::Completed { output: json!("done") }
}

async fn raise(store: &Arc<dyn EventStore>, run: relight_core::RunId, limit: Limit, to: u64) {
    Runtime::new(store.clone()).raise(run, limit, to, "ada").await.unwrap();
}

#[tokio::test]
async fn a_limit_of_zero_lets_nothing_through() {
    for budget in [steps(0), Budget { steps: None, tokens: Some(0) }] {
        let (store, run, (agent, model)) = (memory(), new_run(), agent(budget));
        waits(start(&store, &agent, run).await.unwrap());
        assert!(model.asked().is_empty());
        assert_eq!(
            kinds(&store, run).await,
            ["run_started", "drive_started", "budget_exceeded", "suspended"]
        );
    }
}

#[tokio::test]
async fn a_limit_that_is_raised_too_little_is_met_again_and_all_of_it_replays() {
    let (store, run, (agent, model)) = (memory(), new_run(), agent(steps(1)));
    waits(start(&store, &agent, run).await.unwrap());
    // Not above what was allowed: nothing changes but that it was said.
    for to in [0, 1] {
        raise(&store, run, Limit::Steps, to).await;
        let before = log(&store, run).await;
        waits(go_on(&store, &agent, run).await.unwrap());
        assert_eq!(log(&store, run).await, before);
    }
    for to in [2, 3] {
        raise(&store, run, Limit::Steps, to).await;
        waits(go_on(&store, &agent, run).await.unwrap());
        assert_eq!(model.asked().len() as u64, to);
    }
    raise(&store, run, Limit::Steps, 4).await;
    assert_eq!(go_on(&store, &agent, run).await.unwrap(), done());
    assert_eq!(model.asked().len(), 4, "no call was made twice");
}

#[tokio::test]
async fn tokens_that_are_raised_below_what_is_spent_already_suspend_again_at_once() {
    // Each answer takes 15 tokens, so the second limit is behind what the first drive spent.
    let (store, run, (agent, model)) = (memory(), new_run(), agent(Budget { steps: None, tokens: Some(1) }));
    assert_eq!(waits(start(&store, &agent, run).await.unwrap()), Limit::Tokens);
    raise(&store, run, Limit::Tokens, 10).await;
    assert_eq!(waits(go_on(&store, &agent, run).await.unwrap()), Limit::Tokens);
    assert_eq!(model.asked().len(), 1);
    raise(&store, run, Limit::Tokens, 1_000).await;
    assert_eq!(go_on(&store, &agent, run).await.unwrap(), done());
    let exceeded = kinds(&store, run).await.into_iter().filter(|kind| *kind == "budget_exceeded");
    assert_eq!(exceeded.count(), 2);
}

#[tokio::test]
async fn a_limit_that_was_never_met_may_be_raised_and_another_one_still_holds() {
    let budget = Budget { steps: Some(2), tokens: Some(1_000_000) };
    let (store, run, (agent, _)) = (memory(), new_run(), agent(budget));
    assert_eq!(waits(start(&store, &agent, run).await.unwrap()), Limit::Steps);
    raise(&store, run, Limit::Tokens, 2_000_000).await;
    assert_eq!(waits(go_on(&store, &agent, run).await.unwrap()), Limit::Steps);
    raise(&store, run, Limit::Steps, 4).await;
    assert_eq!(go_on(&store, &agent, run).await.unwrap(), done());
}

#[tokio::test]
async fn an_agents_limits_may_change_between_drives_and_what_was_decided_stays() {
    let (store, run) = (memory(), new_run());
    waits(start(&store, &agent(steps(2)).0, run).await.unwrap());
    // The decision is recorded; a more generous agent does not undo it, a person does.
    waits(go_on(&store, &agent(steps(9)).0, run).await.unwrap());
    raise(&store, run, Limit::Steps, 3).await;
    // The higher of the agent's limit and the raised one holds.
    assert_eq!(go_on(&store, &agent(steps(9)).0, run).await.unwrap(), done());

    let (store, run) = (memory(), new_run());
    waits(start(&store, &agent(steps(2)).0, run).await.unwrap());
    raise(&store, run, Limit::Steps, 3).await;
    // A meaner agent replays what was spent before, and is held by the raised limit.
    waits(go_on(&store, &agent(steps(1)).0, run).await.unwrap());
    raise(&store, run, Limit::Steps, 4).await;
    assert_eq!(go_on(&store, &agent(steps(1)).0, run).await.unwrap(), done());
}

#[tokio::test]
async fn tokens_that_no_number_holds_count_as_all_there_are() {
    let huge = || answer("tool_use", call("a", "look", json!({}))).with_usage(Usage::new(u64::MAX, u64::MAX));
    let model = Model::turns([huge(), says("done")]);
    let tool = Ledger::new("look", relight_core::Effect::Read, Finds::Nothing);
    let builder = Agent::builder().provider(model.clone()).model("model").tool(tool);
    let agent = builder.budget(Budget { steps: None, tokens: Some(u64::MAX) }).build().unwrap();
    let (store, run) = (memory(), new_run());
    assert_eq!(waits(start(&store, &agent, run).await.unwrap()), Limit::Tokens);
    assert_eq!(model.asked().len(), 1);
}

#[tokio::test]
async fn a_limit_that_is_raised_under_a_live_drive_ends_that_drive_and_counts_for_the_next() {
    let (store, run, (agent, model)) = (memory(), new_run(), agent(steps(2)));
    let mut ctx = begun(&store, run).await;
    raise(&store, run, Limit::Steps, 9).await;
    let lost = ctx.check_budget(&steps(0)).await.unwrap_err();
    assert!(matches!(lost, RuntimeError::Store(StoreError::Conflict { .. })), "{lost:?}");

    let (store, run) = (memory(), new_run());
    waits(start(&store, &agent, run).await.unwrap());
    raise(&store, run, Limit::Steps, 9).await;
    assert_eq!(go_on(&store, &agent, run).await.unwrap(), done());
    assert_eq!(model.asked().len(), 4);
}
