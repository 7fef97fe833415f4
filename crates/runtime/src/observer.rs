//! What a drive tells those who watch it; nothing here is recorded.

use relight_core::EventEnvelope;
use relight_llm::StreamEvent;

/// Watches a drive: a progress line, a terminal that shows text as it arrives.
///
/// Called in the task that drives, so it must not block. A panic in it ends the drive as a crash would.
///
/// # Examples
///
/// ```
/// use relight_runtime::{Notice, Observer};
///
/// struct Terminal;
///
/// impl Observer for Terminal {
///     fn observe(&self, notice: Notice<'_>) {
///         match notice {
///             Notice::Streamed(event) => print!("{}", event.text().unwrap_or_default()),
///             Notice::Recorded(envelope) => eprintln!("{} {}", envelope.seq, envelope.event.kind()),
///             _ => {}
///         }
///     }
/// }
/// ```
pub trait Observer: Send + Sync {
    /// Something happened.
    fn observe(&self, notice: Notice<'_>);
}

/// What happened.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// The code asked for what the log records already; nothing was done.
    Replayed,
    /// An event is durable.
    Recorded(&'a EventEnvelope),
    /// A model's answer grows.
    Streamed(&'a StreamEvent),
}

/// Watches nothing.
#[derive(Debug)]
pub(crate) struct Unobserved;

impl Observer for Unobserved {
    fn observe(&self, _: Notice<'_>) {}
}
