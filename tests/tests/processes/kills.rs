//! A process killed by SIGKILL at every event boundary, in every effect and in mid stream, and resumed in a new one.

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use relight_store::{MemoryStore, RunQuery, StatusKind};
use relight_testkit::{
    At, Progress, Script,
    faults::{CrashPoint, CrashStore},
};

use crate::{
    agent::{ANSWER, answers, script},
    child::drive,
    driver::{Driver, until, within},
    protocol::{Order, Pause, Report, Work},
    stage::{Stage, new_run},
};

/// Kills a drive where it pauses, and lets another process end the run.
async fn kill_and_resume(stage: &Stage, pause: Pause) {
    let run = new_run();
    let mut driver = Driver::start(&stage.setup()).await;
    driver.drive_to(run, pause).await;
    if let Pause::AfterWork(work @ (Work::Pay | Work::Note)) = pause {
        until("the tool's line", || stage.done(run, work).len() == 1).await;
    }
    driver.kill().await;
    let mut driver = Driver::start(&stage.setup()).await;
    assert_eq!(driver.drive(run).await, Report::Completed(ANSWER.into()), "{pause:?}");
    driver.end().await;
    stage.assert_as_undisturbed(run, &format!("{pause:?}")).await;
}

/// Does it at all these points, some at the same time and all over one file.
async fn kill_and_resume_at(pauses: impl IntoIterator<Item = Pause>) {
    let stage = Stage::set(script()).await;
    let pauses: Vec<Pause> = pauses.into_iter().collect();
    stream::iter(&pauses).for_each_concurrent(3, |pause| kill_and_resume(&stage, *pause)).await;
    let query = RunQuery { statuses: vec![StatusKind::Completed], ..RunQuery::default() };
    let listed = stage.store().await.list_runs(&query).await.unwrap();
    assert_eq!((listed.items.len(), listed.damaged.len()), (pauses.len(), 0));
}

#[tokio::test]
async fn killed_before_and_after_each_append_a_run_ends_as_an_undisturbed_one() {
    let stage = Stage::set(script()).await;
    let counting = CrashStore::counting(Arc::new(MemoryStore::new()));
    drive(counting.clone(), &stage.agent(), new_run()).await.unwrap();
    assert!(counting.appends() >= 9, "{}", counting.appends());

    let pauses = CrashPoint::all(counting.appends()).map(|point| match point {
        CrashPoint::Before(append) => Pause::BeforeAppend(append),
        CrashPoint::After(append) => Pause::AfterAppend(append),
    });
    kill_and_resume_at(pauses).await;
}

#[tokio::test]
async fn killed_before_and_after_each_tools_work_a_run_does_each_write_once() {
    let works = [Work::Look, Work::Pay, Work::Note];
    kill_and_resume_at(works.iter().flat_map(|work| [Pause::BeforeWork(*work), Pause::AfterWork(*work)]))
        .await;
}

#[tokio::test]
async fn killed_in_mid_stream_of_each_answer_a_run_asks_for_that_answer_alone_again() {
    let points = [(0, 0), (0, 3), (1, 2), (1, 6), (2, 1), (2, 5)];
    stream::iter(points)
        .for_each_concurrent(3, async |(turn, events)| {
            let script = answers().into_iter().enumerate().fold(Script::new(), |script, (index, answer)| {
                let stalled = answer.clone().stall(At::Events(events));
                script.attempts(if index == turn { vec![stalled, answer] } else { vec![answer] })
            });
            let stage = Stage::set(script).await;
            let run = new_run();
            let mut driver = Driver::start(&stage.setup()).await;
            driver.order(Order::Drive { run, pause: None }).await;
            let stalled = stage.server.wait_for(|seen| {
                let last = seen.last();
                last.is_some_and(|last| {
                    (last.turn, last.events_sent, last.progress) == (turn, events, Progress::Stalled)
                })
            });
            within("the stalled answer", stalled).await;
            driver.kill().await;

            let mut driver = Driver::start(&stage.setup()).await;
            assert_eq!(driver.drive(run).await, Report::Completed(ANSWER.into()));
            driver.end().await;
            let context = format!("killed in turn {turn} after {events} events");
            stage.assert_as_undisturbed(run, &context).await;
            let asked: Vec<usize> = stage.server.requests().iter().map(|request| request.turn).collect();
            let mut expected = vec![0, 1, 2];
            expected.insert(turn, turn);
            assert_eq!(asked, expected, "{context}");
        })
        .await;
}
