//! Promise 3: a lost answer is settled by sending the batch again.

use relight_core::Digest;
use relight_store::{Append, BatchId, Limits, SeqRange};

use super::appending::expect_conflict;
use crate::{SampleRun, StoreHarness, Verdict, report::expect_equal};

/// The head after the batch itself, even when the log has grown since.
pub async fn promise_3_a_batch_sent_again_is_answered_with_its_own_head(
    harness: &dyn StoreHarness,
) -> Verdict {
    let subject = harness.fresh(Limits::default()).await?;
    let store = subject.store();
    let mut run = SampleRun::new();
    let mut sent: Vec<Append> = Vec::new();
    for events in [2, 1, 3] {
        let batch = run.batch(events, 30);
        store.append(batch.clone()).await?;
        sent.push(batch);
        for batch in &sent {
            let again = store.append(batch.clone()).await?;
            expect_equal("the head of a batch sent again", again, batch.head())?;
        }
    }
    let records: Vec<_> = sent.into_iter().flat_map(|batch| batch.records).collect();
    expect_equal("the head", store.head(run.id()).await?, run.head())?;
    expect_equal("the log", store.load(run.id(), SeqRange::ALL).await?, records)
}

/// A rival that has the very same records still has another batch id.
pub async fn promise_3_a_rival_with_equal_records_conflicts(harness: &dyn StoreHarness) -> Verdict {
    let subject = harness.fresh(Limits::default()).await?;
    let store = subject.store();
    let mut run = SampleRun::new();
    for events in [1, 2] {
        let batch = run.batch(events, 30);
        store.append(batch.clone()).await?;
        let rival = Append { batch: BatchId::random(), ..batch };
        let head = run.head().map(|head| head.seq);
        expect_conflict(&*store, "a rival with equal records", rival, head).await?;
    }
    Ok(())
}

/// The id alone makes no batch the same: records that were changed, left out or added are not taken for appended.
pub async fn promise_3_a_batch_with_other_records_is_not_the_same(harness: &dyn StoreHarness) -> Verdict {
    let subject = harness.fresh(Limits::default()).await?;
    let store = subject.store();
    let mut run = SampleRun::new();
    for followed in [false, true] {
        let before = run.clone();
        let batch = run.batch(3, 30);
        store.append(batch.clone()).await?;
        if followed {
            store.append(run.batch(2, 30)).await?;
        }
        let mut changed = batch.clone();
        changed.records[1].bytes[0] ^= 1;
        let mut relinked = batch.clone();
        relinked.records[2].link = Digest::of_bytes(b"another link");
        let mut shorter = batch.clone();
        shorter.records.pop();
        let longer = Append { batch: batch.batch, ..before.clone().batch(4, 30) };
        for (what, other) in
            [("changed", changed), ("relinked", relinked), ("shorter", shorter), ("longer", longer)]
        {
            expect_conflict(&*store, what, other, run.head().map(|head| head.seq)).await?;
        }
        expect_equal("the head", store.head(run.id()).await?, run.head())?;
    }
    store.read_log(run.id()).await?;
    Ok(())
}

/// What was sent before the store was closed is known after it is opened again.
pub async fn promise_3_a_batch_sent_again_is_known_after_reopening(harness: &dyn StoreHarness) -> Verdict {
    let mut subject = harness.fresh(Limits::default()).await?;
    let mut run = SampleRun::new();
    let sent = [run.batch(1, 30), run.batch(3, 30), run.batch(1, 30)];
    for batch in &sent {
        subject.store().append(batch.clone()).await?;
    }
    subject.reopen().await?;
    expect_equal("the head after reopening", subject.store().head(run.id()).await?, run.head())?;
    for batch in &sent {
        let again = subject.store().append(batch.clone()).await?;
        expect_equal("the head of a batch sent again", again, batch.head())?;
    }
    expect_equal("the head", subject.store().head(run.id()).await?, run.head())
}
