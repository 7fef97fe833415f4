//! What a tool gave back, cut to what a log can hold: an outcome that cannot be recorded would stop its run for good.

use std::io;

use relight_core::{ToolFailure, ToolOutcome};
use serde_json::Value;

/// The outcome of a tool that returned, unless its value is too large to record.
pub(super) fn returned(value: Value) -> ToolOutcome {
    if is_deeper(&value, MAX_OUTPUT_DEPTH) {
        let message = format!("it was done, but its output nests deeper than {MAX_OUTPUT_DEPTH} levels");
        return failed("output_too_deep", message);
    }
    let bytes = written(&value);
    if bytes > MAX_OUTPUT_BYTES {
        let message =
            format!("it was done, but its output of {bytes} bytes is over the limit of {MAX_OUTPUT_BYTES}");
        return failed("output_too_large", message);
    }
    ToolOutcome::Returned(value)
}

/// The outcome of a tool that failed, with no more of its text than a log should hold.
pub(super) fn failed(code: impl Into<String>, message: impl Into<String>) -> ToolOutcome {
    let (code, message) = (shortened(code.into()), shortened(message.into()));
    ToolOutcome::Failed(ToolFailure { code, message })
}

/// A text, cut where it is longer than a log should hold.
pub(super) fn shortened(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        text.push('…');
    }
    text
}

/// Whether a value nests deeper than `levels`; never looks further down than that.
pub(crate) fn is_deeper(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return value.is_array() || value.is_object() };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper(item, below)),
        Value::Object(fields) => fields.values().any(|field| is_deeper(field, below)),
        _ => false,
    }
}

/// How many bytes a value takes as JSON.
fn written(value: &Value) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).expect("JSON is written to a sink that takes everything");
    count.0
}

/// What a tool may return, in bytes of JSON.
const MAX_OUTPUT_BYTES: usize = 8 << 20;

/// How deep a value may nest that is recorded: it stands a few levels down in its event.
pub(crate) const MAX_OUTPUT_DEPTH: usize = relight_core::MAX_DEPTH - 8;

/// How much is recorded of a text that says why something failed.
const MAX_TEXT_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!(0), |inner, _| json!([inner]))
    }

    fn code(outcome: &ToolOutcome) -> &str {
        match outcome {
            ToolOutcome::Returned(_) => "returned",
            ToolOutcome::Failed(failure) => &failure.code,
        }
    }

    #[test]
    fn an_output_at_the_limits_is_kept_and_one_beyond_them_is_named() {
        assert_eq!(code(&returned(nested(MAX_OUTPUT_DEPTH))), "returned");
        assert_eq!(code(&returned(nested(MAX_OUTPUT_DEPTH + 1))), "output_too_deep");
        let quotes = 2;
        assert_eq!(code(&returned(json!("x".repeat(MAX_OUTPUT_BYTES - quotes)))), "returned");
        assert_eq!(code(&returned(json!("x".repeat(MAX_OUTPUT_BYTES - quotes + 1)))), "output_too_large");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let long = "é".repeat(MAX_TEXT_BYTES);
        let ToolOutcome::Failed(failure) = failed("x", long) else { panic!() };
        assert!(failure.message.len() <= MAX_TEXT_BYTES + '…'.len_utf8() && failure.message.ends_with("é…"));
        assert_eq!(shortened("short".to_owned()), "short");
    }
}
