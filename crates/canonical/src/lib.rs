//! RFC 8785 canonical JSON and SHA-256 digests of it.
//!
//! Two JSON texts that mean the same (whatever the order of their keys and the spelling of their numbers) have one
//! canonical form, and so one [`Digest`]. The canonical form is only ever hashed: what Relight stores is stored as it
//! was written.
//!
//! # Examples
//!
//! ```
//! use relight_canonical::Digest;
//!
//! let written: serde_json::Value = serde_json::from_str(r#"{"b": 1.0, "a": [1e2]}"#)?;
//! let respelled: serde_json::Value = serde_json::from_str(r#"{"a":[100],"b":1}"#)?;
//! assert_eq!(relight_canonical::to_canonical(&written), r#"{"a":[100],"b":1}"#);
//! assert_eq!(Digest::of_value(&written), Digest::of_value(&respelled));
//! # Ok::<(), serde_json::Error>(())
//! ```

mod digest;
mod json;
mod strict;

pub use digest::{Digest, Hasher, InvalidDigest};
pub use json::to_canonical;
pub use strict::{NotJson, to_value};
