//! A file that another process holds locked makes its users wait, and nobody else in their runtime.

use std::time::Duration;

use relight_runtime::RunOutcome;
use relight_store::{EventStore, SqliteStore};
use serde_json::json;
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, yield_now},
    time::interval,
};

use crate::{
    agent::{ANSWER, script},
    child::drive,
    driver::{Driver, within},
    protocol::{Order, Report},
    stage::{Stage, new_run},
};

/// Lets other tasks of this runtime do a good deal of real work: timers, sockets, and turns of the scheduler.
async fn others_go_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut ticks = interval(Duration::from_millis(1));
    for _ in 0..50 {
        ticks.tick().await;
        yield_now().await;
        let (connected, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        connected.unwrap();
        accepted.unwrap();
    }
}

/// `work` waits for the lock of another process; the one thread of this runtime does not.
async fn check<T: Send + 'static>(
    what: &str,
    stage: &Stage,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    let mut holder = Driver::start(&stage.setup()).await;
    holder.order(Order::Lock).await;
    assert_eq!(holder.report().await, Report::Locked);
    let waiting: JoinHandle<T> = tokio::spawn(work);
    // Were the thread blocked, this would not come back before the lock is given up on, and the work would have failed.
    others_go_on().await;
    assert!(!waiting.is_finished(), "{what} does not wait for the lock");
    holder.order(Order::Unlock).await;
    assert_eq!(holder.report().await, Report::Unlocked);
    let done = within(what, waiting).await.unwrap();
    holder.end().await;
    done
}

#[tokio::test(flavor = "current_thread")]
async fn a_drive_that_waits_for_a_locked_file_blocks_no_other_task() {
    let stage = Stage::set(script()).await;
    let store = stage.store().await;
    let (agent, run) = (stage.agent(), new_run());
    let drive = async move { drive(store, &agent, run).await };
    let outcome = check("the drive", &stage, drive).await.unwrap();
    assert_eq!(outcome, RunOutcome::Completed { output: json!(ANSWER) });
    stage.assert_as_undisturbed(run, "held up by a lock").await;
}

#[tokio::test(flavor = "current_thread")]
async fn opening_a_new_file_that_is_locked_blocks_no_other_task() {
    let stage = Stage::set(script()).await;
    let path = stage.store_path().to_owned();
    let opened = check("opening", &stage, async move { SqliteStore::open(path).await }).await.unwrap();
    assert!(opened.head(new_run()).await.unwrap().is_none());
}
