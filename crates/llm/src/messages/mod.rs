//! The Anthropic Messages protocol: requests to bytes, bytes and events to answers; pure.
//!
//! Facts: <https://platform.claude.com/docs/en/api/messages>, and what servers were seen to do beyond it.

mod decode;
mod encode;
mod json;

pub(crate) use decode::{beginning_of, count, start_of};
pub use decode::{decode_body, decode_event, error_of_body};
pub use encode::{Mode, encode};
pub(crate) use json::read_object;

#[cfg(test)]
mod tests;
