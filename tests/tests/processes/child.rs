//! The child's side: the test program, started again with a [`Setup`] in its environment, obeys orders from its input.

use std::{
    future,
    io::{self, BufRead as _, Write as _},
    process,
    sync::Arc,
    thread,
};

use relight_core::RunId;
use relight_runtime::{Agent, RunOutcome, Runtime, RuntimeError, Start};
use relight_store::{EventStore, SqliteOptions, SqliteStore};
use relight_testkit::faults::{CrashPoint, CrashStore};
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use crate::{
    agent::{ANSWER, agent, script},
    driver::Driver,
    protocol::{Order, Pause, Report, Setup},
    stage::{Stage, new_run},
};

/// The name by which the test program is told to run nothing but this.
pub(crate) const NAME: &str = "child::a_process_drives_a_run_from_its_start_to_its_end";

/// Where a child finds its setup.
pub(crate) const SETUP: &str = "RELIGHT_TEST_CHILD";

#[test]
fn a_process_drives_a_run_from_its_start_to_its_end() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match std::env::var(SETUP) {
        Ok(setup) => runtime.block_on(obey(serde_json::from_str(&setup).unwrap())),
        Err(_) => runtime.block_on(async {
            let stage = Stage::set(script()).await;
            let run = new_run();
            let mut driver = Driver::start(&stage.setup()).await;
            assert_eq!(driver.drive(run).await, Report::Completed(ANSWER.into()));
            driver.end().await;
            stage.assert_as_undisturbed(run, "never disturbed").await;
        }),
    }
}

async fn obey(setup: Setup) {
    // As in any program that shall outlive a file size limit: the write fails instead.
    let _too_large = signal(SignalKind::from_raw(SIGXFSZ)).unwrap();
    let mut child = Child { setup, store: None, lock: None };
    let mut orders = orders();
    report(&Report::Ready);
    while let Some(order) = orders.recv().await {
        let answer = child.obey(order).await;
        report(&answer);
    }
}

struct Child {
    setup: Setup,
    store: Option<Arc<dyn EventStore>>,
    lock: Option<SqliteConnection>,
}

impl Child {
    async fn obey(&mut self, order: Order) -> Report {
        match order {
            Order::Lock => {
                let options = SqliteConnectOptions::new().filename(&self.setup.store).create_if_missing(true);
                let mut connection = options.connect().await.unwrap();
                sqlx::raw_sql("BEGIN EXCLUSIVE").execute(&mut connection).await.unwrap();
                self.lock = Some(connection);
                Report::Locked
            }
            Order::Unlock => {
                let mut connection = self.lock.take().expect("it was locked");
                sqlx::raw_sql("ROLLBACK").execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
                Report::Unlocked
            }
            Order::Drive { run, pause } => {
                let store = self.store().await;
                let pausing = pause.map(|pause| (pause, (|| report(&Report::Paused)) as fn()));
                let agent = agent(&self.setup.model, &self.setup.folder, pausing);
                let point = match pause {
                    Some(Pause::BeforeAppend(append)) => Some(CrashPoint::Before(append)),
                    Some(Pause::AfterAppend(append)) => Some(CrashPoint::After(append)),
                    Some(Pause::BeforeWork(_) | Pause::AfterWork(_)) | None => None,
                };
                let Some(point) = point else { return Report::of(drive(store, &agent, run).await) };
                let crashing = CrashStore::new(store, point);
                tokio::select! {
                    ended = drive(crashing.clone(), &agent, run) => Report::of(ended),
                    () = crashing.crashed() => {
                        report(&Report::Paused);
                        future::pending().await
                    }
                }
            }
        }
    }

    /// Opened with the first drive, so that many children meet on a file that is not there yet.
    async fn store(&mut self) -> Arc<dyn EventStore> {
        if self.store.is_none() {
            let options = SqliteOptions { max_pages: self.setup.max_pages, ..SqliteOptions::default() };
            self.store = Some(Arc::new(SqliteStore::open_with(&self.setup.store, options).await.unwrap()));
        }
        self.store.clone().expect("it was just opened")
    }
}

/// Starts the run, or resumes it where it has a log.
pub(crate) async fn drive(
    store: Arc<dyn EventStore>,
    agent: &Agent,
    run: RunId,
) -> Result<RunOutcome, RuntimeError> {
    let begun = store.head(run).await?.is_some();
    let runtime = Runtime::new(store);
    match begun {
        true => runtime.resume(agent, run).await,
        false => runtime.start(agent, Start::from("go").with_run_id(run)).await,
    }
}

/// The orders, as they come. A child whose test is gone has nobody to stop for, and ends.
fn orders() -> mpsc::UnboundedReceiver<Order> {
    let (sender, receiver) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let order = serde_json::from_str(&line.unwrap()).unwrap();
            sender.send(order).unwrap();
        }
        process::exit(0);
    });
    receiver
}

/// The test harness writes to the same stream, so each report is a marked line of its own.
fn report(report: &Report) {
    let mut out = io::stdout().lock();
    writeln!(out, "\n{MARK}{}", serde_json::to_string(report).unwrap()).unwrap();
    out.flush().unwrap();
}

/// What a report's line begins with.
pub(crate) const MARK: char = '@';

const SIGXFSZ: i32 = 25;
