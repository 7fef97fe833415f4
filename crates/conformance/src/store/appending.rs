//! Promises 1, 2 and 5: batches are whole, positions gapless, rivals told.

use futures::future::join_all;
use relight_core::{RunId, Seq};
use relight_store::{Append, Epoch, EventStore, Expect, Limits, RunQuery, SeqRange, StoreError};

use crate::{
    SampleRun, StoreHarness, Unmet, Verdict,
    report::{expect_answer, expect_equal},
};

/// All records of a batch and its summary are there together; of a refused one, nothing is.
pub async fn promise_1_a_batch_is_appended_whole_or_not_at_all(harness: &dyn StoreHarness) -> Verdict {
    let limits = Limits { event_bytes: 1_000, ..Limits::default() };
    let subject = harness.fresh(limits).await?;
    let store = subject.store();
    let mut run = SampleRun::new();

    let mut refused = run.clone().batch(3, 10);
    refused.records[2].bytes = vec![b'x'; 1_001];
    let answer = store.append(refused).await;
    expect_answer("an append whose last event is too large", &answer, "TooLarge", is_too_large)?;
    expect_equal("the head after it", store.head(run.id()).await?, None)?;
    expect_equal("the log after it", store.load(run.id(), SeqRange::ALL).await?, vec![])?;
    expect_equal("the list after it", store.list_runs(&RunQuery::default()).await?.items, vec![])?;

    let first = run.batch(3, 10);
    expect_equal("the answer", store.append(first.clone()).await?, first.head())?;
    let refused = Append { expect: Expect::NewRun, ..run.clone().batch(2, 10) };
    let refused = Append { records: first.records.clone(), ..refused };
    let answer = store.append(refused).await;
    expect_answer("a second start", &answer, "Conflict", is_conflict)?;
    expect_equal("the head after it", store.head(run.id()).await?, Some(first.head()))?;
    expect_equal("the log after it", store.load(run.id(), SeqRange::ALL).await?, first.records)?;
    let listed = store.list_runs(&RunQuery::default()).await?.items;
    expect_equal("the list after it", listed, vec![first.summary])
}

/// What was answered with `Ok` is there when the store is closed and opened again.
pub async fn promise_1_what_was_answered_ok_outlives_the_store(harness: &dyn StoreHarness) -> Verdict {
    let mut subject = harness.fresh(Limits::default()).await?;
    let mut run = SampleRun::new();
    let mut records = Vec::new();
    for events in [1, 3, 2] {
        let batch = run.batch(events, 50);
        records.extend(batch.records.clone());
        subject.store().append(batch).await?;
    }
    subject.reopen().await?;
    let store = subject.store();
    expect_equal("the head", store.head(run.id()).await?, run.head())?;
    expect_equal("the log", store.load(run.id(), SeqRange::ALL).await?, records)?;
    let listed = store.list_runs(&RunQuery::default()).await?.items;
    expect_equal("the list", listed, vec![run.summary.clone()])?;
    store.append(run.batch(1, 50)).await?;
    expect_equal("the head after one more", store.head(run.id()).await?, run.head())
}

/// A batch that would leave a gap, or makes no sense, is refused whatever the log holds.
pub async fn promise_2_positions_are_unique_and_gapless(harness: &dyn StoreHarness) -> Verdict {
    let subject = harness.fresh(Limits::default()).await?;
    let store = subject.store();
    let mut run = SampleRun::new();
    store.append(run.batch(2, 10)).await?;
    let next = run.clone().batch(2, 10);

    let mut empty = next.clone();
    empty.records.clear();
    let mut late = next.clone();
    late.records.remove(0);
    let mut gap = next.clone();
    gap.records[1].seq = gap.records[1].seq.next();
    let mut twice = next.clone();
    twice.records[1].seq = twice.records[0].seq;
    let mut foreign = next.clone();
    foreign.summary = SampleRun::new().summary;
    let wrong = [("empty", empty), ("late", late), ("gap", gap), ("twice", twice), ("foreign", foreign)];
    for (what, batch) in wrong {
        let answer = store.append(batch).await;
        expect_answer(what, &answer, "Invalid", |answer| matches!(answer, Err(StoreError::Invalid { .. })))?;
    }
    store.append(next).await?;
    let numbers: Vec<u64> =
        store.load(run.id(), SeqRange::ALL).await?.iter().map(|record| record.seq.number()).collect();
    expect_equal("the positions", numbers, vec![1, 2, 3, 4])
}

/// Whoever expects another head is told the actual one, and nothing is overwritten.
pub async fn promise_2_a_stale_expectation_conflicts_and_names_the_head(
    harness: &dyn StoreHarness,
) -> Verdict {
    let subject = harness.fresh(Limits::default()).await?;
    let store = subject.store();
    let mut run = SampleRun::new();
    let behind = [run.clone().batch(1, 10), run.clone().batch(3, 10)];
    store.append(run.batch(2, 10)).await?;
    let third = run.clone().batch(1, 20);
    store.append(run.batch(2, 10)).await?;
    let mut ahead = run.clone();
    ahead.batch(1, 10);
    let records = store.load(run.id(), SeqRange::ALL).await?;

    let stale = behind.into_iter().chain([third, ahead.batch(1, 10)]);
    for batch in stale {
        let what = format!("a batch that expects {}", batch.expect);
        expect_conflict(&*store, &what, batch, run.head().map(|head| head.seq)).await?;
    }
    expect_equal("the log", store.load(run.id(), SeqRange::ALL).await?, records)?;

    let mut unknown = SampleRun::new();
    unknown.batch(1, 10);
    expect_conflict(&*store, "a batch for an unknown run", unknown.batch(1, 10), None).await?;
    expect_equal("the head of the unknown run", store.head(unknown.id()).await?, None)
}

/// Of many appends at the same position at the same time one is `Ok`, and all others conflict.
pub async fn promise_2_one_of_many_rivals_wins(harness: &dyn StoreHarness) -> Verdict {
    let subject = harness.fresh(Limits::default()).await?;
    let store = subject.store();
    let mut run = SampleRun::new();
    for round in 1..=5 {
        let rivals: Vec<Append> = (0..16).map(|bytes| run.clone().batch(1, bytes)).collect();
        let answers = join_all(rivals.iter().map(|batch| store.append(batch.clone()))).await;
        let mut won = Vec::new();
        for (batch, answer) in rivals.into_iter().zip(answers) {
            match answer {
                Ok(_) => won.push(batch),
                Err(StoreError::Conflict { actual: Some(seq), .. }) if seq.number() == round => {}
                Err(error) => return Err(Unmet::Broken(format!("a rival was answered {error:?}"))),
            }
        }
        let [winner] = &won[..] else {
            return Err(Unmet::Broken(format!("{} rivals won at event {round}", won.len())));
        };
        let held = store.load(run.id(), SeqRange::starting_at(winner.records[0].seq)).await?;
        expect_equal("the winner's records", held, winner.records.clone())?;
        run.follow(winner);
    }
    store.read_log(run.id()).await?;
    Ok(())
}

/// What is wrong in several ways is answered in the promised order.
pub async fn promise_2_limits_are_checked_first(harness: &dyn StoreHarness) -> Verdict {
    let limits = Limits { event_bytes: 1_000, ..Limits::default() };
    let subject = harness.fresh(limits).await?;
    let store = subject.store();
    let mut run = SampleRun::new();
    let stale = run.clone().batch(1, 2_000);
    store.append(run.batch(1, 10)).await?;
    let answer = store.append(stale.clone()).await;
    expect_answer("a batch that is too large and stale", &answer, "TooLarge", is_too_large)?;
    let answer = store.append(Append { epoch: Some(Epoch::new(1)), ..stale }).await;
    expect_answer("a batch that is too large and has an epoch", &answer, "TooLarge", is_too_large)
}

/// A store that knows no leases takes no epoch.
pub async fn promise_5_an_epoch_without_leases_is_unsupported(harness: &dyn StoreHarness) -> Verdict {
    let subject = harness.fresh(Limits::default()).await?;
    let store = subject.store();
    let mut run = SampleRun::new();
    let answer = store.append(Append { epoch: Some(Epoch::new(1)), ..run.batch(1, 10) }).await;
    expect_answer("an append with an epoch", &answer, "Unsupported", |answer| {
        matches!(answer, Err(StoreError::Unsupported { .. }))
    })?;
    expect_equal("the head after it", store.head(run.id()).await?, None)
}

pub(super) async fn expect_conflict(
    store: &dyn EventStore,
    what: &str,
    batch: Append,
    head: Option<Seq>,
) -> Verdict {
    let (run, expect) = (batch.run, batch.expect);
    let answer = store.append(batch).await;
    let wanted = format!("Conflict at {head:?}");
    let is_wanted = |found: RunId, expected: Expect, actual: Option<Seq>| {
        (found, expected, actual) == (run, expect, head)
    };
    expect_answer(
        what,
        &answer,
        &wanted,
        |answer| matches!(answer, Err(StoreError::Conflict { run, expected, actual }) if is_wanted(*run, *expected, *actual)),
    )
}

fn is_conflict<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Conflict { .. }))
}

fn is_too_large<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::TooLarge { .. }))
}
