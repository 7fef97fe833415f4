//! Reading: a few connections, each used for one short query at a time.

use std::{
    ops::DerefMut,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use futures::TryStreamExt;
use relight_core::{Record, RunId, RunSummary, Seq};
use sqlx::{SqliteConnection, query};
use tokio::sync::{MutexGuard, Semaphore, SemaphorePermit};

use super::{
    connect::{Connector, Slot},
    fault::{self, Fault},
    list,
    values::{self, Columns},
};
use crate::{Head, Limits, Page, RunQuery, SeqRange, StoreError};

/// The connections that read.
#[derive(Debug)]
pub(super) enum Readers {
    /// Those of a file.
    Pool(Box<Pool>),
    /// The one of a store in memory, which writes too.
    Shared(Arc<Slot>),
}

#[derive(Debug)]
pub(super) struct Pool {
    connector: Connector,
    permits: Semaphore,
    /// Made on first use, at most one for each permit.
    idle: Mutex<Vec<SqliteConnection>>,
}

impl Readers {
    pub(super) fn pool(connector: Connector, count: usize) -> Self {
        let permits = Semaphore::new(count.max(1));
        Self::Pool(Box::new(Pool { connector, permits, idle: Mutex::default() }))
    }

    pub(super) const fn sharing(slot: Arc<Slot>) -> Self {
        Self::Shared(slot)
    }

    pub(super) async fn head(&self, run: RunId) -> Result<Option<Head>, StoreError> {
        let mut reader = self.reader().await?;
        let sql = "SELECT head, link FROM runs WHERE id = ?";
        let id = run.as_uuid().as_bytes().to_vec();
        let since = Instant::now();
        let row = query(sql).bind(id).fetch_optional(reader.connection()).await;
        let row = row.map_err(|error| self.fault(&error, since))?;
        reader.done();
        let Some(row) = row else { return Ok(None) };
        let corrupt =
            |seq| move |why: String| StoreError::Corrupt { run, seq, why: format!("its head: {why}") };
        let seq = row.seq(0).map_err(corrupt(Seq::FIRST))?;
        let link = row.digest(1).map_err(corrupt(seq))?;
        Ok(Some(Head { seq, link }))
    }

    pub(super) async fn load(
        &self,
        run: RunId,
        range: SeqRange,
        limits: &Limits,
    ) -> Result<Vec<Record>, StoreError> {
        let mut reader = self.reader().await?;
        let sql = "SELECT seq, recorded_at, link, bytes FROM events
                   WHERE run = (SELECT key FROM runs WHERE id = ?) AND seq BETWEEN ? AND ? ORDER BY seq LIMIT ?";
        let since = Instant::now();
        let mut rows = query(sql)
            .bind(run.as_uuid().as_bytes().to_vec())
            .bind(values::integer(range.first))
            .bind(range.last.map_or(i64::MAX, values::integer))
            .bind(i64::try_from(limits.page_records.max(1)).unwrap_or(i64::MAX))
            .fetch(reader.connection());
        let mut next = range.first;
        let mut bytes = 0;
        let mut page = Vec::new();
        loop {
            let corrupt = |why| StoreError::Corrupt { run, seq: next, why };
            let row = match rows.try_next().await {
                Ok(Some(row)) => row,
                Ok(None) => break,
                Err(error) if Fault::of(&error) == Fault::Damaged => return Err(corrupt(error.to_string())),
                Err(error) => return Err(self.fault(&error, since)),
            };
            let record = values::record(&row).map_err(corrupt)?;
            if record.seq != next {
                return Err(corrupt(format!("it is missing; event {} is the next there is", record.seq)));
            }
            bytes += record.bytes.len();
            if bytes > limits.page_bytes && !page.is_empty() {
                break;
            }
            next = next.next();
            page.push(record);
        }
        drop(rows);
        reader.done();
        Ok(page)
    }

    pub(super) async fn list(
        &self,
        asked: &RunQuery,
        limits: &Limits,
    ) -> Result<Page<RunSummary>, StoreError> {
        let limit = asked.limit.min(limits.page_records).max(1);
        let list = list::List::new(asked, limit)?;
        let mut reader = self.reader().await?;
        let since = Instant::now();
        let rows = list.query().fetch_all(reader.connection()).await;
        let rows = rows.map_err(|error| self.fault(&error, since))?;
        reader.done();
        Ok(list.page(&rows))
    }

    async fn reader(&self) -> Result<Reader<'_>, StoreError> {
        match self {
            Self::Pool(pool) => {
                let permit = pool.permits.acquire().await.map_err(StoreError::backend)?;
                let waiting = pool.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let connection = match waiting {
                    Some(connection) => connection,
                    None => pool.connector.connect().await?,
                };
                Ok(Reader::Own {
                    connection: Some(connection),
                    idle: &pool.idle,
                    kept: false,
                    _permit: permit,
                })
            }
            Self::Shared(slot) => {
                let mut connection = slot.connection.lock().await;
                if connection.is_none() {
                    *connection = Some(slot.connector.open_here().await?);
                }
                Ok(Reader::Shared(connection))
            }
        }
    }

    fn fault(&self, error: &sqlx::Error, since: Instant) -> StoreError {
        let place = match self {
            Self::Pool(pool) => &pool.connector.place,
            Self::Shared(slot) => &slot.connector.place,
        };
        fault::map(error, place, since.elapsed())
    }
}

/// A connection for one query. One that is dropped before [`Reader::done`] may be in the middle of something, and is
/// not used again.
enum Reader<'a> {
    Own {
        connection: Option<SqliteConnection>,
        idle: &'a Mutex<Vec<SqliteConnection>>,
        kept: bool,
        _permit: SemaphorePermit<'a>,
    },
    Shared(MutexGuard<'a, Option<SqliteConnection>>),
}

impl Reader<'_> {
    fn connection(&mut self) -> &mut SqliteConnection {
        let connection = match self {
            Self::Own { connection, .. } => connection,
            Self::Shared(slot) => slot.deref_mut(),
        };
        connection.as_mut().expect("a reader has its connection until it is dropped")
    }

    fn done(mut self) {
        if let Self::Own { kept, .. } = &mut self {
            *kept = true;
        }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        if let Self::Own { connection, idle, kept: true, .. } = self {
            idle.lock().unwrap_or_else(PoisonError::into_inner).extend(connection.take());
        }
    }
}
