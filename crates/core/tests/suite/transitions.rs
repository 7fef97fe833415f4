//! The state fold: every edge of its diagram, and every event that cannot follow those before it.

use jiff::SignedDuration;
use relight_core::{
    Effect, Event, EventEnvelope, Lane, LaneStep, LogError, OpenIntent, Resolution, RunState, RunStatus,
    StatusKind, TokenUsage, ToolFailure, ToolOutcome, WaitReason,
    budget::{Limit, Spent},
};
use serde_json::json;

use crate::support::{asks_model, asks_tool, drive, envelope, log, run, seq, started, usage};

fn pays() -> Event {
    asks_tool("pay", 5, Effect::Write)
}

fn answered(intent: u64) -> Event {
    Event::model_call_completed(seq(intent), json!("answer"), usage(3, 2))
}

fn returned(intent: u64) -> Event {
    Event::tool_call_completed(seq(intent), ToolOutcome::Returned(json!("done")))
}

fn resolved(intent: u64) -> Event {
    Event::resolved(seq(intent), Resolution::Outcome(ToolOutcome::Returned(json!("done"))), "ada")
}

fn not_done(intent: u64) -> Event {
    Event::resolved(seq(intent), Resolution::NotDone {}, "ada")
}

fn waits_for(intent: u64) -> Event {
    Event::suspended(WaitReason::Reconciliation { intent: seq(intent), why: "no answer".to_owned() })
}

fn exceeded() -> Event {
    Event::budget_exceeded(Limit::Steps, 3, 3)
}

fn waits_for_budget() -> Event {
    Event::suspended(WaitReason::Budget { limit: Limit::Steps })
}

fn raised(to: u64) -> Event {
    Event::budget_raised(Limit::Steps, to, "ada")
}

fn cancel() -> Event {
    Event::cancel_requested("ada")
}

#[track_caller]
fn check_status(events: Vec<Event>, expected: StatusKind) {
    let state = RunState::fold(&log(events)).unwrap();
    assert_eq!(state.status().unwrap().kind(), expected);
}

#[test]
fn a_run_runs_waits_is_cancelled_and_ends_as_drawn() {
    use StatusKind::{Cancelled, Cancelling, Completed, Failed, NeedsReconciliation, Running, Waiting};
    assert_eq!(RunState::fold(&[]).unwrap().status(), None);
    check_status(vec![started()], Running);
    check_status(vec![started(), drive(1), pays()], Running);
    check_status(vec![started(), Event::run_completed(json!(1))], Completed);
    check_status(vec![started(), Event::run_failed("gave_up", "no")], Failed);

    // Into a wait and out of it.
    check_status(vec![started(), pays(), waits_for(2)], NeedsReconciliation);
    check_status(vec![started(), pays(), waits_for(2), resolved(2)], Running);
    check_status(vec![started(), pays(), waits_for(2), not_done(2)], Running);
    check_status(vec![started(), pays(), waits_for(2), returned(2)], Running);
    check_status(vec![started(), pays(), waits_for(2), drive(1)], Running);
    check_status(vec![started(), pays(), waits_for(2), raised(9)], NeedsReconciliation);
    check_status(vec![started(), pays(), waits_for(2), waits_for(2)], NeedsReconciliation);
    check_status(vec![started(), exceeded(), waits_for_budget()], Waiting);
    check_status(vec![started(), exceeded(), waits_for_budget(), raised(4)], Running);
    check_status(vec![started(), exceeded(), waits_for_budget(), raised(3)], Waiting);
    check_status(
        vec![started(), exceeded(), waits_for_budget(), Event::budget_raised(Limit::Tokens, 9, "ada")],
        Waiting,
    );

    // Out of the run from outside.
    check_status(vec![started(), cancel()], Cancelling);
    check_status(vec![started(), pays(), waits_for(2), cancel()], Cancelling);
    check_status(vec![started(), pays(), cancel(), cancel(), drive(1), returned(2)], Cancelling);
    check_status(vec![started(), pays(), cancel(), waits_for(2)], Cancelling);
    check_status(vec![started(), pays(), cancel(), Event::run_cancelled(vec![seq(2)])], Cancelled);
    check_status(vec![started(), pays(), waits_for(2), Event::run_cancelled(Vec::new())], Cancelled);
    check_status(vec![started(), Event::run_cancelled(Vec::new())], Cancelled);
}

#[test]
fn a_state_carries_what_a_reader_wants_to_know() {
    let fold = |events: Vec<Event>| RunState::fold(&log(events)).unwrap();
    assert_eq!(
        fold(vec![started(), pays(), waits_for(2)]).status(),
        Some(RunStatus::NeedsReconciliation { intent: seq(2), why: "no answer".to_owned() })
    );
    assert_eq!(
        fold(vec![started(), Event::run_failed("gave_up", "no")]).status(),
        Some(RunStatus::Failed { code: "gave_up".to_owned(), message: "no".to_owned() })
    );
    let state = fold(vec![started(), Event::run_completed(json!({"result": 1}))]);
    assert!(matches!(state, RunState::Completed { output, .. } if output == json!({"result": 1})));
}

#[test]
fn progress_counts_what_was_done() {
    let failed = ToolOutcome::Failed(ToolFailure { code: "declined".to_owned(), message: "no".to_owned() });
    let state = RunState::fold(&log([
        started(),
        drive(1),
        asks_model("a"),
        answered(3),
        asks_model("b"),
        Event::model_call_failed(seq(5), json!("overloaded")),
        asks_tool("search", "x", Effect::Read),
        Event::tool_call_completed(seq(7), failed),
        drive(2),
        pays(),
    ]))
    .unwrap();
    let progress = state.progress().unwrap();
    // A call that failed took no step, and a failure of a tool is an end like any other.
    assert_eq!(progress.spent, Spent { steps: 1, tokens: 5 });
    assert_eq!(progress.usage, usage(3, 2));
    assert_eq!((progress.drives, progress.tool_calls, progress.head), (2, 1, seq(10)));
    let open: Vec<_> = progress.open.iter().collect();
    let pay = OpenIntent::ToolCall { tool: "pay".to_owned(), effect: Effect::Write };
    assert_eq!(open, [(&seq(10), &pay)]);

    let summary = state.summary().unwrap();
    assert_eq!((summary.events, summary.model_calls, summary.tool_calls, summary.drives), (10, 1, 1, 2));
    assert_eq!(summary.status, RunStatus::Running);
    assert_eq!(summary.agent_hash, "agent");
}

#[test]
fn counts_that_reach_their_end_stay_there() {
    let all = TokenUsage { input_tokens: u64::MAX, output_tokens: u64::MAX, ..TokenUsage::default() };
    let call = |intent: u64| [asks_model("a"), Event::model_call_completed(seq(intent), json!(1), all)];
    let state = RunState::fold(&log([started()].into_iter().chain(call(2)).chain(call(4)))).unwrap();
    let progress = state.progress().unwrap();
    assert_eq!(progress.spent, Spent { steps: 2, tokens: u64::MAX });
    assert_eq!(progress.usage, all);
}

#[test]
fn a_limit_is_exceeded_until_it_is_raised_above_what_was_allowed() {
    let exceeded_of = |events: Vec<Event>| RunState::fold(&log(events)).unwrap().progress().unwrap().exceeded;
    assert_eq!(exceeded_of(vec![started(), exceeded()]), Some((Limit::Steps, 3)));
    assert_eq!(exceeded_of(vec![started(), exceeded(), raised(3)]), Some((Limit::Steps, 3)));
    assert_eq!(exceeded_of(vec![started(), exceeded(), raised(4)]), None);
    let state = RunState::fold(&log([started(), raised(9), raised(4)])).unwrap();
    assert_eq!(
        state.progress().unwrap().raised.of(Limit::Steps),
        Some(9),
        "a limit is not lowered by raising it"
    );
}

#[track_caller]
fn check_refused(events: Vec<Event>, at: u64, why: &str) {
    let error = RunState::fold(&log(events)).unwrap_err();
    assert_eq!(error, LogError::Corrupt { run: run(), seq: seq(at), why: why.to_owned() });
}

#[test]
fn nothing_stands_before_the_start_or_after_the_end() {
    check_refused(vec![drive(1)], 1, "drive_started stands before the run was started");
    check_refused(vec![Event::run_completed(json!(1))], 1, "run_completed stands before the run was started");
    check_refused(vec![started(), started()], 2, "run_started stands inside a run");
    let ends: [fn() -> Event; 3] = [
        || Event::run_completed(json!(1)),
        || Event::run_failed("gave_up", "no"),
        || Event::run_cancelled(Vec::new()),
    ];
    for end in ends {
        for late in [drive(1), asks_model("a"), cancel(), raised(9), end()] {
            let why = format!("{} stands after the end of the run", late.kind());
            check_refused(vec![started(), end(), late], 3, &why);
        }
        check_refused(vec![started(), end(), started()], 3, "run_started stands inside a run");
    }
}

#[test]
fn only_an_open_call_is_settled_and_only_once_by_its_own_kind() {
    let no = |kind: &str, intent: u64| format!("{kind} speaks of event {intent}, which is not an open call");
    check_refused(vec![started(), answered(3), asks_model("a")], 2, &no("model_call_completed", 3));
    check_refused(vec![started(), answered(u64::MAX)], 2, &no("model_call_completed", u64::MAX));
    check_refused(vec![started(), answered(1)], 2, &no("model_call_completed", 1));
    check_refused(vec![started(), returned(2)], 2, &no("tool_call_completed", 2));
    check_refused(
        vec![started(), asks_model("a"), answered(2), answered(2)],
        4,
        &no("model_call_completed", 2),
    );
    let failed = || Event::model_call_failed(seq(2), json!(1));
    check_refused(vec![started(), asks_model("a"), answered(2), failed()], 4, &no("model_call_failed", 2));
    check_refused(vec![started(), pays(), returned(2), resolved(2)], 4, &no("resolved", 2));
    check_refused(vec![started(), pays(), resolved(2), returned(2)], 4, &no("tool_call_completed", 2));
    check_refused(vec![started(), pays(), resolved(2), not_done(2)], 4, &no("resolved", 2));
    check_refused(vec![started(), not_done(1)], 2, &no("resolved", 1));
    check_refused(vec![started(), waits_for(1)], 2, &no("suspended", 1));

    let model = |kind: &str| format!("{kind} speaks of event 2, which is a model call");
    check_refused(vec![started(), asks_model("a"), returned(2)], 3, &model("tool_call_completed"));
    check_refused(vec![started(), asks_model("a"), resolved(2)], 3, &model("resolved"));
    check_refused(vec![started(), asks_model("a"), not_done(2)], 3, &model("resolved"));
    check_refused(vec![started(), asks_model("a"), waits_for(2)], 3, &model("suspended"));
    let tool = |kind: &str| format!("{kind} speaks of event 2, which is a call of the tool pay");
    check_refused(vec![started(), pays(), answered(2)], 3, &tool("model_call_completed"));
    check_refused(vec![started(), pays(), failed()], 3, &tool("model_call_failed"));
}

#[test]
fn the_code_does_not_go_on_while_something_stands_open() {
    let calls: [fn() -> Event; 5] = [
        || asks_model("b"),
        pays,
        || Event::budget_exceeded(Limit::Tokens, 1, 1),
        || Event::run_completed(json!(1)),
        || Event::run_failed("gave_up", "no"),
    ];
    for call in calls {
        let behind = |what: &str| format!("{} stands behind {what}", call().kind());
        check_refused(
            vec![started(), asks_model("a"), call()],
            3,
            &behind("event 2, which nothing has settled"),
        );
        check_refused(
            vec![started(), pays(), not_done(2), drive(1), call()],
            5,
            &behind("event 2, which nothing has settled"),
        );
        check_refused(
            vec![started(), exceeded(), raised(3), drive(1), call()],
            5,
            &behind("a limit of 3 steps, which nobody has raised"),
        );
        check_refused(vec![started(), cancel(), call()], 3, &behind("a cancellation"));
    }
}

#[test]
fn a_note_that_makes_no_sense_is_refused() {
    check_refused(vec![started(), drive(2)], 2, "drive_started is number 2, but should be number 1");
    check_refused(
        vec![started(), drive(1), drive(1)],
        3,
        "drive_started is number 1, but should be number 2",
    );
    check_refused(
        vec![started(), waits_for_budget()],
        2,
        "suspended waits for a higher limit on steps, which is not used up",
    );
    check_refused(
        vec![started(), exceeded(), raised(4), waits_for_budget()],
        4,
        "suspended waits for a higher limit on steps, which is not used up",
    );
    check_refused(
        vec![started(), pays(), returned(2), Event::run_cancelled(vec![seq(2)])],
        4,
        "run_cancelled leaves event 2 unsettled, which is not open",
    );
}

/// Changes the second of two events, so that it cannot stand where it does.
#[track_caller]
fn check_place(change: impl FnOnce(&mut EventEnvelope), why: &str) {
    let mut log = log([started(), asks_model("a")]);
    change(&mut log[1]);
    let error = RunState::fold(&log).unwrap_err();
    assert_eq!(error, LogError::Corrupt { run: run(), seq: seq(2), why: why.to_owned() });
}

#[test]
fn every_event_keeps_to_its_run_place_lane_and_time() {
    let other = "11111111-1111-4111-8111-111111111111".parse().unwrap();
    check_place(|second| second.run_id = other, &format!("it belongs to run {other}"));
    check_place(|second| second.seq = seq(1), "event 1 stands in its place");
    check_place(|second| second.seq = seq(3), "event 3 stands in its place");
    check_place(|second| second.seq = seq(u64::MAX), "event 18446744073709551615 stands in its place");
    check_place(
        |second| second.lane = Lane::ROOT.branch(LaneStep { ordinal: 2, branch: 0 }),
        "it stands in lane 2.0, which no event opened",
    );
    check_place(
        |second| second.recorded_at -= SignedDuration::from_millis(1_001),
        "it is recorded at 2026-11-30T12:00:00.999Z, but the event before it at 2026-11-30T12:00:01Z",
    );
    // Two events in one instant are in order.
    let mut log = log([started(), asks_model("a")]);
    log[1].recorded_at = log[0].recorded_at;
    assert!(RunState::fold(&log).is_ok());

    let late = envelope(2, started());
    let why = "event 2 stands in its place".to_owned();
    assert_eq!(RunState::fold([&late]).unwrap_err(), LogError::Corrupt { run: run(), seq: seq(1), why });
}
