//! How our own optional fields are written and read: left out where they say nothing, null equal to absent.

use serde::{Deserialize, Deserializer};

/// Reads a field that has a default; `null` stands for it, as a missing field does.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Whether a count says nothing.
pub(crate) fn is_zero(count: &(impl Default + PartialEq)) -> bool {
    *count == Default::default()
}
