//! How large what a store takes and gives may be.

use relight_core::RunId;

use crate::{Append, StoreError};

/// How large events, batches, logs and pages may be; plain data, checked before anything is written.
///
/// # Examples
///
/// ```
/// use relight_store::{Limits, MemoryStore};
///
/// let store = MemoryStore::with_limits(Limits { event_bytes: 64 * 1024, ..Limits::default() });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The bytes of one event. Default: 16 MiB.
    pub event_bytes: usize,
    /// The bytes of all events of one batch together. Default: 64 MiB.
    pub batch_bytes: usize,
    /// The events of one batch. Default: 10,000.
    pub batch_records: usize,
    /// The events of one log. Default: 1,000,000.
    pub log_records: u64,
    /// The bytes of the events that one `load` returns, after its first. Default: 4 MiB.
    pub page_bytes: usize,
    /// The events that one `load` returns, and the runs that one `list_runs` returns. Default: 1,000.
    pub page_records: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            event_bytes: 16 * MIB,
            batch_bytes: 64 * MIB,
            batch_records: 10_000,
            log_records: 1_000_000,
            page_bytes: 4 * MIB,
            page_records: 1_000,
        }
    }
}

impl Limits {
    /// Whether a batch keeps the limits on what is written.
    ///
    /// # Errors
    ///
    /// [`StoreError::TooLarge`], naming the limit.
    pub(crate) fn check(&self, append: &Append) -> Result<(), StoreError> {
        let run = append.run;
        let sizes = || append.records.iter().map(|record| record.bytes.len());
        let largest = sizes().max().unwrap_or(0);
        let last = append.expect.next().number().saturating_add(append.records.len() as u64 - 1);
        within(run, "event_bytes", largest as u64, self.event_bytes as u64)?;
        within(run, "batch_bytes", sizes().sum::<usize>() as u64, self.batch_bytes as u64)?;
        within(run, "batch_records", append.records.len() as u64, self.batch_records as u64)?;
        within(run, "log_records", last, self.log_records)
    }
}

fn within(run: RunId, limit: &'static str, size: u64, max: u64) -> Result<(), StoreError> {
    if size > max { Err(StoreError::TooLarge { run, limit, size, max }) } else { Ok(()) }
}

const MIB: usize = 1024 * 1024;
