//! What people do to runs, while they run, wait, have ended, and where there is none.

use std::sync::Arc;

use relight_core::{Effect, Event, Resolution, RunId, Seq, StatusKind, ToolOutcome, budget::Limit};
use relight_llm::Provider;
use relight_runtime::{Agent, Budget, RunOutcome, Runtime, RuntimeError};
use relight_store::{EventStore, StoreError};
use serde_json::json;

use crate::support::{
    Acts, Finds, Ledger, Model, begun, call, calls, go_on, kinds, log, memory, new_run, question, says, seed,
    start, until,
};

/// An agent that pays once.
fn payer(pay: &Arc<Ledger>) -> (Agent, Arc<Model>) {
    let model = Model::turns([calls([call("a", "pay", json!({"amount": 5}))]), says("done")]);
    let provider: Arc<dyn Provider> = model.clone();
    (Agent::builder().provider(provider).model("model").tool(pay.clone()).build().unwrap(), model)
}

fn ledger(finds: Finds) -> Arc<Ledger> {
    Ledger::new("pay", Effect::Write, finds)
}

fn lost<T: std::fmt::Debug>(result: Result<T, RuntimeError>) {
    assert!(matches!(result, Err(RuntimeError::Store(StoreError::Conflict { .. }))), "{result:?}");
}

/// All that a person may do to a run; the tool call of which they speak is event 3.
async fn all(store: &Arc<dyn EventStore>, run: RunId) -> [Result<(), RuntimeError>; 3] {
    let runtime = Runtime::new(store.clone());
    let intent = Seq::new(3).unwrap();
    [
        runtime.cancel(run, "ada").await,
        runtime.raise(run, Limit::Steps, 9, "ada").await,
        runtime.resolve(run, intent, Resolution::NotDone {}, "ada").await,
    ]
}

#[tokio::test]
async fn nothing_is_done_to_a_run_that_is_not_there_or_is_over() {
    let (store, run) = (memory(), new_run());
    for refused in all(&store, run).await {
        assert!(matches!(refused, Err(RuntimeError::Store(StoreError::UnknownRun { .. }))), "{refused:?}");
    }
    let (agent, _) = payer(&ledger(Finds::Certainly));
    let unknown = Runtime::new(store.clone()).resume(&agent, run).await.unwrap_err();
    assert!(matches!(unknown, RuntimeError::Store(StoreError::UnknownRun { .. })), "{unknown:?}");

    for kind in [StatusKind::Completed, StatusKind::Failed, StatusKind::Cancelled] {
        let run = new_run();
        let mut ctx = begun(&store, run).await;
        match kind {
            StatusKind::Completed => ctx.complete("done").await.unwrap(),
            StatusKind::Failed => ctx.fail("code", "message").await.unwrap(),
            _ => Runtime::new(store.clone()).cancel(run, "ada").await.unwrap(),
        }
        let before = log(&store, run).await;
        for refused in all(&store, run).await {
            let Err(RuntimeError::Ended { status, .. }) = refused else { panic!("{refused:?}") };
            assert_eq!(status, kind);
        }
        assert_eq!(log(&store, run).await, before);
    }
}

#[tokio::test]
async fn a_drive_that_a_person_overtook_stops_at_its_next_append_and_records_nothing_more() {
    for act in 0..3 {
        let (store, run, pay) = (memory(), new_run(), ledger(Finds::Certainly));
        let mut ctx = begun(&store, run).await;
        let runtime = Runtime::new(store.clone());
        match act {
            0 => runtime.cancel(run, "ada").await.unwrap(),
            1 => runtime.raise(run, Limit::Steps, 9, "ada").await.unwrap(),
            _ => {
                // A word on a call of an earlier drive.
                let intent =
                    Event::tool_call_requested("look", json!({}), Effect::Idempotent, Some("k".into()));
                let (store, run) = (memory(), new_run());
                seed(&store, run, vec![Event::run_started("test", json!("input")), intent]).await;
                let look = Ledger::new("look", Effect::Idempotent, Finds::Nothing);
                let mut ctx = begun(&store, run).await;
                let outcome = Resolution::Outcome(ToolOutcome::Returned(json!("seen")));
                let runtime = Runtime::new(store.clone());
                runtime.resolve(run, Seq::new(2).unwrap(), outcome, "ada").await.unwrap();
                lost(ctx.tool_call(look.as_ref(), json!({})).await);
                assert!(look.keys().is_empty(), "it stopped before it did anything");
                continue;
            }
        }
        let before = log(&store, run).await;
        lost(ctx.tool_call(pay.as_ref(), json!({})).await);
        assert!(matches!(ctx.complete("done").await, Err(RuntimeError::Stopped { .. })));
        assert!(pay.keys().is_empty());
        assert_eq!(log(&store, run).await, before);
    }
}

/// A payment is under way while a person acts: the drive does not hide what it did, and the next finds it.
#[tokio::test]
async fn a_run_that_is_cancelled_in_the_middle_of_a_write_names_it_as_unsettled() {
    let (store, run, pay) = (memory(), new_run(), ledger(Finds::Certainly));
    pay.acts(Acts::Hangs);
    let (agent, model) = payer(&pay);
    tokio::select! {
        ended = start(&store, &agent, run) => panic!("it hangs, but ended: {ended:?}"),
        () = async {
            until(async || !pay.keys().is_empty()).await;
            Runtime::new(store.clone()).cancel(run, "ada").await.unwrap();
        } => {}
    }
    let log_before = log(&store, run).await;
    let Event::RunCancelled { unsettled, .. } = &log_before.last().unwrap().event else { panic!() };
    let intents = log_before.iter().filter(|e| e.event.kind() == "tool_call_requested").map(|e| e.seq);
    assert_eq!(*unsettled, intents.collect::<Vec<_>>());
    assert_eq!(go_on(&store, &agent, run).await.unwrap(), RunOutcome::Cancelled);
    assert_eq!((log(&store, run).await, model.asked().len()), (log_before, 1));
}

#[tokio::test]
async fn a_run_that_waits_may_be_cancelled_and_is_not_resumed_then() {
    for waits_for_budget in [true, false] {
        let (store, run, pay) = (memory(), new_run(), ledger(Finds::Nothing));
        pay.acts(Acts::Fails);
        let (agent, model) = payer(&pay);
        let builder = Agent::builder().provider(model.clone()).model("model").tool(pay.clone());
        let poor = builder.budget(Budget { steps: Some(1), tokens: None }).build().unwrap();
        let agent = if waits_for_budget { poor } else { agent };
        if waits_for_budget {
            pay.acts(Acts::Works);
        }
        let waiting = start(&store, &agent, run).await.unwrap();
        assert!(matches!(waiting, RunOutcome::Waiting { .. }), "{waiting:?}");
        Runtime::new(store.clone()).cancel(run, "ada").await.unwrap();
        assert_eq!(go_on(&store, &agent, run).await.unwrap(), RunOutcome::Cancelled);
        assert_eq!(model.asked().len(), 1);
    }
}

#[tokio::test]
async fn a_call_of_any_effect_that_was_left_open_may_be_resolved_and_replays_as_said() {
    for effect in [Effect::Read, Effect::Idempotent, Effect::Write] {
        for done in [true, false] {
            let (store, run) = (memory(), new_run());
            let key = (effect != Effect::Read).then(|| "key".to_owned());
            let intent = Event::tool_call_requested("tool", json!({}), effect, key);
            seed(&store, run, vec![Event::run_started("test", json!("input")), intent]).await;
            let resolution = match done {
                true => Resolution::Outcome(ToolOutcome::Returned(json!("as said"))),
                false => Resolution::NotDone {},
            };
            let runtime = Runtime::new(store.clone());
            runtime.resolve(run, Seq::new(2).unwrap(), resolution, "ada").await.unwrap();
            let tool = Ledger::new("tool", effect, Finds::Nothing);
            let outcome = begun(&store, run).await.tool_call(tool.as_ref(), json!({})).await.unwrap();
            assert_eq!(outcome == ToolOutcome::Returned(json!("as said")), done, "{effect:?}: {outcome:?}");
            assert_eq!(tool.keys().len(), usize::from(!done));
        }
    }
}

#[tokio::test]
async fn a_call_is_settled_once_and_a_model_call_by_no_person() {
    let (store, run) = (memory(), new_run());
    let intent = Event::tool_call_requested("tool", json!({}), Effect::Write, Some("key".into()));
    seed(&store, run, vec![Event::run_started("test", json!("input")), intent]).await;
    let runtime = Runtime::new(store.clone());
    let resolve = |seq, resolution| runtime.resolve(run, Seq::new(seq).unwrap(), resolution, "ada");
    let outcome = || Resolution::Outcome(ToolOutcome::Returned(json!("done")));
    // One that takes back nothing: the last word before the next attempt counts.
    resolve(2, Resolution::NotDone {}).await.unwrap();
    resolve(2, outcome()).await.unwrap();
    for again in [outcome(), Resolution::NotDone {}] {
        assert!(matches!(resolve(2, again).await, Err(RuntimeError::NotOpen { .. })));
    }
    assert!(matches!(resolve(99, outcome()).await, Err(RuntimeError::NotOpen { .. })));

    let (store, run) = (memory(), new_run());
    let asked = Event::model_call_requested(question("m").hash(), None);
    seed(&store, run, vec![Event::run_started("test", json!("input")), asked]).await;
    let refused = Runtime::new(store).resolve(run, Seq::new(2).unwrap(), outcome(), "ada").await.unwrap_err();
    assert!(matches!(refused, RuntimeError::NotOpen { .. }), "{refused:?}");
}

#[tokio::test]
async fn two_people_who_act_at_once_are_both_heard_or_one_is_told() {
    let (store, run) = (memory(), new_run());
    begun(&store, run).await;
    let yielding: Arc<dyn EventStore> = Arc::new(crate::support::Yielding(store.clone()));
    let (left, right) = (Runtime::new(yielding.clone()), Runtime::new(yielding));
    let (left_done, right_done) =
        tokio::join!(left.raise(run, Limit::Steps, 5, "ada"), right.raise(run, Limit::Steps, 7, "bob"),);
    left_done.unwrap();
    right_done.unwrap();
    assert_eq!(kinds(&store, run).await, ["run_started", "budget_raised", "budget_raised"]);
    let (left_done, right_done) = tokio::join!(left.cancel(run, "ada"), right.cancel(run, "bob"));
    assert!(left_done.is_ok() != right_done.is_ok(), "{left_done:?} {right_done:?}");
    for result in [left_done, right_done] {
        assert!(matches!(result, Ok(()) | Err(RuntimeError::Ended { status: StatusKind::Cancelled, .. })));
    }
}
