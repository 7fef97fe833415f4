//! What the tests of the SQLite store share: a harness for the conformance suite, and a way behind the store's back.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::{path::Path, sync::Arc};

use relight_conformance::{Damage, StoreHarness, Subject, Unmet};
use relight_store::{EventStore, Limits, RunId, Seq, SqliteOptions, SqliteStore, StoreError, async_trait};
use sqlx::{Connection, SqliteConnection, query, sqlite::SqliteConnectOptions};
use tempfile::TempDir;

/// Stores in memory.
pub(crate) struct InMemory;

#[async_trait]
impl StoreHarness for InMemory {
    async fn fresh(&self, limits: Limits) -> Result<Box<dyn Subject>, StoreError> {
        let store = SqliteStore::in_memory_with(SqliteOptions { limits, ..SqliteOptions::default() })?;
        Ok(Box::new(Fresh { store, folder: None, limits }))
    }
}

/// Stores in a file, each in a folder of its own.
pub(crate) struct InFile;

#[async_trait]
impl StoreHarness for InFile {
    async fn fresh(&self, limits: Limits) -> Result<Box<dyn Subject>, StoreError> {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder, limits).await?;
        Ok(Box::new(Fresh { store, folder: Some(folder), limits }))
    }
}

struct Fresh {
    store: SqliteStore,
    folder: Option<TempDir>,
    limits: Limits,
}

#[async_trait]
impl Subject for Fresh {
    fn store(&self) -> Arc<dyn EventStore> {
        Arc::new(self.store.clone())
    }

    async fn reopen(&mut self) -> Result<(), Unmet> {
        self.store = open(self.folder()?, self.limits).await?;
        Ok(())
    }

    async fn damage(&mut self, run: RunId, damage: Damage) -> Result<(), Unmet> {
        let mut connection = connect(&self.folder()?.path().join(FILE)).await;
        let (at, statements): (Seq, &[&str]) = match damage {
            Damage::Changed(seq) => (
                seq,
                &[
                    "UPDATE events SET bytes = CAST(replace(CAST(bytes AS TEXT), 'x', 'y') AS BLOB) WHERE RUN AND seq = ?2",
                ],
            ),
            Damage::Removed(seq) => (seq, &["DELETE FROM events WHERE RUN AND seq = ?2"]),
            Damage::Inserted(seq) => (
                seq,
                &[
                    "CREATE TEMP TABLE moved AS SELECT * FROM events WHERE RUN AND seq >= ?2",
                    "DELETE FROM events WHERE RUN AND seq > ?2",
                    "INSERT INTO events SELECT run, seq + 1, recorded_at, batch, link, bytes FROM moved",
                ],
            ),
            Damage::Swapped(seq) => (
                seq,
                &[
                    "UPDATE events SET seq = -seq WHERE RUN AND seq BETWEEN ?2 AND ?2 + 1",
                    "UPDATE events SET seq = 2 * ?2 + 1 + seq WHERE RUN AND seq < 0",
                ],
            ),
            Damage::TailCut(seq) => (seq, &["DELETE FROM events WHERE RUN AND seq >= ?2"]),
            Damage::Summary => (Seq::FIRST, &["UPDATE runs SET summary = '{' WHERE id = ?1"]),
        };
        for statement in statements {
            let sql = statement.replace("RUN", "run = (SELECT key FROM runs WHERE id = ?1)");
            let id = run.as_uuid().as_bytes().to_vec();
            query(sqlx::AssertSqlSafe(sql))
                .bind(id)
                .bind(at.number() as i64)
                .execute(&mut connection)
                .await
                .unwrap();
        }
        connection.close().await.unwrap();
        Ok(())
    }
}

impl Fresh {
    fn folder(&self) -> Result<&TempDir, Unmet> {
        let why = "a store in memory is gone when it is closed";
        self.folder.as_ref().ok_or_else(|| Unmet::NotApplicable(why.to_owned()))
    }
}

async fn open(folder: &TempDir, limits: Limits) -> Result<SqliteStore, StoreError> {
    let options = SqliteOptions { limits, ..SqliteOptions::default() };
    SqliteStore::open_with(folder.path().join(FILE), options).await
}

/// A connection that knows nothing of the store.
pub(crate) async fn connect(path: &Path) -> SqliteConnection {
    SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(path)).await.unwrap()
}

pub(crate) const FILE: &str = "relight.db";
