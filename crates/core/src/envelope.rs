//! An event with its place in the log and its time, and the bytes in which it is stored.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Event, Lane, LogError, RunId, Seq, depth, wire::null_as_default};

/// The version of the record format that this crate writes.
pub const SCHEMA_VERSION: u32 = 1;

/// An event with its place in the log and its time.
///
/// # Examples
///
/// ```
/// use relight_core::{Event, EventEnvelope, Lane, RunId, SCHEMA_VERSION, Seq};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let envelope = EventEnvelope {
///     run_id: "0190f5d2-7c1a-7b6e-8f00-3c1d2e4f5a6b".parse()?,
///     seq: Seq::FIRST,
///     schema_version: SCHEMA_VERSION,
///     recorded_at: "2026-11-30T12:00:00Z".parse()?,
///     lane: Lane::ROOT,
///     event: Event::run_started("agent-1", serde_json::json!("hello")),
/// };
/// let bytes = envelope.to_bytes()?;
/// assert_eq!(EventEnvelope::from_bytes(envelope.run_id, Seq::FIRST, &bytes)?, envelope);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventEnvelope {
    /// The run whose log this is.
    pub run_id: RunId,
    /// The position in that log.
    pub seq: Seq,
    /// The version of the format; see [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The run's time when this was recorded; it never goes back.
    pub recorded_at: Timestamp,
    /// The branch that recorded it; left out for the root.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Lane::is_root")]
    pub lane: Lane,
    /// What happened.
    pub event: Event,
}

impl EventEnvelope {
    /// The bytes that are stored, linked and read back as they are.
    ///
    /// # Errors
    ///
    /// [`LogError::TooDeep`] where a value inside nests so deep that nothing could read these bytes again.
    pub fn to_bytes(&self) -> Result<Vec<u8>, LogError> {
        let too_deep = || LogError::TooDeep { run: self.run_id, seq: self.seq, kind: self.event.kind() };
        depth::to_vec(self).ok_or_else(too_deep)
    }

    /// Reads the bytes of the record at `seq` of `run`.
    ///
    /// # Errors
    ///
    /// [`LogError::Newer`] for a version or kind that is not known, [`LogError::Corrupt`] for anything else that is
    /// not the record expected there.
    pub fn from_bytes(run: RunId, seq: Seq, bytes: &[u8]) -> Result<Self, LogError> {
        let corrupt = |why: String| LogError::Corrupt { run, seq, why };
        let envelope: Self = serde_json::from_slice(bytes).map_err(|error| match newer(bytes, &error) {
            Some(what) => LogError::Newer { run, seq, what },
            None => corrupt(format!("not a record: {error}")),
        })?;
        if envelope.schema_version > SCHEMA_VERSION {
            return Err(LogError::Newer { run, seq, what: newer_format(envelope.schema_version.into()) });
        }
        if envelope.schema_version == 0 {
            return Err(corrupt("there is no format 0".to_owned()));
        }
        if envelope.run_id != run {
            return Err(corrupt(format!("it belongs to run {}", envelope.run_id)));
        }
        if envelope.seq != seq {
            return Err(corrupt(format!("it says that it is event {}", envelope.seq)));
        }
        Ok(envelope)
    }
}

/// What a newer version put into bytes that did not decode; `None` where they are damaged.
fn newer(bytes: &[u8], error: &serde_json::Error) -> Option<String> {
    #[derive(Deserialize)]
    struct Version {
        schema_version: u64,
    }
    #[derive(Deserialize)]
    struct Outline {
        event: Kind,
    }
    #[derive(Deserialize)]
    struct Kind {
        kind: String,
    }
    // The version is looked at alone: a later format may write everything else in another way.
    let Version { schema_version } = serde_json::from_slice(bytes).ok()?;
    if schema_version > SCHEMA_VERSION.into() {
        return Some(newer_format(schema_version));
    }
    let Outline { event: Kind { kind } } = serde_json::from_slice(bytes).ok()?;
    if !Event::KINDS.contains(&kind.as_str()) {
        return Some(format!("kind {kind:?}"));
    }
    // A word that one of the enums inside a payload lacks; serde says so in these words only.
    let error = error.to_string();
    error.starts_with("unknown variant").then_some(error)
}

fn newer_format(version: u64) -> String {
    format!("format {version}; this version reads up to {SCHEMA_VERSION}")
}
