//! The one statement that appends: an insert of many rows into the view `appends`, whose trigger does the rest.
//!
//! One statement for all that is queued costs one round trip to SQLite's thread and one answer from there; a
//! statement for each row was seen to spend more time on waking threads than on writing.

use std::sync::{Arc, OnceLock};

use relight_core::Record;
use sqlx::{AssertSqlSafe, SqliteConnection, query_with};

use super::values::{self, Arguments};
use crate::{Append, Expect};

/// One event to append. The first of a batch carries what changes in its run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    append: &'a Append,
    record: &'a Record,
}

impl<'a> Row<'a> {
    /// The rows of a batch, in order.
    pub(super) fn all(append: &'a Append) -> impl Iterator<Item = Self> {
        append.records.iter().map(move |record| Self { append, record })
    }

    fn is_first(&self) -> bool {
        self.record.seq == self.append.expect.next()
    }

    fn add_to(&self, arguments: &mut Arguments) {
        let (append, record) = (self.append, self.record);
        arguments.add_run(append.run);
        arguments.add_seq(record.seq);
        arguments.add_time(record.recorded_at);
        arguments.add(record.link.as_bytes().to_vec());
        arguments.add(record.bytes.clone());
        if !self.is_first() {
            arguments.add_nulls(COLUMNS - EVENT_COLUMNS);
            return;
        }
        let (head, summary) = (append.head(), &append.summary);
        arguments.add(append.batch.as_bytes().to_vec());
        arguments.add(match append.expect {
            Expect::NewRun => 0,
            Expect::Head(seq) => values::integer(seq),
        });
        arguments.add_seq(head.seq);
        arguments.add(head.link.as_bytes().to_vec());
        arguments.add(values::nanoseconds(summary.started_at));
        arguments.add(summary.status.kind().as_str());
        arguments.add(summary.agent_hash.clone());
        arguments.add(summary.wake_at.map(values::nanoseconds));
        arguments.add(values::labels(&summary.labels));
        arguments.add(serde_json::to_string(summary).expect("a summary is JSON"));
    }
}

/// Appends the rows, or none of them.
///
/// # Errors
///
/// A constraint where a row does not follow the head of its run.
///
/// # Cancel safety
///
/// Once it was sent to SQLite's thread the statement runs to its end, whether or not anybody waits for it.
pub(super) async fn insert(connection: &mut SqliteConnection, rows: &[Row<'_>]) -> Result<(), sqlx::Error> {
    let count = rows.len().next_power_of_two();
    let mut arguments = Arguments::with_room(count * COLUMNS);
    for row in rows {
        row.add_to(&mut arguments);
    }
    arguments.add_nulls((count - rows.len()) * COLUMNS);
    query_with(AssertSqlSafe(text(count)), arguments.into_inner()).execute(connection).await?;
    Ok(())
}

/// The statement for a power of two of rows. A short list is filled up with rows that do nothing, so that there are few
/// texts, and SQLite keeps them all prepared.
fn text(rows: usize) -> Arc<str> {
    static TEXTS: [OnceLock<Arc<str>>; MOST.ilog2() as usize + 1] =
        [const { OnceLock::new() }; MOST.ilog2() as usize + 1];
    let text = TEXTS[rows.ilog2() as usize].get_or_init(|| {
        let marks = format!("({})", vec!["?"; COLUMNS].join(","));
        format!("INSERT INTO appends VALUES {}", vec![marks; rows].join(",")).into()
    });
    Arc::clone(text)
}

/// The most rows that one statement takes.
pub(super) const MOST: usize = 128;

/// The columns of the view `appends`: those of an event, then those of its run.
const COLUMNS: usize = 15;
const EVENT_COLUMNS: usize = 5;
