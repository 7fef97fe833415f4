//! Reading and verifying a log of 10,000 events, against loading, hashing and parsing the same rows with sqlx alone.
#![allow(clippy::unwrap_used, reason = "a bench that cannot go on shall panic")]

mod support;

use relight_conformance::SampleRun;
use relight_store::{EventStore, SqliteStore};
use sha2::{Digest, Sha256};
use sqlx::{Row, query};
use support::{bare, compare, rate, timed};
use tokio::runtime::Builder;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reading.db");
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let store = runtime.block_on(SqliteStore::open(&path)).unwrap();
    let mut run = SampleRun::new();
    runtime.block_on(async {
        for _ in 0..EVENTS / 100 {
            store.append(run.batch(100, PAYLOAD)).await.unwrap();
        }
    });
    let mut connection = runtime.block_on(bare(&path));
    let id = run.id().as_uuid().as_bytes().to_vec();
    let ours = || {
        let (log, took) = timed(&runtime, store.read_log(run.id()));
        assert_eq!(log.unwrap().len(), EVENTS);
        rate(EVENTS, took)
    };
    let theirs = || {
        let (_, took) = timed(&runtime, async {
            let sql = "SELECT seq, recorded_at, link, bytes FROM events
                       WHERE run = (SELECT key FROM runs WHERE id = ?) ORDER BY seq";
            let rows = query(sql).bind(id.clone()).fetch_all(&mut connection).await.unwrap();
            let mut link: Vec<u8> = vec![0; 32];
            let mut log = Vec::with_capacity(rows.len());
            for row in &rows {
                let bytes: &[u8] = row.get(3);
                link = Sha256::new().chain_update(link).chain_update(bytes).finalize().to_vec();
                log.push(serde_json::from_slice::<serde_json::Value>(bytes).unwrap());
            }
            assert_eq!(log.len(), EVENTS);
            (log, link)
        });
        rate(EVENTS, took)
    };
    compare("reading 10,000 events, against bare sqlx", ours, theirs);
}

const EVENTS: usize = 10_000;

/// Bytes of payload an event.
const PAYLOAD: usize = 512;
