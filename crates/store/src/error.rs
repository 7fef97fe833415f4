//! What can go wrong in a store, by what the caller does about it.

use std::{error::Error, path::PathBuf, sync::Arc, time::Duration};

use relight_core::{LogError, RunId, Seq};

use crate::Expect;

/// Why a store did not do what it was asked.
///
/// It is `Clone`, as one fault may be the answer to many appends that were written together.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another writer reached this position first.
    #[error(
        "run {run} is at {}, expected {expected}: another driver is ahead; stop, and resume the run again",
        position(*actual)
    )]
    Conflict {
        /// The run.
        run: RunId,
        /// What the batch was to follow.
        expected: Expect,
        /// Where the log ends; `None` where there is no such run.
        actual: Option<Seq>,
    },

    /// Another owner holds the run's lease.
    #[error("run {run} is leased to another driver; stop, and leave the run to it")]
    Fenced {
        /// The run.
        run: RunId,
    },

    /// The store cannot do this at all.
    #[error("this store has no {what}; use one that has, or do without")]
    Unsupported {
        /// The ability that is missing.
        what: &'static str,
    },

    /// A limit of the store would be broken; nothing was written.
    #[error(
        "an append to run {run} breaks the limit {limit}: {size}, at most {max}; record less, or raise the limit"
    )]
    TooLarge {
        /// The run.
        run: RunId,
        /// The field of [`Limits`](crate::Limits).
        limit: &'static str,
        /// What was asked for.
        size: u64,
        /// What is allowed.
        max: u64,
    },

    /// The request itself makes no sense, whatever the store holds.
    #[error("{what} cannot be used: {why}; this is a mistake in the calling code")]
    Invalid {
        /// The thing at fault.
        what: String,
        /// What was found and what was expected.
        why: String,
    },

    /// There is no such run.
    #[error("there is no run {run} in this store; `relight list` shows those there are")]
    UnknownRun {
        /// The run that was asked for.
        run: RunId,
    },

    /// A record is damaged, missing or moved.
    #[error(
        "the log of run {run} is damaged at event {seq}: {why}; restore it from a copy, or look at what is left with `relight export`"
    )]
    Corrupt {
        /// The damaged run.
        run: RunId,
        /// The first position that cannot be trusted.
        seq: Seq,
        /// What was found and what was expected.
        why: String,
    },

    /// A newer version of Relight wrote this record.
    #[error("event {seq} of run {run} was written by a newer version ({what}); update Relight to read it")]
    Newer {
        /// The run.
        run: RunId,
        /// The first position that this version cannot read.
        seq: Seq,
        /// What is not known.
        what: String,
    },

    /// There is no room left to write.
    #[error(
        "there is no room to write to {}: {why}; nothing recorded is lost, make room and resume",
        path.display()
    )]
    Full {
        /// The file or folder that cannot grow.
        path: PathBuf,
        /// Which bound was met.
        why: String,
    },

    /// The store may be read but not written.
    #[error("{} cannot be written: {why}; allow it for this user, or use another path", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },

    /// The store cannot be opened.
    #[error("cannot open {}: {why}; check the path and who may use it", path.display())]
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },

    /// A newer version of Relight made the store.
    #[error(
        "{} has schema version {found}, this version of Relight reads up to {supported}; update Relight",
        path.display()
    )]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// The version that was found.
        found: i64,
        /// The newest version that is known.
        supported: i64,
    },

    /// The file is something else.
    #[error("{} is no Relight store: {why}; nothing was changed in it, use another path", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        why: String,
    },

    /// The store itself is damaged, not the log of one run.
    #[error(
        "{} is damaged: {why}; restore it from a copy, or save what is left with `sqlite3 FILE .recover`",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        why: String,
    },

    /// Another process holds the store locked.
    #[error(
        "{} was locked by another process for {} s; find out which holds it, then try again",
        path.display(),
        waited.as_secs_f32()
    )]
    Busy {
        /// The file.
        path: PathBuf,
        /// How long it was tried.
        waited: Duration,
    },

    /// Anything else that went wrong below; trying again may help.
    #[error("the store failed: {0}; try again, and look at its disk or server if it stays")]
    Backend(#[source] Source),
}

/// An error of the library or system under a backend.
pub type Source = Arc<dyn Error + Send + Sync>;

impl StoreError {
    /// Wraps an error for which there is no variant of its own.
    pub fn backend(source: impl Error + Send + Sync + 'static) -> Self {
        Self::Backend(Arc::new(source))
    }
}

impl From<LogError> for StoreError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Corrupt { run, seq, why } => Self::Corrupt { run, seq, why },
            LogError::Newer { run, seq, what } => Self::Newer { run, seq, what },
            other => Self::backend(other),
        }
    }
}

fn position(actual: Option<Seq>) -> String {
    actual.map_or_else(|| "no event".to_owned(), |seq| format!("event {seq}"))
}
