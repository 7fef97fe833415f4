//! A store that answers one call with an error, and works before and after it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use relight_store::{
    Append, EventStore, Head, Page, Record, RunId, RunQuery, RunSummary, SeqRange, StoreError, async_trait,
};

/// A store around a store that answers one call with an error: a disk that is full for a moment, a server that is
/// away, a rival that was quicker.
///
/// Unlike a [`CrashStore`](super::CrashStore) it does not stop the drive: what the drive does with the error is what
/// a test wants to see.
///
/// # Examples
///
/// A run is tried once to count its appends, and then each of them fails, once without and once with the append done:
///
/// ```
/// use std::sync::Arc;
/// use relight_store::{EventStore, MemoryStore, StoreError};
/// use relight_testkit::faults::{FailingStore, Fault, StoreCall};
///
/// # async fn start_or_resume(store: Arc<dyn EventStore>) -> Result<(), StoreError> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), StoreError> {
/// let counting = FailingStore::counting(Arc::new(MemoryStore::new()));
/// start_or_resume(counting.clone()).await?;
///
/// let away = StoreError::backend(std::io::Error::other("the server went away"));
/// for fault in Fault::all(StoreCall::Append, counting.calls(StoreCall::Append)) {
///     let inner = Arc::new(MemoryStore::new());
///     let failed = start_or_resume(FailingStore::new(inner.clone(), fault, away.clone())).await;
///     assert!(failed.is_err(), "{fault}");
///     start_or_resume(inner).await?;
///     // ... and here the log is the one an undisturbed run leaves.
/// }
/// # Ok(())
/// # }
/// ```
pub struct FailingStore {
    inner: Arc<dyn EventStore>,
    fault: Option<(Fault, StoreError)>,
    calls: [AtomicUsize; 3],
}

/// A method of a store. Reading a whole log is one `Head` and its `Load`s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreCall {
    /// [`EventStore::append`].
    Append,
    /// [`EventStore::load`].
    Load,
    /// [`EventStore::head`].
    Head,
}

/// Which call of a [`FailingStore`] fails. Calls of one method are counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This call fails and does nothing.
    Instead(StoreCall, usize),
    /// This call does its work and fails all the same.
    After(StoreCall, usize),
}

impl FailingStore {
    /// A store whose call at `fault` is answered with `error`.
    pub fn new(inner: Arc<dyn EventStore>, fault: Fault, error: StoreError) -> Arc<FailingStore> {
        FailingStore::build(inner, Some((fault, error)))
    }

    /// A store that never fails, for the undisturbed run whose calls are counted.
    pub fn counting(inner: Arc<dyn EventStore>) -> Arc<FailingStore> {
        FailingStore::build(inner, None)
    }

    /// How many calls of this method were begun.
    pub fn calls(&self, call: StoreCall) -> usize {
        self.calls[call as usize].load(Ordering::SeqCst)
    }

    fn build(inner: Arc<dyn EventStore>, fault: Option<(Fault, StoreError)>) -> Arc<FailingStore> {
        Arc::new(FailingStore { inner, fault, calls: Default::default() })
    }

    async fn answer<T>(
        &self,
        call: StoreCall,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let number = self.calls[call as usize].fetch_add(1, Ordering::SeqCst);
        match &self.fault {
            Some((fault, error)) if *fault == Fault::Instead(call, number) => Err(error.clone()),
            Some((fault, error)) if *fault == Fault::After(call, number) => {
                work.await?;
                Err(error.clone())
            }
            _ => work.await,
        }
    }
}

#[async_trait]
impl EventStore for FailingStore {
    async fn append(&self, append: Append) -> Result<Head, StoreError> {
        self.answer(StoreCall::Append, self.inner.append(append)).await
    }

    async fn load(&self, run: RunId, range: SeqRange) -> Result<Vec<Record>, StoreError> {
        self.answer(StoreCall::Load, self.inner.load(run, range)).await
    }

    async fn head(&self, run: RunId) -> Result<Option<Head>, StoreError> {
        self.answer(StoreCall::Head, self.inner.head(run)).await
    }

    async fn list_runs(&self, query: &RunQuery) -> Result<Page<RunSummary>, StoreError> {
        self.inner.list_runs(query).await
    }
}

impl fmt::Debug for FailingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailingStore")
            .field("fault", &self.fault)
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

impl Fault {
    /// Every fault of a run that makes this many calls of a method, in the order in which they are reached.
    pub fn all(call: StoreCall, calls: usize) -> impl Iterator<Item = Fault> {
        (0..calls).flat_map(move |number| [Fault::Instead(call, number), Fault::After(call, number)])
    }
}

/// As in “it failed *instead of append 3*”.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (when, call, number) = match self {
            Fault::Instead(call, number) => ("instead of", call, number),
            Fault::After(call, number) => ("after", call, number),
        };
        let call = match call {
            StoreCall::Append => "append",
            StoreCall::Load => "load",
            StoreCall::Head => "head",
        };
        write!(f, "{when} {call} {number}")
    }
}
