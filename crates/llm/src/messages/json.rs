//! Reads JSON as servers really write it: a broken character does not cost a paid answer.

use serde_json::{Map, Value};

use super::decode::{beginning_of, protocol};
use crate::error::LlmError;
use crate::vocabulary::is_deeper;

/// Reads an object.
///
/// Half of a surrogate pair, which servers write that cut text by UTF-16, becomes U+FFFD, as bytes do that are not
/// UTF-8.
pub(crate) fn read_object(what: &str, text: &str) -> Result<Map<String, Value>, LlmError> {
    match read(text) {
        Some(value) if is_deeper(&value, DEEPEST) => {
            Err(protocol(format!("{what} nests deeper than {DEEPEST} levels")))
        }
        Some(Value::Object(fields)) => Ok(fields),
        None if text.trim().is_empty() => Err(protocol(format!("{what} is empty"))),
        Some(_) | None => Err(protocol(format!("{what} is not a JSON object: {}", beginning_of(text)))),
    }
}

fn read(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().or_else(|| serde_json::from_str(&with_whole_surrogates(text)).ok())
}

/// The text with `\ufffd` in place of each escape of half a surrogate pair.
fn with_whole_surrogates(text: &str) -> String {
    let mut mended = String::with_capacity(text.len());
    let mut rest = text;
    // Outside of strings JSON has no backslash, so every one begins an escape.
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        mended.push_str(before);
        let (written, length) = match (unit(escape), escape.get(6..).and_then(unit)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => (&escape[..12], 12),
            (Some(0xd800..0xe000), _) => ("\\ufffd", 6),
            _ => {
                let length = escape.chars().take(2).map(char::len_utf8).sum();
                (&escape[..length], length)
            }
        };
        mended.push_str(written);
        rest = &escape[length..];
    }
    mended.push_str(rest);
    mended
}

/// The code unit that an escape at the start of the text stands for.
fn unit(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

/// How many levels an event or a body may have. Readers of JSON stop at some depth (`serde_json` at 128), and what
/// cannot be read again must not be recorded; this leaves room for what an answer is put into.
const DEEPEST: usize = 110;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_surrogate_pair_harms_only_itself() {
        let check = |written: &str, meant: &str| {
            let fields = read_object("it", &format!("{{\"t\":\"{written}\"}}")).unwrap();
            assert_eq!(fields["t"], meant, "{written}");
        };
        check(r"\ud83d\ude00", "😀");
        check(r"a\ud83d", "a\u{fffd}");
        check(r"\ude00b", "\u{fffd}b");
        check(r"\ud83d\ud83d\ude00", "\u{fffd}😀");
        check(r"\uD83Dx\n\\ud83d\u00e9", "\u{fffd}x\n\\ud83dé");
        check(r"é\ud83dé", "é\u{fffd}é");
        for broken in [r"\ud8", r"\", r"\é", r"\ud83d\u", "\u{0}"] {
            assert!(read_object("it", &format!("{{\"t\":\"{broken}\"}}")).is_err(), "{broken}");
        }
    }

    #[test]
    fn an_object_may_nest_so_deep_and_no_deeper() {
        let nested =
            |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1));
        assert!(read_object("it", &nested(DEEPEST)).is_ok());
        for levels in [DEEPEST + 1, 127, 200, 100_000] {
            let error = read_object("it", &nested(levels)).unwrap_err();
            assert_eq!(error.kind, crate::ErrorKind::Protocol, "{levels}");
        }
    }
}
