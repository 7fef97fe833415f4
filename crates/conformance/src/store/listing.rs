//! What lists show, in which order.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use relight_core::{RunId, RunStatus, RunSummary, StatusKind};
use relight_store::{Cursor, EventStore, Limits, RunQuery, StoreError};

use crate::{
    SampleRun, SplitMix, StoreHarness, Unmet, Verdict,
    report::{expect_answer, expect_equal},
};

/// Each append replaces what is listed of its run, and of no other.
pub async fn list_shows_the_summary_of_the_last_batch(harness: &dyn StoreHarness) -> Verdict {
    let subject = harness.fresh(Limits::default()).await?;
    let store = subject.store();
    let (mut run, mut other) = (SampleRun::new(), SampleRun::new());
    other.summary.started_at = run.summary.started_at - SignedDuration::from_secs(1);
    store.append(run.batch(1, 10)).await?;
    store.append(other.batch(1, 10)).await?;
    run.summary.status =
        RunStatus::Failed { code: "tired".to_owned(), message: "a\n\"b\" \u{1F600}".to_owned() };
    run.summary.wake_at = Some(Timestamp::MAX);
    run.summary.usage.output_tokens = u64::MAX;
    run.summary.model_calls = 7;
    store.append(run.batch(2, 10)).await?;
    let listed = store.list_runs(&RunQuery::default()).await?;
    expect_equal("the list", listed.items, vec![run.summary.clone(), other.summary.clone()])?;
    let failed = RunQuery { statuses: vec![StatusKind::Failed], ..RunQuery::default() };
    expect_equal("those that failed", store.list_runs(&failed).await?.items, vec![run.summary.clone()])?;
    let running = RunQuery { statuses: vec![StatusKind::Running], ..RunQuery::default() };
    expect_equal("those that run", store.list_runs(&running).await?.items, vec![other.summary.clone()])
}

/// Newest started first, then by id; whatever the size of a page, none is left out or shown twice, not even while
/// other runs start.
pub async fn list_is_newest_first_and_pages_are_stable(harness: &dyn StoreHarness) -> Verdict {
    let subject = harness.fresh(Limits::default()).await?;
    let store = subject.store();
    let mut random = SplitMix::new(1);
    let mut summaries = Vec::new();
    for _ in 0..20 {
        let mut run = SampleRun::new();
        let later = i64::try_from(random.below(4)).expect("below four");
        run.summary.started_at += SignedDuration::from_nanos(later);
        store.append(run.batch(1, 10)).await?;
        summaries.push(run.summary);
    }
    summaries.sort_by_key(|run| std::cmp::Reverse((run.started_at, run.run_id)));
    for limit in [1, 3, 7, 19, 20, 21, 1_000] {
        let mut seen = Vec::new();
        let mut query = RunQuery { limit, ..RunQuery::default() };
        for number in 0.. {
            if number == MOST_PAGES {
                return Err(pages_without_end());
            }
            let page = store.list_runs(&query).await?;
            expect_equal("a page is at most as long as asked for", page.items.len() <= limit, true)?;
            seen.extend(page.items);
            let Some(next) = page.next else { break };
            // A cursor may be written down, and read again.
            query.after = Some(Cursor::new(next.as_str()));
            let mut newer = SampleRun::new();
            newer.summary.started_at += SignedDuration::from_hours(1);
            store.append(newer.batch(1, 10)).await?;
        }
        seen.retain(|run| summaries.contains(run));
        expect_equal(&format!("all pages of {limit}"), ids(&seen), ids(&summaries))?;
    }
    Ok(())
}

/// Every filter and every two of them together give those runs that match, in order.
pub async fn list_filters_by_status_agent_and_labels(harness: &dyn StoreHarness) -> Verdict {
    let subject = harness.fresh(Limits::default()).await?;
    let store = subject.store();
    let mut random = SplitMix::new(2);
    let mut runs: Vec<SampleRun> = Vec::new();
    for _ in 0..24 {
        let mut run = SampleRun::new();
        // What the first batch said is overwritten by the second.
        run.summary.agent_hash = "before".to_owned();
        run.summary.labels = label("before", "yes");
        store.append(run.batch(1, 10)).await?;
        run.summary.agent_hash = format!("agent {}", random.below(2));
        run.summary.status = match random.below(3) {
            0 => RunStatus::Running,
            1 => RunStatus::Completed,
            _ => RunStatus::Cancelled,
        };
        run.summary.labels = label("team", ["a", "b", "'; --"][random.below(3) as usize]);
        if random.below(2) == 0 {
            run.summary.labels.extend(label("odd \"name\"", ""));
        }
        store.append(run.batch(1, 10)).await?;
        runs.push(run);
    }
    let statuses: [&[StatusKind]; 5] = [
        &[],
        &[StatusKind::Running],
        &[StatusKind::Completed, StatusKind::Cancelled],
        &[StatusKind::Running, StatusKind::Running, StatusKind::Failed],
        &StatusKind::ALL,
    ];
    let agents = [None, Some("agent 0"), Some("agent 1"), Some("before"), Some("nobody")];
    let mut both = label("team", "a");
    both.extend(label("odd \"name\"", ""));
    let labels = [
        BTreeMap::new(),
        label("team", "b"),
        label("team", "'; --"),
        label("odd \"name\"", ""),
        label("before", "yes"),
        label("nothing", "a"),
        both,
    ];
    for statuses in statuses {
        for agent in agents {
            for labels in &labels {
                let query = RunQuery {
                    statuses: statuses.to_vec(),
                    agent_hash: agent.map(str::to_owned),
                    labels: labels.clone(),
                    limit: 3,
                    after: None,
                };
                let mut matching: Vec<RunSummary> =
                    runs.iter().map(|run| run.summary.clone()).filter(|run| query.matches(run)).collect();
                matching.sort_by_key(|run| std::cmp::Reverse((run.started_at, run.run_id)));
                let listed = list_all(&*store, query.clone()).await?;
                expect_equal(&format!("{query:?}"), ids(&listed), ids(&matching))?;
            }
        }
    }
    Ok(())
}

/// A cursor that the store did not make is refused, not taken for some place.
pub async fn list_refuses_a_cursor_of_another_store(harness: &dyn StoreHarness) -> Verdict {
    let subject = harness.fresh(Limits::default()).await?;
    let query = RunQuery { after: Some(Cursor::new("no cursor")), ..RunQuery::default() };
    let answer = subject.store().list_runs(&query).await;
    expect_answer("a strange cursor", &answer, "Invalid", |answer| {
        matches!(answer, Err(StoreError::Invalid { .. }))
    })
}

/// Every page of a query.
pub(super) async fn list_all(store: &dyn EventStore, mut query: RunQuery) -> Result<Vec<RunSummary>, Unmet> {
    let mut listed = Vec::new();
    for _ in 0..MOST_PAGES {
        let page = store.list_runs(&query).await?;
        listed.extend(page.items);
        let Some(next) = page.next else { return Ok(listed) };
        query.after = Some(next);
    }
    Err(pages_without_end())
}

/// A list that leads in a circle must fail the test, not hang it.
pub(super) fn pages_without_end() -> Unmet {
    Unmet::Broken(format!("after {MOST_PAGES} pages the list has no end"))
}

pub(super) const MOST_PAGES: usize = 200;

fn label(name: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), value.to_owned())])
}

fn ids(runs: &[RunSummary]) -> Vec<RunId> {
    runs.iter().map(|run| run.run_id).collect()
}
