//! What was answered with `Ok` is in the file, and a file that was cut off anywhere holds whole batches.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod support;

use std::{collections::BTreeSet, fs, path::Path};

use relight_conformance::SampleRun;
use relight_store::{EventStore, RunQuery, SqliteStore, StoreError};
use support::FILE;

#[tokio::test]
async fn a_copy_made_at_the_moment_of_the_answer_holds_what_was_answered() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join(FILE)).await.unwrap();
    let mut run = SampleRun::new();
    for events in [1, 2, 300, 1] {
        let head = store.append(run.batch(events, 100)).await.unwrap();
        let copy = copy(folder.path(), None);
        let copied = SqliteStore::open(copy.path().join(FILE)).await.unwrap();
        assert_eq!(copied.head(run.id()).await.unwrap(), Some(head));
        assert_eq!(copied.read_log(run.id()).await.unwrap().len() as u64, head.seq.number());
    }
}

#[tokio::test]
async fn every_truncation_of_the_write_ahead_log_recovers_whole_batches() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join(FILE)).await.unwrap();
    let mut run = SampleRun::new();
    let mut ends = BTreeSet::from([0]);
    for events in [1, 3, 2, 20, 1, 5] {
        ends.insert(store.append(run.batch(events, 700)).await.unwrap().seq.number());
    }
    let mut longest = 0;
    let mut seen = BTreeSet::new();
    for length in lengths(fs::metadata(wal(folder.path())).unwrap().len()) {
        let copy = copy(folder.path(), Some(length));
        let copied = SqliteStore::open(copy.path().join(FILE)).await.unwrap();
        let events = match copied.read_log(run.id()).await {
            Ok(log) => log.len() as u64,
            Err(StoreError::UnknownRun { .. }) => 0,
            Err(error) => panic!("cut at {length}: {error}"),
        };
        assert!(ends.contains(&events), "cut at {length}: {events} events are no whole number of batches");
        assert!(events >= longest, "cut at {length}: a longer file holds less");
        let listed = copied.list_runs(&RunQuery::default()).await.unwrap();
        assert_eq!(listed.items.first().map_or(0, |run| run.events), events, "cut at {length}");
        longest = events;
        seen.insert(events);
    }
    assert_eq!(seen, ends, "every batch is there from some length on");
}

/// Around every page of the log, and in the middle of it.
fn lengths(end: u64) -> impl Iterator<Item = u64> {
    let (header, frame) = (32, 24 + 4096);
    let frames = (0..).map(move |number| header + number * frame).take_while(move |at| *at <= end);
    [0, 1, 31]
        .into_iter()
        .chain(frames.flat_map(|at| [at - 1, at, at + 1, at + 2000]))
        .filter(move |at| *at <= end)
}

fn wal(folder: &Path) -> std::path::PathBuf {
    folder.join(format!("{FILE}-wal"))
}

/// The file and its log, as after a power cut.
fn copy(folder: &Path, length: Option<u64>) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    fs::copy(folder.join(FILE), copy.path().join(FILE)).unwrap();
    let mut log = fs::read(wal(folder)).unwrap();
    log.truncate(length.map_or(log.len(), |length| length as usize));
    fs::write(wal(copy.path()), log).unwrap();
    copy
}
