//! The report of code that asks for something else than its log records.

use std::fmt;

use serde_json::Value;

use super::difference::{Difference, first_difference};
use crate::{Lane, RunId, Seq};

/// The code asks for something else than the log records.
///
/// Nothing was appended or done; the code that wrote the log can still resume it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Divergence {
    /// The run.
    pub run: RunId,
    /// The event that the code should have asked for again.
    pub seq: Seq,
    /// The lane of that event.
    pub lane: Lane,
    /// Which call of its lane the code made, from zero; `None` for the start, the end, and calls never made.
    pub ordinal: Option<u64>,
    /// What the log records there.
    pub recorded: Value,
    /// What the code asks for.
    pub asked: Value,
}

impl Divergence {
    pub(super) const fn new(
        run: RunId,
        seq: Seq,
        lane: Lane,
        ordinal: Option<u64>,
        recorded: Value,
        asked: Value,
    ) -> Self {
        Self { run, seq, lane, ordinal, recorded, asked }
    }

    /// The first place where both sides differ, as a JSON pointer with what stands there (recorded left).
    pub fn difference(&self) -> Option<Difference> {
        // The kind says most, so it is looked at before fields that only one kind has.
        if self.recorded["kind"] != self.asked["kind"] {
            return first_difference(&self.recorded["kind"], &self.asked["kind"])
                .map(|difference| Difference { path: "/kind".to_owned(), ..difference });
        }
        first_difference(&self.recorded, &self.asked)
    }
}

impl std::error::Error for Divergence {}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {} diverged at event {} (lane {}", self.run, self.seq, self.lane)?;
        if let Some(ordinal) = self.ordinal {
            write!(f, ", call {ordinal}")?;
        }
        let kind = |side: &Value| side["kind"].as_str().unwrap_or("?").to_owned();
        write!(f, "): the log records {}, the code asks for {}", kind(&self.recorded), kind(&self.asked))?;
        if let Some(Difference { path, left, right }) = self.difference() {
            let (recorded, asked) = shown(left.as_ref(), right.as_ref());
            write!(f, "; at {path} the log has {recorded}, the code {asked}")?;
        }
        f.write_str("; nothing was changed: resume it with the code that wrote it, or start a new run")
    }
}

/// Two values on one line, each cut to what a reader can take in, from shortly before they part.
fn shown(left: Option<&Value>, right: Option<&Value>) -> (String, String) {
    let text = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    let (left, right) = (text(left), text(right));
    let common = left.chars().zip(right.chars()).take_while(|(left, right)| left == right).count();
    let skipped = if common < WIDTH / 2 { 0 } else { common - LEAD };
    (excerpt(&left, skipped), excerpt(&right, skipped))
}

fn excerpt(text: &str, skipped: usize) -> String {
    let mut rest = text.chars().skip(skipped);
    let shown: String = rest.by_ref().take(WIDTH).collect();
    let before = if skipped > 0 { "…" } else { "" };
    let after = if rest.next().is_some() { "…" } else { "" };
    format!("{before}{shown}{after}")
}

/// How many characters of a value are shown.
const WIDTH: usize = 120;

/// How many of them may be the same on both sides, where the values part later.
const LEAD: usize = 20;
