//! How connections are made, and where the one that writes is kept.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use sqlx::{ConnectOptions, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::sync::{Mutex, oneshot};

use super::{
    SqliteOptions,
    fault::{self, Fault},
    schema::{self, Refusal},
};
use crate::StoreError;

/// Where a store lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Memory,
    File(PathBuf),
}

impl Place {
    /// Absolute, so that neither a change of the working folder nor SQLite's special names (`:memory:`, `file:`) count.
    pub(super) fn at(path: &Path) -> Result<Self, StoreError> {
        let absolute = std::path::absolute(path)
            .map_err(|error| StoreError::CannotOpen { path: path.to_owned(), why: error.to_string() })?;
        Ok(Self::File(absolute))
    }

    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::Memory => PathBuf::from(":memory:"),
            Self::File(path) => path.clone(),
        }
    }
}

/// Makes connections to one store.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    pub(super) place: Place,
    pub(super) busy_timeout: Duration,
    sqlite: SqliteConnectOptions,
}

impl Connector {
    pub(super) fn new(place: Place, options: &SqliteOptions) -> Self {
        let mut sqlite = SqliteConnectOptions::new()
            .busy_timeout(options.busy_timeout)
            .disable_statement_logging()
            .foreign_keys(false)
            .statement_cache_capacity(STATEMENTS)
            .row_buffer_size(ROWS)
            .pragma("synchronous", "FULL")
            .pragma("temp_store", "MEMORY")
            .pragma("cache_size", CACHE)
            .pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
            .pragma("journal_size_limit", options.wal_bytes.to_string())
            .thread_name(|number| format!("relight-sqlite-{number}"));
        if let Some(pages) = options.max_pages {
            sqlite = sqlite.pragma("max_page_count", pages.to_string());
        }
        sqlite = match &place {
            Place::Memory => sqlite.in_memory(true),
            Place::File(path) => sqlite.filename(path).create_if_missing(options.create_if_missing),
        };
        Self { place, busy_timeout: options.busy_timeout, sqlite }
    }

    /// A connection to a store that is known to be one.
    pub(super) async fn connect(&self) -> Result<SqliteConnection, StoreError> {
        let since = Instant::now();
        self.sqlite.connect().await.map_err(|error| fault::map(&error, &self.place, since.elapsed()))
    }

    /// A connection to what may not be a store, or not yet; works on a thread of its own, since it may have to wait.
    pub(super) async fn open(&self) -> Result<SqliteConnection, StoreError> {
        let (answer, answered) = oneshot::channel();
        let connector = self.clone();
        on_thread("relight-open", async move {
            let _ = answer.send(connector.open_here().await);
        })?;
        answered.await.unwrap_or_else(|stopped| Err(StoreError::backend(stopped)))
    }

    /// As [`Connector::open`], for threads that may wait.
    pub(super) async fn open_here(&self) -> Result<SqliteConnection, StoreError> {
        let since = Instant::now();
        loop {
            let error = match self.attempt().await {
                Ok(connection) => return Ok(connection),
                Err(Refusal::Store(error)) => return Err(error),
                Err(Refusal::Sqlite(error)) => error,
            };
            // SQLite waits by itself for most locks, but not for the one that switches a file to write-ahead logging.
            if Fault::of(&error) != Fault::Busy || since.elapsed() >= self.busy_timeout {
                return Err(fault::map(&error, &self.place, since.elapsed()));
            }
            std::thread::sleep(PAUSE);
        }
    }

    async fn attempt(&self) -> Result<SqliteConnection, Refusal> {
        let mut connection = self.sqlite.connect().await?;
        schema::prepare(&mut connection, &self.place).await?;
        Ok(connection)
    }

    pub(super) fn slot(self, connection: Option<SqliteConnection>) -> Arc<Slot> {
        Arc::new(Slot { connector: self, connection: Mutex::new(connection) })
    }
}

/// The place of the connection that writes; what is in memory is read through it too.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) connector: Connector,
    /// Made on first use.
    pub(super) connection: Mutex<Option<SqliteConnection>>,
}

/// Runs a future to its end on a new thread with a runtime of its own.
pub(super) fn on_thread(
    name: &str,
    work: impl Future<Output = ()> + Send + 'static,
) -> Result<(), StoreError> {
    // The runtime is made there: where the thread cannot start, it must not be dropped here, inside another one.
    let work = move || match tokio::runtime::Builder::new_current_thread().build() {
        Ok(runtime) => runtime.block_on(work),
        // Whoever waits for the work is told that it stopped.
        Err(_) => drop(work),
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop).map_err(StoreError::backend)
}

/// Those that write, by the number of their rows, and the few that read.
const STATEMENTS: usize = 32;

/// How many rows may be read ahead of who takes them; large events bound it from above.
const ROWS: usize = 16;

/// Between two tries to get a lock that SQLite does not wait for.
pub(super) const PAUSE: Duration = Duration::from_millis(5);

/// 8 MiB a connection.
const CACHE: &str = "-8192";

/// 4 MiB. A larger log would take longer to be written over again, and a file that grows is slower to sync.
const CHECKPOINT_PAGES: &str = "1000";

#[cfg(test)]
mod tests {
    use sqlx::{Row, raw_sql};

    use super::*;

    async fn pragma(connection: &mut SqliteConnection, name: &str) -> String {
        let sql = sqlx::AssertSqlSafe(format!("PRAGMA {name}"));
        raw_sql(sql).fetch_one(connection).await.unwrap().get_unchecked(0)
    }

    #[tokio::test]
    async fn the_connection_that_writes_syncs_its_log_at_every_commit() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::at(&folder.path().join("a.db")).unwrap();
        let mut connection = Connector::new(place, &SqliteOptions::default()).open().await.unwrap();
        assert_eq!(pragma(&mut connection, "journal_mode").await, "wal");
        const FULL: &str = "2";
        assert_eq!(pragma(&mut connection, "synchronous").await, FULL);
    }

    #[tokio::test]
    async fn the_log_of_writes_is_folded_into_the_file_and_cut() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::at(&folder.path().join("a.db")).unwrap();
        let mut connection = Connector::new(place, &SqliteOptions::default()).open().await.unwrap();
        assert_eq!(pragma(&mut connection, "wal_autocheckpoint").await, CHECKPOINT_PAGES);
        assert_eq!(
            pragma(&mut connection, "journal_size_limit").await,
            SqliteOptions::default().wal_bytes.to_string()
        );
    }

    #[test]
    fn names_that_are_special_to_sqlite_are_files_like_any_other() {
        for name in [":memory:", "file:a.db?mode=memory", "a.db"] {
            let Place::File(path) = Place::at(Path::new(name)).unwrap() else { panic!("{name}") };
            assert!(path.is_absolute() && path.ends_with(name), "{}", path.display());
        }
    }
}
