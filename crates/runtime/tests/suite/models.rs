//! A model that fails: nothing is history before the code goes on from it, and then it replays.

use relight_core::{Effect, Event, Seq, WaitReason, budget::Limit};
use relight_llm::{ErrorKind, LlmError, MessageRequest};
use relight_runtime::{Budget, RunCtx, RuntimeError};
use relight_store::EventStore;
use relight_testkit::faults::{CrashPoint, CrashStore};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::support::{
    Finds, Ledger, Model, begun, call, calls, kinds, log, memory, new_run, overloaded, question, says, seed,
};

/// Models named `busy…` fail, all others answer with their name.
fn model() -> Arc<Model> {
    Model::new(|request| match request.model() {
        name if name.starts_with("busy") => Err(overloaded()),
        name => Ok(says(name)),
    })
}

fn failed<T: std::fmt::Debug>(result: Result<T, RuntimeError>) -> LlmError {
    match result {
        Err(RuntimeError::Model(error)) => error,
        other => panic!("the model's failure, not {other:?}"),
    }
}

async fn ask(ctx: &mut RunCtx, model: &Model, name: &str) -> Result<String, RuntimeError> {
    ctx.model_call(model, &question(name)).await.map(|turn| turn.response.text())
}

#[tokio::test]
async fn a_failure_that_nobody_went_on_from_is_not_recorded_and_the_call_is_made_again() {
    let (store, run, model) = (memory(), new_run(), model());
    for made in 1..=3 {
        let mut ctx = begun(&store, run).await;
        failed(ask(&mut ctx, &model, "busy").await);
        assert_eq!(kinds(&store, run).await, ["run_started", "model_call_requested"]);
        assert_eq!(model.asked().len(), made);
    }
}

#[tokio::test]
async fn a_crash_before_the_code_has_gone_on_from_a_failure_makes_the_call_again() {
    let (inner, run, model) = (memory(), new_run(), model());
    begun(&inner, run).await;
    // The append that would record the failure together with the next request is never done.
    let crashing = CrashStore::new(inner.clone(), CrashPoint::Before(1));
    let store: Arc<dyn EventStore> = crashing.clone();
    let drive = async {
        let mut ctx = begun(&store, run).await;
        failed(ask(&mut ctx, &model, "busy").await);
        ask(&mut ctx, &model, "free").await
    };
    assert!(crashing.drive(drive).await.is_none());
    assert_eq!(kinds(&inner, run).await, ["run_started", "model_call_requested"]);
    // Now the same call succeeds, and no fallback is part of this run.
    let well = Model::turns([says("well again")]);
    let mut ctx = begun(&inner, run).await;
    assert_eq!(ask(&mut ctx, &well, "busy").await.unwrap(), "well again");
    ctx.complete("well again").await.unwrap();
    assert_eq!(
        kinds(&inner, run).await,
        ["run_started", "model_call_requested", "model_call_completed", "run_completed"]
    );
}

#[tokio::test]
async fn failures_in_a_row_each_replay_in_their_place() {
    let (store, run, model) = (memory(), new_run(), model());
    let mut live = Vec::new();
    for drive in 0..2 {
        let mut ctx = begun(&store, run).await;
        for name in ["busy", "busy", "busy-too"] {
            let error = failed(ask(&mut ctx, &model, name).await);
            match drive {
                0 => live.push(error),
                _ => assert_eq!(error, live.remove(0)),
            }
        }
        assert_eq!(ask(&mut ctx, &model, "free").await.unwrap(), "free");
        ctx.complete("done").await.unwrap();
        assert_eq!(model.asked().len(), 4);
    }
    let failures = kinds(&store, run).await.into_iter().filter(|kind| *kind == "model_call_failed");
    assert_eq!(failures.count(), 3);
}

#[tokio::test]
async fn a_run_that_ends_after_a_failure_records_it_before_its_end() {
    for gives_up in [false, true] {
        let (store, run, model) = (memory(), new_run(), model());
        for _ in 0..2 {
            let mut ctx = begun(&store, run).await;
            failed(ask(&mut ctx, &model, "busy").await);
            match gives_up {
                false => ctx.complete("without it").await.unwrap(),
                true => ctx.fail("no_model", "they are all busy").await.unwrap(),
            }
            let end = if gives_up { "run_failed" } else { "run_completed" };
            assert_eq!(
                kinds(&store, run).await,
                ["run_started", "model_call_requested", "model_call_failed", end]
            );
        }
        assert_eq!(model.asked().len(), 1);
    }
}

#[tokio::test]
async fn a_tool_call_after_a_failure_records_it_first() {
    for effect in [Effect::Read, Effect::Idempotent, Effect::Write] {
        let (store, run, model) = (memory(), new_run(), model());
        let tool = Ledger::new("tool", effect, Finds::Nothing);
        for _ in 0..2 {
            let mut ctx = begun(&store, run).await;
            failed(ask(&mut ctx, &model, "busy").await);
            ctx.tool_call(tool.as_ref(), json!({})).await.unwrap();
        }
        assert_eq!(
            kinds(&store, run).await[1..],
            ["model_call_requested", "model_call_failed", "tool_call_requested", "tool_call_completed"]
        );
        assert_eq!((model.asked().len(), tool.keys().len()), (1, 1));
    }
}

#[tokio::test]
async fn a_budget_check_after_a_failure_records_it_only_if_it_suspends_the_run() {
    let (store, run, model) = (memory(), new_run(), model());
    let mut ctx = begun(&store, run).await;
    failed(ask(&mut ctx, &model, "busy").await);
    ctx.check_budget(&Budget { steps: Some(1), tokens: None }).await.unwrap();
    assert_eq!(log(&store, run).await.len(), 2, "a check that finds room is no history");
    let nothing = Budget { steps: Some(0), tokens: None };
    let over = ctx.check_budget(&nothing).await.unwrap_err();
    assert!(matches!(over, RuntimeError::OverBudget { limit: Limit::Steps, .. }), "{over:?}");
    let recorded = log(&store, run).await;
    assert_eq!(
        kinds(&store, run).await[1..],
        ["model_call_requested", "model_call_failed", "budget_exceeded", "suspended"]
    );
    assert_eq!(recorded[4].event, Event::suspended(WaitReason::Budget { limit: Limit::Steps }));
    let mut ctx = begun(&store, run).await;
    failed(ask(&mut ctx, &model, "busy").await);
    assert!(matches!(ctx.check_budget(&nothing).await, Err(RuntimeError::OverBudget { .. })));
    assert_eq!(log(&store, run).await, recorded);
    assert_eq!(model.asked().len(), 1);
}

async fn check_unreadable(settled: Event) {
    let (store, run, model) = (memory(), new_run(), model());
    let asked = |name: &str| Event::model_call_requested(question(name).hash(), None);
    let first = Event::model_call_failed(Seq::new(2).unwrap(), serde_json::to_value(overloaded()).unwrap());
    seed(
        &store,
        run,
        vec![Event::run_started("test", json!("input")), asked("busy"), first, asked("second"), settled],
    )
    .await;
    let mut ctx = begun(&store, run).await;
    failed(ask(&mut ctx, &model, "busy").await);
    let error = ask(&mut ctx, &model, "second").await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with(&format!("event 4 of run {run} was written by a newer version")), "{text}");
    let refused = ask(&mut ctx, &model, "third").await.unwrap_err();
    assert!(matches!(refused, RuntimeError::Stopped { .. }), "{refused:?}");
    assert_eq!((model.asked().len(), log(&store, run).await.len()), (0, 5));
}

#[tokio::test]
async fn an_outcome_that_this_version_cannot_read_stops_the_drive_and_names_its_call() {
    let intent = Seq::new(4).unwrap();
    check_unreadable(Event::model_call_failed(intent, json!({"kind": {"novel": "shape"}}))).await;
    let unreadable = json!({"content": "no id, no model"});
    check_unreadable(Event::model_call_completed(intent, unreadable, Default::default())).await;
}

#[tokio::test]
async fn a_replayed_call_costs_what_was_recorded_though_this_version_would_count_otherwise() {
    let (store, run) = (memory(), new_run());
    let asked = Event::model_call_requested(question("m").hash(), None);
    let usage = relight_core::TokenUsage { input_tokens: 77, ..Default::default() };
    let answer = serde_json::to_value(says("hi")).unwrap();
    let answered = Event::model_call_completed(Seq::new(2).unwrap(), answer, usage);
    seed(&store, run, vec![Event::run_started("test", json!("input")), asked, answered]).await;
    let turn = begun(&store, run).await.model_call(model().as_ref(), &question("m")).await.unwrap();
    assert_eq!((turn.response.text().as_str(), turn.usage), ("hi", usage));
}

#[tokio::test]
async fn an_answer_that_no_log_can_hold_is_the_models_failure_and_code_may_go_on_from_it() {
    let (store, run) = (memory(), new_run());
    let deep = (0..125).fold(json!({}), |inner, _| json!({"a": inner}));
    let model = Model::new(move |request| match request.model() {
        "deep" => Ok(calls([call("a", "tool", deep.clone())])),
        name => Ok(says(name)),
    });
    for _ in 0..2 {
        let mut ctx = begun(&store, run).await;
        let error = failed(ask(&mut ctx, &model, "deep").await);
        assert_eq!(error.kind, ErrorKind::TooLarge);
        assert_eq!(ask(&mut ctx, &model, "flat").await.unwrap(), "flat");
    }
    assert_eq!(model.asked().len(), 2);
}

#[tokio::test]
async fn a_request_that_json_cannot_hold_is_refused_at_the_door() {
    let (store, run, model) = (memory(), new_run(), model());
    let mut ctx = begun(&store, run).await;
    let request = |temperature| question("m").with_temperature(temperature);
    for bad in [f64::NAN, f64::INFINITY] {
        let error = failed(ctx.model_call(model.as_ref(), &request(bad)).await);
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
    }
    ctx.model_call(model.as_ref(), &request(0.5)).await.unwrap();
    assert_eq!((model.asked().len(), log(&store, run).await.len()), (1, 3));
    // Replay refuses it again, and nothing has taken its place.
    let mut ctx = begun(&store, run).await;
    failed(ctx.model_call(model.as_ref(), &request(f64::NAN)).await);
    ctx.model_call(model.as_ref(), &request(0.5)).await.unwrap();
}

#[tokio::test]
async fn a_model_that_panics_in_the_middle_of_a_call_is_asked_again_by_the_next_drive() {
    let (store, run) = (memory(), new_run());
    let burns = Model::new(|_| panic!("the model burns"));
    let crashed = {
        let store = store.clone();
        tokio::spawn(async move { ask(&mut begun(&store, run).await, &burns, "m").await }).await
    };
    assert!(crashed.unwrap_err().is_panic());
    assert_eq!(kinds(&store, run).await, ["run_started", "model_call_requested"]);
    assert_eq!(ask(&mut begun(&store, run).await, &model(), "m").await.unwrap(), "m");
}

#[tokio::test]
async fn a_recorded_hash_alone_replays_and_shows_no_word_of_what_was_asked() {
    use relight_runtime::Recording;
    let (store, run, model) = (memory(), new_run(), model());
    let secret = MessageRequest::new("m", 64).push_message(relight_llm::Message::user("my secret"));
    for _ in 0..2 {
        let mut ctx = begun(&store, run).await.with_recording(Recording::HashOnly);
        ctx.model_call(model.as_ref(), &secret).await.unwrap();
        let text = serde_json::to_string(&log(&store, run).await).unwrap();
        assert!(!text.contains("my secret"), "{text}");
    }
    // Later calls may be recorded in full, also after one that is not.
    let mut ctx = begun(&store, run).await;
    let turn = ctx.model_call(model.as_ref(), &secret).await.unwrap();
    let next =
        secret.push_message(turn.response.to_message()).push_message(relight_llm::Message::user("more"));
    ctx.model_call(model.as_ref(), &next).await.unwrap();
    let log = log(&store, run).await;
    let full = relight_core::request::expand(&log, Seq::new(4).unwrap()).unwrap().unwrap();
    assert_eq!(full.messages.len(), 3);
    assert_eq!(full.messages[2]["content"][0]["text"], Value::from("more"));
    assert_eq!(model.asked().len(), 2);
}

#[tokio::test]
async fn in_one_drive_each_message_and_each_answer_is_written_once() {
    let (store, run) = (memory(), new_run());
    let model = Model::new(|request| Ok(says(&format!("answer-{}-", crate::support::answers_in(request)))));
    let mut ctx = begun(&store, run).await;
    let mut request = question("m");
    for turn in 0..5 {
        let answer = ctx.model_call(model.as_ref(), &request).await.unwrap().response;
        request = request.push_message(answer.to_message());
        request = request.push_message(relight_llm::Message::user(format!("question-{turn}-")));
    }
    let text = serde_json::to_string(&log(&store, run).await).unwrap();
    for turn in 0..4 {
        for words in [format!("answer-{turn}-"), format!("question-{turn}-")] {
            assert_eq!(text.matches(&words).count(), 1, "{words}");
        }
    }
}
