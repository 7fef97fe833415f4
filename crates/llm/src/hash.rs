//! The identity of a request: what is hashed, and what is not.
//!
//! # Specification
//!
//! All digests are SHA-256. *Canonical* means RFC 8785, with integers beyond 2^53 in full
//! ([`relight_canonical::to_canonical`]). A digest inside JSON is written `sha256:` and 64 lower-case hex digits.
//!
//! 1. The digest of a message is that of the canonical form of its recorded form
//!    (`{"role": .., "content": [block, ..]}`, see [`Message`] and [`Content`](crate::Content)).
//! 2. The digest of a conversation of n messages is `m_n`, where `m_0` = SHA-256(`relight/conversation/1`) and
//!    `m_i` = SHA-256(`m_(i-1)` ‖ digest of message i), each digest as its 32 bytes.
//! 3. The hash of a request is that of the canonical form of one JSON object: the recorded form of the request
//!    without its messages ([`MessageRequest::rest`](crate::MessageRequest::rest)), and in it `"messages": m_n`.
//!
//! # What takes part
//!
//! `model`, `max_tokens`, `system` (blocks), `tools`, `tool_choice`, `serial_tool_calls`, `temperature`, `top_p`,
//! `top_k`, `stop_sequences`, `thinking`, `effort`, `output_schema`, `service_tier`, `previous_response_id`,
//! `metadata`, `extra`, and the conversation. Of our own fields, one that is absent, empty or the default is left
//! out, so that a field added later leaves the hashes of requests without it as they are. Inside schemas, tool
//! inputs, blocks of unknown kinds and `extra` everything counts, `null` too.
//!
//! Whether the answer is streamed, by which protocol and transport the request travels, time limits, retries, keys and
//! headers take no part.
//!
//! # Golden values
//!
//! `tests/golden/request_hashes.json` holds requests in their recorded form with their hashes, those of every release.

use relight_canonical::Digest;
use serde_json::Value;

use crate::vocabulary::Message;

/// The digest of a conversation in which nothing was said.
pub(crate) fn no_messages() -> Digest {
    Digest::of_bytes(CONVERSATION.as_bytes())
}

/// The digest of a conversation with one more message.
pub(crate) fn push_message(conversation: Digest, message: &Message) -> Digest {
    Digest::of_parts("", &[conversation.as_bytes(), message.digest().as_bytes()])
}

/// The hash of a request whose messages have this digest.
pub(crate) fn request(mut rest: Value, conversation: Digest) -> Digest {
    rest["messages"] = Value::String(conversation.to_string());
    Digest::of_value(&rest)
}

const CONVERSATION: &str = "relight/conversation/1";
