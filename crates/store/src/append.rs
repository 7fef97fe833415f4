//! What is appended: a batch of records, where it belongs, and the ids that settle races and lost answers.

use std::fmt;

use relight_core::{Digest, Record, RunId, RunSummary, Seq};

use crate::{Limits, StoreError};

/// A batch of records for the end of one run's log, and the run's summary after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// The run.
    pub run: RunId,
    /// Where its log must end for the batch to follow.
    pub expect: Expect,
    /// The lease under which it is appended, where there is one.
    pub epoch: Option<Epoch>,
    /// Names this batch, so that it can be sent again; a new one for every batch.
    pub batch: BatchId,
    /// At least one record, the first at the position after `expect`, without gaps.
    pub records: Vec<Record>,
    /// What listings show of the run once this is appended.
    pub summary: RunSummary,
}

impl Append {
    /// Checks what every backend must check before it looks at the log: the limits, and that the batch has the shape
    /// that [`Append::records`] asks for.
    ///
    /// # Errors
    ///
    /// [`StoreError::TooLarge`] and [`StoreError::Invalid`].
    ///
    /// # Examples
    ///
    /// ```
    /// use relight_store::{Append, Head, Limits, StoreError};
    /// # struct Mine { limits: Limits }
    /// # impl Mine {
    /// # fn write(&self, append: Append) -> Result<Head, StoreError> { Ok(append.head()) }
    /// // The first line of `append` in a backend:
    /// fn append(&self, append: Append) -> Result<Head, StoreError> {
    ///     append.check(&self.limits)?;
    ///     self.write(append)
    /// }
    /// # }
    /// ```
    pub fn check(&self, limits: &Limits) -> Result<(), StoreError> {
        let invalid =
            |why: String| StoreError::Invalid { what: format!("the batch for run {}", self.run), why };
        if self.records.is_empty() {
            return Err(invalid("it holds no record".to_owned()));
        }
        limits.check(self)?;
        let mut expected = self.expect.next();
        for record in &self.records {
            if record.seq != expected {
                let why = format!("event {} stands where {expected} belongs", record.seq);
                return Err(invalid(why));
            }
            expected = expected.next();
        }
        if self.summary.run_id != self.run {
            return Err(invalid(format!("its summary is of run {}", self.summary.run_id)));
        }
        Ok(())
    }

    /// The head of the log once this is appended.
    ///
    /// # Panics
    ///
    /// Where there are no records, which [`Append::check`] refuses.
    pub fn head(&self) -> Head {
        let last = self.records.last().expect("a checked batch holds a record");
        Head { seq: last.seq, link: last.link }
    }
}

/// Where a run's log must end for a batch to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Expect {
    /// There is no such run yet.
    NewRun,
    /// The log ends here.
    Head(Seq),
}

impl Expect {
    /// The position of the first record of a batch that follows.
    pub const fn next(self) -> Seq {
        match self {
            Self::NewRun => Seq::FIRST,
            Self::Head(seq) => seq.next(),
        }
    }

    /// Whether a log that ends at `actual` is as expected.
    pub fn is_met_by(self, actual: Option<Seq>) -> bool {
        match self {
            Self::NewRun => actual.is_none(),
            Self::Head(seq) => actual == Some(seq),
        }
    }
}

/// As in “is at *event 7*, expected *event 6*”.
impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewRun => f.write_str("no such run"),
            Self::Head(seq) => write!(f, "event {seq}"),
        }
    }
}

/// The end of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Head {
    /// The position of the last record.
    pub seq: Seq,
    /// The link of the last record.
    pub link: Digest,
}

/// Names one batch, so that a batch sent again is told from a rival's with equal records.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BatchId([u8; 16]);

impl BatchId {
    /// Draws an id from the operating system's entropy, never from a run's own source of randomness: two drives that
    /// replay the same run would draw the same.
    ///
    /// # Panics
    ///
    /// Where the operating system has no entropy to give.
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system gives entropy");
        Self(bytes)
    }

    /// Wraps the 16 bytes of an id that was drawn before.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchId({:032x})", u128::from_be_bytes(self.0))
    }
}

/// Counts the owners of a run; it grows with each change and fences the old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// The epoch `number`.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
