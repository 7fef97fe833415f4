//! One transaction for many appends, and what became of each of them.

use std::time::Instant;

use futures::TryStreamExt;
use sqlx::{Row, SqliteConnection, query, raw_sql};

use super::{
    connect::Connector,
    fault::{self, Fault},
    row::{self, Columns},
    script::{Done, Script, Texts, Written},
};
use crate::{Append, Expect, Head, StoreError};

/// Writes groups of appends, each group in one transaction.
#[derive(Debug)]
pub(super) struct Committer {
    connector: Connector,
    texts: Texts,
    /// Names the transaction in which a run was last written; see the schema.
    turn: i64,
}

impl Committer {
    pub(super) fn new(connector: Connector) -> Self {
        let mut start = [0; 8];
        // A start that no other process has; what follows only counts up.
        getrandom::fill(&mut start).expect("the operating system gives entropy");
        Self { connector, texts: Texts::default(), turn: i64::from_be_bytes(start) }
    }

    /// Writes a group, at most one append a run, and answers each, in order.
    ///
    /// What stops the whole transaction is tried again one by one, so that it is only the answer of those at fault.
    pub(super) async fn write(
        &mut self,
        connection: &mut SqliteConnection,
        group: &[&Append],
    ) -> Vec<Result<Head, StoreError>> {
        let since = Instant::now();
        let error = match self.transaction(connection, group).await {
            Ok(won) => {
                let mut answers = Vec::with_capacity(group.len());
                for (append, won) in group.iter().zip(won) {
                    let answer = if won { Ok(append.head()) } else { self.lost(connection, append).await };
                    answers.push(answer);
                }
                return answers;
            }
            Err(error) => error,
        };
        if group.len() == 1 || Fault::of(&error) == Fault::Busy {
            return group.iter().map(|append| Err(self.fault(&error, append, since))).collect();
        }
        let mut answers = Vec::with_capacity(group.len());
        for append in group {
            answers.extend(Box::pin(self.write(connection, &[append])).await);
        }
        answers
    }

    /// Writes a group, or nothing: which of its members met the head they expected?
    async fn transaction(
        &mut self,
        connection: &mut SqliteConnection,
        group: &[&Append],
    ) -> Result<Vec<bool>, sqlx::Error> {
        let since = Instant::now();
        loop {
            self.turn = self.turn.wrapping_add(1);
            let error = match self.attempt(connection, group).await {
                Ok(won) => return Ok(won),
                Err(error) => error,
            };
            // Most errors end the transaction by themselves; then there is none to roll back, which is no harm.
            let _ = raw_sql("ROLLBACK").execute(&mut *connection).await;
            // SQLite has waited already, except for the few locks that it gives up on at once.
            if Fault::of(&error) != Fault::Busy || since.elapsed() >= self.connector.busy_timeout {
                return Err(error);
            }
        }
    }

    async fn attempt(
        &mut self,
        connection: &mut SqliteConnection,
        group: &[&Append],
    ) -> Result<Vec<bool>, sqlx::Error> {
        let (created, moved): (Vec<&Append>, Vec<&Append>) =
            group.iter().partition(|append| append.expect == Expect::NewRun);
        let written: Vec<Written<'_>> = group.iter().flat_map(|append| Written::all(append)).collect();
        let mut done = Done::default();
        // New runs go ahead alone, since scripts of two lengths are few enough to stay prepared, and of three are not.
        if !created.is_empty() {
            let script = Script { begin: true, created: &created, ..Script::default() };
            done.created = script.run(connection, &mut self.texts, self.turn).await?.created;
        }
        let chunks = written.chunks(ROWS).count();
        for (index, written) in written.chunks(ROWS).enumerate() {
            let first = index == 0;
            let script = Script {
                begin: first && created.is_empty(),
                moved: if first { &moved } else { &[] },
                written,
                commit: index + 1 == chunks,
                ..Script::default()
            };
            let ran = script.run(connection, &mut self.texts, self.turn).await?;
            if first {
                done.moved = ran.moved;
            }
        }
        let (mut created, mut moved) = (done.created.into_iter(), done.moved.into_iter());
        let won = group.iter().map(|append| match append.expect {
            Expect::NewRun => created.next(),
            Expect::Head(_) => moved.next(),
        });
        Ok(won.map(|won| won.unwrap_or(false)).collect())
    }

    /// What a batch is told that did not meet the head it expected.
    async fn lost(&self, connection: &mut SqliteConnection, append: &Append) -> Result<Head, StoreError> {
        let since = Instant::now();
        let failed = |error: sqlx::Error| fault::map(&error, &self.connector.place, since.elapsed());
        if is_held(connection, append).await.map_err(failed)? {
            return Ok(append.head());
        }
        let run = append.run.as_uuid().as_bytes().to_vec();
        let sql = "SELECT head FROM runs WHERE id = ?";
        let row = query(sql).bind(run).fetch_optional(&mut *connection).await.map_err(failed)?;
        let corrupt = |why| StoreError::Corrupt { run: append.run, seq: append.expect.next(), why };
        let actual = row.map(|row| row.seq(0)).transpose().map_err(corrupt)?;
        Err(StoreError::Conflict { run: append.run, expected: append.expect, actual })
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
    let row = query(sql).bind(run.clone()).bind(row::integer(first)).fetch_optional(&mut *connection).await?;
    let batch: Option<Vec<u8>> = row.map(|row| row.try_get(0)).transpose()?.flatten();
    if batch.as_deref() != Some(append.batch.as_bytes()) {
        return Ok(false);
    }
    let sql = "SELECT seq, recorded_at, link, bytes, batch FROM events
               WHERE run = (SELECT key FROM runs WHERE id = ?) AND seq BETWEEN ? AND ? ORDER BY seq";
    let last = row::integer(append.head().seq);
    let mut rows =
        query(sql).bind(run).bind(row::integer(first)).bind(last.saturating_add(1)).fetch(connection);
    let mut records = append.records.iter();
    while let Some(row) = rows.try_next().await? {
        match records.next() {
            Some(record) if row::record(&row).is_ok_and(|held| held == *record) => {}
            Some(_) => return Ok(false),
            // The next batch, or the rest of a longer one?
            None => return Ok(row.try_get::<Option<&[u8]>, _>(4)?.is_some()),
        }
    }
    Ok(records.next().is_none())
}

/// How many events one script inserts.
pub(super) const ROWS: usize = 128;
