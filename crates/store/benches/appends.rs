//! Appends to an SQLite file: one run alone, and 64 and 1,000 at once, against bare sqlx and raw `fdatasync`.
#![allow(clippy::unwrap_used, reason = "a bench that cannot go on shall panic")]

mod support;

use std::{fs::File, io::Write, path::Path, sync::Arc, time::Instant};

use futures::future::join_all;
use relight_conformance::SampleRun;
use relight_store::{Append, EventStore, SqliteStore};
use sqlx::raw_sql;
use support::{append_bare, append_sql, bare, compare, rate, timed};
use tokio::runtime::{Builder, Runtime};

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    println!("events of about {} bytes", SampleRun::new().batch(1, PAYLOAD).records[0].bytes.len());
    alone(&runtime, folder.path());
    at_once(&runtime, folder.path(), 64);
    at_once(&runtime, folder.path(), 1_000);
}

fn alone(runtime: &Runtime, folder: &Path) {
    let mut ours = Ours::new(runtime, &folder.join("alone.db"), 1);
    let mut theirs = Bare::new(runtime, &folder.join("alone-bare.db"), 1);
    let mut raw = Raw::new(&folder.join("alone.raw"));
    compare("one run alone, against bare sqlx", || ours.alone(50), || theirs.alone(50));
    compare("one run alone, against fdatasync", || ours.alone(50), || raw.slice(50));
}

fn at_once(runtime: &Runtime, folder: &Path, runs: usize) {
    let mut ours = Ours::new(runtime, &folder.join(format!("{runs}.db")), runs);
    let mut theirs = Bare::new(runtime, &folder.join(format!("{runs}-bare.db")), runs);
    let mut raw = Raw::new(&folder.join(format!("{runs}.raw")));
    let each = 6_400 / runs;
    compare(&format!("{runs} runs at once, against bare sqlx"), || ours.slice(each), || theirs.by_64(each));
    compare(&format!("{runs} runs at once, against fdatasync"), || ours.slice(each), || raw.slice(200));
}

/// Runs that append to our store, each from a task of its own.
struct Ours<'a> {
    runtime: &'a Runtime,
    store: Arc<SqliteStore>,
    runs: Vec<SampleRun>,
}

impl<'a> Ours<'a> {
    fn new(runtime: &'a Runtime, path: &Path, runs: usize) -> Self {
        let (store, runs) = runtime.block_on(start(path, runs));
        Self { runtime, store: Arc::new(store), runs }
    }

    fn alone(&mut self, count: usize) -> f64 {
        let batches: Vec<Append> = (0..count).map(|_| self.runs[0].batch(1, PAYLOAD)).collect();
        let ((), took) = timed(self.runtime, async {
            for batch in batches {
                self.store.append(batch).await.unwrap();
            }
        });
        rate(count, took)
    }

    fn slice(&mut self, each: usize) -> f64 {
        let batches: Vec<Vec<Append>> =
            self.runs.iter_mut().map(|run| (0..each).map(|_| run.batch(1, PAYLOAD)).collect()).collect();
        let ((), took) = timed(self.runtime, async {
            let tasks = batches.into_iter().map(|batches| {
                let store = Arc::clone(&self.store);
                tokio::spawn(async move {
                    for batch in batches {
                        store.append(batch).await.unwrap();
                    }
                })
            });
            for task in join_all(tasks).await {
                task.unwrap();
            }
        });
        rate(each * self.runs.len(), took)
    }
}

/// The same rows in the same tables, by sqlx alone.
struct Bare<'a> {
    runtime: &'a Runtime,
    connection: sqlx::SqliteConnection,
    runs: Vec<SampleRun>,
    whole: &'static str,
    part: &'static str,
}

impl<'a> Bare<'a> {
    fn new(runtime: &'a Runtime, path: &Path, runs: usize) -> Self {
        let (_, runs) = runtime.block_on(start(path, runs));
        let connection = runtime.block_on(bare(path));
        let whole = append_sql("BEGIN IMMEDIATE;", "COMMIT;").leak();
        Self { runtime, connection, runs, whole, part: append_sql("", "").leak() }
    }

    /// One transaction an event, sent as one query of several statements.
    fn alone(&mut self, count: usize) -> f64 {
        let batches: Vec<Append> = (0..count).map(|_| self.runs[0].batch(1, PAYLOAD)).collect();
        let ((), took) = timed(self.runtime, async {
            for batch in &batches {
                append_bare(&mut self.connection, self.whole, batch).await;
            }
        });
        rate(count, took)
    }

    /// 64 events of 64 runs a transaction.
    fn by_64(&mut self, each: usize) -> f64 {
        let mut batches: Vec<Append> = Vec::new();
        for _ in 0..each {
            batches.extend(self.runs.iter_mut().map(|run| run.batch(1, PAYLOAD)));
        }
        let ((), took) = timed(self.runtime, async {
            for group in batches.chunks(64) {
                raw_sql("BEGIN IMMEDIATE").execute(&mut self.connection).await.unwrap();
                for batch in group {
                    append_bare(&mut self.connection, self.part, batch).await;
                }
                raw_sql("COMMIT").execute(&mut self.connection).await.unwrap();
            }
        });
        rate(batches.len(), took)
    }
}

/// What the disk can do: write an event's bytes behind one another, and sync each.
struct Raw {
    file: File,
    event: Vec<u8>,
}

impl Raw {
    fn new(path: &Path) -> Self {
        let event = SampleRun::new().batch(1, PAYLOAD).records[0].bytes.clone();
        Self { file: File::create(path).unwrap(), event }
    }

    fn slice(&mut self, count: usize) -> f64 {
        let since = Instant::now();
        for _ in 0..count {
            self.file.write_all(&self.event).unwrap();
            self.file.sync_data().unwrap();
        }
        rate(count, since.elapsed())
    }
}

/// A store in which so many runs have started.
async fn start(path: &Path, runs: usize) -> (SqliteStore, Vec<SampleRun>) {
    let store = SqliteStore::open(path).await.unwrap();
    let mut runs: Vec<SampleRun> = (0..runs).map(|_| SampleRun::new()).collect();
    for run in &mut runs {
        store.append(run.batch(1, PAYLOAD)).await.unwrap();
    }
    (store, runs)
}

/// Bytes of payload an event.
const PAYLOAD: usize = 512;
