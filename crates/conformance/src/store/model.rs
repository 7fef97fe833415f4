//! Promise 9: the same random operations give the same answers everywhere, as by a model that is too simple to be
//! wrong.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use jiff::SignedDuration;
use relight_core::{Record, RunId, RunStatus, RunSummary, Seq, StatusKind};
use relight_store::{Append, BatchId, Epoch, EventStore, Head, Limits, RunQuery, SeqRange, StoreError};
use uuid::Uuid;

use super::{listing::list_all, reading::load_all};
use crate::{SampleRun, SplitMix, StoreHarness, Unmet, Verdict, report::expect_equal};

/// A few hundred operations from each of a few seeds.
pub async fn promise_9_random_operations_are_answered_as_by_the_model(harness: &dyn StoreHarness) -> Verdict {
    for seed in 0..8 {
        operations_are_answered_as_by_the_model(harness, seed, 250).await?;
    }
    Ok(())
}

/// Compares `steps` random operations with the model; a failure names the seed.
///
/// # Errors
///
/// [`Unmet::Broken`] at the first answer that differs.
pub async fn operations_are_answered_as_by_the_model(
    harness: &dyn StoreHarness,
    seed: u64,
    steps: u64,
) -> Verdict {
    let limits = Limits {
        event_bytes: 600,
        batch_bytes: 1_500,
        batch_records: 4,
        log_records: 30,
        page_bytes: 1_000,
        page_records: 3,
    };
    let subject = harness.fresh(limits).await?;
    let store = subject.store();
    let mut world = World { random: SplitMix::new(seed), limits, model: Model::default(), sent: Vec::new() };
    for step in 0..steps {
        let what = |error| match error {
            Unmet::Broken(why) => Unmet::Broken(format!("seed {seed}, step {step}: {why}")),
            other => other,
        };
        world.step(&*store).await.map_err(what)?;
    }
    Ok(())
}

/// What a store should hold.
#[derive(Debug, Default)]
struct Model {
    runs: BTreeMap<RunId, Vec<Append>>,
}

impl Model {
    fn append(&mut self, append: &Append, limits: &Limits) -> Result<Head, Refusal> {
        let sizes: Vec<usize> = append.records.iter().map(|record| record.bytes.len()).collect();
        let last = append.head().seq.number();
        if sizes.iter().any(|size| *size > limits.event_bytes)
            || sizes.iter().sum::<usize>() > limits.batch_bytes
            || sizes.len() > limits.batch_records
            || last > limits.log_records
        {
            return Err(Refusal::TooLarge);
        }
        if append.epoch.is_some() {
            return Err(Refusal::Unsupported);
        }
        let batches = self.runs.get(&append.run);
        let same = |held: &&Append| held.batch == append.batch && held.records == append.records;
        if let Some(held) = batches.into_iter().flatten().find(same) {
            return Ok(held.head());
        }
        let actual = self.head(append.run).map(|head| head.seq);
        if !append.expect.is_met_by(actual) {
            return Err(Refusal::Conflict(actual));
        }
        self.runs.entry(append.run).or_default().push(append.clone());
        Ok(append.head())
    }

    fn head(&self, run: RunId) -> Option<Head> {
        self.runs.get(&run).and_then(|batches| batches.last()).map(Append::head)
    }

    fn load(&self, run: RunId, range: SeqRange) -> Vec<Record> {
        let batches = self.runs.get(&run).into_iter().flatten();
        let records = batches.flat_map(|batch| &batch.records);
        records.filter(|record| range.contains(record.seq)).cloned().collect()
    }

    fn list(&self, query: &RunQuery) -> Vec<RunSummary> {
        let last = self.runs.values().filter_map(|batches| batches.last());
        let mut runs: Vec<RunSummary> =
            last.map(|batch| batch.summary.clone()).filter(|run| query.matches(run)).collect();
        runs.sort_by_key(|run| Reverse((run.started_at, run.run_id)));
        runs
    }
}

/// What the model says no with, and what a store's errors are compared by.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    TooLarge,
    Unsupported,
    Conflict(Option<Seq>),
    Other(String),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::TooLarge { .. } => Self::TooLarge,
            StoreError::Unsupported { .. } => Self::Unsupported,
            StoreError::Conflict { actual, .. } => Self::Conflict(actual),
            other => Self::Other(other.to_string()),
        }
    }
}

struct World {
    random: SplitMix,
    limits: Limits,
    model: Model,
    /// All that was ever sent, accepted or not.
    sent: Vec<Append>,
}

impl World {
    async fn step(&mut self, store: &dyn EventStore) -> Verdict {
        match self.random.below(10) {
            0..=4 => {
                let append = self.batch();
                self.append(store, append).await
            }
            5 if !self.sent.is_empty() => {
                let append = self.again();
                self.append(store, append).await
            }
            6 => {
                let run = self.run();
                expect_equal(&format!("the head of {run}"), store.head(run).await?, self.model.head(run))
            }
            7 | 8 => {
                let (run, range) = (self.run(), self.range());
                let found = load_all(store, run, range).await?;
                expect_equal(&format!("{range:?} of {run}"), found, self.model.load(run, range))
            }
            _ => {
                let query = self.query();
                let found = list_all(store, query.clone()).await?;
                expect_equal(&format!("{query:?}"), found, self.model.list(&query))
            }
        }
    }

    async fn append(&mut self, store: &dyn EventStore, append: Append) -> Verdict {
        let what = format!("a batch of {} for {}, {}", append.records.len(), append.run, append.expect);
        let found = store.append(append.clone()).await.map_err(Refusal::from);
        let expected = self.model.append(&append, &self.limits);
        self.sent.push(append);
        expect_equal(&what, found, expected)
    }

    /// Mostly what follows the head; sometimes stale, ahead, too large, or with an epoch.
    fn batch(&mut self) -> Append {
        let run = self.run();
        let mut sample = SampleRun::with_id(run);
        sample.summary = self.summary(run);
        let held = self.model.head(run).map_or(0, |head| head.seq.number());
        let before = match self.random.below(8) {
            0 => self.random.below(held + 1),
            1 => held + self.random.below(3),
            _ => held,
        };
        if before > 0 {
            sample.batch(before, 0);
        }
        let bytes = if self.random.below(12) == 0 { 700 } else { self.random.below(300) };
        let most = if self.random.below(12) == 0 { 6 } else { 3 };
        let events = 1 + self.random.below(most);
        let mut append = sample.batch(events, bytes as usize);
        append.batch = self.batch_id();
        if self.random.below(40) == 0 {
            append.epoch = Some(Epoch::new(self.random.below(3)));
        }
        append
    }

    /// Something that was sent before: as it was, by a rival, or changed.
    fn again(&mut self) -> Append {
        let at = self.random.below(self.sent.len() as u64) as usize;
        let mut append = self.sent[at].clone();
        match self.random.below(6) {
            0 => append.batch = self.batch_id(),
            1 => {
                append.records.pop();
                if append.records.is_empty() {
                    append = self.sent[at].clone();
                }
            }
            2 => append.records[0].bytes.push(b' '),
            _ => {}
        }
        append
    }

    /// What a test draws must not come from the system's entropy, or the seed would not reproduce it.
    fn batch_id(&mut self) -> BatchId {
        let halves = [self.random.draw(), self.random.draw()].map(u64::to_be_bytes);
        BatchId::from_bytes(halves.concat().try_into().expect("twice eight bytes"))
    }

    fn run(&mut self) -> RunId {
        RunId::from_uuid(Uuid::from_u128(u128::from(self.random.below(6)) << 64))
    }

    fn summary(&mut self, run: RunId) -> RunSummary {
        let mut summary = SampleRun::with_id(run).summary;
        // The start is a fact of the run; some start at the same time.
        let start = i64::from(run.as_uuid().as_bytes()[7]) / 2;
        summary.started_at += SignedDuration::from_secs(start);
        summary.status = match self.random.below(4) {
            0 => RunStatus::Completed,
            1 => RunStatus::Failed { code: "code".to_owned(), message: "why".to_owned() },
            _ => RunStatus::Running,
        };
        summary.agent_hash = format!("agent {}", self.random.below(2));
        summary.labels = self.labels();
        summary.tool_calls = self.random.draw();
        summary
    }

    fn labels(&mut self) -> BTreeMap<String, String> {
        let count = self.random.below(3);
        let pairs: HashMap<String, String> = (0..count)
            .map(|_| (format!("name {}", self.random.below(2)), format!("value {}", self.random.below(2))))
            .collect();
        pairs.into_iter().collect()
    }

    fn range(&mut self) -> SeqRange {
        let first = Seq::new(1 + self.random.below(12)).expect("counted from one");
        SeqRange { first, last: Seq::new(self.random.below(15)) }
    }

    fn query(&mut self) -> RunQuery {
        let mut query = RunQuery { limit: 1 + self.random.below(5) as usize, ..RunQuery::default() };
        for _ in 0..self.random.below(3) {
            query.statuses.push(StatusKind::ALL[self.random.below(7) as usize]);
        }
        if self.random.below(3) == 0 {
            query.agent_hash = Some(format!("agent {}", self.random.below(2)));
        }
        if self.random.below(3) == 0 {
            query.labels = self.labels();
        }
        query
    }
}
