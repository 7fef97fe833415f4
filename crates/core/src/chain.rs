//! The hash chain that ties the records of a log together, and the check of it.
//!
//! `link = SHA-256(domain ‖ previous link ‖ record bytes)`; before the first record stand 32 zero bytes.
//! It finds a change, removal, insertion or reordering by anyone who does not also recompute every later link and
//! the head kept elsewhere.

use jiff::Timestamp;
use relight_canonical::Digest;

use crate::{EventEnvelope, LogError, RunId, Seq};

/// What stands before the previous link in each hash.
pub const DOMAIN: &str = "relight/chain/1\n";

/// The link before a log's first record.
pub const GENESIS: Digest = Digest::from_bytes([0; 32]);

/// One stored event: its bytes, and the link that ties them to all before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The position in the log.
    pub seq: Seq,
    /// The time inside the bytes, for backends that index it.
    pub recorded_at: Timestamp,
    /// The event as it was written.
    pub bytes: Vec<u8>,
    /// The chain up to and including this record.
    pub link: Digest,
}

impl Record {
    /// Encodes an envelope and links it to the record before it, or to [`GENESIS`].
    ///
    /// # Errors
    ///
    /// [`LogError::TooDeep`], as [`EventEnvelope::to_bytes`].
    pub fn seal(previous: Digest, envelope: &EventEnvelope) -> Result<Self, LogError> {
        let bytes = envelope.to_bytes()?;
        let link = link(previous, &bytes);
        Ok(Self { seq: envelope.seq, recorded_at: envelope.recorded_at, bytes, link })
    }
}

/// The link of a record whose predecessor has the link `previous`.
pub fn link(previous: Digest, bytes: &[u8]) -> Digest {
    Digest::of_parts(DOMAIN, &[previous.as_bytes(), bytes])
}

/// Reads a log in order, page by page, and refuses the first record that does not follow from those before.
///
/// # Examples
///
/// ```
/// use relight_core::{RunId, chain::Verifier};
/// # use relight_core::Record;
/// # fn read(run: RunId, records: &[Record]) -> Result<(), relight_core::LogError> {
/// let mut verifier = Verifier::new(run);
/// for record in records {
///     let envelope = verifier.accept(record)?;
///     println!("{} {}", envelope.seq, envelope.event.kind());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Verifier {
    run: RunId,
    next: Seq,
    link: Digest,
}

impl Verifier {
    /// A verifier that expects the first record of `run`.
    pub const fn new(run: RunId) -> Self {
        Self { run, next: Seq::FIRST, link: GENESIS }
    }

    /// Checks the next record and decodes it.
    ///
    /// # Errors
    ///
    /// [`LogError`], naming the position that was expected here.
    pub fn accept(&mut self, record: &Record) -> Result<EventEnvelope, LogError> {
        let seq = self.next;
        if record.seq != seq {
            return Err(self.corrupt(format!("event {} stands in its place", record.seq)));
        }
        let expected = link(self.link, &record.bytes);
        if record.link != expected {
            return Err(self.corrupt(format!(
                "its link is {}, but its bytes and those before it give {expected}",
                record.link
            )));
        }
        let envelope = EventEnvelope::from_bytes(self.run, seq, &record.bytes)?;
        if envelope.recorded_at != record.recorded_at {
            return Err(self.corrupt(format!(
                "it is stored as recorded at {}, but says {}",
                record.recorded_at, envelope.recorded_at
            )));
        }
        self.next = seq.next();
        self.link = record.link;
        Ok(envelope)
    }

    /// Checks that the log ends here, at the head that its store keeps apart from it.
    ///
    /// # Errors
    ///
    /// [`LogError::Corrupt`] where records are missing at the end, or the last link is another.
    pub fn finish(&self, head: Seq, link: Digest) -> Result<(), LogError> {
        // `next` is one beyond the last record; a head at the very end of the numbers has no position beyond it.
        let reached = self.next.number() - 1;
        if reached < head.number() {
            return Err(self.corrupt(format!("it is missing; the log should reach event {head}")));
        }
        if reached > head.number() {
            let why = format!("it stands after the head, which is event {head}");
            return Err(LogError::Corrupt { run: self.run, seq: head.next(), why });
        }
        if self.link != link {
            let why = format!("the head's link is {link}, but the log gives {}", self.link);
            return Err(LogError::Corrupt { run: self.run, seq: head, why });
        }
        Ok(())
    }

    /// The position that is expected next.
    pub const fn next(&self) -> Seq {
        self.next
    }

    /// The link of the last accepted record.
    pub const fn link(&self) -> Digest {
        self.link
    }

    const fn corrupt(&self, why: String) -> LogError {
        LogError::Corrupt { run: self.run, seq: self.next, why }
    }
}
