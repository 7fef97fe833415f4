//! No room to write: a typed error, nothing lost, and the run goes on when there is room, in the same handle or anew.

use std::{collections::BTreeSet, fs, sync::Arc};

use relight_core::{Effect, Event, EventEnvelope, RunId};
use relight_runtime::RuntimeError;
use relight_store::{RunQuery, SqliteOptions, SqliteStore, StoreError};
use rustix::process::{Resource, Rlimit, prlimit};
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};

use crate::{
    agent::{ANSWER, script},
    child::drive,
    driver::Driver,
    protocol::{Report, Setup, Stop, Work},
    stage::{Stage, new_run},
};

/// So large that each outcome needs new pages.
const BALANCE: usize = 9_000;

/// Takes up room in the store's file until it is dropped from it.
struct Ballast {
    connection: SqliteConnection,
    /// How many pages the file has with it.
    pages: u32,
}

impl Ballast {
    async fn load(stage: &Stage) -> Ballast {
        drop(stage.store().await);
        let options = SqliteConnectOptions::new().filename(stage.store_path());
        let mut connection = options.connect().await.unwrap();
        let sql = "CREATE TABLE ballast (bytes BLOB); INSERT INTO ballast VALUES (zeroblob(1000000))";
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
        let pages = sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut connection).await.unwrap();
        Ballast { connection, pages }
    }

    async fn drop(mut self) {
        sqlx::raw_sql("DROP TABLE ballast").execute(&mut self.connection).await.unwrap();
        self.connection.close().await.unwrap();
    }
}

/// All that a run recorded is whole and listed, and it did nothing that it had not announced; returns its events.
async fn assert_nothing_is_lost(stage: &Stage, run: RunId) -> Vec<EventEnvelope> {
    let log = stage.log(run).await;
    let listed = stage.store().await.list_runs(&RunQuery::default()).await.unwrap();
    let events: Vec<u64> = listed.items.iter().map(|run| run.events).collect();
    let expected = if log.is_empty() { vec![] } else { vec![log.len() as u64] };
    assert_eq!((events, listed.damaged.len()), (expected, 0));
    let announced = |key: &str| {
        log.iter().any(|envelope| match &envelope.event {
            Event::ToolCallRequested { idempotency_key, .. } => idempotency_key.as_deref() == Some(key),
            _ => false,
        })
    };
    for done in [stage.done(run, Work::Pay), stage.done(run, Work::Note)].concat() {
        assert!(announced(&done.key), "{done:?} is not in the log");
    }
    log
}

#[tokio::test]
async fn a_full_store_says_so_and_its_handle_goes_on_when_there_is_room() {
    let (mut stopped_at, mut stopped_between_write_and_outcome) = (BTreeSet::new(), false);
    for spare in 0.. {
        let stage = Stage::with_balance(script(), BALANCE).await;
        let ballast = Ballast::load(&stage).await;
        let options = SqliteOptions { max_pages: Some(ballast.pages + spare), ..SqliteOptions::default() };
        let store = Arc::new(SqliteStore::open_with(stage.store_path(), options).await.unwrap());
        let (agent, run) = (stage.agent(), new_run());
        let ended = drive(store.clone(), &agent, run).await;
        if ended.is_ok() {
            break;
        }
        assert!(
            matches!(&ended, Err(RuntimeError::Store(StoreError::Full { path, .. })) if path == stage.store_path()),
            "{spare} pages to spare: {ended:?}"
        );
        let log = assert_nothing_is_lost(&stage, run).await;
        stopped_at.insert(log.len());
        if let Some(Event::ToolCallRequested { effect: Effect::Write, .. }) =
            log.last().map(|last| &last.event)
        {
            stopped_between_write_and_outcome |= !stage.done(run, Work::Pay).is_empty();
        }
        // It may get a little further where a smaller append still fits.
        let again = drive(store.clone(), &agent, run).await;
        assert!(matches!(again, Err(RuntimeError::Store(StoreError::Full { .. }))), "still full: {again:?}");
        assert!(assert_nothing_is_lost(&stage, run).await.starts_with(&log));

        ballast.drop().await;
        assert_eq!(Report::of(drive(store, &agent, run).await), Report::Completed(ANSWER.into()));
        stage.assert_as_undisturbed(run, &format!("{spare} pages to spare")).await;
    }
    assert!(stopped_at.len() >= 4, "it was stopped after {stopped_at:?} events only");
    assert!(stopped_between_write_and_outcome, "it was stopped after {stopped_at:?} events");
}

#[tokio::test]
async fn a_process_killed_while_its_store_is_full_leaves_a_run_that_goes_on_when_there_is_room() {
    for spare in [0, 3, 6, 9, 12] {
        let stage = Stage::with_balance(script(), BALANCE).await;
        let ballast = Ballast::load(&stage).await;
        let run = new_run();
        let full = Setup { max_pages: Some(ballast.pages + spare), ..stage.setup() };
        let mut driver = Driver::start(&full).await;
        assert_eq!(driver.drive(run).await.stop(), Some(Stop::Full), "{spare} pages to spare");
        driver.kill().await;
        assert_nothing_is_lost(&stage, run).await;
        ballast.drop().await;

        let mut driver = Driver::start(&stage.setup()).await;
        assert_eq!(driver.drive(run).await, Report::Completed(ANSWER.into()));
        driver.end().await;
        stage.assert_as_undisturbed(run, &format!("killed with {spare} pages to spare")).await;
    }
}

#[tokio::test]
async fn a_file_size_limit_stops_a_run_and_the_same_process_goes_on_when_it_is_lifted() {
    for kilobytes in [90, 130, 170, 210] {
        let stage = Stage::with_balance(script(), BALANCE).await;
        drop(stage.store().await);
        let run = new_run();
        let mut driver = Driver::start(&stage.setup()).await;
        let limit = |bytes| Rlimit { current: bytes, maximum: None };
        prlimit(Some(driver.pid()), Resource::Fsize, limit(Some(kilobytes * 1024))).unwrap();
        let report = driver.drive(run).await;
        assert!(
            matches!(&report, Report::Stopped(Stop::Full, error) if error.contains("ulimit -f")),
            "{kilobytes} kB: {report:?}"
        );
        let wal = fs::metadata(stage.store_path().with_extension("db-wal")).unwrap().len();
        assert!(wal <= kilobytes * 1024, "{wal}");
        assert_nothing_is_lost(&stage, run).await;

        prlimit(Some(driver.pid()), Resource::Fsize, limit(None)).unwrap();
        assert_eq!(driver.drive(run).await, Report::Completed(ANSWER.into()), "{kilobytes} kB");
        driver.end().await;
        stage.assert_as_undisturbed(run, &format!("{kilobytes} kB")).await;
    }
}
