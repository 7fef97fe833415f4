//! The export form of a log: one JSON object a line, with the record's bytes kept exactly.

use std::{fmt, fmt::Write as _, str::FromStr};

use jiff::Timestamp;
use relight_canonical::Digest;
use serde::{Deserialize, Serialize};

use crate::{Record, Seq};

/// One record of an exported log, as one line of JSON (without the line's end).
///
/// The record stands in it as a JSON string and not as an object: whoever reads and writes the line again may change
/// white space, key order or the spelling of numbers of an object, and the link would no longer fit. Bytes that are
/// not UTF-8, which only damage can bring, are written as hex in `record_hex` instead.
///
/// # Examples
///
/// ```
/// use relight_core::{Event, EventEnvelope, ExportLine, Lane, Record, SCHEMA_VERSION, Seq, chain};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let envelope = EventEnvelope {
///     run_id: "0190f5d2-7c1a-7b6e-8f00-3c1d2e4f5a6b".parse()?,
///     seq: Seq::FIRST,
///     schema_version: SCHEMA_VERSION,
///     recorded_at: "2026-11-30T12:00:00Z".parse()?,
///     lane: Lane::ROOT,
///     event: Event::run_started("agent-1", serde_json::json!("hello")),
/// };
/// let record = Record::seal(chain::GENESIS, &envelope)?;
/// let line = ExportLine(record.clone()).to_string();
/// assert!(line.starts_with(r#"{"seq":1,"recorded_at":"2026-11-30T12:00:00Z","link":"sha256:"#));
/// assert_eq!(line.parse::<ExportLine>()?, ExportLine(record));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportLine(pub Record);

/// A line that is not one of an exported log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a line of an exported log: {why}")]
pub struct ExportError {
    why: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    seq: Seq,
    recorded_at: Timestamp,
    link: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    record: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    record_hex: Option<String>,
}

impl fmt::Display for ExportLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { seq, recorded_at, bytes, link } = &self.0;
        let (record, record_hex) = match std::str::from_utf8(bytes) {
            Ok(text) => (Some(text.to_owned()), None),
            Err(_) => (None, Some(to_hex(bytes))),
        };
        let line = Line { seq: *seq, recorded_at: *recorded_at, link: *link, record, record_hex };
        f.write_str(&serde_json::to_string(&line).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for ExportLine {
    type Err = ExportError;

    fn from_str(line: &str) -> Result<Self, ExportError> {
        let error = |why: String| ExportError { why };
        let line: Line = serde_json::from_str(line).map_err(|found| error(found.to_string()))?;
        let bytes = match (line.record, line.record_hex) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(hex)) => from_hex(&hex)
                .ok_or_else(|| error("`record_hex` is not made of pairs of hex digits".to_owned()))?,
            (None, None) => return Err(error("neither `record` nor `record_hex` is given".to_owned())),
            (Some(_), Some(_)) => return Err(error("both `record` and `record_hex` are given".to_owned())),
        };
        Ok(Self(Record { seq: line.seq, recorded_at: line.recorded_at, bytes, link: line.link }))
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a String takes every write");
        hex
    })
}

fn from_hex(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, []) = hex.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain;

    fn record(bytes: &[u8]) -> Record {
        Record {
            seq: Seq::FIRST,
            recorded_at: "2026-11-30T12:00:00.000000001Z".parse().unwrap(),
            bytes: bytes.to_vec(),
            link: chain::link(chain::GENESIS, bytes),
        }
    }

    #[track_caller]
    fn check_exact(bytes: &[u8]) {
        let line = ExportLine(record(bytes)).to_string();
        assert!(!line.contains('\n'), "{line}");
        assert_eq!(line.parse::<ExportLine>().unwrap().0.bytes, bytes, "{line}");
    }

    #[test]
    fn every_byte_of_a_record_survives() {
        check_exact(b"");
        check_exact(br#"{"b": 1.0,  "a":"\u00e9\n"}"#);
        check_exact("line\nline\r\n\u{2028}\u{0}é😀\u{feff}".as_bytes());
        check_exact(&[0xff, 0x00, 0xfe]);
        check_exact(b"half a character: \xc3");
    }

    #[test]
    fn a_record_is_text_and_only_damage_is_hex() {
        assert!(ExportLine(record(b"{}")).to_string().ends_with(r#","record":"{}"}"#));
        assert!(ExportLine(record(&[0xff, 0x0a])).to_string().ends_with(r#","record_hex":"ff0a"}"#));
    }

    #[test]
    fn a_line_with_more_fields_or_in_another_order_is_read() {
        let record = record(b"{}");
        let Record { recorded_at, link, .. } = &record;
        let line = format!(
            r#" {{"record": "{{}}", "record_hex": null, "later": [1], "link": "{link}", "recorded_at": "{recorded_at}", "seq": 1}} "#
        );
        assert_eq!(line.parse(), Ok(ExportLine(record)));
    }

    #[track_caller]
    fn check_refused(line: &str, why: &str) {
        let error = line.parse::<ExportLine>().unwrap_err().to_string();
        assert!(error.starts_with("not a line of an exported log: ") && error.contains(why), "{error}");
    }

    #[test]
    fn a_line_that_is_none_is_refused_with_the_reason() {
        let line = |fields: &str| {
            let Record { recorded_at, link, .. } = record(b"");
            format!(r#"{{"seq":1,"recorded_at":"{recorded_at}","link":"{link}"{fields}}}"#)
        };
        check_refused("", "EOF");
        check_refused("[]", "length 0");
        check_refused(&line(""), "neither `record` nor `record_hex`");
        check_refused(&line(r#","record":"","record_hex":"""#), "both");
        check_refused(&line(r#","record_hex":"f""#), "pairs of hex digits");
        check_refused(&line(r#","record_hex":"+f""#), "pairs of hex digits");
        check_refused(&line(r#","record":{}"#), "expected a string");
        check_refused(&line(r#","record":"{}""#).replace("\"seq\":1", "\"seq\":0"), "event number");
    }
}
