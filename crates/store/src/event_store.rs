//! The trait that a backend implements, and what each of its methods promises.

use async_trait::async_trait;
use relight_core::{EventEnvelope, Record, RunId, RunSummary, chain::Verifier};

use crate::{Append, Head, Page, RunQuery, SeqRange, StoreError};

/// A place where runs keep their logs.
///
/// Four methods make a backend; `relight-conformance` tests every promise made here, and the example `custom_store`
/// shows a whole backend. All methods may be called from any task, at the same time.
///
/// # Cancel safety
///
/// Dropping the future of any method leaves the store consistent. A dropped `append` was done or not; sending the
/// same [`Append`] again settles it.
///
/// # Examples
///
/// ```
/// use relight_store::{EventStore, MemoryStore, RunQuery};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), relight_store::StoreError> {
/// let store = MemoryStore::new();
/// let page = store.list_runs(&RunQuery::default()).await?;
/// assert!(page.items.is_empty() && page.next.is_none());
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait EventStore: Send + Sync + 'static {
    /// Appends a batch to a run's log, and replaces the run's summary.
    ///
    /// On `Ok` all records and the summary are as durable as the backend can make them (on disk and synced, for those
    /// that have a disk), and the answer is the head after this batch. The same batch with the same records sent
    /// again is `Ok` with that same head, even when the log has grown since.
    ///
    /// What is wrong is answered in this order: limits, (the same batch again), [`StoreError::Fenced`],
    /// [`StoreError::Conflict`].
    ///
    /// # Errors
    ///
    /// After [`StoreError::TooLarge`], [`Invalid`](StoreError::Invalid), [`Unsupported`](StoreError::Unsupported),
    /// [`Fenced`](StoreError::Fenced) and [`Conflict`](StoreError::Conflict) nothing was appended, and sending the
    /// same again is answered the same. After any other error it may have been appended; sending the same again
    /// settles it, once the fault is gone.
    async fn append(&self, append: Append) -> Result<Head, StoreError>;

    /// Reads records of a run, in order and without gaps, from the first that the range asks for.
    ///
    /// It may return fewer than asked for, but at least one where there is one: go on after the last. Nothing at all
    /// means that the log holds nothing in this range. The bytes are those that were appended; nothing is verified.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] where a record cannot be read or is missing between others; any other error says
    /// nothing about the log.
    async fn load(&self, run: RunId, range: SeqRange) -> Result<Vec<Record>, StoreError>;

    /// The end of a run's log, as kept beside the log; `None` where there is no such run.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] where it cannot be read; any other error says nothing about the log.
    async fn head(&self, run: RunId) -> Result<Option<Head>, StoreError>;

    /// Lists runs by their summaries, the newest started first, equal times by id, the greatest first.
    ///
    /// A run whose summary cannot be read is listed in [`Page::damaged`] and hides no other.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] for a cursor of another store.
    async fn list_runs(&self, query: &RunQuery) -> Result<Page<RunSummary>, StoreError>;

    /// Reads a whole log, verifies its chain up to the head, and decodes it.
    ///
    /// What is appended after the call began may be left out.
    ///
    /// # Errors
    ///
    /// [`StoreError::UnknownRun`]; [`StoreError::Corrupt`] at the first record that is not what was appended there,
    /// the cut tail of a log and a record beyond its head included; [`StoreError::Newer`] at the first record of a newer version.
    async fn read_log(&self, run: RunId) -> Result<Vec<EventEnvelope>, StoreError> {
        let Some(head) = self.head(run).await? else {
            return Err(StoreError::UnknownRun { run });
        };
        let mut verifier = Verifier::new(run);
        let mut log = Vec::new();
        while verifier.next() <= head.seq {
            let page = self.load(run, SeqRange::between(verifier.next(), head.seq)).await?;
            if page.is_empty() {
                break;
            }
            for record in &page {
                log.push(verifier.accept(record)?);
            }
        }
        verifier.finish(head.seq, head.link)?;
        check_end(self, run, head).await?;
        Ok(log)
    }
}

/// Checks that no record stands beyond the head of a run, for code that reads a log by itself; `head` may have moved
/// on since it was taken.
///
/// # Errors
///
/// [`StoreError::Corrupt`] at the position after the head: a record got there by other ways than `append`, which
/// moves the head along.
pub async fn check_end(store: &(impl EventStore + ?Sized), run: RunId, head: Head) -> Result<(), StoreError> {
    let beyond = head.seq.next();
    if store.load(run, SeqRange::between(beyond, beyond)).await?.is_empty() {
        return Ok(());
    }
    // What was appended in between came with its head.
    match store.head(run).await? {
        Some(now) if now.seq > head.seq => Ok(()),
        _ => {
            let why = format!("it stands after the head, which is event {}", head.seq);
            Err(StoreError::Corrupt { run, seq: beyond, why })
        }
    }
}
