//! One transaction for many appends, and what became of each of them.

use std::{collections::HashMap, time::Instant};

use futures::TryStreamExt;
use relight_core::{RunId, Seq};
use sqlx::{AssertSqlSafe, Row as _, SqliteConnection, query, query_with, raw_sql};

use super::{
    connect::{Connector, PAUSE},
    fault::{self, Fault},
    rows::{self, Row},
    values::{self, Arguments, Columns},
};
use crate::{Append, Head, StoreError};

/// Writes groups of appends, each group in one transaction.
#[derive(Debug)]
pub(super) struct Committer {
    connector: Connector,
}

impl Committer {
    pub(super) const fn new(connector: Connector) -> Self {
        Self { connector }
    }

    /// Writes a group, at most one append a run, and answers each, in order.
    ///
    /// The group is written as a whole, since most often all is well. Where it cannot be, those that do not follow
    /// their head are told so, and the others are written without them; where that is not it, each is written alone,
    /// so that only those at fault fail.
    pub(super) async fn write(
        &self,
        connection: &mut SqliteConnection,
        group: &[&Append],
    ) -> Vec<Result<Head, StoreError>> {
        let since = Instant::now();
        let Err(error) = self.transaction(connection, group).await else {
            return group.iter().map(|append| Ok(append.head())).collect();
        };
        match Fault::of(&error) {
            Fault::Constraint => match self.heads(connection, group).await {
                Ok(heads) => self.write_those_that_follow(connection, group, &heads, &error, since).await,
                Err(error) => group.iter().map(|append| Err(self.fault(&error, append, since))).collect(),
            },
            Fault::Busy => group.iter().map(|append| Err(self.fault(&error, append, since))).collect(),
            _ => self.write_each(connection, group, &error, since).await,
        }
    }

    async fn write_those_that_follow(
        &self,
        connection: &mut SqliteConnection,
        group: &[&Append],
        heads: &HashMap<RunId, Seq>,
        error: &sqlx::Error,
        since: Instant,
    ) -> Vec<Result<Head, StoreError>> {
        let follows = |append: &Append| append.expect.is_met_by(heads.get(&append.run).copied());
        let following: Vec<&Append> = group.iter().copied().filter(|append| follows(append)).collect();
        if following.len() == group.len() {
            return self.write_each(connection, group, error, since).await;
        }
        let mut written = Box::pin(self.write(connection, &following)).await.into_iter();
        let mut answers = Vec::with_capacity(group.len());
        for append in group {
            let answer = match heads.get(&append.run).copied() {
                _ if follows(append) => written.next().expect("each append is answered"),
                actual => self.lost(connection, append, actual).await,
            };
            answers.push(answer);
        }
        answers
    }

    async fn write_each(
        &self,
        connection: &mut SqliteConnection,
        group: &[&Append],
        error: &sqlx::Error,
        since: Instant,
    ) -> Vec<Result<Head, StoreError>> {
        if let [append] = group {
            return vec![Err(self.fault(error, append, since))];
        }
        let mut answers = Vec::with_capacity(group.len());
        for append in group {
            answers.extend(Box::pin(self.write(connection, &[append])).await);
        }
        answers
    }

    /// Writes all of a group, or nothing.
    async fn transaction(
        &self,
        connection: &mut SqliteConnection,
        group: &[&Append],
    ) -> Result<(), sqlx::Error> {
        let since = Instant::now();
        loop {
            let Err(error) = self.attempt(connection, group).await else { return Ok(()) };
            // SQLite has waited already, except for the few locks that it gives up on at once.
            if Fault::of(&error) != Fault::Busy || since.elapsed() >= self.connector.busy_timeout {
                return Err(error);
            }
            // This is the writer's own thread.
            std::thread::sleep(PAUSE);
        }
    }

    async fn attempt(&self, connection: &mut SqliteConnection, group: &[&Append]) -> Result<(), sqlx::Error> {
        let rows: Vec<Row<'_>> = group.iter().flat_map(|append| Row::all(append)).collect();
        if rows.len() <= rows::MOST {
            // A statement alone is a transaction, and takes the lock for writing before it reads, as BEGIN IMMEDIATE
            // does.
            return rows::insert(connection, &rows).await;
        }
        raw_sql("BEGIN IMMEDIATE").execute(&mut *connection).await?;
        let mut written = Ok(());
        for rows in rows.chunks(rows::MOST) {
            written = rows::insert(connection, rows).await;
            if written.is_err() {
                break;
            }
        }
        if written.is_ok() {
            written = raw_sql("COMMIT").execute(&mut *connection).await.map(drop);
        }
        if written.is_err() {
            // Many errors end the transaction by themselves; then there is none to roll back, which is no harm.
            let _ = raw_sql("ROLLBACK").execute(&mut *connection).await;
        }
        written
    }

    /// Where the runs of a group stand; those that are not there are left out.
    async fn heads(
        &self,
        connection: &mut SqliteConnection,
        group: &[&Append],
    ) -> Result<HashMap<RunId, Seq>, sqlx::Error> {
        let mut arguments = Arguments::default();
        for append in group {
            arguments.add_run(append.run);
        }
        let marks = vec!["?"; group.len()].join(",");
        let sql = AssertSqlSafe(format!("SELECT id, head FROM runs WHERE id IN ({marks})"));
        let rows = query_with(sql, arguments.into_inner()).persistent(false).fetch_all(connection).await?;
        Ok(rows.iter().filter_map(|row| Some((row.run(0).ok()?, row.seq(1).ok()?))).collect())
    }

    /// What a batch is told that does not follow the head.
    async fn lost(
        &self,
        connection: &mut SqliteConnection,
        append: &Append,
        actual: Option<Seq>,
    ) -> Result<Head, StoreError> {
        let since = Instant::now();
        match is_held(connection, append).await {
            Ok(true) => Ok(append.head()),
            Ok(false) => Err(StoreError::Conflict { run: append.run, expected: append.expect, actual }),
            Err(error) => Err(self.fault(&error, append, since)),
        }
    }

    fn fault(&self, error: &sqlx::Error, append: &Append, since: Instant) -> StoreError {
        match Fault::of(error) {
            Fault::Constraint => StoreError::Corrupt {
                run: append.run,
                seq: append.expect.next(),
                why: "a record stands beyond the head".to_owned(),
            },
            _ => fault::map(error, &self.connector.place, since.elapsed()),
        }
    }
}

/// Whether this very batch is part of the log: it begins where it should, is the same byte for byte, and ends there.
async fn is_held(connection: &mut SqliteConnection, append: &Append) -> Result<bool, sqlx::Error> {
    let run = append.run.as_uuid().as_bytes().to_vec();
    let first = append.expect.next();
    let sql = "SELECT batch FROM events WHERE run = (SELECT key FROM runs WHERE id = ?) AND seq = ?";
    let row =
        query(sql).bind(run.clone()).bind(values::integer(first)).fetch_optional(&mut *connection).await?;
    let batch: Option<Vec<u8>> = row.map(|row| row.try_get(0)).transpose()?.flatten();
    if batch.as_deref() != Some(append.batch.as_bytes()) {
        return Ok(false);
    }
    let sql = "SELECT seq, recorded_at, link, bytes, batch FROM events
               WHERE run = (SELECT key FROM runs WHERE id = ?) AND seq BETWEEN ? AND ? ORDER BY seq";
    let last = values::integer(append.head().seq);
    let mut rows =
        query(sql).bind(run).bind(values::integer(first)).bind(last.saturating_add(1)).fetch(connection);
    let mut records = append.records.iter();
    while let Some(row) = rows.try_next().await? {
        match records.next() {
            Some(record) if values::record(&row).is_ok_and(|held| held == *record) => {}
            Some(_) => return Ok(false),
            // The next batch, or the rest of a longer one?
            None => return Ok(row.try_get::<Option<&[u8]>, _>(4)?.is_some()),
        }
    }
    Ok(records.next().is_none())
}
