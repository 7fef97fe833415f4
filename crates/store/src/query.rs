//! What is asked of a store: parts of a log, and pages of the list of runs.

use std::{collections::BTreeMap, fmt, fmt::Write};

use relight_core::{RunSummary, Seq, StatusKind};

use crate::StoreError;

/// A stretch of a log, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeqRange {
    /// The first position.
    pub first: Seq,
    /// The last position, where the range has an end.
    pub last: Option<Seq>,
}

impl SeqRange {
    /// The whole log.
    pub const ALL: Self = Self { first: Seq::FIRST, last: None };

    /// All from `first` on.
    pub const fn starting_at(first: Seq) -> Self {
        Self { first, last: None }
    }

    /// From `first` to `last`, both included; empty where `last` stands before `first`.
    pub const fn between(first: Seq, last: Seq) -> Self {
        Self { first, last: Some(last) }
    }

    /// Whether `seq` lies in the range.
    pub fn contains(&self, seq: Seq) -> bool {
        self.first <= seq && self.last.is_none_or(|last| seq <= last)
    }
}

/// Which runs to list, and how many.
///
/// # Examples
///
/// ```
/// use relight_store::{EventStore, RunQuery, StatusKind};
/// # async fn waiting(store: &dyn EventStore) -> Result<(), relight_store::StoreError> {
/// let mut query = RunQuery { statuses: vec![StatusKind::Waiting], ..RunQuery::default() };
/// loop {
///     let page = store.list_runs(&query).await?;
///     for run in &page.items {
///         println!("{} {}", run.run_id, run.started_at);
///     }
///     let Some(next) = page.next else { break };
///     query.after = Some(next);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunQuery {
    /// Only runs in one of these; all, where it is empty.
    pub statuses: Vec<StatusKind>,
    /// Only runs of this agent.
    pub agent_hash: Option<String>,
    /// Only runs that have all of these labels, with these values.
    pub labels: BTreeMap<String, String>,
    /// At most so many on one page, at least one; the store's own limit counts too. Default: 100.
    pub limit: usize,
    /// Go on where another page ended.
    pub after: Option<Cursor>,
}

impl Default for RunQuery {
    fn default() -> Self {
        Self { statuses: Vec::new(), agent_hash: None, labels: BTreeMap::new(), limit: 100, after: None }
    }
}

impl RunQuery {
    /// Whether a run is asked for, whatever page it is on.
    pub fn matches(&self, run: &RunSummary) -> bool {
        (self.statuses.is_empty() || self.statuses.contains(&run.status.kind()))
            && self.agent_hash.as_ref().is_none_or(|agent| *agent == run.agent_hash)
            && self.labels.iter().all(|(name, value)| run.labels.get(name) == Some(value))
    }
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// What could be read, in the list's order.
    pub items: Vec<T>,
    /// What could not be read of this page.
    pub damaged: Vec<DamagedRow>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<Cursor>,
}

/// A run whose entry in the list cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedRow {
    /// The run's id, or what stands in its place.
    pub run: String,
    /// What was found and what was expected.
    pub why: String,
}

/// Where a page ended. Opaque text: only the store that made it can read it, but it may be written down in between.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cursor(String);

impl Cursor {
    /// Wraps the text that a store made, or that [`Cursor::as_str`] gave.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A place in the list of runs, in the order in which they are numbered from the end: newest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// Nanoseconds since 1970; times that this cannot hold count as its nearest.
    pub(crate) started_at: i64,
    /// The bytes of the run's id, or what stands in their place.
    pub(crate) id: Vec<u8>,
}

impl Position {
    pub(crate) fn of(run: &RunSummary) -> Self {
        let nanos = run.started_at.as_nanosecond().clamp(i64::MIN.into(), i64::MAX.into());
        let started_at = i64::try_from(nanos).expect("clamped to what fits");
        Self { started_at, id: run.run_id.as_uuid().as_bytes().to_vec() }
    }

    /// Reads a cursor that [`Position::cursor`] wrote.
    pub(crate) fn read(cursor: &Cursor) -> Result<Self, StoreError> {
        let read = || {
            let (started_at, id) = cursor.as_str().split_once('.')?;
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
            let id = id.as_bytes().chunks(2).map(byte).collect::<Option<Vec<u8>>>()?;
            Some(Self { started_at: started_at.parse().ok()?, id })
        };
        read().ok_or_else(|| StoreError::Invalid {
            what: format!("the cursor {:?}", cursor.as_str()),
            why: "it was not made by this store".to_owned(),
        })
    }

    pub(crate) fn cursor(&self) -> Cursor {
        let mut text = format!("{}.", self.started_at);
        for byte in &self.id {
            write!(text, "{byte:02x}").expect("a string takes every write");
        }
        Cursor(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_being_written_down() {
        let position = Position { started_at: -5, id: vec![0, 255, 16] };
        let cursor = position.cursor();
        assert_eq!(cursor.as_str(), "-5.00ff10");
        assert_eq!(Position::read(&Cursor::new(cursor.as_str())).unwrap(), position);
    }

    #[test]
    fn a_cursor_of_another_store_is_refused() {
        for text in ["", "5", "5.0g", "x.00"] {
            let refused = Position::read(&Cursor::new(text));
            assert!(matches!(refused, Err(StoreError::Invalid { .. })), "{text}: {refused:?}");
        }
    }

    #[test]
    fn a_range_holds_both_its_ends() {
        let seq = |number| Seq::new(number).unwrap();
        let range = SeqRange::between(seq(2), seq(3));
        let held: Vec<u64> = (1..5).filter(|&n| range.contains(seq(n))).collect();
        assert_eq!(held, [2, 3]);
        assert!(!SeqRange::between(seq(3), seq(2)).contains(seq(3)));
    }
}
