//! Paths, files and disks that are not as they should be: typed errors, and the same handle goes on afterwards.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod support;

use std::{fs, path::Path, time::Duration};

use futures::{future::join_all, poll};
use relight_conformance::SampleRun;
use relight_store::{Append, EventStore, RunQuery, SqliteOptions, SqliteStore, StoreError};
use sqlx::{Connection, Row, raw_sql};
use support::{FILE, connect};

const QUICK: Duration = Duration::from_millis(30);

#[track_caller]
fn check(error: &StoreError, texts: &[&str]) {
    let text = error.to_string();
    assert!(!text.contains('\n'), "one line: {text}");
    for wanted in texts {
        assert!(text.contains(wanted), "{wanted:?} is missing in: {text}");
    }
}

#[tokio::test]
async fn a_folder_is_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let error = SqliteStore::open(folder.path()).await.unwrap_err();
    assert!(matches!(error, StoreError::CannotOpen { .. }), "{error:?}");
    check(&error, &["it is a folder", &folder.path().display().to_string()]);
}

#[tokio::test]
async fn a_folder_that_does_not_exist_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = SqliteStore::open(folder.path().join("none").join(FILE)).await.unwrap_err();
    assert!(matches!(error, StoreError::CannotOpen { .. }), "{error:?}");
    check(&error, &["there is no folder", "none"]);
}

#[tokio::test]
async fn a_missing_file_is_made_only_where_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    let options = SqliteOptions { create_if_missing: false, ..SqliteOptions::default() };
    let error = SqliteStore::open_with(&path, options).await.unwrap_err();
    assert!(matches!(error, StoreError::CannotOpen { .. }), "{error:?}");
    check(&error, &["there is no such file"]);
    assert!(!path.exists());
    SqliteStore::open(&path).await.unwrap();
    SqliteStore::open_with(&path, options).await.unwrap();
}

#[tokio::test]
async fn a_file_of_another_kind_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    let text = "a letter to a friend. ".repeat(500);
    fs::write(&path, &text).unwrap();
    let error = SqliteStore::open(&path).await.unwrap_err();
    assert!(matches!(error, StoreError::NotADatabase { .. }), "{error:?}");
    check(&error, &["no Relight store", FILE]);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_database_of_another_program_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    fs::write(&path, "").unwrap();
    let mut other = connect(&path).await;
    raw_sql("CREATE TABLE letters (body)").execute(&mut other).await.unwrap();
    other.close().await.unwrap();
    let before = fs::read(&path).unwrap();
    let error = SqliteStore::open(&path).await.unwrap_err();
    assert!(matches!(error, StoreError::NotADatabase { .. }), "{error:?}");
    check(&error, &["another program"]);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_store_of_a_newer_version_is_refused_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    drop(SqliteStore::open(&path).await.unwrap());
    let mut other = connect(&path).await;
    raw_sql("PRAGMA user_version = 99").execute(&mut other).await.unwrap();
    other.close().await.unwrap();
    let error = SqliteStore::open(&path).await.unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { found: 99, .. }), "{error:?}");
    check(&error, &["99", "update Relight"]);
}

#[tokio::test]
async fn a_file_that_stays_locked_is_busy_and_then_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    let options = SqliteOptions { busy_timeout: QUICK, ..SqliteOptions::default() };
    let store = SqliteStore::open_with(&path, options).await.unwrap();
    let (mut run, mut second) = (SampleRun::new(), SampleRun::new());
    store.append(run.batch(1, 10)).await.unwrap();
    let mut other = connect(&path).await;
    raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();

    let batches = [run.batch(1, 10), second.batch(1, 10)];
    for answer in join_all(batches.iter().map(|batch| store.append(batch.clone()))).await {
        let error = answer.unwrap_err();
        assert!(matches!(&error, StoreError::Busy { waited, .. } if *waited >= QUICK), "{error:?}");
        check(&error, &["locked by another process", FILE]);
    }
    // Whoever writes keeps nobody from reading.
    assert_eq!(store.read_log(run.id()).await.unwrap().len(), 1);
    raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    for batch in batches {
        assert_eq!(store.append(batch.clone()).await.unwrap(), batch.head());
    }
}

#[tokio::test]
async fn a_new_file_that_stays_locked_is_busy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    fs::write(&path, "").unwrap();
    let mut other = connect(&path).await;
    raw_sql("BEGIN EXCLUSIVE").execute(&mut other).await.unwrap();
    let options = SqliteOptions { busy_timeout: QUICK, ..SqliteOptions::default() };
    let error = SqliteStore::open_with(&path, options).await.unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
    raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    SqliteStore::open_with(&path, options).await.unwrap();
}

#[tokio::test]
async fn a_full_store_loses_nothing_and_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    let options = SqliteOptions { max_pages: Some(60), ..SqliteOptions::default() };
    let store = SqliteStore::open_with(&path, options).await.unwrap();
    let mut runs: Vec<SampleRun> = (0..4).map(|_| SampleRun::new()).collect();
    for run in &mut runs {
        store.append(run.batch(1, 20_000)).await.unwrap();
    }
    let (mut large, mut small) = (runs.remove(0), runs.remove(0));
    let refused = large.clone().batch(1, 300_000);
    let error = store.append(refused.clone()).await.unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    check(&error, &["no room", FILE, "make room"]);
    assert_eq!(store.head(large.id()).await.unwrap(), large.head());
    assert_eq!(store.read_log(large.id()).await.unwrap().len(), 1);

    // Together with one that fits, only the one that does not is refused.
    let mut other = connect(&path).await;
    raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let batches: Vec<Append> = vec![runs[0].batch(1, 10), refused.clone(), small.batch(1, 10)];
    let mut appends: Vec<_> = batches.into_iter().map(|batch| store.append(batch)).collect();
    for append in &mut appends {
        assert!(poll!(append).is_pending());
    }
    raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    let answers = join_all(appends).await;
    assert!(matches!(answers[1], Err(StoreError::Full { .. })), "{:?}", answers[1]);
    assert_eq!((answers[0].is_ok(), answers[2].is_ok()), (true, true), "{answers:?}");

    let filling = loop {
        let before = small.clone();
        if let Err(error) = store.append(small.batch(1, 5_000)).await {
            small = before;
            break error;
        }
    };
    assert!(matches!(filling, StoreError::Full { .. }), "{filling:?}");
    let delete = "DELETE FROM events WHERE run = (SELECT key FROM runs ORDER BY key DESC LIMIT 1)";
    raw_sql(delete).execute(&mut other).await.unwrap();
    store.append(large.batch(1, 5_000)).await.unwrap();
    for run in [&large, &small] {
        assert_eq!(store.read_log(run.id()).await.unwrap().len() as u64, run.head().unwrap().seq.number());
    }
}

#[tokio::test]
async fn damaged_pages_are_named_by_their_run_and_leave_others_readable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    let mut runs: Vec<SampleRun> = (0..3).map(|_| SampleRun::new()).collect();
    {
        let store = SqliteStore::open(&path).await.unwrap();
        for run in &mut runs {
            store.append(run.batch(40, 3_000)).await.unwrap();
        }
    }
    damage_a_page_of(&path, 2).await;
    let store = SqliteStore::open(&path).await.unwrap();
    let error = store.read_log(runs[1].id()).await.unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt { run, .. } if *run == runs[1].id()), "{error:?}");
    check(&error, &["is damaged at event", &runs[1].id().to_string()]);
    for run in [&runs[0], &runs[2]] {
        assert_eq!(store.read_log(run.id()).await.unwrap().len(), 40);
    }
    assert_eq!(store.list_runs(&RunQuery::default()).await.unwrap().items.len(), 3);
    store.append(runs[2].batch(1, 10)).await.unwrap();
}

/// Overwrites a page in the middle of those that hold the events of the run with this key.
async fn damage_a_page_of(path: &Path, run: i64) {
    let mut other = connect(path).await;
    raw_sql("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut other).await.unwrap();
    let rows = "SELECT bytes FROM events WHERE run = ? AND seq = 20";
    let bytes: Vec<u8> = sqlx::query(rows).bind(run).fetch_one(&mut other).await.unwrap().get(0);
    other.close().await.unwrap();
    let mut file = fs::read(path).unwrap();
    let at = file.windows(60).position(|window| window == &bytes[..60]).unwrap();
    let page = at / 4096 * 4096;
    file[page..page + 4096].fill(0xa5);
    fs::write(path, file).unwrap();
}

#[tokio::test]
async fn a_row_with_a_bad_id_is_listed_as_damaged_and_hides_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    let store = SqliteStore::open(&path).await.unwrap();
    for _ in 0..3 {
        store.append(SampleRun::new().batch(1, 10)).await.unwrap();
    }
    let mut other = connect(&path).await;
    raw_sql("UPDATE runs SET id = x'0a0b' WHERE key = 2").execute(&mut other).await.unwrap();
    let statuses = vec![relight_store::StatusKind::Running];
    for query in [RunQuery::default(), RunQuery { statuses, ..RunQuery::default() }] {
        let page = store.list_runs(&query).await.unwrap();
        assert_eq!(page.items.len(), 2);
        assert_eq!(page.damaged.len(), 1);
        assert_eq!(page.damaged[0].run, "0a0b");
        assert!(page.damaged[0].why.contains("2 bytes"), "{}", page.damaged[0].why);
    }
}
