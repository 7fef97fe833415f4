//! How an SQLite store is set up.

use std::time::Duration;

use crate::Limits;

/// Settings of a [`SqliteStore`](super::SqliteStore); plain data.
///
/// # Examples
///
/// ```
/// use relight_store::{Limits, SqliteOptions};
/// let options = SqliteOptions {
///     limits: Limits { event_bytes: 1024 * 1024, ..Limits::default() },
///     ..SqliteOptions::default()
/// };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqliteOptions {
    /// How large events, batches, logs and pages may be.
    pub limits: Limits,
    /// Whether a file that does not exist is made, or is an error. Default: made.
    pub create_if_missing: bool,
    /// How long to wait for other processes that hold the file locked. Default: 30 s.
    pub busy_timeout: Duration,
    /// How many pages of 4 KiB the file may have; `None`, the default, leaves it to SQLite.
    pub max_pages: Option<u32>,
    /// How many connections read at the same time. Default: 4.
    pub readers: usize,
    /// How many bytes may wait to be appended; further appends wait for room. Default: 64 MiB.
    pub queue_bytes: usize,
    /// How large the write-ahead log may grow before new writes wait for it to be folded into the file, as far as
    /// readers let that happen. Default: 64 MiB.
    pub wal_bytes: u64,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            create_if_missing: true,
            busy_timeout: Duration::from_secs(30),
            max_pages: None,
            readers: 4,
            queue_bytes: 64 * 1024 * 1024,
            wal_bytes: 64 * 1024 * 1024,
        }
    }
}
