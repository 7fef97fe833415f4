//! Appends that are queued together are committed together, and fail apart.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod support;

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use futures::{future::join_all, poll};
use relight_conformance::SampleRun;
use relight_store::{Append, BatchId, EventStore, SqliteOptions, SqliteStore, StoreError};
use sqlx::{Connection, SqliteConnection, raw_sql};
use support::{FILE, connect};
use tokio::runtime::Builder;

/// A store, and runs that have started in it.
async fn start(folder: &Path, runs: usize, options: SqliteOptions) -> (SqliteStore, Vec<SampleRun>) {
    let store = SqliteStore::open_with(folder.join(FILE), options).await.unwrap();
    let mut runs: Vec<SampleRun> = (0..runs).map(|_| SampleRun::new()).collect();
    for run in &mut runs {
        store.append(run.batch(1, 100)).await.unwrap();
    }
    (store, runs)
}

/// Holds the lock for writing while appends queue up.
async fn lock(folder: &Path) -> SqliteConnection {
    let mut other = connect(&folder.join(FILE)).await;
    raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    other
}

async fn unlock(mut other: SqliteConnection) {
    raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    other.close().await.unwrap();
}

#[tokio::test]
async fn what_64_runs_queue_takes_a_few_commits() {
    let folder = tempfile::tempdir().unwrap();
    let (store, mut runs) = start(folder.path(), 64, SqliteOptions::default()).await;
    let before = commits(folder.path());
    let other = lock(folder.path()).await;
    let batches: Vec<Append> = runs.iter_mut().map(|run| run.batch(1, 100)).collect();
    let mut appends: Vec<_> = batches.into_iter().map(|batch| store.append(batch)).collect();
    for append in &mut appends {
        assert!(poll!(append).is_pending());
    }
    unlock(other).await;
    for answer in join_all(appends).await {
        answer.unwrap();
    }
    // The first goes alone; the others wait for it and go together, unless the writer was quick to take some of them.
    let commits = commits(folder.path()) - before;
    assert!((1..=4).contains(&commits), "{commits} commits");
    for run in &runs {
        assert_eq!(store.head(run.id()).await.unwrap(), run.head());
    }
}

#[tokio::test]
async fn a_member_that_fails_does_not_fail_its_neighbours() {
    let folder = tempfile::tempdir().unwrap();
    let (store, mut runs) = start(folder.path(), 12, SqliteOptions::default()).await;
    let stale = Append { batch: BatchId::random(), ..runs[2].clone().batch(1, 100) };
    let winner = runs[2].batch(1, 100);
    store.append(winner.clone()).await.unwrap();
    // A record beyond the head, as damage may leave it.
    let mut other = connect(&folder.path().join(FILE)).await;
    let beyond =
        "INSERT INTO events SELECT run, seq + 1, recorded_at, batch, link, bytes FROM events WHERE run = 6";
    raw_sql(beyond).execute(&mut other).await.unwrap();
    other.close().await.unwrap();

    let other = lock(folder.path()).await;
    let mut batches: Vec<Append> = runs.iter_mut().map(|run| run.batch(2, 100)).collect();
    batches[2] = stale;
    batches.push(winner.clone());
    let mut appends: Vec<_> = batches.iter().map(|batch| store.append(batch.clone())).collect();
    for append in &mut appends {
        assert!(poll!(append).is_pending());
    }
    unlock(other).await;
    let answers = join_all(appends).await;
    for (at, (batch, answer)) in batches.iter().zip(answers).enumerate() {
        match at {
            2 => assert!(matches!(answer, Err(StoreError::Conflict { .. })), "{answer:?}"),
            5 => assert!(
                matches!(&answer, Err(StoreError::Corrupt { run, .. }) if *run == batch.run),
                "{answer:?}"
            ),
            _ => assert_eq!(answer.unwrap(), batch.head()),
        }
    }
}

#[tokio::test]
async fn a_store_that_is_locked_blocks_no_other_task_of_the_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let (store, mut runs) = start(folder.path(), 2, SqliteOptions::default()).await;
    let other = lock(folder.path()).await;
    let (first, second) = (runs[0].batch(1, 100), runs[1].batch(1, 100));
    // On this one thread only a task that is not blocked can let the others go on.
    let (first, second, ()) =
        tokio::join!(store.append(first), store.append(second), async move { unlock(other).await });
    first.unwrap();
    second.unwrap();
}

#[tokio::test]
async fn a_queue_that_is_full_makes_appends_wait_and_loses_none() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { queue_bytes: 3_000, ..SqliteOptions::default() };
    let (store, mut runs) = start(folder.path(), 20, options).await;
    let batches: Vec<Append> = runs.iter_mut().map(|run| run.batch(1, 5_000)).collect();
    for answer in join_all(batches.into_iter().map(|batch| store.append(batch))).await {
        answer.unwrap();
    }
    for run in &runs {
        assert_eq!(store.head(run.id()).await.unwrap(), run.head());
    }
}

#[test]
fn a_store_outlives_the_runtime_it_was_opened_on() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = || Builder::new_current_thread().build().unwrap();
    let (store, mut runs) = runtime().block_on(start(folder.path(), 8, SqliteOptions::default()));
    for _ in 0..3 {
        let batches: Vec<Append> = runs.iter_mut().map(|run| run.batch(1, 100)).collect();
        let appends = batches.into_iter().map(|batch| store.append(batch));
        for answer in runtime().block_on(join_all(appends)) {
            answer.unwrap();
        }
        assert_eq!(runtime().block_on(store.head(runs[0].id())).unwrap(), runs[0].head());
    }
}

#[tokio::test]
async fn what_was_queued_is_written_after_the_last_handle_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let (store, mut runs) = start(folder.path(), 8, SqliteOptions::default()).await;
    let other = lock(folder.path()).await;
    {
        let batches: Vec<Append> = runs.iter_mut().map(|run| run.batch(1, 100)).collect();
        let mut appends: Vec<_> = batches.into_iter().map(|batch| store.append(batch)).collect();
        for append in &mut appends {
            assert!(poll!(append).is_pending());
        }
    }
    drop(store);
    unlock(other).await;
    let store = SqliteStore::open(folder.path().join(FILE)).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    for run in &runs {
        while store.head(run.id()).await.unwrap() != run.head() {
            assert!(Instant::now() < deadline, "what was queued is not written");
        }
    }
}

#[tokio::test]
async fn the_write_ahead_log_shrinks_once_a_long_reader_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { wal_bytes: 200_000, ..SqliteOptions::default() };
    let (store, mut runs) = start(folder.path(), 1, options).await;
    let mut reader = connect(&folder.path().join(FILE)).await;
    raw_sql("BEGIN; SELECT count(*) FROM events").fetch_all(&mut reader).await.unwrap();
    let size = || fs::metadata(folder.path().join(format!("{FILE}-wal"))).map_or(0, |wal| wal.len());
    while size() < 1_000_000 {
        store.append(runs[0].batch(10, 5_000)).await.unwrap();
    }
    raw_sql("ROLLBACK").execute(&mut reader).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while size() > 200_000 {
        assert!(Instant::now() < deadline, "the log has {} bytes", size());
        store.append(runs[0].batch(1, 10)).await.unwrap();
    }
}

/// How many transactions the write-ahead log holds: the frames that end one carry the size of the file.
fn commits(folder: &Path) -> usize {
    let log = fs::read(folder.join(format!("{FILE}-wal"))).unwrap();
    log[32..].chunks_exact(24 + 4096).filter(|frame| frame[4..8] != [0; 4]).count()
}
