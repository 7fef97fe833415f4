//! What the benches share: paired slices, and a bare sqlx connection to the same tables.

#![allow(dead_code, reason = "each bench uses its own part")]

use std::{
    path::Path,
    time::{Duration, Instant},
};

use relight_store::Append;
use sqlx::{AssertSqlSafe, Connection, SqliteConnection, sqlite::SqliteConnectOptions};

/// Alternates short slices of subject and baseline, since machines are noisy, and prints both rates and the median of
/// the paired ratios. Each slice answers how many units a second it did.
pub(crate) fn compare(
    name: &str,
    mut subject: impl FnMut() -> f64,
    mut baseline: impl FnMut() -> f64,
) -> f64 {
    let (mut ratios, mut subjects, mut baselines) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..=PAIRS {
        let (s, b) = if pair % 2 == 0 {
            let s = subject();
            (s, baseline())
        } else {
            let b = baseline();
            (subject(), b)
        };
        // The first pair warms up.
        if pair > 0 {
            ratios.push(s / b);
            subjects.push(s);
            baselines.push(b);
        }
    }
    let ratio = median(&mut ratios);
    println!(
        "{name:<48} {:>10.0}/s against {:>10.0}/s   ratio {ratio:.2} (of {PAIRS} pairs, {:.2} to {:.2})",
        median(&mut subjects),
        median(&mut baselines),
        ratios[0],
        ratios[ratios.len() - 1],
    );
    ratio
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Units a second.
pub(crate) fn rate(units: usize, took: Duration) -> f64 {
    units as f64 / took.as_secs_f64()
}

/// Times a future on a runtime.
pub(crate) fn timed<T>(runtime: &tokio::runtime::Runtime, work: impl Future<Output = T>) -> (T, Duration) {
    runtime.block_on(async {
        let since = Instant::now();
        let done = work.await;
        (done, since.elapsed())
    })
}

/// A connection as a careful user of sqlx would set it up.
pub(crate) async fn bare(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .pragma("journal_mode", "WAL")
        .pragma("synchronous", "FULL");
    SqliteConnection::connect_with(&options).await.unwrap()
}

/// The two statements that append one event, between `before` and `after`.
pub(crate) fn append_sql(before: &str, after: &str) -> String {
    format!(
        "{before}
         UPDATE runs SET head = ?, link = ?, status = ?, agent_hash = ?, wake_at = ?, labels = ?, summary = ?
         WHERE id = ? AND head = ?;
         INSERT INTO events (run, seq, recorded_at, batch, link, bytes)
         SELECT key, ?, ?, ?, ?, ? FROM runs WHERE id = ?;
         {after}"
    )
}

/// Appends one event with the text of [`append_sql`], in one call.
pub(crate) async fn append_bare(connection: &mut SqliteConnection, sql: &'static str, append: &Append) {
    let (record, summary) = (&append.records[0], &append.summary);
    let seq = record.seq.number() as i64;
    let id = append.run.as_uuid().as_bytes().to_vec();
    let done = sqlx::query(AssertSqlSafe(sql))
        .bind(seq)
        .bind(record.link.as_bytes().to_vec())
        .bind("running")
        .bind(&summary.agent_hash)
        .bind(None::<i64>)
        .bind("{}")
        .bind(serde_json::to_string(summary).unwrap())
        .bind(id.clone())
        .bind(seq - 1)
        .bind(seq)
        .bind(record.recorded_at.as_nanosecond() as i64)
        .bind(append.batch.as_bytes().to_vec())
        .bind(record.link.as_bytes().to_vec())
        .bind(record.bytes.clone())
        .bind(id)
        .execute(connection)
        .await
        .unwrap();
    assert!(done.rows_affected() > 0);
}

const PAIRS: usize = 40;
