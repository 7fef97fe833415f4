//! Calls that were begun and not settled, budgets that were used up, and runs that were cancelled: what replay says.

use relight_core::{
    Effect, Event, Lane, Resolution, RunState, RunStatus, ToolFailure, ToolOutcome, WaitReason,
    budget::Limit,
    replay::{Ask, Checked, Dangling, Found, Replay, Settled, Step},
};
use serde_json::{Value, json};

use crate::support::{asks_model, asks_tool, drive, hash, log, run, seq, started, usage};

fn replay(events: impl IntoIterator<Item = Event>) -> Replay {
    Replay::new(run(), log(events)).unwrap()
}

fn ask_pay(replay: &mut Replay) -> Step<'_> {
    replay.ask(&Lane::ROOT, Ask::ToolCall { tool: "pay", input: &json!(5) }).unwrap().step
}

fn ask_model(replay: &mut Replay) -> Step<'_> {
    let request = || Value::Null;
    replay.ask(&Lane::ROOT, Ask::ModelCall { request_hash: hash("a"), request: &request }).unwrap().step
}

fn pays() -> Event {
    Event::tool_call_requested("pay", json!(5), Effect::Write, Some("key".to_owned()))
}

fn not_done() -> Event {
    Event::resolved(seq(2), Resolution::NotDone {}, "ada")
}

fn waits() -> Event {
    Event::suspended(WaitReason::Reconciliation { intent: seq(2), why: "no answer".to_owned() })
}

fn paid() -> Dangling<'static> {
    Dangling {
        intent: seq(2),
        drives_since: 0,
        effect: Some(Effect::Write),
        idempotency_key: Some("key"),
        cleared: false,
    }
}

#[test]
fn a_dangling_model_call_is_named_by_its_intent() {
    let mut replay = replay([started(), asks_model("a")]);
    let step = ask_model(&mut replay);
    let expected =
        Dangling { intent: seq(2), drives_since: 0, effect: None, idempotency_key: None, cleared: false };
    assert_eq!(step, Step::Dangling(expected));
}

#[test]
fn a_dangling_tool_call_carries_what_is_needed_to_settle_it() {
    assert_eq!(ask_pay(&mut replay([started(), pays()])), Step::Dangling(paid()));
}

#[test]
fn each_drive_since_the_intent_may_have_tried_again() {
    let mut replay = replay([started(), pays(), drive(1), waits(), drive(2)]);
    assert_eq!(ask_pay(&mut replay), Step::Dangling(Dangling { drives_since: 2, ..paid() }));
}

#[test]
fn a_drive_before_the_intent_does_not_count() {
    let mut replay =
        replay([started(), drive(1), Event::tool_call_requested("pay", json!(5), Effect::Write, None)]);
    let expected = Dangling { intent: seq(3), idempotency_key: None, ..paid() };
    assert_eq!(ask_pay(&mut replay), Step::Dangling(expected));
}

#[test]
fn the_word_not_done_clears_a_write_for_the_next_drive_only() {
    let cleared = |events: Vec<Event>| match ask_pay(&mut replay(events)) {
        Step::Dangling(dangling) => dangling.cleared,
        other => panic!("{other:?}"),
    };
    assert!(cleared(vec![started(), pays(), not_done()]));
    assert!(cleared(vec![started(), pays(), drive(1), waits(), not_done()]));
    // That drive may have run it again before it died.
    assert!(!cleared(vec![started(), pays(), not_done(), drive(1)]));
    assert!(cleared(vec![started(), pays(), not_done(), drive(1), waits(), not_done()]));
    // What is said of a limit is not said of the write.
    let raised = Event::budget_raised(Limit::Steps, 9, "ada");
    assert!(cleared(vec![started(), pays(), not_done(), raised]));
}

#[test]
fn an_outcome_that_a_person_gave_is_recorded_like_any_other() {
    let outcome = ToolOutcome::Returned(json!({"not_done": {}}));
    let resolved = Event::resolved(seq(2), Resolution::Outcome(outcome.clone()), "ada");
    let mut replay = replay([started(), pays(), waits(), resolved, drive(1)]);
    assert_eq!(ask_pay(&mut replay), Step::Recorded(Settled::Outcome(&outcome)));
}

#[test]
fn what_a_later_drive_found_out_counts_though_a_person_said_not_done() {
    let outcome = ToolOutcome::Failed(ToolFailure { code: "declined".to_owned(), message: "no".to_owned() });
    let completed = Event::tool_call_completed(seq(2), outcome.clone());
    let mut replay = replay([started(), pays(), not_done(), drive(1), completed]);
    assert_eq!(ask_pay(&mut replay), Step::Recorded(Settled::Outcome(&outcome)));
}

#[test]
fn a_failure_that_the_code_went_on_from_is_returned_again() {
    let mut replay = replay([
        started(),
        asks_model("a"),
        Event::model_call_failed(seq(2), json!({"kind": "overloaded"})),
        asks_model("a"),
        Event::model_call_completed(seq(4), json!("answer"), usage(1, 1)),
    ]);
    let error = json!({"kind": "overloaded"});
    assert_eq!(ask_model(&mut replay), Step::Recorded(Settled::Failed(&error)));
    let answer = json!("answer");
    assert_eq!(
        ask_model(&mut replay),
        Step::Recorded(Settled::Answered { response: &answer, usage: usage(1, 1) })
    );
    assert_eq!(ask_model(&mut replay), Step::Live);
}

#[test]
fn ordinals_count_what_the_code_asked_for_and_no_notes() {
    let mut replay = replay([
        started(),
        drive(1),
        Event::budget_exceeded(Limit::Steps, 0, 0),
        Event::suspended(WaitReason::Budget { limit: Limit::Steps }),
        Event::budget_raised(Limit::Steps, 4, "ada"),
        drive(2),
        asks_model("a"),
        Event::model_call_completed(seq(7), json!(1), usage(1, 1)),
    ]);
    assert_eq!(replay.check_budget(&Lane::ROOT), Checked::Raised);
    let request = || Value::Null;
    let ask = Ask::ModelCall { request_hash: hash("a"), request: &request };
    assert_eq!(replay.ask(&Lane::ROOT, ask).unwrap().ordinal, 1);
    assert_eq!(replay.ask(&Lane::ROOT, ask).unwrap(), Found { ordinal: 2, step: Step::Live });
    // A check that is live and finds a limit used up is counted as it will be in replay.
    replay.budget_was_exceeded(&Lane::ROOT);
    assert_eq!(replay.ask(&Lane::ROOT, ask).unwrap().ordinal, 4);
}

#[test]
fn a_budget_check_is_answered_from_the_log() {
    let exceeded = || Event::budget_exceeded(Limit::Steps, 3, 3);
    let raised = |limit, to| Event::budget_raised(limit, to, "ada");
    let check = |events: Vec<Event>| replay(events).check_budget(&Lane::ROOT);

    assert_eq!(check(vec![started()]), Checked::Live);
    assert_eq!(check(vec![started(), asks_model("a")]), Checked::Passed);
    assert_eq!(check(vec![started(), exceeded()]), Checked::Exceeded(Limit::Steps));
    assert_eq!(check(vec![started(), exceeded(), raised(Limit::Steps, 4)]), Checked::Raised);
    // Not enough, another limit, or before the check.
    assert_eq!(check(vec![started(), exceeded(), raised(Limit::Steps, 3)]), Checked::Exceeded(Limit::Steps));
    assert_eq!(check(vec![started(), exceeded(), raised(Limit::Tokens, 9)]), Checked::Exceeded(Limit::Steps));
    assert_eq!(check(vec![started(), raised(Limit::Steps, 9), exceeded()]), Checked::Exceeded(Limit::Steps));
}

#[test]
fn one_check_after_another_is_answered_until_the_code_goes_on() {
    let mut replay = replay([
        started(),
        Event::budget_exceeded(Limit::Steps, 0, 0),
        Event::budget_raised(Limit::Steps, 1, "ada"),
        Event::budget_exceeded(Limit::Tokens, 0, 0),
        Event::budget_raised(Limit::Tokens, u64::MAX, "ada"),
        asks_model("a"),
    ]);
    let mut check = || replay.check_budget(&Lane::ROOT);
    assert_eq!([check(), check(), check()], [Checked::Raised, Checked::Raised, Checked::Passed]);
}

#[test]
fn nothing_is_done_again_in_a_run_that_was_cancelled_in_the_middle_of_a_call() {
    let mut replay =
        replay([started(), pays(), Event::cancel_requested("ada"), Event::run_cancelled(vec![seq(2)])]);
    let state = replay.state().clone();
    assert_eq!(state.status(), Some(RunStatus::Cancelled));
    let ask = Ask::ToolCall { tool: "pay", input: &json!(5) };
    let divergence = replay.ask(&Lane::ROOT, ask).unwrap_err();
    assert_eq!(divergence.seq, seq(4));
    assert_eq!(divergence.recorded, json!({"kind": "run_cancelled"}));
    assert_eq!(replay.finish(&Event::run_completed(json!(1))).unwrap_err().seq, seq(2));
    assert!(matches!(replay.state(), RunState::Cancelled(_)));
}

#[test]
fn a_log_of_another_run_is_refused() {
    let other = "11111111-1111-4111-8111-111111111111".parse().unwrap();
    let error = Replay::new(other, log([started()])).unwrap_err();
    assert!(error.to_string().contains(&format!("it belongs to run {}", run())), "{error}");
    let tool = asks_tool("t", 1, Effect::Read);
    let mut mixed = log([started(), tool]);
    mixed[1].run_id = other;
    let error = Replay::new(run(), mixed).unwrap_err();
    assert!(error.to_string().contains("is damaged at event 2: it belongs to run 11111111"), "{error}");
}
