//! The small types that name things: runs, positions, lanes, effects and token counts.

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

use crate::wire::{is_zero, null_as_default};

/// One execution of an agent or workflow; a UUID of any version.
///
/// # Examples
///
/// ```
/// use relight_core::RunId;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let run: RunId = "0190f5d2-7c1a-7b6e-8f00-3c1d2e4f5a6b".parse()?;
/// assert_eq!(run.to_string(), "0190f5d2-7c1a-7b6e-8f00-3c1d2e4f5a6b");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(Uuid);

impl RunId {
    /// Wraps a UUID of any version.
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// Makes a version 7 UUID from its parts, so that ids sort by time. Times before 1970 count as 1970.
    pub fn from_parts(at: Timestamp, random: [u8; 10]) -> Self {
        let millis = u64::try_from(at.as_millisecond()).unwrap_or(0);
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    /// The UUID inside.
    pub const fn as_uuid(&self) -> &Uuid {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RunId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        Uuid::parse_str(text).map(Self).map_err(|_| ParseIdError::new("run id", text))
    }
}

/// A position in a log, counted from one without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64")]
pub struct Seq(u64);

impl Seq {
    /// The position of a run's first event.
    pub const FIRST: Self = Self(1);

    /// The position `number` counted from one; `None` for zero.
    pub const fn new(number: u64) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// The position after this one. The last of all is its own successor; no log reaches it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The number, counted from one: also how many events the log holds up to here.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for Seq {
    type Error = ParseIdError;

    fn try_from(number: u64) -> Result<Self, ParseIdError> {
        Self::new(number).ok_or_else(|| ParseIdError::new("event number", "0"))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Seq {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let number = text.parse().ok().and_then(Self::new);
        number.ok_or_else(|| ParseIdError::new("event number", text))
    }
}

/// A branch of concurrent work inside one run: the path of forks that leads to it.
///
/// Written as `2.0/5.1`: from the root, branch 0 of its call number 2, then branch 1 of that one's call number 5.
/// The root is the empty path.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(Vec<LaneStep>);

/// One fork on the path to a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneStep {
    /// The ordinal of the fork in its parent lane, from zero.
    pub ordinal: u64,
    /// The index of the branch, from zero.
    pub branch: u32,
}

impl Lane {
    /// The lane in which a run begins.
    pub const ROOT: Self = Self(Vec::new());

    /// Whether this is the lane in which the run began.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The lane of one branch of a fork made in this lane.
    #[must_use]
    pub fn branch(&self, step: LaneStep) -> Self {
        let mut path = self.0.clone();
        path.push(step);
        Self(path)
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str("root");
        }
        for (i, step) in self.0.iter().enumerate() {
            let slash = if i == 0 { "" } else { "/" };
            write!(f, "{slash}{}.{}", step.ordinal, step.branch)?;
        }
        Ok(())
    }
}

impl FromStr for Lane {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        if text == "root" {
            return Ok(Self::ROOT);
        }
        let step = |part: &str| {
            let (ordinal, branch) = part.split_once('.')?;
            Some(LaneStep { ordinal: ordinal.parse().ok()?, branch: branch.parse().ok()? })
        };
        let path = text.split('/').map(step).collect::<Option<Vec<_>>>();
        // One lane has one spelling: no signs, no leading zeros.
        let lane = path.map(Self).filter(|lane| lane.to_string() == text);
        lane.ok_or_else(|| ParseIdError::new("lane", text))
    }
}

impl Serialize for Lane {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Lane {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// What a tool does to the world, which decides what a crash in the middle of it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing: run again after a crash.
    Read,
    /// May be done again with the same key without harm: run again with the recorded key.
    Idempotent,
    /// Must happen once: after a crash it is reconciled, never repeated blindly.
    Write,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Idempotent => "idempotent",
            Self::Write => "write",
        })
    }
}

/// Tokens of one model call, or of several added up; the four counts do not overlap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Tokens read by the model, without those from or to its cache.
    #[serde(default, deserialize_with = "null_as_default")]
    pub input_tokens: u64,
    /// Tokens written by the model.
    #[serde(default, deserialize_with = "null_as_default")]
    pub output_tokens: u64,
    /// Tokens read from the prompt cache.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub cache_read_input_tokens: u64,
    /// Tokens written to the prompt cache.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub cache_creation_input_tokens: u64,
}

impl TokenUsage {
    /// All four counts together.
    pub const fn total(&self) -> u64 {
        self.input_tokens
            .saturating_add(self.output_tokens)
            .saturating_add(self.cache_read_input_tokens)
            .saturating_add(self.cache_creation_input_tokens)
    }

    /// This usage and another one added up, each count for itself.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cache_read_input_tokens: self
                .cache_read_input_tokens
                .saturating_add(other.cache_read_input_tokens),
            cache_creation_input_tokens: self
                .cache_creation_input_tokens
                .saturating_add(other.cache_creation_input_tokens),
        }
    }
}

/// A text that is not the id it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {kind}")]
pub struct ParseIdError {
    kind: &'static str,
    text: String,
}

impl ParseIdError {
    pub(crate) fn new(kind: &'static str, text: &str) -> Self {
        Self { kind, text: text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_written_as_its_path() {
        let fork = |ordinal, branch| LaneStep { ordinal, branch };
        let lane = Lane::ROOT.branch(fork(2, 0)).branch(fork(5, 1));
        assert_eq!(lane.to_string(), "2.0/5.1");
        assert_eq!("2.0/5.1".parse(), Ok(lane));
        assert_eq!("root".parse(), Ok(Lane::ROOT));
        for other in ["", "2", "2.0/", "+2.0", "02.0", "2.-1", "root/2.0", "2.4294967296"] {
            assert!(other.parse::<Lane>().is_err(), "{other}");
        }
    }

    #[test]
    fn run_ids_made_from_parts_sort_by_time() {
        let at = |ms| RunId::from_parts(Timestamp::from_millisecond(ms).unwrap(), [0xff; 10]);
        assert!(at(1_000) < at(2_000));
        assert_eq!(at(1_000).as_uuid().get_version_num(), 7);
    }

    #[test]
    fn there_is_no_position_zero() {
        assert_eq!(Seq::new(0), None);
        assert!("0".parse::<Seq>().is_err());
        assert_eq!("1".parse(), Ok(Seq::FIRST));
        assert!(serde_json::from_str::<Seq>("0").is_err());
        assert_eq!(serde_json::from_str::<Seq>("1").unwrap(), Seq::FIRST);
    }

    #[test]
    fn the_last_position_of_all_is_not_passed() {
        let last = Seq::new(u64::MAX).unwrap();
        assert_eq!(last.next(), last);
    }
}
