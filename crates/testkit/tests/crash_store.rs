//! The store that crashes, around a real one.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

use std::sync::Arc;

use relight_core::{Event, EventEnvelope, Lane, RunState, SCHEMA_VERSION, chain};
use relight_store::{Append, BatchId, EventStore, Expect, MemoryStore, Record, RunId, Seq, StoreError};
use relight_testkit::faults::{CrashPoint, CrashStore};

/// The smallest run: it appends the first event, then the second, each in its own batch.
async fn drive(store: Arc<dyn EventStore>) -> Result<usize, StoreError> {
    let started = envelope(Seq::FIRST, Event::run_started("agent", serde_json::json!(null)));
    let completed = envelope(Seq::FIRST.next(), Event::run_completed(serde_json::json!("done")));
    let log = [started, completed];
    let mut link = chain::GENESIS;
    let present = store.head(run()).await?.map_or(0, |head| head.seq.number() as usize);
    for (index, event) in log.iter().enumerate() {
        let record = Record::seal(link, event).unwrap();
        link = record.link;
        if index < present {
            continue;
        }
        let expect = if index == 0 { Expect::NewRun } else { Expect::Head(Seq::FIRST) };
        let summary = RunState::fold(&log[..=index]).unwrap().summary().unwrap();
        let append = Append {
            run: run(),
            expect,
            epoch: None,
            batch: BatchId::random(),
            records: vec![record],
            summary,
        };
        store.append(append).await?;
    }
    Ok(store.read_log(run()).await?.len())
}

#[tokio::test]
async fn a_run_that_is_only_counted_is_undisturbed() {
    let store = CrashStore::counting(Arc::new(MemoryStore::new()));
    assert_eq!(store.drive(drive(store.clone())).await.unwrap().unwrap(), 2);
    assert_eq!(store.appends(), 2);
}

#[tokio::test]
async fn at_each_point_the_store_holds_what_a_killed_process_would_have_left() {
    let mut left = Vec::new();
    for point in CrashPoint::all(2) {
        let inner = Arc::new(MemoryStore::new());
        let store = CrashStore::new(inner.clone(), point);
        assert!(store.drive(drive(store.clone())).await.is_none(), "it did not crash {point}");
        let head = inner.head(run()).await.unwrap();
        left.push((point.to_string(), head.map_or(0, |head| head.seq.number())));
        assert_eq!(drive(inner).await.unwrap(), 2);
    }
    let expected =
        [("before append 0", 0), ("after append 0", 1), ("before append 1", 1), ("after append 1", 2)];
    assert_eq!(left, expected.map(|(point, head)| (point.to_owned(), head)));
}

#[tokio::test]
async fn a_run_that_ends_before_the_point_ends_as_ever() {
    let store = CrashStore::new(Arc::new(MemoryStore::new()), CrashPoint::Before(2));
    assert_eq!(store.drive(drive(store.clone())).await.unwrap().unwrap(), 2);
}

#[tokio::test]
async fn after_the_crash_no_call_is_answered_and_nothing_is_written() {
    let inner = Arc::new(MemoryStore::new());
    let store = CrashStore::new(inner.clone(), CrashPoint::Before(0));
    let spawned = tokio::spawn(drive(store.clone()));
    store.crashed().await;
    assert!(store.drive(drive(store.clone())).await.is_none());
    assert!(futures::poll!(Box::pin(store.head(run()))).is_pending());
    assert!(!spawned.is_finished());
    spawned.abort();
    assert_eq!(inner.head(run()).await.unwrap(), None);
}

fn run() -> RunId {
    "0190f5d2-7c1a-7b6e-8f00-3c1d2e4f5a6b".parse().unwrap()
}

fn envelope(seq: Seq, event: Event) -> EventEnvelope {
    EventEnvelope {
        run_id: run(),
        seq,
        schema_version: SCHEMA_VERSION,
        recorded_at: "2026-11-30T12:00:00Z".parse().unwrap(),
        lane: Lane::ROOT,
        event,
    }
}
