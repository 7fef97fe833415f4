//! Nothing that a store or a run does holds up the other tasks of its runtime.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use relight_core::Effect;
use relight_runtime::{
    RunCtx, RunOutcome, Runtime, RuntimeError, Start, Tool, ToolCall, ToolError, ToolSpec, Workflow,
};
use relight_store::{EventStore, MemoryStore, SqliteStore};
use serde_json::{Value, json};
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

const CALLS: usize = 1_000;

/// Calls a tool that answers at once, and notes at which call it saw that another task had run.
struct Restless {
    other_ran: Arc<AtomicBool>,
    seen_at: AtomicUsize,
}

#[async_trait]
impl Workflow for Restless {
    fn agent_hash(&self) -> String {
        "restless".to_owned()
    }

    async fn run(&self, ctx: &mut RunCtx, _: Value) -> Result<Value, RuntimeError> {
        let echo = Echo(ToolSpec::new("echo", "Echoes.", Effect::Idempotent));
        for call in 0..CALLS {
            ctx.tool_call(&echo, json!({"call": call})).await?;
            if self.other_ran.load(Ordering::SeqCst) {
                self.seen_at.fetch_min(call, Ordering::SeqCst);
            }
        }
        // Ends the drive and not the run, so that it can be replayed.
        Err(RuntimeError::InvalidAgent("it has had enough".to_owned()))
    }
}

struct Echo(ToolSpec);

#[async_trait]
impl Tool for Echo {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, call: ToolCall<'_>) -> Result<Value, ToolError> {
        Ok(call.input.clone())
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_run_that_never_has_to_wait_lets_other_tasks_go_on_live_and_in_replay() {
    let (runtime, run) = (Runtime::new(Arc::new(MemoryStore::new())), new_run());
    for drive in ["live", "in replay"] {
        let other_ran = Arc::new(AtomicBool::new(false));
        let restless = Restless { other_ran: other_ran.clone(), seen_at: AtomicUsize::new(usize::MAX) };
        tokio::spawn(async move { other_ran.store(true, Ordering::SeqCst) });
        let ended = match drive {
            "live" => runtime.start(&restless, Start::from("go").with_run_id(run)).await,
            _ => runtime.resume(&restless, run).await,
        };
        assert!(matches!(ended, Err(RuntimeError::InvalidAgent(_))), "{drive}: {ended:?}");
        let seen_at = restless.seen_at.into_inner();
        assert!(seen_at < CALLS, "{drive}: {CALLS} calls went by, and the other task never ran");
    }
}
