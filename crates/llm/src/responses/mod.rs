//! The OpenAI Responses protocol: requests to bytes, bodies and events to answers; pure.
//!
//! Facts: <https://platform.openai.com/docs/api-reference/responses>, and what servers were seen to do beyond it.
//!
//! # How the vocabulary maps
//!
//! | ours | on the wire |
//! |---|---|
//! | system | `instructions`, its texts joined |
//! | text by the user, by the model | `input_text`, `output_text`, in `message` items |
//! | [`ContentBlock::Thinking`] | a `reasoning` item: its summary or text, and `encrypted_content` as the signature |
//! | [`ContentBlock::ToolUse`], [`ContentBlock::ToolResult`] | `function_call`, `function_call_output`, by `call_id` |
//! | text with `refusal` | a `refusal` part; the answer's stop reason is [`StopReason::Refusal`] |
//! | [`ContentBlock::Other`] | an item of any other kind, as it came |
//!
//! What only this protocol knows of a block (a reasoning item's id, a message's `phase`, annotations) stands in the
//! block's further fields as `"foreign": {"responses": {..}}`. It is recorded and goes back to a server of this
//! protocol. Servers of other protocols are not shown it, nor thoughts and items of unknown kinds that have it. The
//! other way round, thoughts that another protocol signed and its blocks of unknown kinds are not sent here. So a
//! conversation may go on over another protocol than it began with: what was said, called and answered travels.
//!
//! [`ContentBlock::Thinking`]: crate::ContentBlock::Thinking
//! [`ContentBlock::ToolUse`]: crate::ContentBlock::ToolUse
//! [`ContentBlock::ToolResult`]: crate::ContentBlock::ToolResult
//! [`ContentBlock::Other`]: crate::ContentBlock::Other
//! [`StopReason::Refusal`]: crate::StopReason::Refusal

mod answer;
mod decode;
mod encode;
mod input;
mod item;

pub use answer::{decode_body, error_of_body};
pub use decode::Decoder;
pub use encode::encode;

pub(crate) use input::Input;

/// The name of this protocol in blocks that have something of it.
const PROTOCOL: &str = "responses";

#[cfg(test)]
mod tests;
