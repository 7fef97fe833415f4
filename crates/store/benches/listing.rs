//! The first page of a list among 100,000 runs, against the same among 1,000.

#![allow(clippy::unwrap_used, reason = "a bench that cannot go on shall panic")]

mod support;

use std::{collections::BTreeMap, path::Path};

use futures::{StreamExt, stream};
use jiff::SignedDuration;
use relight_conformance::SampleRun;
use relight_store::{EventStore, RunQuery, RunStatus, SqliteStore, StatusKind};
use support::{compare, rate, timed};
use tokio::runtime::Builder;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let large = runtime.block_on(fill(&folder.path().join("large.db"), 100_000));
    let small = runtime.block_on(fill(&folder.path().join("small.db"), 1_000));
    let label = BTreeMap::from([("team".to_owned(), "3".to_owned())]);
    let filters = [
        ("all", RunQuery::default()),
        ("one status", RunQuery { statuses: vec![StatusKind::Completed], ..RunQuery::default() }),
        ("one agent", RunQuery { agent_hash: Some("agent 2".to_owned()), ..RunQuery::default() }),
        ("one label", RunQuery { labels: label.clone(), ..RunQuery::default() }),
        (
            "a label of a status",
            RunQuery { labels: label, statuses: vec![StatusKind::Completed], ..RunQuery::default() },
        ),
    ];
    for (name, query) in filters {
        let first = |store: &SqliteStore| {
            let (found, took) = timed(&runtime, async {
                let mut found = 0;
                for _ in 0..PAGES {
                    found += store.list_runs(&query).await.unwrap().items.len();
                }
                found
            });
            assert_eq!(found, PAGES * query.limit);
            rate(PAGES, took)
        };
        compare(&format!("first page of {name}, 100,000 to 1,000"), || first(&large), || first(&small));
    }
}

/// Half of the runs are completed; there are four agents and five teams.
async fn fill(path: &Path, runs: i64) -> SqliteStore {
    let store = SqliteStore::open(path).await.unwrap();
    let starts = stream::iter(0..runs).map(|number| {
        let mut run = SampleRun::new();
        run.summary.started_at += SignedDuration::from_secs(number);
        run.summary.agent_hash = format!("agent {}", number % 4);
        run.summary.labels = BTreeMap::from([("team".to_owned(), (number % 5).to_string())]);
        if number / 20 % 2 == 0 {
            run.summary.status = RunStatus::Completed;
        }
        store.append(run.batch(1, 10))
    });
    starts
        .buffer_unordered(256)
        .for_each(|answer| async {
            answer.unwrap();
        })
        .await;
    store
}

const PAGES: usize = 10;
