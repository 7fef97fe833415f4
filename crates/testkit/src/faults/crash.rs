//! A store that stops a drive at one append, as SIGKILL would.

use std::fmt;
use std::future::{self, Future};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use relight_store::{
    Append, EventEnvelope, EventStore, Head, Page, Record, RunId, RunQuery, RunSummary, SeqRange, StoreError,
    async_trait,
};
use tokio::sync::watch;

/// A store around a store that stops a drive at one append, as if its process had been killed there.
///
/// At its [`CrashPoint`] the store answers no more, neither that call nor any later one, and
/// [`drive`](CrashStore::drive) drops the drive in mid flight. What the inner store holds is what a killed process
/// would have left; drive it again through another wrapper, or with none.
///
/// # Examples
///
/// A run is tried once to count its appends, and then killed before and after each of them:
///
/// ```
/// use std::sync::Arc;
/// use relight_store::{EventStore, MemoryStore, StoreError};
/// use relight_testkit::faults::{CrashPoint, CrashStore};
///
/// # async fn start_or_resume(store: Arc<dyn EventStore>) -> Result<(), StoreError> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), StoreError> {
/// let counting = CrashStore::counting(Arc::new(MemoryStore::new()));
/// start_or_resume(counting.clone()).await?;
///
/// for point in CrashPoint::all(counting.appends()) {
///     let inner = Arc::new(MemoryStore::new());
///     let store = CrashStore::new(inner.clone(), point);
///     let ended = store.drive(start_or_resume(store.clone())).await;
///     assert!(ended.is_none(), "it did not crash {point}");
///     start_or_resume(inner).await?;
///     // ... and here the log is the one an undisturbed run leaves.
/// }
/// # Ok(())
/// # }
/// ```
pub struct CrashStore {
    inner: Arc<dyn EventStore>,
    point: Option<CrashPoint>,
    appends: AtomicUsize,
    crashed: watch::Sender<Life>,
}

/// When a [`CrashStore`] crashes. Appends are counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// Before this append: it is not done.
    Before(usize),
    /// After this append: it is done, but its answer never arrives.
    After(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Alive,
    Crashed,
}

impl CrashStore {
    /// A store that crashes at `point`.
    pub fn new(inner: Arc<dyn EventStore>, point: CrashPoint) -> Arc<CrashStore> {
        CrashStore::build(inner, Some(point))
    }

    /// A store that never crashes, for the undisturbed run whose appends are counted.
    pub fn counting(inner: Arc<dyn EventStore>) -> Arc<CrashStore> {
        CrashStore::build(inner, None)
    }

    /// How many appends were begun.
    pub fn appends(&self) -> usize {
        self.appends.load(Ordering::SeqCst)
    }

    /// Waits until the store has crashed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn crashed(&self) {
        let mut life = self.crashed.subscribe();
        // It fails only when the sender is gone, and this holds it.
        let _ = life.wait_for(|life| *life == Life::Crashed).await;
    }

    /// Runs a drive over this store: what it ended with, or `None` where the store crashed and the drive was dropped.
    ///
    /// Tasks that the drive has spawned live on, but none of their calls to this store is answered.
    pub async fn drive<T>(&self, drive: impl Future<Output = T>) -> Option<T> {
        let drive = pin!(drive);
        tokio::select! {
            biased;
            () = self.crashed() => None,
            // It may have ended in the very step in which another of its calls crashed; the dead do not answer.
            ended = drive => (*self.crashed.borrow() == Life::Alive).then_some(ended),
        }
    }

    fn build(inner: Arc<dyn EventStore>, point: Option<CrashPoint>) -> Arc<CrashStore> {
        let crashed = watch::Sender::new(Life::Alive);
        Arc::new(CrashStore { inner, point, appends: AtomicUsize::new(0), crashed })
    }

    async fn crash<T>(&self) -> T {
        self.crashed.send_replace(Life::Crashed);
        future::pending().await
    }

    /// Answers as the call does, and never once the store has crashed.
    async fn alive<T>(&self, call: impl Future<Output = T>) -> T {
        match self.drive(call).await {
            Some(answer) => answer,
            None => future::pending().await,
        }
    }
}

#[async_trait]
impl EventStore for CrashStore {
    async fn append(&self, append: Append) -> Result<Head, StoreError> {
        self.alive(async {
            let number = self.appends.fetch_add(1, Ordering::SeqCst);
            if self.point == Some(CrashPoint::Before(number)) {
                return self.crash().await;
            }
            let answer = self.inner.append(append).await;
            if self.point == Some(CrashPoint::After(number)) {
                return self.crash().await;
            }
            answer
        })
        .await
    }

    async fn load(&self, run: RunId, range: SeqRange) -> Result<Vec<Record>, StoreError> {
        self.alive(self.inner.load(run, range)).await
    }

    async fn head(&self, run: RunId) -> Result<Option<Head>, StoreError> {
        self.alive(self.inner.head(run)).await
    }

    async fn list_runs(&self, query: &RunQuery) -> Result<Page<RunSummary>, StoreError> {
        self.alive(self.inner.list_runs(query)).await
    }

    async fn read_log(&self, run: RunId) -> Result<Vec<EventEnvelope>, StoreError> {
        self.alive(self.inner.read_log(run)).await
    }
}

impl fmt::Debug for CrashStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrashStore")
            .field("point", &self.point)
            .field("appends", &self.appends)
            .field("life", &*self.crashed.borrow())
            .finish_non_exhaustive()
    }
}

impl CrashPoint {
    /// Every point of a run that appends this often, in the order in which they are reached.
    pub fn all(appends: usize) -> impl Iterator<Item = CrashPoint> {
        (0..appends).flat_map(|number| [CrashPoint::Before(number), CrashPoint::After(number)])
    }
}

/// As in “it crashed *after append 3*”.
impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CrashPoint::Before(number) => write!(f, "before append {number}"),
            CrashPoint::After(number) => write!(f, "after append {number}"),
        }
    }
}
