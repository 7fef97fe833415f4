//! How values are written to columns and read back.

use std::collections::BTreeMap;

use jiff::Timestamp;
use relight_core::{Digest, Record, RunId, Seq};
use sqlx::{
    Decode, Row, Sqlite, TypeInfo, ValueRef,
    sqlite::{SqliteArguments, SqliteRow},
};
use uuid::Uuid;

/// Arguments in the order of the question marks of a statement.
#[derive(Debug, Default)]
pub(super) struct Arguments(SqliteArguments);

impl Arguments {
    pub(super) fn with_room(count: usize) -> Self {
        let mut arguments = Self::default();
        sqlx::Arguments::reserve(&mut arguments.0, count, 0);
        arguments
    }

    pub(super) fn add<'t>(&mut self, value: impl sqlx::Encode<'t, Sqlite> + sqlx::Type<Sqlite>) {
        sqlx::Arguments::add(&mut self.0, value).expect("numbers, texts and bytes are encoded as they are");
    }

    pub(super) fn add_run(&mut self, run: RunId) {
        self.add(run.as_uuid().as_bytes().to_vec());
    }

    pub(super) fn add_seq(&mut self, seq: Seq) {
        self.add(integer(seq));
    }

    /// Exactly: nanoseconds where they fit, else text.
    pub(super) fn add_time(&mut self, time: Timestamp) {
        match i64::try_from(time.as_nanosecond()) {
            Ok(nanos) => self.add(nanos),
            Err(_) => self.add(time.to_string()),
        }
    }

    pub(super) fn add_nulls(&mut self, count: usize) {
        for _ in 0..count {
            self.add(None::<i64>);
        }
    }

    pub(super) fn into_inner(self) -> SqliteArguments {
        self.0
    }
}

/// Limits keep positions far below what an integer holds.
pub(super) fn integer(seq: Seq) -> i64 {
    i64::try_from(seq.number()).unwrap_or(i64::MAX)
}

/// For sorting only: what does not fit counts as the nearest that does.
pub(super) fn nanoseconds(time: Timestamp) -> i64 {
    let nanos = time.as_nanosecond().clamp(i64::MIN.into(), i64::MAX.into());
    i64::try_from(nanos).expect("clamped to what fits")
}

pub(super) fn labels(labels: &BTreeMap<String, String>) -> String {
    serde_json::to_string(labels).expect("texts by texts are JSON")
}

/// Reads a record from the columns `seq, recorded_at, link, bytes`, or says in one line why that cannot be.
pub(super) fn record(row: &SqliteRow) -> Result<Record, String> {
    Ok(Record {
        seq: row.seq(0)?,
        recorded_at: row.time(1).map_err(|why| format!("its time is unreadable: {why}"))?,
        link: row.digest(2)?,
        bytes: row.bytes(3)?,
    })
}

/// What a column holds, or one line on why that cannot be.
pub(super) trait Columns {
    fn seq(&self, index: usize) -> Result<Seq, String>;
    fn digest(&self, index: usize) -> Result<Digest, String>;
    fn time(&self, index: usize) -> Result<Timestamp, String>;
    fn bytes(&self, index: usize) -> Result<Vec<u8>, String>;
    fn run(&self, index: usize) -> Result<RunId, String>;
    fn text(&self, index: usize) -> Result<&str, String>;
    fn number(&self, index: usize) -> Result<i64, String>;
}

impl Columns for SqliteRow {
    fn seq(&self, index: usize) -> Result<Seq, String> {
        let number = self.number(index)?;
        let seq = u64::try_from(number).ok().and_then(Seq::new);
        seq.ok_or_else(|| format!("{number} is no position"))
    }

    fn digest(&self, index: usize) -> Result<Digest, String> {
        let bytes: &[u8] = self.try_get(index).map_err(|error| error.to_string())?;
        let bytes = bytes.try_into().map_err(|_| format!("a link has 32 bytes, not {}", bytes.len()))?;
        Ok(Digest::from_bytes(bytes))
    }

    fn time(&self, index: usize) -> Result<Timestamp, String> {
        let value = self.try_get_raw(index).map_err(|error| error.to_string())?;
        if value.type_info().name() == "INTEGER" {
            let nanos = <i64 as Decode<'_, Sqlite>>::decode(value).map_err(|error| error.to_string())?;
            return Timestamp::from_nanosecond(nanos.into()).map_err(|error| error.to_string());
        }
        let text = <&str as Decode<'_, Sqlite>>::decode(value).map_err(|error| error.to_string())?;
        text.parse().map_err(|error: jiff::Error| error.to_string())
    }

    fn bytes(&self, index: usize) -> Result<Vec<u8>, String> {
        self.try_get(index).map_err(|error| error.to_string())
    }

    fn run(&self, index: usize) -> Result<RunId, String> {
        let bytes: &[u8] = self.try_get(index).map_err(|error| error.to_string())?;
        let uuid = Uuid::from_slice(bytes)
            .map_err(|_| format!("its id has {} bytes, not the 16 of a run id", bytes.len()))?;
        Ok(RunId::from_uuid(uuid))
    }

    fn text(&self, index: usize) -> Result<&str, String> {
        self.try_get(index).map_err(|error| error.to_string())
    }

    fn number(&self, index: usize) -> Result<i64, String> {
        self.try_get(index).map_err(|error| error.to_string())
    }
}
