//! A store in one SQLite file, which many processes may share, or in memory.
//!
//! ```text
//!  append ──▶ queue ──▶ writer thread ──▶ one transaction, one sync ──▶ answers
//!  load, head, list_runs ──▶ a small pool of read connections
//! ```
//!
//! One thread owns the write connection. It takes all that is queued, from however many runs, writes it in one
//! transaction, and then answers every append. The store runs on any tokio runtime and never blocks it.

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use relight_core::{Record, RunId, RunSummary};

use crate::{Append, EventStore, Head, Page, RunQuery, SeqRange, StoreError};

mod commit;
mod connect;
mod fault;
mod list;
mod options;
mod reader;
mod rows;
mod schema;
mod values;
mod wal;
mod writer;

pub use options::SqliteOptions;

use connect::{Connector, Place};
use reader::Readers;
use writer::Writer;

/// Keeps runs in an SQLite file.
///
/// Cheap to clone; all clones share one writer, which ends after the last of them is gone and all that was queued is
/// written.
///
/// # Examples
///
/// ```
/// use relight_store::{EventStore, RunQuery, SqliteStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("relight.db");
/// let store = SqliteStore::open(&path).await?;
/// for run in store.list_runs(&RunQuery::default()).await?.items {
///     println!("{} {}", run.run_id, run.status.kind());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: SqliteOptions,
    writer: Writer,
    readers: Readers,
}

impl SqliteStore {
    /// A store of its own in memory, gone with its last clone.
    ///
    /// # Errors
    ///
    /// None yet; what goes wrong shows on first use.
    ///
    /// # Examples
    ///
    /// ```
    /// let store = relight_store::SqliteStore::in_memory()?;
    /// # Ok::<(), relight_store::StoreError>(())
    /// ```
    pub fn in_memory() -> Result<Self, StoreError> {
        Self::in_memory_with(SqliteOptions::default())
    }

    /// As [`SqliteStore::in_memory`], with options.
    ///
    /// # Errors
    ///
    /// None yet; what goes wrong shows on first use.
    pub fn in_memory_with(options: SqliteOptions) -> Result<Self, StoreError> {
        let slot = Connector::new(Place::Memory, &options).slot(None);
        let readers = Readers::sharing(Arc::clone(&slot));
        Ok(Self::assemble(options, Writer::new(slot, &options), readers))
    }

    /// Opens the store in a file, and makes it where there is none.
    ///
    /// # Errors
    ///
    /// [`StoreError::CannotOpen`], [`NotADatabase`](StoreError::NotADatabase) for a file of anything else, which is
    /// left as it is, [`NewerSchema`](StoreError::NewerSchema), [`Busy`](StoreError::Busy),
    /// [`Full`](StoreError::Full), [`ReadOnly`](StoreError::ReadOnly), [`Damaged`](StoreError::Damaged).
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(path, SqliteOptions::default()).await
    }

    /// As [`SqliteStore::open`], with options.
    ///
    /// # Errors
    ///
    /// Those of [`SqliteStore::open`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use relight_store::{SqliteOptions, SqliteStore};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("relight.db");
    /// let options = SqliteOptions { busy_timeout: Duration::from_secs(5), ..SqliteOptions::default() };
    /// let store = SqliteStore::open_with(&path, options).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open_with(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, StoreError> {
        let connector = Connector::new(Place::at(path.as_ref())?, &options);
        let connection = connector.open().await?;
        let slot = connector.clone().slot(Some(connection));
        let readers = Readers::pool(connector, options.readers);
        Ok(Self::assemble(options, Writer::new(slot, &options), readers))
    }

    fn assemble(options: SqliteOptions, writer: Writer, readers: Readers) -> Self {
        Self { inner: Arc::new(Inner { options, writer, readers }) }
    }
}

#[async_trait]
impl EventStore for SqliteStore {
    async fn append(&self, append: Append) -> Result<Head, StoreError> {
        append.check(&self.inner.options.limits)?;
        if append.epoch.is_some() {
            return Err(StoreError::Unsupported { what: "leases" });
        }
        self.inner.writer.append(append).await
    }

    async fn load(&self, run: RunId, range: SeqRange) -> Result<Vec<Record>, StoreError> {
        self.inner.readers.load(run, range, &self.inner.options.limits).await
    }

    async fn head(&self, run: RunId) -> Result<Option<Head>, StoreError> {
        self.inner.readers.head(run).await
    }

    async fn list_runs(&self, query: &RunQuery) -> Result<Page<RunSummary>, StoreError> {
        self.inner.readers.list(query, &self.inner.options.limits).await
    }
}
