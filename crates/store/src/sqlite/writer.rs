//! The one thread that writes: it takes what is queued, commits it together, and answers.

use std::{
    collections::HashSet,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::{
    SqliteOptions,
    commit::Committer,
    connect::{Slot, on_thread},
    fault::{self, Fault},
    rows::{self, Row},
    wal::Wal,
};
use crate::{Append, Head, StoreError};

/// A handle to the writer's queue. The thread starts when an append first has to wait for another, and ends after the
/// handle is dropped and the queue is empty.
pub(super) struct Writer {
    slot: Arc<Slot>,
    wal: Wal,
    /// Room in the queue, in bytes.
    room: Arc<Semaphore>,
    most: u32,
    queue: Mutex<Option<mpsc::UnboundedSender<Job>>>,
    /// Whether the thread has work, or has just had some.
    works: Arc<AtomicBool>,
}

struct Job {
    append: Append,
    answer: oneshot::Sender<Result<Head, StoreError>>,
    /// Given back when the job is answered.
    _room: OwnedSemaphorePermit,
}

impl Writer {
    pub(super) fn new(slot: Arc<Slot>, options: &SqliteOptions) -> Self {
        let most = options.queue_bytes.clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
        Self {
            wal: Wal::new(&slot.connector, options.wal_bytes),
            slot,
            room: Arc::new(Semaphore::new(most)),
            most: u32::try_from(most).expect("clamped to what fits"),
            queue: Mutex::new(None),
            works: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Appends, alone or with others. Once it has begun it is written, whether or not anybody waits.
    pub(super) async fn append(&self, append: Append) -> Result<Head, StoreError> {
        if let Some(answer) = self.append_alone(&append).await {
            return answer;
        }
        let bytes = OVERHEAD + append.records.iter().map(|record| record.bytes.len()).sum::<usize>();
        // A batch larger than the queue has it for itself.
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.most);
        let room = Arc::clone(&self.room).acquire_many_owned(bytes).await.map_err(StoreError::backend)?;
        let (answer, answered) = oneshot::channel();
        self.send(Job { append, answer, _room: room })?;
        answered.await.unwrap_or_else(|stopped| Err(StoreError::backend(stopped)))
    }

    /// Where nobody else writes, goes to SQLite's thread directly: waking the writer in between would cost a run that
    /// is alone a fifth of its speed. `None` where that did not settle it; sending it again by the queue does.
    ///
    /// One statement is one transaction, which SQLite's thread ends whether or not this future is dropped.
    async fn append_alone(&self, append: &Append) -> Option<Result<Head, StoreError>> {
        let is_quiet =
            !self.works.load(Ordering::Acquire) && self.room.available_permits() == self.most as usize;
        if !is_quiet || append.records.len() > rows::MOST || self.wal.is_large() {
            return None;
        }
        let mut connection = self.slot.connection.try_lock().ok()?;
        let rows: Vec<Row<'_>> = Row::all(append).collect();
        let since = Instant::now();
        let connector = &self.slot.connector;
        match rows::insert(connection.as_mut()?, &rows).await {
            Ok(()) => Some(Ok(append.head())),
            Err(error) if Fault::of(&error) == Fault::Busy && since.elapsed() >= connector.busy_timeout => {
                Some(Err(fault::map(&error, &connector.place, since.elapsed())))
            }
            Err(_) => None,
        }
    }

    fn send(&self, job: Job) -> Result<(), StoreError> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let job = match &*queue {
            Some(sender) => match sender.send(job) {
                Ok(()) => return Ok(()),
                // The thread is gone, which only a defect can cause; a new one goes on.
                Err(mpsc::error::SendError(job)) => job,
            },
            None => job,
        };
        let (sender, jobs) = mpsc::unbounded_channel();
        on_thread(
            "relight-writer",
            work(Arc::clone(&self.slot), self.wal.clone(), jobs, Arc::clone(&self.works)),
        )?;
        let sent = sender.send(job).map_err(|_| StoreError::backend(WriterStopped));
        *queue = Some(sender);
        sent
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the thread that writes has stopped")]
struct WriterStopped;

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("room", &self.room.available_permits()).finish_non_exhaustive()
    }
}

/// The thread's whole life.
async fn work(slot: Arc<Slot>, mut wal: Wal, jobs: mpsc::UnboundedReceiver<Job>, works: Arc<AtomicBool>) {
    let committer = Committer::new(slot.connector.clone());
    let mut queue = Queue { jobs, held: None, last: 0 };
    while queue.wait().await {
        works.store(true, Ordering::Release);
        while let Some(group) = queue.next_group() {
            write(&slot, &committer, &mut wal, group).await;
        }
        works.store(false, Ordering::Release);
    }
}

async fn write(slot: &Slot, committer: &Committer, wal: &mut Wal, group: Vec<Job>) {
    let mut connection = slot.connection.lock().await;
    let connection = match &mut *connection {
        Some(connection) => connection,
        empty => match slot.connector.open_here().await {
            Ok(made) => empty.insert(made),
            Err(error) => {
                group.into_iter().for_each(|job| job.answer(Err(error.clone())));
                return;
            }
        },
    };
    let appends: Vec<&Append> = group.iter().map(|job| &job.append).collect();
    let answers = committer.write(connection, &appends).await;
    for (job, answer) in group.into_iter().zip(answers) {
        job.answer(answer);
    }
    wal.bound(connection).await;
}

impl Job {
    fn answer(self, answer: Result<Head, StoreError>) {
        // Whoever asked may be gone; what was appended stays.
        let _ = self.answer.send(answer);
    }
}

struct Queue {
    jobs: mpsc::UnboundedReceiver<Job>,
    /// Taken from the channel, but in no group yet.
    held: Option<Job>,
    /// The size of the last group.
    last: usize,
}

impl Queue {
    /// Waits until there is work; `false` after the last of it.
    async fn wait(&mut self) -> bool {
        if self.held.is_none() {
            self.held = self.jobs.recv().await;
        }
        self.held.is_some()
    }

    /// Takes all there is, up to the first second append of the same run.
    fn next_group(&mut self) -> Option<Vec<Job>> {
        self.gather();
        let mut runs = HashSet::new();
        let mut group = Vec::new();
        while group.len() < MEMBERS
            && let Some(job) = self.held.take().or_else(|| self.jobs.try_recv().ok())
        {
            if !runs.insert(job.append.run) {
                self.held = Some(job);
                break;
            }
            group.push(job);
        }
        self.last = group.len();
        (!group.is_empty()).then_some(group)
    }

    /// Those who were just answered together are likely to ask again at once: gives them a moment, so that they are
    /// not split in two groups that wait for each other's sync. A run alone never waits.
    fn gather(&self) {
        if self.last < 2 {
            return;
        }
        let since = Instant::now();
        while self.jobs.len() < self.last && since.elapsed() < MOMENT {
            std::thread::yield_now();
        }
    }
}

/// What an append takes in the queue beside the bytes of its events.
const OVERHEAD: usize = 1024;

/// The most appends in one transaction.
const MEMBERS: usize = 64;

/// A fraction of what a sync takes.
const MOMENT: Duration = Duration::from_micros(100);
