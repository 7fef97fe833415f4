//! What can be wrong with a log.

use crate::{RunId, Seq, depth::MAX_DEPTH};

/// A log that cannot be read or continued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// A record is damaged, missing, moved, or does not fit what stands before it.
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
    /// A newer version of Relight wrote this.
    #[error("event {seq} of run {run} was written by a newer version ({what}); update Relight to read it")]
    Newer {
        /// The run.
        run: RunId,
        /// The first position that this version cannot read.
        seq: Seq,
        /// The kind or version that is not known.
        what: String,
    },
    /// An event that could not be read again once it is written.
    #[error(
        "event {seq} of run {run} ({kind}) nests its JSON deeper than {MAX_DEPTH} levels and was not recorded; make the value flatter, or pass it as text"
    )]
    TooDeep {
        /// The run.
        run: RunId,
        /// The position that the event was to take.
        seq: Seq,
        /// The event's kind.
        kind: &'static str,
    },
}
