//! A SHA-256 digest, how it is made and how it is written (`sha256:<hex>`).

use std::fmt::{self, Write};
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;
use sha2::Digest as _;

use crate::json::write_value;

/// The SHA-256 of something, written `sha256:` and 64 lower-case hex digits.
///
/// # Examples
///
/// ```
/// use relight_canonical::Digest;
///
/// let digest = Digest::of_bytes(b"");
/// let written = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// assert_eq!(digest.to_string(), written);
/// assert_eq!(written.parse::<Digest>()?, digest);
/// # Ok::<(), relight_canonical::InvalidDigest>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Digests bytes as they are.
    pub fn of_bytes(bytes: &[u8]) -> Digest {
        Digest(sha2::Sha256::digest(bytes).into())
    }

    /// Digests the canonical form of a JSON value, without building its text.
    pub fn of_value(value: &Value) -> Digest {
        let mut hasher = Hasher::new();
        write_value(value, &mut hasher).expect("a hasher takes every write");
        hasher.finish()
    }

    /// Digests `domain` and then the parts, one after another, with nothing between them.
    ///
    /// Only the last part may vary in length: with two of them, different inputs would hash equally.
    ///
    /// # Examples
    ///
    /// ```
    /// use relight_canonical::Digest;
    ///
    /// let previous = Digest::of_bytes(b"genesis");
    /// let link = Digest::of_parts("example/link/1", &[previous.as_bytes(), b"record"]);
    /// assert_ne!(link, Digest::of_parts("example/other/1", &[previous.as_bytes(), b"record"]));
    /// ```
    pub fn of_parts(domain: &str, parts: &[&[u8]]) -> Digest {
        let mut hasher = Hasher::new();
        hasher.update(domain.as_bytes());
        for part in parts {
            hasher.update(part);
        }
        hasher.finish()
    }

    /// Wraps the 32 bytes of a digest that was made elsewhere.
    pub const fn from_bytes(bytes: [u8; 32]) -> Digest {
        Digest(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        f.write_str(PREFIX)?;
        for byte in self.0 {
            f.write_char(HEX[usize::from(byte >> 4)].into())?;
            f.write_char(HEX[usize::from(byte & 15)].into())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    /// Reads the one written form; upper-case digits are refused, so that a digest has one spelling.
    fn from_str(text: &str) -> Result<Digest, InvalidDigest> {
        let invalid = || InvalidDigest { found: text.chars().take(80).collect() };
        let hex = text.strip_prefix(PREFIX).ok_or_else(invalid)?.as_bytes();
        if hex.len() != 64 {
            return Err(invalid());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = hex_value(pair[0]).ok_or_else(invalid)? << 4 | hex_value(pair[1]).ok_or_else(invalid)?;
        }
        Ok(Digest(bytes))
    }
}

fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Digest;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a digest written as \"sha256:\" and 64 lower-case hex digits")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Digest, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

/// Makes a [`Digest`] of bytes that arrive piece by piece; as a [`fmt::Write`] it takes formatted text too.
///
/// # Examples
///
/// ```
/// use relight_canonical::{Digest, Hasher};
///
/// let mut hasher = Hasher::new();
/// hasher.update(b"one ");
/// hasher.update(b"piece");
/// assert_eq!(hasher.finish(), Digest::of_bytes(b"one piece"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Hasher(sha2::Sha256);

impl Hasher {
    /// A hasher that has seen nothing.
    pub fn new() -> Hasher {
        Hasher::default()
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes taken.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

impl Write for Hasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.update(text.as_bytes());
        Ok(())
    }
}

/// A text that is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not a digest: expected \"sha256:\" and 64 lower-case hex digits")]
pub struct InvalidDigest {
    found: String,
}

const PREFIX: &str = "sha256:";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_digest_is_written_and_read_in_one_form() {
        let digest = Digest::of_bytes(b"abc");
        assert_eq!(digest.to_string(), ABC);
        assert_eq!(format!("{digest:?}"), ABC);
        assert_eq!(ABC.parse(), Ok(digest));
        assert_eq!(serde_json::to_value(digest).unwrap(), json!(ABC));
        assert_eq!(serde_json::from_value::<Digest>(json!(ABC)).unwrap(), digest);
        assert_eq!(Digest::from_bytes(*digest.as_bytes()), digest);
    }

    #[test]
    fn what_is_not_a_digest_is_refused_by_name() {
        for text in ["", "sha256:", "sha256:ba78", &ABC.to_uppercase(), &ABC.replace("ba", "zz"), &ABC[7..]] {
            let error = text.parse::<Digest>().unwrap_err();
            assert!(error.to_string().contains("64 lower-case hex digits"), "{text}: {error}");
        }
        // 64 bytes, but not 64 digits.
        assert!(format!("sha256:{}", "é".repeat(32)).parse::<Digest>().is_err());
    }

    #[test]
    fn hashing_a_value_is_hashing_its_canonical_text() {
        let value = json!({ "b": [1.5, "\u{1f}é"], "a": null });
        assert_eq!(Digest::of_value(&value), Digest::of_bytes(crate::to_canonical(&value).as_bytes()));
    }

    #[test]
    fn parts_are_hashed_one_after_another() {
        assert_eq!(Digest::of_parts("a", &[b"b", b"c"]), Digest::of_bytes(b"abc"));
    }
}
