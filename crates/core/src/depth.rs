//! How deep the JSON of a record may nest, checked while it is written.

use std::io;

use serde::Serialize;
use serde_json::{Serializer, ser::Formatter};

/// How many arrays and objects of a record may stand inside each other, the record itself included.
///
/// A reader of JSON must stop somewhere, or deep nesting would overflow its stack; `serde_json` stops at 128. What
/// cannot be read again must not be written. The few levels between are left to whoever shows a record inside an
/// answer of their own.
pub const MAX_DEPTH: usize = 120;

/// Writes a value without white space; `None` where it nests deeper than [`MAX_DEPTH`].
///
/// The check stands in the writer, and not before it, since it costs nothing there and also keeps the writer from
/// overflowing its stack.
pub(crate) fn to_vec(value: &impl Serialize) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(256);
    match value.serialize(&mut Serializer::with_formatter(&mut bytes, Bounded { depth: 0 })) {
        Ok(()) => Some(bytes),
        // Writing to memory does not fail, so this is the formatter's own refusal.
        Err(error) if error.is_io() => None,
        Err(error) => unreachable!("only strings, numbers and JSON values are written here: {error}"),
    }
}

/// Compact JSON that refuses to go deeper than [`MAX_DEPTH`].
struct Bounded {
    depth: usize,
}

impl Bounded {
    fn enter(&mut self) -> io::Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(()) }
    }
}

impl Formatter for Bounded {
    fn begin_array<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.enter()?;
        writer.write_all(b"[")
    }

    fn end_array<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        writer.write_all(b"]")
    }

    fn begin_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.enter()?;
        writer.write_all(b"{")
    }

    fn end_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        writer.write_all(b"}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn nested(levels: usize) -> Value {
        (0..levels)
            .fold(json!(0), |inner, level| if level % 2 == 0 { json!([inner]) } else { json!({"a": inner}) })
    }

    #[test]
    fn what_is_written_can_be_read_and_one_level_more_is_refused() {
        let bytes = to_vec(&nested(MAX_DEPTH)).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), nested(MAX_DEPTH));
        assert_eq!(to_vec(&nested(MAX_DEPTH + 1)), None);
    }

    #[test]
    fn levels_side_by_side_are_not_added_up() {
        let wide = Value::Array(vec![nested(3); 1_000]);
        assert_eq!(to_vec(&wide), serde_json::to_vec(&wide).ok());
    }
}
