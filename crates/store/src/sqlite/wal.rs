//! Keeps the write-ahead log from growing without end.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use sqlx::{SqliteConnection, raw_sql};

use super::connect::{Connector, Place};

/// Watches the size of the write-ahead log.
///
/// SQLite folds the log into the file by itself every few thousand pages, and then starts it over, unless somebody
/// reads at that moment. Where somebody always reads, the log grows: then new readers are held back until the log
/// can start over.
#[derive(Debug, Clone)]
pub(super) struct Wal {
    file: Option<PathBuf>,
    most: u64,
    busy_timeout: Duration,
    tried: Option<Instant>,
}

impl Wal {
    pub(super) fn new(connector: &Connector, most: u64) -> Self {
        let file = match &connector.place {
            Place::Memory => None,
            Place::File(path) => {
                // SQLite keeps it beside the file itself, not beside a link to it.
                let path = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
                let mut wal = path.into_os_string();
                wal.push("-wal");
                Some(PathBuf::from(wal))
            }
        };
        Self { file, most, busy_timeout: connector.busy_timeout, tried: None }
    }

    pub(super) fn is_large(&self) -> bool {
        let size = self.file.as_ref().and_then(|file| Some(fs::metadata(file).ok()?.len()));
        size.is_some_and(|size| size > self.most)
    }

    /// Starts the log over where it is too large; not at all costs, as an old reader may last.
    pub(super) async fn bound(&mut self, connection: &mut SqliteConnection) {
        let Some(file) = &self.file else { return };
        if !self.is_large() || self.tried.is_some_and(|tried| tried.elapsed() < PAUSE) {
            return;
        }
        self.tried = Some(Instant::now());
        let patience = |wait: Duration| format!("PRAGMA busy_timeout = {}", wait.as_millis());
        let statements =
            [patience(PATIENCE), "PRAGMA wal_checkpoint(TRUNCATE)".to_owned(), patience(self.busy_timeout)];
        for statement in statements {
            if let Err(error) = raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut *connection).await {
                tracing::warn!(%error, wal = %file.display(), "cannot shorten the write-ahead log");
            }
        }
    }
}

/// How long writers wait for readers to let go.
const PATIENCE: Duration = Duration::from_millis(100);

/// Between two tries.
const PAUSE: Duration = Duration::from_secs(1);
