//! A store that breaks a promise is found out, by the test that has the promise's name.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use relight_conformance::{Damage, StoreHarness, Subject, Unmet, store};
use relight_core::{Record, RunId, RunSummary};
use relight_store::{
    Append, BatchId, EventStore, Expect, Head, Limits, MemoryStore, Page, RunQuery, SeqRange, StoreError,
    async_trait,
};

/// How a store is broken; each is a mistake that a backend's author might make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    LosesTheTail,
    ForgetsWhenReopened,
    ForgetsBatchesWhenReopened,
    AcceptsGaps,
    OverwritesStale,
    NamesNoHead,
    ChecksLimitsLast,
    ForgetsBatches,
    KnowsBatchesByIdOnly,
    AnswersTheCurrentHead,
    TakesRivalsForTheSame,
    IgnoresEpochs,
    ChangesBytes,
    MixesRuns,
    IgnoresTheEndOfARange,
    ReturnsNothingForUnknown,
    HidesDamage,
    HidesDamagedRows,
    RefusesWhatJustFits,
    ReturnsAllAtOnce,
    Panics,
    ListsOldSummaries,
    ListsOldestFirst,
    IgnoresFilters,
    TakesAnyCursor,
}

struct Flawed {
    flaw: Flaw,
    limits: Limits,
    inner: MemoryStore,
    /// The heads of batches that were appended, by their ids.
    batches: Mutex<HashMap<BatchId, Head>>,
    first: Mutex<HashMap<RunId, RunSummary>>,
    reopened: AtomicBool,
}

impl Flawed {
    fn new(flaw: Flaw, limits: Limits) -> Self {
        let inner = match flaw {
            Flaw::ReturnsAllAtOnce => Limits { page_bytes: usize::MAX, page_records: usize::MAX, ..limits },
            Flaw::RefusesWhatJustFits => Limits { event_bytes: limits.event_bytes - 1, ..limits },
            Flaw::ChecksLimitsLast => Limits { event_bytes: usize::MAX, ..limits },
            _ => limits,
        };
        let inner = MemoryStore::with_limits(inner);
        Self {
            flaw,
            limits,
            inner,
            batches: Mutex::default(),
            first: Mutex::default(),
            reopened: AtomicBool::new(false),
        }
    }
}

#[async_trait]
impl EventStore for Flawed {
    async fn append(&self, mut append: Append) -> Result<Head, StoreError> {
        let known = self.batches.lock().unwrap().get(&append.batch).copied();
        let actual = self.inner.head(append.run).await?;
        match self.flaw {
            Flaw::Panics => panic!("a defect"),
            Flaw::LosesTheTail if append.records.len() > 1 => {
                let head = append.head();
                append.records.pop();
                self.inner.append(append).await?;
                return Ok(head);
            }
            Flaw::AcceptsGaps => {
                let mut seq = append.expect.next();
                for record in &mut append.records {
                    record.seq = seq;
                    seq = seq.next();
                }
            }
            Flaw::OverwritesStale => {
                append.expect = actual.map_or(Expect::NewRun, |head| Expect::Head(head.seq))
            }
            Flaw::ForgetsBatchesWhenReopened if self.reopened.load(Ordering::Relaxed) => {
                append.batch = BatchId::random();
            }
            Flaw::ForgetsBatches => append.batch = BatchId::random(),
            Flaw::KnowsBatchesByIdOnly if known.is_some() => return Ok(known.unwrap()),
            Flaw::AnswersTheCurrentHead if known.is_some() => return Ok(actual.unwrap()),
            Flaw::TakesRivalsForTheSame => append.batch = BatchId::from_bytes([0; 16]),
            Flaw::IgnoresEpochs => append.epoch = None,
            Flaw::ChangesBytes => {
                append.records.iter_mut().for_each(|record| record.bytes.retain(|byte| *byte != 0xff));
            }
            _ => {}
        }
        if self.flaw == Flaw::OverwritesStale {
            let mut seq = append.expect.next();
            for record in &mut append.records {
                record.seq = seq;
                seq = seq.next();
            }
        }
        let (batch, summary) = (append.batch, append.summary.clone());
        let sizes: Vec<usize> = append.records.iter().map(|record| record.bytes.len()).collect();
        let run = append.run;
        let answer = match self.inner.append(append).await {
            Err(StoreError::Conflict { run, expected, .. }) if self.flaw == Flaw::NamesNoHead => {
                Err(StoreError::Conflict { run, expected, actual: None })
            }
            Ok(_)
                if self.flaw == Flaw::ChecksLimitsLast
                    && sizes.iter().any(|size| *size > self.limits.event_bytes) =>
            {
                let size = sizes[0] as u64;
                return Err(StoreError::TooLarge { run, limit: "event_bytes", size, max: 0 });
            }
            answer => answer,
        };
        if let Ok(head) = answer {
            self.batches.lock().unwrap().insert(batch, head);
            self.first.lock().unwrap().entry(run).or_insert(summary);
        }
        answer
    }

    async fn load(&self, run: RunId, mut range: SeqRange) -> Result<Vec<Record>, StoreError> {
        match self.flaw {
            Flaw::IgnoresTheEndOfARange => range.last = None,
            Flaw::MixesRuns => {
                let first = self.first.lock().unwrap().keys().min().copied();
                return self.inner.load(first.unwrap_or(run), range).await;
            }
            _ => {}
        }
        self.inner.load(run, range).await
    }

    async fn head(&self, run: RunId) -> Result<Option<Head>, StoreError> {
        self.inner.head(run).await
    }

    async fn list_runs(&self, query: &RunQuery) -> Result<Page<RunSummary>, StoreError> {
        let mut query = query.clone();
        match self.flaw {
            Flaw::IgnoresFilters => {
                query = RunQuery { limit: query.limit, after: query.after, ..RunQuery::default() }
            }
            Flaw::TakesAnyCursor => query.after = None,
            _ => {}
        }
        let mut page = self.inner.list_runs(&query).await?;
        match self.flaw {
            Flaw::ListsOldSummaries => {
                let first = self.first.lock().unwrap();
                page.items.iter_mut().for_each(|run| *run = first[&run.run_id].clone());
            }
            Flaw::ListsOldestFirst => page.items.reverse(),
            _ => {}
        }
        Ok(page)
    }

    async fn read_log(&self, run: RunId) -> Result<Vec<relight_core::EventEnvelope>, StoreError> {
        if self.flaw == Flaw::ReturnsNothingForUnknown && self.inner.head(run).await?.is_none() {
            return Ok(vec![]);
        }
        self.inner.read_log(run).await
    }
}

struct Harness(Flaw);

struct Fresh(Flaw, Limits, Arc<Flawed>);

#[async_trait]
impl StoreHarness for Harness {
    async fn fresh(&self, limits: Limits) -> Result<Box<dyn Subject>, StoreError> {
        Ok(Box::new(Fresh(self.0, limits, Arc::new(Flawed::new(self.0, limits)))))
    }
}

#[async_trait]
impl Subject for Fresh {
    fn store(&self) -> Arc<dyn EventStore> {
        Arc::clone(&self.2) as _
    }

    async fn reopen(&mut self) -> Result<(), Unmet> {
        if self.0 == Flaw::ForgetsWhenReopened {
            self.2 = Arc::new(Flawed::new(self.0, self.1));
        }
        self.2.reopened.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn damage(&mut self, _: RunId, _: Damage) -> Result<(), Unmet> {
        match self.0 {
            // What is damaged is given out as if nothing were.
            Flaw::HidesDamage | Flaw::HidesDamagedRows => Ok(()),
            _ => Err(Unmet::NotApplicable("not damaged here".to_owned())),
        }
    }
}

/// The store with this flaw breaks this promise, if not only this one.
async fn check(flaw: Flaw, promise: &str) {
    let report = store::run_all(&Harness(flaw)).await;
    let entry = report.entries.iter().find(|entry| entry.promise == promise).unwrap();
    assert!(matches!(entry.verdict, Err(Unmet::Broken(_))), "{flaw:?} was not found:\n{report}");
    assert!(!report.is_kept());
}

#[tokio::test]
async fn every_flaw_is_found_by_the_promise_that_it_breaks() {
    let flaws = [
        (Flaw::LosesTheTail, "promise_1_a_batch_is_appended_whole_or_not_at_all"),
        (Flaw::ForgetsWhenReopened, "promise_1_what_was_answered_ok_outlives_the_store"),
        (Flaw::AcceptsGaps, "promise_2_positions_are_unique_and_gapless"),
        (Flaw::OverwritesStale, "promise_2_a_stale_expectation_conflicts_and_names_the_head"),
        (Flaw::OverwritesStale, "promise_2_one_of_many_rivals_wins"),
        (Flaw::NamesNoHead, "promise_2_a_stale_expectation_conflicts_and_names_the_head"),
        (Flaw::ChecksLimitsLast, "promise_2_limits_are_checked_first"),
        (Flaw::ForgetsBatches, "promise_3_a_batch_sent_again_is_answered_with_its_own_head"),
        (Flaw::AnswersTheCurrentHead, "promise_3_a_batch_sent_again_is_answered_with_its_own_head"),
        (Flaw::TakesRivalsForTheSame, "promise_3_a_rival_with_equal_records_conflicts"),
        (Flaw::KnowsBatchesByIdOnly, "promise_3_a_batch_with_other_records_is_not_the_same"),
        (Flaw::ForgetsBatchesWhenReopened, "promise_3_a_batch_sent_again_is_known_after_reopening"),
        (Flaw::IgnoresEpochs, "promise_5_an_epoch_without_leases_is_unsupported"),
        (Flaw::ChangesBytes, "promise_6_bytes_times_and_links_are_read_as_they_were_appended"),
        (Flaw::MixesRuns, "promise_6_a_log_holds_its_own_run_only"),
        (Flaw::IgnoresTheEndOfARange, "promise_6_a_range_is_read_page_by_page"),
        (Flaw::ReturnsNothingForUnknown, "promise_6_a_whole_log_is_read_and_verified"),
        (Flaw::HidesDamage, "promise_6_damage_is_named_and_other_runs_stay_readable"),
        (Flaw::HidesDamagedRows, "promise_6_a_damaged_summary_hides_no_other_run"),
        (Flaw::RefusesWhatJustFits, "promise_7_limits_are_kept_exactly"),
        (Flaw::ReturnsAllAtOnce, "promise_7_pages_are_bounded"),
        (Flaw::IgnoresFilters, "promise_9_random_operations_are_answered_as_by_the_model"),
        (Flaw::ForgetsBatches, "promise_10_a_dropped_append_is_settled_by_sending_it_again"),
        (Flaw::Panics, "promise_10_a_dropped_append_is_settled_by_sending_it_again"),
        (Flaw::ListsOldSummaries, "list_shows_the_summary_of_the_last_batch"),
        (Flaw::ListsOldestFirst, "list_is_newest_first_and_pages_are_stable"),
        (Flaw::IgnoresFilters, "list_filters_by_status_agent_and_labels"),
        (Flaw::TakesAnyCursor, "list_refuses_a_cursor_of_another_store"),
    ];
    for (flaw, promise) in flaws {
        check(flaw, promise).await;
    }
    let report = store::run_all(&Harness(Flaw::HidesDamage)).await;
    for entry in report.entries {
        assert!(
            flaws.iter().any(|(_, promise)| *promise == entry.promise),
            "nothing breaks {}",
            entry.promise
        );
    }
}
