//! Two processes and one run: one drives it, the other one stops before it does anything.

use futures::future::join_all;
use relight_core::RunId;
use relight_store::{Record, SeqRange};
use relight_testkit::{At, Progress, Script};
use rustix::process::Signal;

use crate::{
    agent::{ANSWER, answers},
    driver::{Driver, until, within},
    protocol::{Order, Report, Stop},
    stage::{Stage, new_run},
};

const ROUNDS: usize = 25;

/// The records as they stand in the file.
async fn records(stage: &Stage, run: RunId) -> Vec<Record> {
    stage.store().await.load(run, SeqRange::ALL).await.unwrap()
}

async fn stalled(stage: &Stage, requests: usize) {
    let stalled = stage.server.wait_for(|seen| {
        seen.len() == requests && seen.last().is_some_and(|last| last.progress == Progress::Stalled)
    });
    within("the stalled answer", stalled).await;
}

#[tokio::test]
async fn of_two_processes_that_resume_one_run_at_once_one_does_the_work_and_the_other_changes_nothing() {
    let [look, pay, done] = answers();
    let attempts = [done.clone().cut(At::Events(2)), done.clone().stall(At::Events(2)), done];
    for_each_round(async |round| {
        let script = Script::new().turn(look.clone()).turn(pay.clone()).attempts(attempts.clone());
        let stage = Stage::set(script).await;
        let run = new_run();
        let mut first = Driver::start(&stage.setup()).await;
        assert_eq!(first.drive(run).await.stop(), Some(Stop::Model), "its answer was cut");
        first.kill().await;

        let setup = stage.setup();
        let (mut left, mut right) = tokio::join!(Driver::start(&setup), Driver::start(&setup));
        let before = stage.log(run).await.len();
        for rival in [&mut left, &mut right] {
            rival.order(Order::Drive { run, pause: None }).await;
        }
        // The winner's answer stalls, so only the loser can report now.
        let (report, mut winner, loser) = tokio::select! {
            report = left.report() => (report, right, left),
            report = right.report() => (report, left, right),
        };
        assert!(
            matches!(report.stop(), Some(Stop::Conflict | Stop::StillDriven)),
            "round {round}: {report:?}"
        );
        stalled(&stage, 4).await;
        stage.server.release();
        assert_eq!(winner.report().await, Report::Completed(ANSWER.into()), "round {round}");
        loser.end().await;
        winner.end().await;

        stage.assert_as_undisturbed(run, &format!("round {round}")).await;
        assert_eq!(stage.server.requests().len(), 4, "round {round}: the loser asked no model");
        let added: Vec<_> = stage.log(run).await[before..].iter().map(|e| e.event.kind()).collect();
        assert_eq!(added, ["drive_started", "model_call_completed", "run_completed"], "round {round}");
    })
    .await;
}

async fn for_each_round(check: impl AsyncFn(usize)) {
    // Two at a time, so that rivals meet a machine that is busy.
    for pair in 0..ROUNDS.div_ceil(2) {
        join_all([check(2 * pair), check(2 * pair + 1)]).await;
    }
}

#[tokio::test]
async fn a_run_whose_driver_is_stopped_but_alive_is_refused_until_that_driver_ends() {
    let [look, pay, done] = answers();
    let stage = Stage::set(Script::new().turn(look).turn(pay).turn(done.stall(At::Events(3)))).await;
    let run = new_run();
    let mut stopped = Driver::start(&stage.setup()).await;
    stopped.order(Order::Drive { run, pause: None }).await;
    stalled(&stage, 3).await;
    stopped.signal(Signal::STOP);
    let stat = format!("/proc/{}/stat", stopped.pid());
    until("the stop of the driver", || {
        let stat = std::fs::read_to_string(&stat).unwrap();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    })
    .await;

    let before = records(&stage, run).await;
    let mut other = Driver::start(&stage.setup()).await;
    let refused = other.drive(run).await;
    assert!(
        matches!(&refused, Report::Stopped(Stop::StillDriven, error) if error.contains(&stopped.pid().to_string())),
        "{refused:?}"
    );
    assert_eq!(records(&stage, run).await, before, "nothing was changed by it");

    stopped.signal(Signal::CONT);
    stage.server.release();
    assert_eq!(stopped.report().await, Report::Completed(ANSWER.into()));
    assert_eq!(other.drive(run).await, Report::Completed(ANSWER.into()), "it is over, and says how it ended");
    stopped.end().await;
    other.end().await;
    stage.assert_as_undisturbed(run, "stopped and continued").await;
    assert_eq!(stage.server.requests().len(), 3);
}
