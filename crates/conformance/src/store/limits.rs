//! Promise 7: limits hold to the byte.

use relight_core::Seq;
use relight_store::{EventStore, Limits, SeqRange, StoreError};

use crate::{
    SampleRun, StoreHarness, Verdict,
    report::{expect_answer, expect_equal},
};

/// What just fits is taken; one more is refused with the name of the limit, and nothing is written.
pub async fn promise_7_limits_are_kept_exactly(harness: &dyn StoreHarness) -> Verdict {
    let roomy = Limits::default();
    let mut probe = SampleRun::new();
    let bytes = probe.batch(1, 100).records[0].bytes.len();
    let second = probe.batch(1, 100).records[0].bytes.len();
    type Case = (&'static str, Limits, u64, usize);
    let cases: [Case; 4] = [
        ("event_bytes", Limits { event_bytes: bytes, ..roomy }, 1, 101),
        ("batch_bytes", Limits { batch_bytes: bytes + second, ..roomy }, 2, 101),
        ("batch_records", Limits { batch_records: 2, ..roomy }, 3, 1),
        ("log_records", Limits { log_records: 2, ..roomy }, 3, 1),
    ];
    for (name, limits, too_many, too_large) in cases {
        let subject = harness.fresh(limits).await?;
        let store = subject.store();
        let mut run = SampleRun::new();
        expect_too_large(&*store, name, run.clone().batch(too_many, too_large)).await?;
        expect_equal("the head after it", store.head(run.id()).await?, None)?;
        let fits = run.batch(too_many.min(2), 100);
        store.append(fits).await?;
        if name == "log_records" {
            expect_too_large(&*store, name, run.clone().batch(1, 1)).await?;
        }
        expect_equal("the head", store.head(run.id()).await?, run.head())?;
    }
    Ok(())
}

async fn expect_too_large(store: &dyn EventStore, name: &str, batch: relight_store::Append) -> Verdict {
    let answer = store.append(batch).await;
    expect_answer(
        name,
        &answer,
        &format!("TooLarge by {name}"),
        |answer| matches!(answer, Err(StoreError::TooLarge { limit, size, max, .. }) if *limit == name && size > max),
    )
}

/// A page holds at most what the limits say, but at least one record.
pub async fn promise_7_pages_are_bounded(harness: &dyn StoreHarness) -> Verdict {
    let limits = Limits { page_records: 3, page_bytes: 2_000, ..Limits::default() };
    let subject = harness.fresh(limits).await?;
    let store = subject.store();
    let mut run = SampleRun::new();
    for bytes in [10, 10, 10, 10, 1_000, 5_000, 10] {
        store.append(run.batch(1, bytes)).await?;
    }
    let mut pages = Vec::new();
    while pages.iter().sum::<u64>() < 7 {
        let next = Seq::new(pages.iter().sum::<u64>() + 1).expect("counted from one");
        let page = store.load(run.id(), SeqRange::starting_at(next)).await?;
        expect_equal("where a page begins", page.first().map(|record| record.seq), Some(next))?;
        let bytes: usize = page.iter().map(|record| record.bytes.len()).sum();
        let is_bounded = page.len() <= 3 && (page.len() == 1 || bytes <= 2_000);
        expect_equal(&format!("a page of {} with {bytes} bytes is bounded", page.len()), is_bounded, true)?;
        pages.push(page.len() as u64);
    }
    Ok(())
}
