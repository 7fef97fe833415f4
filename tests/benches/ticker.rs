//! How long a runtime of one thread is held up by 64 runs that append to a SQLite file: a ticker beside them tells.
//!
//! `cargo bench -p relight-tests --bench ticker` reports how late a task is woken that wants to run every
//! millisecond: on an idle runtime, beside runs in memory (what the runs' own work costs), and beside runs in a file.

use std::{error::Error, future::pending, pin::pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use relight_core::Effect;
use relight_runtime::{RunCtx, Runtime, RuntimeError, Tool, ToolCall, ToolError, ToolSpec, Workflow};
use relight_store::{EventStore, MemoryStore, RunQuery, SqliteStore};
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};

const RUNS: usize = 64;

const TICK: Duration = Duration::from_millis(1);

/// How many tools each run calls.
const CALLS: usize = 1_000;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        println!("lag of a 1 ms ticker on one thread, in milliseconds");
        println!("                   appends  ticks  median    99 %  99.9 %   worst");
        let idle = lags_until(timeout(Duration::from_secs(2), pending::<()>())).await;
        report("idle", 0, idle.1);
        beside_runs("64 runs, memory", Arc::new(MemoryStore::new())).await?;
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let file = SqliteStore::open(folder.path().join("runs.db")).await?;
        beside_runs("64 runs, SQLite", Arc::new(file)).await
    })
}

async fn beside_runs(name: &str, store: Arc<dyn EventStore>) -> Result<(), Box<dyn Error>> {
    let work = Arc::new(Work { note: Note::new() });
    let mut runs = JoinSet::new();
    for _ in 0..RUNS {
        let (runtime, work) = (Runtime::new(store.clone()), work.clone());
        runs.spawn(async move { runtime.start(&*work, json!("go")).await });
    }
    let (ended, lags) = lags_until(runs.join_all()).await;
    ended.into_iter().collect::<Result<Vec<_>, _>>()?;
    let listed = store.list_runs(&RunQuery::default()).await?;
    // The start and the end of a run are an append each, and so are the intent and the outcome of a call.
    let appends = listed.items.iter().map(|run| 2 + 2 * run.tool_calls).sum();
    report(name, appends, lags);
    Ok(())
}

fn report(name: &str, appends: u64, mut lags: Vec<Duration>) {
    lags.sort_unstable();
    let at = |per_mille: usize| lags[(lags.len() - 1) * per_mille / 1000].as_secs_f64() * 1e3;
    let [median, most, nearly_all, worst] = [500, 990, 999, 1000].map(at);
    let ticks = lags.len();
    println!("{name:16} {appends:>9} {ticks:>6} {median:>7.2} {most:>7.2} {nearly_all:>7.2} {worst:>7.2}");
}

/// How late each tick came until something else was done, with what that came to.
async fn lags_until<T>(done: impl Future<Output = T>) -> (T, Vec<Duration>) {
    let mut done = pin!(done);
    let mut lags = Vec::new();
    loop {
        let due = Instant::now() + TICK;
        tokio::select! {
            biased;
            () = sleep_until(due) => lags.push(due.elapsed()),
            done = &mut done => return (done, lags),
        }
    }
}

/// A run that calls one tool after another.
struct Work {
    note: Note,
}

#[async_trait]
impl Workflow for Work {
    fn agent_hash(&self) -> String {
        "ticker".to_owned()
    }

    async fn run(&self, ctx: &mut RunCtx, _: Value) -> Result<Value, RuntimeError> {
        for _ in 0..CALLS {
            ctx.tool_call(&self.note, json!({"text": TEXT})).await?;
        }
        Ok(Value::Null)
    }
}

struct Note(ToolSpec);

impl Note {
    fn new() -> Note {
        Note(ToolSpec::new("note", "Notes.", Effect::Idempotent))
    }
}

#[async_trait]
impl Tool for Note {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, call: ToolCall<'_>) -> Result<Value, ToolError> {
        Ok(call.input.clone())
    }
}

const TEXT: &str =
    "The balance is enough, so what is due was paid, and this note says so for whoever looks later.";
