//! A backend of one's own: one file with a line for each batch, which passes the conformance suite.
//!
//! Run it with `cargo run -p relight --example custom_store`; it prints what became of each promise.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::Timestamp;
use relight_conformance::{StoreHarness, Subject, Unmet, store};
use relight_core::{Digest, Record, RunId, RunSummary, Seq};
use relight_store::{
    Append, BatchId, EventStore, Expect, Head, Limits, MemoryStore, Page, RunQuery, SeqRange, StoreError,
    async_trait,
};
use tokio::sync::Mutex;

/// Keeps all runs in one file, and what it has read of it in memory.
struct LinesStore {
    index: MemoryStore,
    limits: Limits,
    file: Mutex<File>,
}

/// A batch as a line of JSON: run, expected head, batch id, summary, and of each record the time, link and bytes.
type Line = (RunId, Option<Seq>, [u8; 16], RunSummary, Vec<(Timestamp, Digest, Vec<u8>)>);

impl LinesStore {
    /// Reads the file, and cuts off the line in which a crash may have stopped.
    async fn open(path: &Path, limits: Limits) -> Result<Self, StoreError> {
        let index = MemoryStore::with_limits(limits);
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(StoreError::backend)?;
        let mut whole = 0;
        let mut line = Vec::new();
        let mut lines = BufReader::new(&file);
        while lines.read_until(b'\n', &mut line).map_err(StoreError::backend)? > 0 && line.ends_with(b"\n") {
            index.append(decode(&line)?).await?;
            whole += line.len() as u64;
            line.clear();
        }
        file.set_len(whole).and_then(|()| file.seek(SeekFrom::End(0))).map_err(StoreError::backend)?;
        Ok(Self { index, limits, file: Mutex::new(file) })
    }

    /// Writes the whole line and syncs it, or leaves the file as it was.
    fn write(file: &mut File, line: &[u8]) -> io::Result<()> {
        let before = file.metadata()?.len();
        file.write_all(line).and_then(|()| file.sync_data()).inspect_err(|_| {
            // What could not be synced must not be found when the file is read again.
            let _ = file.set_len(before);
        })
    }
}

#[async_trait]
impl EventStore for LinesStore {
    async fn append(&self, append: Append) -> Result<Head, StoreError> {
        append.check(&self.limits)?;
        if append.epoch.is_some() {
            return Err(StoreError::Unsupported { what: "leases" });
        }
        let line = encode(&append);
        let mut file = self.file.lock().await;
        let head = self.index.head(append.run).await?;
        if append.expect.is_met_by(head.map(|head| head.seq)) {
            // A disk may be slow: a store for a busy runtime would write on a thread of its own.
            Self::write(&mut file, &line).map_err(StoreError::backend)?;
        }
        // What does not follow the head is a batch sent again, or too late: the index tells which.
        self.index.append(append).await
    }

    async fn load(&self, run: RunId, range: SeqRange) -> Result<Vec<Record>, StoreError> {
        self.index.load(run, range).await
    }

    async fn head(&self, run: RunId) -> Result<Option<Head>, StoreError> {
        self.index.head(run).await
    }

    async fn list_runs(&self, query: &RunQuery) -> Result<Page<RunSummary>, StoreError> {
        self.index.list_runs(query).await
    }
}

fn encode(append: &Append) -> Vec<u8> {
    let expected = match append.expect {
        Expect::NewRun => None,
        Expect::Head(seq) => Some(seq),
    };
    let records = append.records.iter().map(|record| (record.recorded_at, record.link, record.bytes.clone()));
    let batch = *append.batch.as_bytes();
    let line: Line = (append.run, expected, batch, append.summary.clone(), records.collect());
    let mut line = serde_json::to_vec(&line).expect("ids, times and bytes are JSON");
    line.push(b'\n');
    line
}

fn decode(line: &[u8]) -> Result<Append, StoreError> {
    let (run, expected, batch, summary, written): Line =
        serde_json::from_slice(line).map_err(StoreError::backend)?;
    let expect = expected.map_or(Expect::NewRun, Expect::Head);
    let mut seq = expect.next();
    let mut records = Vec::new();
    for (recorded_at, link, bytes) in written {
        records.push(Record { seq, recorded_at, bytes, link });
        seq = seq.next();
    }
    Ok(Append { run, expect, epoch: None, batch: BatchId::from_bytes(batch), records, summary })
}

/// How the suite gets hold of it.
struct Harness(tempfile::TempDir);

struct Fresh {
    path: PathBuf,
    limits: Limits,
    store: Arc<LinesStore>,
}

#[async_trait]
impl StoreHarness for Harness {
    async fn fresh(&self, limits: Limits) -> Result<Box<dyn Subject>, StoreError> {
        let file = tempfile::NamedTempFile::new_in(&self.0).map_err(StoreError::backend)?;
        let path = file.path().to_owned();
        let store = Arc::new(LinesStore::open(&path, limits).await?);
        file.keep().map_err(StoreError::backend)?;
        Ok(Box::new(Fresh { path, limits, store }))
    }
}

#[async_trait]
impl Subject for Fresh {
    fn store(&self) -> Arc<dyn EventStore> {
        Arc::clone(&self.store) as _
    }

    async fn reopen(&mut self) -> Result<(), Unmet> {
        self.store = Arc::new(LinesStore::open(&self.path, self.limits).await?);
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let report = store::run_all(&Harness(tempfile::tempdir()?)).await;
    print!("{report}");
    if report.is_kept() { Ok(()) } else { Err(io::Error::other("a promise is broken")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_of_the_example_keeps_every_promise_that_applies() {
        main().unwrap();
    }
}
