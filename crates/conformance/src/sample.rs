//! Runs made up for tests: valid batches, one after another.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use relight_core::{
    Effect, Event, EventEnvelope, Lane, Record, RunId, RunStatus, RunSummary, SCHEMA_VERSION, Seq,
    TokenUsage, chain,
};
use relight_store::{Append, BatchId, Expect, Head};
use uuid::Uuid;

/// A run that exists only to be appended to.
///
/// # Examples
///
/// ```
/// use relight_conformance::SampleRun;
/// use relight_store::{EventStore, MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), relight_store::StoreError> {
/// let store = MemoryStore::new();
/// let mut run = SampleRun::new();
/// for batch in [run.batch(1, 100), run.batch(2, 1_000)] {
///     store.append(batch).await?;
/// }
/// assert_eq!(store.read_log(run.id()).await?.len(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct SampleRun {
    /// The summary that goes with the next batch; counters and times are kept up to date.
    pub summary: RunSummary,
    head: Option<Head>,
}

impl SampleRun {
    /// A run with an id that nobody else has.
    #[expect(clippy::new_without_default, reason = "each one is another")]
    pub fn new() -> Self {
        Self::with_id(RunId::from_uuid(Uuid::from_bytes(*BatchId::random().as_bytes())))
    }

    /// A run with this id, started at a fixed time.
    pub fn with_id(run: RunId) -> Self {
        let started_at = Timestamp::from_second(STARTED_AT).expect("a time in range");
        let summary = RunSummary {
            run_id: run,
            agent_hash: "sample".to_owned(),
            labels: BTreeMap::new(),
            status: RunStatus::Running,
            started_at,
            updated_at: started_at,
            wake_at: None,
            events: 0,
            drives: 0,
            model_calls: 0,
            tool_calls: 0,
            usage: TokenUsage::default(),
        };
        Self { summary, head: None }
    }

    /// The run's id.
    pub const fn id(&self) -> RunId {
        self.summary.run_id
    }

    /// Where the log ends once all batches given out are appended.
    pub const fn head(&self) -> Option<Head> {
        self.head
    }

    /// The next batch, of `events` events with about `bytes` bytes of payload each.
    pub fn batch(&mut self, events: u64, bytes: usize) -> Append {
        let expect = self.head.map_or(Expect::NewRun, |head| Expect::Head(head.seq));
        let mut records = Vec::new();
        let mut seq = expect.next();
        let mut link = self.head.map_or(chain::GENESIS, |head| head.link);
        for _ in 0..events {
            let record = Record::seal(link, &self.envelope(seq, bytes)).expect("a text is not nested");
            (seq, link) = (seq.next(), record.link);
            records.push(record);
        }
        if let Some(last) = records.last() {
            self.head = Some(Head { seq: last.seq, link });
            self.summary.events = last.seq.number();
            self.summary.updated_at = last.recorded_at;
        }
        Append {
            run: self.id(),
            expect,
            epoch: None,
            batch: BatchId::random(),
            records,
            summary: self.summary.clone(),
        }
    }

    /// Goes on after a batch that was made by a clone.
    pub fn follow(&mut self, batch: &Append) {
        self.head = Some(batch.head());
        self.summary = batch.summary.clone();
    }

    fn envelope(&self, seq: Seq, bytes: usize) -> EventEnvelope {
        let payload = serde_json::Value::from("x".repeat(bytes));
        let event = if seq == Seq::FIRST {
            let (agent, labels) = (self.summary.agent_hash.clone(), self.summary.labels.clone());
            Event::run_started_with_labels(agent, payload, labels)
        } else {
            Event::tool_call_requested("sample", payload, Effect::Read, None)
        };
        let since = i64::try_from(seq.number()).unwrap_or(i64::MAX);
        EventEnvelope {
            run_id: self.id(),
            seq,
            schema_version: SCHEMA_VERSION,
            recorded_at: self.summary.started_at + SignedDuration::from_nanos(since - 1),
            lane: Lane::ROOT,
            event,
        }
    }
}

/// Some day in 2027.
const STARTED_AT: i64 = 1_800_000_000;
