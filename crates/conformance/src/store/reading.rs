//! Promise 6: what is read is what was appended, or is named as damaged.

use jiff::Timestamp;
use relight_core::{Digest, Record, RunId, Seq};
use relight_store::{Append, EventStore, Limits, RunQuery, SeqRange, StoreError};
use uuid::Uuid;

use super::listing::{MOST_PAGES, pages_without_end};
use crate::{
    Damage, SampleRun, StoreHarness, Unmet, Verdict,
    report::{expect_answer, expect_equal},
};

/// A store parses nothing: any bytes, any time and any link come back as they were.
pub async fn promise_6_bytes_times_and_links_are_read_as_they_were_appended(
    harness: &dyn StoreHarness,
) -> Verdict {
    let subject = harness.fresh(Limits::default()).await?;
    let store = subject.store();
    let bytes: [&[u8]; 6] = [b"", b"\0", b"\xff\xfe", b"not json", "{\"a\":1e400}".as_bytes(), &[0; 10_000]];
    let times = [
        Timestamp::MIN,
        Timestamp::from_nanosecond(-1).expect("in range"),
        Timestamp::UNIX_EPOCH,
        Timestamp::from_nanosecond(1_800_000_000_123_456_789).expect("in range"),
        Timestamp::from_second(10_000_000_000).expect("in range"),
        Timestamp::MAX,
    ];
    let mut seq = Seq::FIRST;
    let mut records = Vec::new();
    for (bytes, recorded_at) in bytes.into_iter().zip(times) {
        records.push(Record { seq, recorded_at, bytes: bytes.to_vec(), link: Digest::of_bytes(bytes) });
        seq = seq.next();
    }
    let mut run = SampleRun::new();
    let append = Append { records: records.clone(), ..run.batch(1, 0) };
    let head = append.head();
    store.append(append).await?;
    expect_equal("the log", store.load(run.id(), SeqRange::ALL).await?, records)?;
    expect_equal("the head", store.head(run.id()).await?, Some(head))
}

/// Runs that are written at the same time, with ids that differ in one bit, do not mix.
pub async fn promise_6_a_log_holds_its_own_run_only(harness: &dyn StoreHarness) -> Verdict {
    let subject = harness.fresh(Limits::default()).await?;
    let store = subject.store();
    let ids = [0, 1, 1 << 127, u128::MAX];
    let mut runs = ids.map(|id| SampleRun::with_id(RunId::from_uuid(Uuid::from_u128(id))));
    let mut logs = vec![Vec::new(); runs.len()];
    for round in 0..4 {
        for (run, log) in runs.iter_mut().zip(&mut logs) {
            let batch = run.batch(1 + round % 2, 20);
            log.extend(batch.records.clone());
            store.append(batch).await?;
        }
    }
    for (run, log) in runs.iter().zip(logs) {
        expect_equal("a log", store.load(run.id(), SeqRange::ALL).await?, log)?;
        expect_equal("a head", store.head(run.id()).await?, run.head())?;
    }
    Ok(())
}

/// `load` gives exactly what the range asks for, if need be in several pages.
pub async fn promise_6_a_range_is_read_page_by_page(harness: &dyn StoreHarness) -> Verdict {
    for limits in [Limits::default(), Limits { page_records: 2, ..Limits::default() }] {
        let subject = harness.fresh(limits).await?;
        let store = subject.store();
        let mut run = SampleRun::new();
        let batch = run.batch(7, 20);
        store.append(batch.clone()).await?;
        let seq = |number| Seq::new(number).expect("counted from one");
        for first in 1..=9 {
            for last in 0..=9 {
                let (range, held) = match Seq::new(last) {
                    Some(last) => (SeqRange::between(seq(first), last), last.number().min(7)),
                    None => (SeqRange::starting_at(seq(first)), 7),
                };
                let expected: Vec<Record> =
                    (first..=held).map(|number| batch.records[number as usize - 1].clone()).collect();
                expect_equal(&format!("{range:?}"), load_all(&*store, run.id(), range).await?, expected)?;
            }
        }
    }
    Ok(())
}

/// `read_log` gives every event, and says so where there is no run.
pub async fn promise_6_a_whole_log_is_read_and_verified(harness: &dyn StoreHarness) -> Verdict {
    let subject = harness.fresh(Limits { page_records: 3, ..Limits::default() }).await?;
    let store = subject.store();
    let mut run = SampleRun::new();
    for _ in 0..4 {
        store.append(run.batch(2, 20)).await?;
    }
    let numbers: Vec<u64> =
        store.read_log(run.id()).await?.iter().map(|envelope| envelope.seq.number()).collect();
    expect_equal("the events", numbers, (1..=8).collect())?;
    let unknown = SampleRun::new().id();
    expect_equal("the head of an unknown run", store.head(unknown).await?, None)?;
    expect_equal("the records of an unknown run", store.load(unknown, SeqRange::ALL).await?, vec![])?;
    let answer = store.read_log(unknown).await;
    expect_answer(
        "the log of an unknown run",
        &answer,
        "UnknownRun",
        |answer| matches!(answer, Err(StoreError::UnknownRun { run }) if *run == unknown),
    )
}

/// Damage of any kind is found at its place, and stays with its run.
pub async fn promise_6_damage_is_named_and_other_runs_stay_readable(harness: &dyn StoreHarness) -> Verdict {
    let seq = |number| Seq::new(number).expect("counted from one");
    let damages = [
        (Damage::Changed(seq(1)), 1),
        (Damage::Changed(seq(3)), 3),
        (Damage::Removed(seq(1)), 1),
        (Damage::Removed(seq(2)), 2),
        (Damage::Removed(seq(5)), 5),
        (Damage::Inserted(seq(2)), 3),
        (Damage::Inserted(seq(5)), 6),
        (Damage::Swapped(seq(4)), 4),
        (Damage::TailCut(seq(4)), 4),
        (Damage::TailCut(seq(1)), 1),
    ];
    for (damage, at) in damages {
        let mut subject = harness.fresh(Limits::default()).await?;
        let (mut run, mut other) = (SampleRun::new(), SampleRun::new());
        for _ in 0..5 {
            subject.store().append(run.batch(1, 20)).await?;
            subject.store().append(other.batch(1, 20)).await?;
        }
        subject.damage(run.id(), damage).await?;
        let store = subject.store();
        let answer = store.read_log(run.id()).await;
        expect_answer(
            &format!("{damage:?}"),
            &answer,
            &format!("Corrupt at {at}"),
            |answer| matches!(answer, Err(StoreError::Corrupt { run: found, seq, .. }) if *found == run.id() && seq.number() == at),
        )?;
        expect_equal("the events of the other run", store.read_log(other.id()).await?.len(), 5)?;
        let listed = store.list_runs(&RunQuery::default()).await?;
        expect_equal("the runs that are listed", listed.items.len() + listed.damaged.len(), 2)?;
        store.append(other.batch(1, 20)).await?;
    }
    Ok(())
}

/// A summary that cannot be read is shown as such, and all others are listed.
pub async fn promise_6_a_damaged_summary_hides_no_other_run(harness: &dyn StoreHarness) -> Verdict {
    let mut subject = harness.fresh(Limits::default()).await?;
    let mut runs: Vec<SampleRun> = (0..5).map(|_| SampleRun::new()).collect();
    for run in &mut runs {
        subject.store().append(run.batch(1, 20)).await?;
    }
    let damaged = runs[2].id();
    subject.damage(damaged, Damage::Summary).await?;
    let mut query = RunQuery { limit: 2, ..RunQuery::default() };
    let (mut listed, mut unreadable) = (Vec::new(), Vec::new());
    for number in 0.. {
        if number == MOST_PAGES {
            return Err(pages_without_end());
        }
        let page = subject.store().list_runs(&query).await?;
        listed.extend(page.items.into_iter().map(|run| run.run_id));
        unreadable.extend(page.damaged.into_iter().map(|row| row.run));
        let Some(next) = page.next else { break };
        query.after = Some(next);
    }
    let mut readable: Vec<RunId> = runs.iter().map(SampleRun::id).filter(|run| *run != damaged).collect();
    readable.sort_unstable_by(|a, b| b.cmp(a));
    expect_equal("the runs that can be read", listed, readable)?;
    expect_equal("the one that cannot", unreadable, vec![damaged.to_string()])?;
    expect_equal("its log", subject.store().read_log(damaged).await?.len(), 1)
}

/// Loads a range to its end; every page but the last holds something.
pub(super) async fn load_all(
    store: &dyn EventStore,
    run: RunId,
    range: SeqRange,
) -> Result<Vec<Record>, Unmet> {
    let mut records: Vec<Record> = Vec::new();
    let mut rest = range;
    loop {
        let page = store.load(run, rest).await?;
        let Some(last) = page.last() else { return Ok(records) };
        if last.seq < rest.first {
            return Err(Unmet::Broken(format!("{rest:?} gave a page that ends at event {}", last.seq)));
        }
        rest.first = last.seq.next();
        records.extend(page);
    }
}
