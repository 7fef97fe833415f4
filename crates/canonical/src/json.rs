//! The canonical form of a JSON value: RFC 8785, with integers beyond 2^53 written in full.

use std::fmt::{self, Write};

use serde_json::{Map, Number, Value};

/// Writes a value in its canonical form: keys sorted by UTF-16 code units, no white space, numbers as ECMAScript
/// prints them.
///
/// Integers beyond 2^53 (up to [`u64::MAX`] and down to [`i64::MIN`]) are written in full. RFC 8785 would round them
/// to the nearest double, and two different ids would then hash equally.
///
/// # Examples
///
/// ```
/// use serde_json::json;
///
/// let value = json!({ "b": 1e30, "a": [-0.0, 1.0, u64::MAX] });
/// assert_eq!(relight_canonical::to_canonical(&value), r#"{"a":[0,1,18446744073709551615],"b":1e+30}"#);
/// ```
pub fn to_canonical(value: &Value) -> String {
    let mut text = String::new();
    write_value(value, &mut text).expect("a String takes every write");
    text
}

/// Writes the canonical form of `value` to any sink, so that hashing needs no copy of the text.
pub(crate) fn write_value(value: &Value, out: &mut impl Write) -> fmt::Result {
    match value {
        Value::Null => out.write_str("null"),
        Value::Bool(true) => out.write_str("true"),
        Value::Bool(false) => out.write_str("false"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.write_char('[')?;
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.write_char(',')?;
                }
                write_value(item, out)?;
            }
            out.write_char(']')
        }
        Value::Object(fields) => write_object(fields, out),
    }
}

fn write_object(fields: &Map<String, Value>, out: &mut impl Write) -> fmt::Result {
    let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
    // The order of UTF-8 differs from that of UTF-16 where surrogate pairs meet U+E000 and above.
    sorted.sort_by(|(left, _), (right, _)| left.encode_utf16().cmp(right.encode_utf16()));

    out.write_char('{')?;
    for (position, (name, value)) in sorted.into_iter().enumerate() {
        if position > 0 {
            out.write_char(',')?;
        }
        write_string(name, out)?;
        out.write_char(':')?;
        write_value(value, out)?;
    }
    out.write_char('}')
}

fn write_number(number: &Number, out: &mut impl Write) -> fmt::Result {
    let double = number.as_f64().filter(|_| !number.is_u64() && !number.is_i64());
    match double {
        Some(double) => write_double(double, out),
        // An integer; or a number beyond doubles, which exists where a program switches on `arbitrary_precision`.
        None => write!(out, "{number}"),
    }
}

/// Prints a finite double as ECMAScript's `Number::toString` does.
///
/// The standard library's `{:e}` finds digits as short, but rounds a tie up where ECMAScript takes the even digit
/// (1424953923781206.25), hence `ryu-js`.
fn write_double(double: f64, out: &mut impl Write) -> fmt::Result {
    out.write_str(ryu_js::Buffer::new().format_finite(double))
}

fn write_string(text: &str, out: &mut impl Write) -> fmt::Result {
    out.write_char('"')?;
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        out.write_str(&rest[..at])?;
        match rest.as_bytes()[at] {
            b'"' => out.write_str("\\\"")?,
            b'\\' => out.write_str("\\\\")?,
            0x08 => out.write_str("\\b")?,
            0x09 => out.write_str("\\t")?,
            0x0a => out.write_str("\\n")?,
            0x0c => out.write_str("\\f")?,
            0x0d => out.write_str("\\r")?,
            control => write!(out, "\\u{control:04x}")?,
        }
        rest = &rest[at + 1..];
    }
    out.write_str(rest)?;
    out.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn double(bits: u64) -> String {
        let mut text = String::new();
        write_double(f64::from_bits(bits), &mut text).unwrap();
        text
    }

    /// RFC 8785, appendix B.
    #[test]
    fn doubles_are_printed_as_the_rfc_lists_them() {
        let listed = [
            (0x0000000000000000, "0"),
            (0x8000000000000000, "0"),
            (0x0000000000000001, "5e-324"),
            (0x8000000000000001, "-5e-324"),
            (0x7fefffffffffffff, "1.7976931348623157e+308"),
            (0xffefffffffffffff, "-1.7976931348623157e+308"),
            (0x4340000000000000, "9007199254740992"),
            (0xc340000000000000, "-9007199254740992"),
            (0x4430000000000000, "295147905179352830000"),
            (0x44b52d02c7e14af5, "9.999999999999997e+22"),
            (0x44b52d02c7e14af6, "1e+23"),
            (0x44b52d02c7e14af7, "1.0000000000000001e+23"),
            (0x444b1ae4d6e2ef4e, "999999999999999700000"),
            (0x444b1ae4d6e2ef4f, "999999999999999900000"),
            (0x444b1ae4d6e2ef50, "1e+21"),
            (0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"),
            (0x3eb0c6f7a0b5ed8d, "0.000001"),
            (0x41b3de4355555553, "333333333.3333332"),
            (0x41b3de4355555554, "333333333.33333325"),
            (0x41b3de4355555555, "333333333.3333333"),
            (0x41b3de4355555556, "333333333.3333334"),
            (0x41b3de4355555557, "333333333.33333343"),
            (0xbecbf647612f3696, "-0.0000033333333333333333"),
            (0x43143ff3c1cb0959, "1424953923781206.2"),
        ];
        for (bits, expected) in listed {
            assert_eq!(double(bits), expected, "{bits:016x}");
        }
    }

    fn check(written: &str, expected: &str) {
        let value: Value = serde_json::from_str(written).unwrap();
        assert_eq!(to_canonical(&value), expected);
        let again: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(to_canonical(&again), expected, "the canonical form is its own canonical form");
    }

    /// RFC 8785, section 3.2.2.
    #[test]
    fn the_sample_object_of_the_rfc() {
        check(
            r#"{
              "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
              "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
              "literals": [null, true, false]
            }"#,
            r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#,
        );
    }

    /// RFC 8785, section 3.2.3.
    #[test]
    fn the_sorting_example_of_the_rfc() {
        check(
            r#"{
              "\u20ac": "Euro Sign",
              "\r": "Carriage Return",
              "\ufb33": "Hebrew Letter Dalet With Dagesh",
              "1": "One",
              "\ud83d\ude00": "Emoji: Grinning Face",
              "\u0080": "Control",
              "\u00f6": "Latin Small Letter O With Diaeresis"
            }"#,
            concat!(
                r#"{"\r":"Carriage Return","1":"One",""#,
                "\u{80}",
                r#"":"Control","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign","#,
                r#""😀":"Emoji: Grinning Face",""#,
                "\u{fb33}",
                r#"":"Hebrew Letter Dalet With Dagesh"}"#
            ),
        );
    }

    #[test]
    fn integers_beyond_two_to_the_53rd_are_written_in_full() {
        check("[9007199254740993, 18446744073709551615]", "[9007199254740993,18446744073709551615]");
        check("-9223372036854775808", "-9223372036854775808");
    }

    #[test]
    fn one_number_has_one_spelling() {
        for spelling in ["1", "1.0", "1e0", "10e-1", "0.1E1", "1.000"] {
            check(spelling, "1");
        }
        for spelling in ["0", "-0", "-0.0", "0e5"] {
            check(spelling, "0");
        }
    }

    #[test]
    fn every_control_character_is_escaped_in_its_shortest_form() {
        check(
            r#""\u0000\u0007\b\t\n\u000b\f\r\u001f\u007f""#,
            "\"\\u0000\\u0007\\b\\t\\n\\u000b\\f\\r\\u001f\u{7f}\"",
        );
    }

    #[test]
    fn empty_containers_stay_empty() {
        check(r#"{ "a": { }, "b": [ ], "": "" }"#, r#"{"":"","a":{},"b":[]}"#);
    }
}
