//! A write that is not done so far is run again only where everybody who may have tried is known dead, and a run is
//! left alone while its process lives.

use std::{
    process::{Child, Command, Stdio},
    sync::Arc,
};

use async_trait::async_trait;
use relight_core::{Effect, Event, Process, Resolution, RunId, Seq, ToolOutcome, WaitReason};
use relight_runtime::{RunCtx, RunOutcome, Runtime, RuntimeError, Workflow, this_process};
use relight_store::{EventStore, StoreError};
use serde_json::{Value, json};

use crate::support::{Acts, Finds, Ledger, begun, go_on, kinds, log, memory, new_run, seed, start, until};

/// Pays once.
struct Payment(Arc<Ledger>);

#[async_trait]
impl Workflow for Payment {
    fn agent_hash(&self) -> String {
        "payment/1".to_owned()
    }

    async fn run(&self, ctx: &mut RunCtx, _: Value) -> Result<Value, RuntimeError> {
        match ctx.tool_call(self.0.as_ref(), json!({"amount": 5})).await? {
            ToolOutcome::Returned(receipt) => Ok(receipt),
            ToolOutcome::Failed(failure) => Err(RuntimeError::failed(failure.code, failure.message)),
        }
    }
}

fn payment() -> Payment {
    Payment(Ledger::new("pay", Effect::Write, Finds::SoFar))
}

fn drive(number: u64, process: &Process) -> Event {
    Event::drive_started(number, process.clone(), "test")
}

fn intent() -> Event {
    Event::tool_call_requested("pay", json!({"amount": 5}), Effect::Write, Some("key".to_owned()))
}

/// A process of this machine that is over: its number belongs to another one now.
fn dead() -> Process {
    Process { started: "1".to_owned(), ..this_process().clone() }
}

fn elsewhere() -> Process {
    Process { host: "elsewhere".to_owned(), ..this_process().clone() }
}

/// Another process of this machine, alive until it is dropped.
struct Alive(Child, Process);

impl Alive {
    fn new() -> Alive {
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let started = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().to_owned();
        let process = Process { pid: child.id(), started, ..this_process().clone() };
        Alive(child, process)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// What becomes of a write that is not done so far and was left open by this log.
async fn left_open(events: Vec<Event>) -> (RunOutcome, usize) {
    let (store, run, payment) = (memory(), new_run(), payment());
    let begin = Event::run_started("payment/1", json!("go"));
    seed(&store, run, [vec![begin], events].concat()).await;
    let outcome = Runtime::new(store).resume(&payment, run).await.unwrap();
    (outcome, payment.0.keys().len())
}

fn why(outcome: &RunOutcome) -> &str {
    match outcome {
        RunOutcome::Waiting { reason: WaitReason::Reconciliation { why, .. } } => why,
        other => panic!("it waits for a person, not {other:?}"),
    }
}

#[tokio::test]
async fn a_write_that_is_not_done_so_far_is_run_again_where_all_who_tried_are_dead() {
    for events in [
        vec![drive(1, &dead()), intent()],
        vec![drive(1, &dead()), intent(), drive(2, &dead()), drive(3, &dead())],
        // Whoever drove before the drive that began it cannot have tried it.
        vec![drive(1, &elsewhere()), drive(2, &dead()), intent()],
    ] {
        let (outcome, done) = left_open(events.clone()).await;
        assert!(matches!(outcome, RunOutcome::Completed { .. }), "{events:?}: {outcome:?}");
        assert_eq!(done, 1);
    }
}

#[tokio::test]
async fn a_write_that_is_not_done_so_far_waits_for_a_person_while_anybody_may_still_do_it() {
    for events in [
        vec![drive(1, &elsewhere()), intent()],
        // A later drive noted that it tries, too.
        vec![drive(1, &dead()), intent(), drive(2, &elsewhere())],
        // This very process tried: what it sent may be under way.
        vec![drive(1, this_process()), intent()],
        // Nobody noted who began it.
        vec![intent()],
        vec![intent(), drive(1, &dead())],
    ] {
        let (outcome, done) = left_open(events.clone()).await;
        assert!(why(&outcome).contains("not done so far"), "{events:?}: {outcome:?}");
        assert_eq!(done, 0);
    }
}

#[tokio::test]
async fn a_write_that_failed_in_this_process_is_not_run_again_by_resuming_it_here() {
    let (store, run, payment) = (memory(), new_run(), payment());
    payment.0.acts(Acts::Fails);
    let first = start(&store, &payment, run).await.unwrap();
    assert!(why(&first).contains("no answer in time"), "{first:?}");
    payment.0.acts(Acts::Works);
    let recorded = log(&store, run).await;
    why(&go_on(&store, &payment, run).await.unwrap());
    assert_eq!(log(&store, run).await, recorded);
    assert_eq!(payment.0.keys().len(), 0);
}

#[tokio::test]
async fn a_rival_in_this_process_over_another_handle_does_not_run_a_write_again() {
    let (store, run, payment) = (memory(), new_run(), payment());
    payment.0.acts(Acts::Hangs);
    // The ledger is written late: the rival looks before.
    let other: Arc<dyn EventStore> = Arc::new(crate::support::Yielding(store.clone()));
    let rival = Payment(Ledger::new("pay", Effect::Write, Finds::SoFar));
    tokio::select! {
        ended = start(&store, &payment, run) => panic!("it hangs, but ended: {ended:?}"),
        outcome = async {
            until(async || !payment.0.keys().is_empty()).await;
            go_on(&other, &rival, run).await.unwrap()
        } => {
            why(&outcome);
        }
    }
    assert_eq!((payment.0.keys().len(), rival.0.keys().len()), (1, 0));
}

#[tokio::test]
async fn a_run_is_left_alone_while_another_process_of_this_host_drives_it() {
    let (store, run, payment, alive) = (memory(), new_run(), payment(), Alive::new());
    seed(&store, run, vec![Event::run_started("payment/1", json!("go")), drive(1, &alive.1)]).await;
    let refused = go_on(&store, &payment, run).await.unwrap_err();
    let RuntimeError::StillDriven { process, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!(process.pid, alive.1.pid);
    drop(alive);
    assert!(matches!(go_on(&store, &payment, run).await, Ok(RunOutcome::Completed { .. })));
}

#[tokio::test]
async fn a_run_that_was_suspended_is_driven_by_nobody_though_its_process_lives_on() {
    let (store, run, payment, alive) = (memory(), new_run(), payment(), Alive::new());
    seed(
        &store,
        run,
        vec![
            Event::run_started("payment/1", json!("go")),
            drive(1, &alive.1),
            intent(),
            Event::suspended(WaitReason::Reconciliation {
                intent: Seq::new(3).unwrap(),
                why: "?".to_owned(),
            }),
        ],
    )
    .await;
    let outcome = Resolution::Outcome(ToolOutcome::Returned(json!("paid")));
    Runtime::new(store.clone()).resolve(run, Seq::new(3).unwrap(), outcome, "ada").await.unwrap();
    let done = RunOutcome::Completed { output: json!("paid") };
    assert_eq!(go_on(&store, &payment, run).await.unwrap(), done);
}

#[tokio::test]
async fn a_run_that_is_over_answers_though_its_process_lives_on() {
    let (store, run, payment, alive) = (memory(), new_run(), payment(), Alive::new());
    let begin = Event::run_started("payment/1", json!("go"));
    seed(&store, run, vec![begin, drive(1, &alive.1), Event::run_completed(json!("over"))]).await;
    assert_eq!(go_on(&store, &payment, run).await.unwrap(), RunOutcome::Completed { output: json!("over") });
}

async fn say_not_done(store: &Arc<dyn EventStore>, run: RunId, intent: u64) -> Result<(), RuntimeError> {
    let intent = Seq::new(intent).unwrap();
    Runtime::new(store.clone()).resolve(run, intent, Resolution::NotDone {}, "ada").await
}

#[tokio::test]
async fn what_is_being_done_cannot_be_called_not_done() {
    let (store, run, payment, alive) = (memory(), new_run(), payment(), Alive::new());
    seed(&store, run, vec![Event::run_started("payment/1", json!("go")), drive(1, &alive.1), intent()]).await;
    let refused = say_not_done(&store, run, 3).await.unwrap_err();
    assert!(matches!(refused, RuntimeError::StillDriven { .. }), "{refused:?}");
    drop(alive);
    say_not_done(&store, run, 3).await.unwrap();

    // The same in one process.
    let (store, run) = (memory(), new_run());
    payment.0.acts(Acts::Hangs);
    tokio::select! {
        ended = start(&store, &payment, run) => panic!("it hangs, but ended: {ended:?}"),
        refused = async {
            until(async || !payment.0.keys().is_empty()).await;
            say_not_done(&store, run, 3).await
        } => assert!(matches!(refused, Err(RuntimeError::StillDriven { .. })), "{refused:?}"),
    }
    say_not_done(&store, run, 3).await.unwrap();
}

#[tokio::test]
async fn of_two_bare_contexts_that_would_run_a_write_again_one_does() {
    let (store, run) = (memory(), new_run());
    let pay = Ledger::new("pay", Effect::Write, Finds::Certainly);
    let begin = Event::run_started("test", json!("input"));
    seed(&store, run, vec![begin, intent()]).await;
    let (mut left, mut right) = (begun(&store, run).await, begun(&store, run).await);
    let input = || json!({"amount": 5});
    let (left, right) =
        tokio::join!(left.tool_call(pay.as_ref(), input()), right.tool_call(pay.as_ref(), input()));
    let lost = |result: &Result<ToolOutcome, RuntimeError>| {
        matches!(result, Err(RuntimeError::Store(StoreError::Conflict { .. })))
    };
    assert!(lost(&left) != lost(&right), "{left:?} {right:?}");
    assert_eq!(pay.keys(), ["key"]);
    assert_eq!(
        kinds(&store, run).await,
        ["run_started", "tool_call_requested", "drive_started", "tool_call_completed"]
    );
}
