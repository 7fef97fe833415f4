//! A run's rows changed behind the store's back: found by reading, named by run and seq; all other runs stay usable.

use std::{fs, path::PathBuf};

use relight_core::{EventEnvelope, RunId};
use relight_runtime::{Runtime, RuntimeError};
use relight_store::{EventStore, RunQuery, SqliteStore, StoreError};
use sqlx::{ConnectOptions as _, Connection as _, sqlite::SqliteConnectOptions};

use crate::{
    agent::script,
    child::drive,
    stage::{Stage, new_run},
};

/// A closed store with three ended runs, and copies of it to damage.
pub(crate) struct Original {
    pub(crate) stage: Stage,
    pub(crate) runs: [RunId; 3],
    logs: Vec<Vec<EventEnvelope>>,
    bytes: Vec<u8>,
}

impl Original {
    pub(crate) async fn make() -> Original {
        let stage = Stage::set(script()).await;
        let runs = [(); 3].map(|()| new_run());
        let mut logs = Vec::new();
        for run in runs {
            drive(stage.store().await, &stage.agent(), run).await.unwrap();
            logs.push(stage.log(run).await);
        }
        let whole = stage.store_path().with_extension("whole");
        let mut connection =
            SqliteConnectOptions::new().filename(stage.store_path()).connect().await.unwrap();
        sqlx::query("VACUUM INTO ?").bind(whole.to_str()).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        Original { bytes: fs::read(whole).unwrap(), stage, runs, logs }
    }

    /// The run that is damaged: neither the first in the file nor the last.
    pub(crate) fn victim(&self) -> RunId {
        self.runs[1]
    }

    pub(crate) fn events(&self) -> u64 {
        self.logs[1].len() as u64
    }

    /// A copy, changed by these statements, in which `:run` stands for the victim's key.
    pub(crate) async fn damaged(&self, sql: &str) -> PathBuf {
        let path = self.copy(&self.bytes);
        let mut connection = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
        let id = self.victim().as_uuid().simple();
        let key = format!("(SELECT key FROM runs WHERE id = x'{id}')");
        let sql = sqlx::AssertSqlSafe(sql.replace(":run", &key));
        let changed = sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
        assert!(changed.rows_affected() > 0);
        connection.close().await.unwrap();
        path
    }

    fn copy(&self, bytes: &[u8]) -> PathBuf {
        let path = self.stage.store_path().with_extension("damaged");
        for suffix in ["damaged", "damaged-wal", "damaged-shm"] {
            let _ = fs::remove_file(path.with_extension(suffix));
        }
        fs::write(&path, bytes).unwrap();
        path
    }
}

/// Reading finds the damage at `seq`, and the run is not driven on; the other runs are as they were, and all listed.
async fn check(original: &Original, damage: &str, sql: &str, seq: u64) {
    let store = SqliteStore::open(original.damaged(sql).await).await.unwrap();
    let victim = original.victim();
    let found = |error: &StoreError| matches!(error, StoreError::Corrupt { run, seq: at, .. } if *run == victim && at.number() == seq);
    let read = store.read_log(victim).await.expect_err(damage);
    assert!(found(&read), "{damage}, to be found at event {seq}: {read:?}");
    let text = read.to_string();
    assert!(text.contains(&victim.to_string()) && text.contains(&format!("event {seq}")), "{text}");

    let runtime = Runtime::new(std::sync::Arc::new(store.clone()));
    let resumed = runtime.resume(&original.stage.agent(), victim).await;
    assert!(matches!(&resumed, Err(RuntimeError::Store(error)) if found(error)), "{damage}: {resumed:?}");

    for (run, log) in [(original.runs[0], &original.logs[0]), (original.runs[2], &original.logs[2])] {
        assert_eq!(store.read_log(run).await.unwrap(), *log, "{damage}");
        runtime.resume(&original.stage.agent(), run).await.unwrap();
    }
    let listed = store.list_runs(&RunQuery::default()).await.unwrap();
    assert_eq!((listed.items.len(), listed.damaged.len()), (3, 0), "{damage}");
}

#[tokio::test]
async fn a_record_changed_anywhere_is_found_there() {
    let original = Original::make().await;
    for n in 1..=original.events() {
        let here = format!("WHERE run = :run AND seq = {n}");
        for (damage, change) in [
            ("another first byte", "bytes = CAST(x'5b' || substr(bytes, 2) AS BLOB)"),
            ("a blank at its end", "bytes = CAST(bytes || x'20' AS BLOB)"),
            ("its half", "bytes = substr(bytes, 1, length(bytes) / 2)"),
            ("no bytes", "bytes = x''"),
            ("bytes that are no text", "bytes = CAST(bytes || x'ff00' AS BLOB)"),
            ("another link", "link = randomblob(32)"),
            ("a short link", "link = substr(link, 1, 31)"),
            ("another time", "recorded_at = recorded_at + 1"),
            ("no time", "recorded_at = 'noon'"),
        ] {
            check(&original, damage, &format!("UPDATE events SET {change} {here}"), n).await;
        }
    }
}

#[tokio::test]
async fn a_changed_word_inside_a_record_is_found_there() {
    let original = Original::make().await;
    // Still JSON, and still an event: only its link tells.
    let sql = "UPDATE events SET bytes = CAST(replace(bytes, '12.5', '99.5') AS BLOB)
               WHERE run = :run AND seq = (SELECT min(seq) FROM events WHERE run = :run AND instr(bytes, '12.5'))";
    let first = original.logs[1].iter().find(|e| serde_json::to_string(e).unwrap().contains("12.5")).unwrap();
    check(&original, "another amount", sql, first.seq.number()).await;
}

#[tokio::test]
async fn a_removed_record_is_found_where_it_stood() {
    let original = Original::make().await;
    for n in 1..=original.events() {
        check(&original, "removed", &format!("DELETE FROM events WHERE run = :run AND seq = {n}"), n).await;
    }
}

#[tokio::test]
async fn a_cut_tail_is_found_where_it_began() {
    let original = Original::make().await;
    for n in 0..original.events() {
        let cut = format!("DELETE FROM events WHERE run = :run AND seq > {n}");
        check(&original, "cut", &cut, n + 1).await;
        // Whoever lowers the head as well still lacks the link that stood there.
        if n > 0 {
            let lowered = format!("{cut}; UPDATE runs SET head = {n} WHERE key = :run");
            check(&original, "cut, and the head lowered", &lowered, n).await;
        }
    }
}

#[tokio::test]
async fn records_in_another_order_are_found_at_the_first_of_them() {
    let original = Original::make().await;
    let last = original.events();
    for (left, right) in (1..last).map(|n| (n, n + 1)).chain([(1, last), (2, last - 1)]) {
        let put = |from, to| format!("UPDATE events SET seq = {to} WHERE run = :run AND seq = {from};");
        let sql = [put(left, 0), put(right, left), put(0, right)].concat();
        check(&original, "swapped", &sql, left).await;
    }
}

#[tokio::test]
async fn an_inserted_record_is_found_where_it_stands() {
    let original = Original::make().await;
    let insert = |source: &str, from: u64, n: u64| {
        format!(
            "UPDATE events SET seq = -seq WHERE run = :run AND seq >= {n};
             UPDATE events SET seq = 1 - seq WHERE run = :run AND seq < 0;
             INSERT INTO events SELECT :run, {n}, recorded_at, NULL, link, bytes FROM events
                 WHERE run = {source} AND seq = {from};"
        )
    };
    let raise = "UPDATE runs SET head = head + 1 WHERE key = :run";
    for n in 2..=original.events() + 1 {
        let twice = insert(":run", n - 1, n);
        check(&original, "a record twice", &twice, n).await;
        check(&original, "a record twice, and the head raised", &format!("{twice} {raise}"), n).await;
    }
    for n in 1..=original.events() {
        let foreign = insert("(SELECT max(key) FROM runs)", n, n);
        check(&original, "a record of another run", &foreign, n).await;
    }
}

#[tokio::test]
async fn a_record_of_another_run_in_the_place_of_ones_own_is_found_there() {
    let original = Original::make().await;
    for n in 1..=original.events() {
        let sql = format!(
            "UPDATE events SET (recorded_at, link, bytes) = (SELECT recorded_at, link, bytes FROM events
                 WHERE run = (SELECT max(key) FROM runs) AND seq = {n}) WHERE run = :run AND seq = {n}"
        );
        check(&original, "of another run", &sql, n).await;
    }
}

#[tokio::test]
async fn a_changed_head_is_found_at_the_end_of_the_log() {
    let original = Original::make().await;
    let last = original.events();
    for (damage, change, seq) in [
        ("another link", "link = randomblob(32)", last),
        ("a short link", "link = x'00'", last),
        ("a higher head", "head = head + 3", last + 1),
        ("a lower head", "head = head - 1", last - 1),
        ("no head", "head = 0", 1),
    ] {
        check(&original, damage, &format!("UPDATE runs SET {change} WHERE key = :run"), seq).await;
    }
}

#[tokio::test]
async fn a_summary_that_cannot_be_read_is_listed_as_such_and_hides_no_other_run() {
    let original = Original::make().await;
    for change in ["summary = 'gone'", "summary = '{}'", "summary = ''", "id = x'00'"] {
        let sql = format!("UPDATE runs SET {change} WHERE key = :run");
        let store = SqliteStore::open(original.damaged(&sql).await).await.unwrap();
        let listed = store.list_runs(&RunQuery::default()).await.unwrap();
        let mut others: Vec<RunId> = listed.items.iter().map(|run| run.run_id).collect();
        others.sort_unstable();
        assert_eq!(others, [original.runs[0], original.runs[2]], "{change}");
        let expected = if change.starts_with("id") { "00".to_owned() } else { original.victim().to_string() };
        assert_eq!(listed.damaged.iter().map(|row| &row.run).collect::<Vec<_>>(), [&expected], "{change}");
        if change.starts_with("summary") {
            assert_eq!(store.read_log(original.victim()).await.unwrap(), original.logs[1], "{change}");
        }
    }
}

#[tokio::test]
async fn noise_in_a_page_of_the_file_never_passes_for_a_log() {
    let original = Original::make().await;
    let page = usize::from(u16::from_be_bytes([original.bytes[16], original.bytes[17]]));
    let mut found = 0;
    for start in (0..original.bytes.len()).step_by(page) {
        for noise in [0x00, 0x0d, 0xff] {
            let mut bytes = original.bytes.clone();
            bytes[start..start + page].fill(noise);
            let store = match SqliteStore::open(original.copy(&bytes)).await {
                Ok(store) => store,
                Err(StoreError::NotADatabase { .. } | StoreError::Damaged { .. }) => {
                    found += 1;
                    continue;
                }
                Err(other) => panic!("page at {start}: {other:?}"),
            };
            for (run, log) in original.runs.iter().zip(&original.logs) {
                match store.read_log(*run).await {
                    Ok(read) => assert_eq!(read, *log, "page at {start}"),
                    Err(StoreError::Corrupt { .. } | StoreError::Damaged { .. }) => found += 1,
                    Err(other) => panic!("page at {start} of {noise:#x}: {other:?}"),
                }
            }
        }
    }
    assert!(found > 0);
}
