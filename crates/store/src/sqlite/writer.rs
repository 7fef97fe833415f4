//! The one thread that writes: it takes what is queued, commits it together, and answers.

use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::{
    SqliteOptions,
    commit::Committer,
    connect::{Slot, on_thread},
    wal::Wal,
};
use crate::{Append, Head, StoreError};

/// A handle to the writer's queue. The thread starts with the first append and ends after the handle is dropped and
/// the queue is empty.
pub(super) struct Writer {
    slot: Arc<Slot>,
    wal_bytes: u64,
    /// Room in the queue, in bytes.
    room: Arc<Semaphore>,
    most: u32,
    queue: Mutex<Option<mpsc::UnboundedSender<Job>>>,
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
            slot,
            wal_bytes: options.wal_bytes,
            room: Arc::new(Semaphore::new(most)),
            most: u32::try_from(most).expect("clamped to what fits"),
            queue: Mutex::new(None),
        }
    }

    /// Queues an append and waits for its answer. Once it is queued it is written, whether or not anybody waits.
    pub(super) async fn append(&self, append: Append) -> Result<Head, StoreError> {
        let bytes = OVERHEAD + append.records.iter().map(|record| record.bytes.len()).sum::<usize>();
        // A batch larger than the queue has it for itself.
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.most);
        let room = Arc::clone(&self.room).acquire_many_owned(bytes).await.map_err(StoreError::backend)?;
        let (answer, answered) = oneshot::channel();
        self.send(Job { append, answer, _room: room })?;
        answered.await.unwrap_or_else(|stopped| Err(StoreError::backend(stopped)))
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
        on_thread("relight-writer", work(Arc::clone(&self.slot), self.wal_bytes, jobs))?;
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
async fn work(slot: Arc<Slot>, wal_bytes: u64, jobs: mpsc::UnboundedReceiver<Job>) {
    let mut committer = Committer::new(slot.connector.clone());
    let mut wal = Wal::new(&slot.connector, wal_bytes);
    let mut queue = Queue { jobs, held: None, last: 0 };
    while let Some(group) = queue.next_group().await {
        let mut connection = slot.connection.lock().await;
        if connection.is_none() {
            match slot.connector.open_here().await {
                Ok(made) => *connection = Some(made),
                Err(error) => {
                    group.into_iter().for_each(|job| job.answer(Err(error.clone())));
                    continue;
                }
            }
        }
        let writing = connection.as_mut().expect("made above");
        let appends: Vec<&Append> = group.iter().map(|job| &job.append).collect();
        let answers = committer.write(writing, &appends).await;
        for (job, answer) in group.into_iter().zip(answers) {
            job.answer(answer);
        }
        wal.bound(writing).await;
    }
}

impl Job {
    fn answer(self, answer: Result<Head, StoreError>) {
        // Whoever asked may be gone; what was appended stays.
        let _ = self.answer.send(answer);
    }
}

struct Queue {
    jobs: mpsc::UnboundedReceiver<Job>,
    /// Of a run that the last group had already.
    held: Option<Job>,
    /// The size of the last group.
    last: usize,
}

impl Queue {
    /// Waits for work and takes all there is, up to the first second append of the same run.
    async fn next_group(&mut self) -> Option<Vec<Job>> {
        let first = match self.held.take() {
            Some(job) => job,
            None => self.jobs.recv().await?,
        };
        self.gather();
        let mut runs = HashSet::from([first.append.run]);
        let mut group = vec![first];
        while group.len() < MEMBERS
            && let Ok(job) = self.jobs.try_recv()
        {
            if !runs.insert(job.append.run) {
                self.held = Some(job);
                break;
            }
            group.push(job);
        }
        self.last = group.len();
        Some(group)
    }

    /// Those who were just answered together are likely to ask again at once: gives them a moment, so that they are
    /// not split in two groups that wait for each other's sync. A run alone never waits.
    fn gather(&self) {
        if self.last < 2 {
            return;
        }
        let since = Instant::now();
        while self.jobs.len() + 1 < self.last && since.elapsed() < MOMENT {
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
