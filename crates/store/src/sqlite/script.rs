//! The SQL of one transaction: many statements in one text, so that they cost one round trip to SQLite's thread.

use std::{collections::HashMap, sync::Arc};

use futures::TryStreamExt;
use relight_core::Record;
use sqlx::{AssertSqlSafe, Either, Executor, SqliteConnection, query_with};

use super::row::{self, Arguments};
use crate::{Append, BatchId};

/// How often each statement stands in a script. A short list is filled up to a power of two with statements that do
/// nothing, so that few texts are needed and SQLite keeps them all prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    begin: bool,
    created: usize,
    moved: usize,
    written: usize,
    commit: bool,
}

/// Texts of the shapes that were used so far.
#[derive(Debug, Default)]
pub(super) struct Texts(HashMap<Shape, Arc<str>>);

impl Texts {
    fn get(&mut self, shape: Shape) -> Arc<str> {
        Arc::clone(self.0.entry(shape).or_insert_with(|| shape.text().into()))
    }
}

/// A part of a transaction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Script<'a> {
    /// Whether the transaction begins here.
    pub(super) begin: bool,
    /// Runs to make.
    pub(super) created: &'a [&'a Append],
    /// Runs whose head to move on.
    pub(super) moved: &'a [&'a Append],
    /// Events to insert, where their run was made or moved on in this turn.
    pub(super) written: &'a [Written<'a>],
    /// Whether the transaction ends here.
    pub(super) commit: bool,
}

/// One event to insert.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written<'a> {
    pub(super) append: &'a Append,
    pub(super) record: &'a Record,
}

impl<'a> Written<'a> {
    pub(super) fn all(append: &'a Append) -> impl Iterator<Item = Self> {
        append.records.iter().map(move |record| Self { append, record })
    }

    /// Noted with the first event of each batch.
    fn batch(&self) -> Option<BatchId> {
        (self.record.seq == self.append.expect.next()).then_some(self.append.batch)
    }
}

/// How many runs were made, moved on: one flag for each that was given.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) created: Vec<bool>,
    pub(super) moved: Vec<bool>,
}

impl Script<'_> {
    /// Runs it in one round trip.
    pub(super) async fn run(
        &self,
        connection: &mut SqliteConnection,
        texts: &mut Texts,
        turn: i64,
    ) -> Result<Done, sqlx::Error> {
        let shape = Shape {
            begin: self.begin,
            created: padded(self.created.len()),
            moved: padded(self.moved.len()),
            written: padded(self.written.len()),
            commit: self.commit,
        };
        let text = AssertSqlSafe(texts.get(shape));
        let arguments = self.arguments(shape, turn).into_inner();
        let mut changes = Vec::with_capacity(shape.statements());
        {
            let mut results = connection.fetch_many(query_with(text, arguments));
            while let Some(result) = results.try_next().await? {
                if let Either::Left(done) = result {
                    changes.push(done.rows_affected() > 0);
                }
            }
        }
        let mut changes = changes.into_iter().skip(usize::from(shape.begin));
        let created = changes.by_ref().take(shape.created).take(self.created.len()).collect();
        let mut changes = changes.skip(shape.created - self.created.len());
        let moved = changes.by_ref().take(self.moved.len()).collect();
        Ok(Done { created, moved })
    }

    fn arguments(&self, shape: Shape, turn: i64) -> Arguments {
        let mut arguments = Arguments::default();
        for append in self.created {
            arguments.add_run(append.run);
            arguments.add(row::nanoseconds(append.summary.started_at));
            add_state(&mut arguments, append, turn);
            arguments.add(1_i64);
        }
        arguments.add_nulls((shape.created - self.created.len()) * CREATE_ARGUMENTS);
        for append in self.moved {
            add_state(&mut arguments, append, turn);
            arguments.add_run(append.run);
            arguments.add(row::integer(append.expect.next()) - 1);
        }
        arguments.add_nulls((shape.moved - self.moved.len()) * MOVE_ARGUMENTS);
        for written in self.written {
            arguments.add_seq(written.record.seq);
            arguments.add_time(written.record.recorded_at);
            arguments.add(written.batch().map(|batch| batch.as_bytes().to_vec()));
            arguments.add(written.record.link.as_bytes().to_vec());
            arguments.add(written.record.bytes.clone());
            arguments.add_run(written.append.run);
            arguments.add(turn);
        }
        arguments.add_nulls((shape.written - self.written.len()) * WRITE_ARGUMENTS);
        arguments
    }
}

fn add_state(arguments: &mut Arguments, append: &Append, turn: i64) {
    let head = append.head();
    let summary = &append.summary;
    arguments.add_seq(head.seq);
    arguments.add(head.link.as_bytes().to_vec());
    arguments.add(turn);
    arguments.add(summary.status.kind().as_str());
    arguments.add(summary.agent_hash.clone());
    arguments.add(summary.wake_at.map(row::nanoseconds));
    arguments.add(row::labels(&summary.labels));
    arguments.add(serde_json::to_string(summary).expect("a summary is JSON"));
}

impl Shape {
    const fn statements(self) -> usize {
        self.begin as usize + self.created + self.moved + self.written + self.commit as usize
    }

    fn text(self) -> String {
        let mut text = String::new();
        text.push_str(if self.begin { "BEGIN IMMEDIATE;" } else { "" });
        text.push_str(&CREATE.repeat(self.created));
        text.push_str(&MOVE.repeat(self.moved));
        text.push_str(&WRITE.repeat(self.written));
        text.push_str(if self.commit { "COMMIT;" } else { "" });
        text
    }
}

const fn padded(count: usize) -> usize {
    if count == 0 { 0 } else { count.next_power_of_two() }
}

/// The last argument is null where the statement only fills up a list.
const CREATE: &str = "\
INSERT INTO runs (id, started_at, head, link, turn, status, agent_hash, wake_at, labels, summary) \
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE ? IS NOT NULL ON CONFLICT (id) DO NOTHING;";
const CREATE_ARGUMENTS: usize = 11;

const MOVE: &str = "\
UPDATE runs SET head = ?, link = ?, turn = ?, status = ?, agent_hash = ?, wake_at = ?, labels = ?, summary = ? \
WHERE id = ? AND head = ?;";
const MOVE_ARGUMENTS: usize = 10;

const WRITE: &str = "\
INSERT INTO events (run, seq, recorded_at, batch, link, bytes) \
SELECT key, ?, ?, ?, ?, ? FROM runs WHERE id = ? AND turn = ?;";
const WRITE_ARGUMENTS: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_statement_has_as_many_question_marks_as_it_is_given_arguments() {
        for (statement, arguments) in
            [(CREATE, CREATE_ARGUMENTS), (MOVE, MOVE_ARGUMENTS), (WRITE, WRITE_ARGUMENTS)]
        {
            assert_eq!(statement.matches('?').count(), arguments, "{statement}");
        }
    }

    #[test]
    fn lists_are_filled_up_to_few_lengths() {
        assert_eq!([0, 1, 2, 3, 5, 64].map(padded), [0, 1, 2, 4, 8, 64]);
    }
}
