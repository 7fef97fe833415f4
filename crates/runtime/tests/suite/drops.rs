//! A drive may be dropped wherever it waits.

use std::{pin::pin, sync::Arc, task::Poll};

use futures::poll;
use relight_core::Effect;
use relight_llm::StreamEvent;
use relight_runtime::{RunCtx, RunOutcome, RuntimeError, Tool};
use relight_store::EventStore;
use relight_testkit::undisturbed;
use serde_json::json;

use crate::{
    faults::{Clerk, Cook},
    support::{
        Acts, Finds, Ledger, Model, Yielding, begun, log, memory, new_run, question, says, start, to_its_end,
    },
};

/// Polls a future this often and drops it then, unless it is ready before.
async fn polled<T>(times: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    for _ in 0..times {
        if let Poll::Ready(output) = poll!(&mut future) {
            return Some(output);
        }
    }
    None
}

#[tokio::test]
async fn an_agent_dropped_at_every_step_ends_as_an_undisturbed_one_with_each_write_done_once() {
    for finds in [Finds::Certainly, Finds::SoFar, Finds::Nothing] {
        let clerk = Clerk::new(finds);
        let (calm, run) = (memory(), new_run());
        start(&calm, &clerk.agent, run).await.unwrap();
        let expected = undisturbed(&log(&calm, run).await);
        for times in 0.. {
            let (inner, clerk) = (memory(), Clerk::new(finds));
            let store: Arc<dyn EventStore> = Arc::new(Yielding(inner.clone()));
            let ended = polled(times, start(&store, &clerk.agent, run)).await;
            to_its_end(&inner, &clerk.agent, run, &clerk.pay).await;
            // A person's word stands in the log in place of a completion.
            if finds == Finds::Certainly {
                assert_eq!(undisturbed(&log(&inner, run).await), expected, "dropped after {times} steps");
            }
            clerk.assert_each_write_was_done_once(&format!("dropped after {times} steps, {finds:?}"));
            if ended.is_some() {
                assert!(times > 30, "it gives way often, not only {times} times");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_workflow_with_a_fallback_dropped_at_every_step_ends_with_its_write_done_once() {
    let run = new_run();
    for times in 0.. {
        let (inner, cook) = (memory(), Cook::new());
        let store: Arc<dyn EventStore> = Arc::new(Yielding(inner.clone()));
        let ended = polled(times, start(&store, &cook, run)).await;
        let outcome = to_its_end(&inner, &cook, run, &cook.oven).await;
        assert!(matches!(outcome, RunOutcome::Completed { .. }), "{outcome:?}");
        assert_eq!(cook.oven.keys().len(), 1, "dropped after {times} steps");
        if ended.is_some() {
            break;
        }
    }
}

async fn check_refuses(mut ctx: RunCtx, store: &Arc<dyn EventStore>) {
    let before = store.head(ctx.run_id()).await.unwrap();
    let (model, tool) = (Model::turns([says("hi")]), Ledger::new("pay", Effect::Write, Finds::Certainly));
    let dropped = |result: Result<(), RuntimeError>| {
        assert!(matches!(result, Err(RuntimeError::Dropped { .. })), "{result:?}");
    };
    dropped(ctx.model_call(model.as_ref(), &question("m")).await.map(drop));
    dropped(ctx.model_call_streaming(model.as_ref(), &question("m"), |_: &StreamEvent| {}).await.map(drop));
    dropped(ctx.tool_call(tool.as_ref(), json!({})).await.map(drop));
    dropped(ctx.check_budget(&relight_runtime::Budget { steps: Some(0), tokens: None }).await);
    dropped(ctx.complete("done").await);
    dropped(ctx.fail("code", "message").await);
    dropped(ctx.begin("test", &json!("input")).await);
    assert_eq!(store.head(ctx.run_id()).await.unwrap(), before);
    assert!(model.asked().is_empty() && tool.keys().is_empty());
}

#[tokio::test]
async fn a_context_refuses_everything_after_any_of_its_operations_was_dropped() {
    let (model, tool) = (Model::turns([says("hi")]), Ledger::new("pay", Effect::Write, Finds::Certainly));
    for operation in 0..6 {
        let (inner, run) = (memory(), new_run());
        let store: Arc<dyn EventStore> = Arc::new(Yielding(inner.clone()));
        let mut ctx = match operation {
            0 => RunCtx::with_hooks(
                store.clone(),
                run,
                vec![],
                relight_runtime::system_clock(),
                relight_runtime::system_random(),
            )
            .unwrap(),
            _ => begun(&store, run).await,
        };
        let budget = relight_runtime::Budget { steps: Some(0), tokens: None };
        let ended = match operation {
            0 => polled(1, ctx.begin("test", &json!("input"))).await.map(|_| ()),
            1 => polled(1, ctx.model_call(model.as_ref(), &question("m"))).await.map(|_| ()),
            2 => polled(1, ctx.tool_call(tool.as_ref(), json!({}))).await.map(|_| ()),
            3 => polled(1, ctx.check_budget(&budget)).await.map(|_| ()),
            4 => polled(1, ctx.complete("done")).await.map(|_| ()),
            _ => polled(1, ctx.fail("code", "message")).await.map(|_| ()),
        };
        assert!(ended.is_none(), "operation {operation} has ended at once");
        check_refuses(ctx, &inner).await;
    }
}

#[tokio::test]
async fn a_tool_that_never_returns_ends_with_its_drive_and_is_reconciled_by_the_next() {
    let (store, run) = (memory(), new_run());
    let pay = Ledger::new("pay", Effect::Write, Finds::Certainly).acts(Acts::HangsOnce);
    let mut ctx = begun(&store, run).await;
    assert!(polled(100, ctx.tool_call(pay.as_ref(), json!({"amount": 5}))).await.is_none());
    check_refuses(ctx, &store).await;
    let tool: &dyn Tool = pay.as_ref();
    begun(&store, run).await.tool_call(tool, json!({"amount": 5})).await.unwrap();
    assert_eq!(pay.keys().len(), 1);
}
