//! A store that lives as long as its process: for tests, and for runs that nobody needs to resume.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use relight_core::{Record, RunId, RunSummary, Seq};

use crate::{
    Append, BatchId, EventStore, Head, Limits, Page, RunQuery, SeqRange, StoreError, query::Position,
};

/// Keeps logs in memory.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use relight_store::{EventStore, MemoryStore};
///
/// let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
/// ```
#[derive(Debug, Default)]
pub struct MemoryStore {
    limits: Limits,
    runs: Mutex<BTreeMap<RunId, Run>>,
}

#[derive(Debug)]
struct Run {
    records: Vec<Record>,
    /// The batches in order, each with the position of its first record.
    batches: Vec<(Seq, BatchId)>,
    summary: RunSummary,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store with limits of its own.
    pub fn with_limits(limits: Limits) -> Self {
        Self { limits, runs: Mutex::default() }
    }

    fn runs(&self) -> MutexGuard<'_, BTreeMap<RunId, Run>> {
        // Nothing panics between two changes of one run, so what a panic elsewhere left is whole.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl EventStore for MemoryStore {
    async fn append(&self, append: Append) -> Result<Head, StoreError> {
        append.check(&self.limits)?;
        if append.epoch.is_some() {
            return Err(StoreError::Unsupported { what: "leases" });
        }
        let mut runs = self.runs();
        let run = runs.get_mut(&append.run);
        if run.as_ref().is_some_and(|run| run.holds(&append)) {
            return Ok(append.head());
        }
        let actual = run.as_ref().map(|run| run.head().seq);
        if !append.expect.is_met_by(actual) {
            return Err(StoreError::Conflict { run: append.run, expected: append.expect, actual });
        }
        let head = append.head();
        let batch = (append.expect.next(), append.batch);
        match run {
            Some(run) => {
                run.records.extend(append.records);
                run.batches.push(batch);
                run.summary = append.summary;
            }
            None => {
                let run = Run { records: append.records, batches: vec![batch], summary: append.summary };
                runs.insert(append.run, run);
            }
        }
        Ok(head)
    }

    async fn load(&self, run: RunId, range: SeqRange) -> Result<Vec<Record>, StoreError> {
        let runs = self.runs();
        let Some(run) = runs.get(&run) else { return Ok(Vec::new()) };
        let mut bytes = 0;
        let mut page = Vec::new();
        for record in run.records.iter().skip(index(range.first)) {
            bytes += record.bytes.len();
            let full = page.len() >= self.limits.page_records || bytes > self.limits.page_bytes;
            if !range.contains(record.seq) || (full && !page.is_empty()) {
                break;
            }
            page.push(record.clone());
        }
        Ok(page)
    }

    async fn head(&self, run: RunId) -> Result<Option<Head>, StoreError> {
        Ok(self.runs().get(&run).map(Run::head))
    }

    async fn list_runs(&self, query: &RunQuery) -> Result<Page<RunSummary>, StoreError> {
        let after = query.after.as_ref().map(Position::read).transpose()?;
        let limit = query.limit.min(self.limits.page_records).max(1);
        let runs = self.runs();
        let mut found: Vec<(Position, &RunSummary)> = runs
            .values()
            .filter(|run| query.matches(&run.summary))
            .map(|run| (Position::of(&run.summary), &run.summary))
            .filter(|(position, _)| after.as_ref().is_none_or(|after| position < after))
            .collect();
        found.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|(position, _)| position.cursor());
        let items = found.into_iter().map(|(_, summary)| summary.clone()).collect();
        Ok(Page { items, damaged: Vec::new(), next })
    }
}

impl Run {
    fn head(&self) -> Head {
        let last = self.records.last().expect("a run begins with its first record");
        Head { seq: last.seq, link: last.link }
    }

    /// Whether this very batch is part of the log.
    fn holds(&self, append: &Append) -> bool {
        let first = append.expect.next();
        let Ok(at) = self.batches.binary_search_by_key(&first, |(seq, _)| *seq) else { return false };
        let end = self.batches.get(at + 1).map_or(self.records.len(), |(seq, _)| index(*seq));
        self.batches[at].1 == append.batch && self.records[index(first)..end] == append.records
    }
}

fn index(seq: Seq) -> usize {
    usize::try_from(seq.number() - 1).unwrap_or(usize::MAX)
}
