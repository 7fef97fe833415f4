//! The Chat Completions protocol, as OpenAI, Ollama, vLLM, llama.cpp, LM Studio and most gateways speak it; pure.
//!
//! Facts: <https://platform.openai.com/docs/api-reference/chat>, and what servers were seen to do beyond it.
//!
//! # How the vocabulary maps
//!
//! | ours | on the wire |
//! |---|---|
//! | system | one `system` message, its texts joined |
//! | text, pictures | `content`: a text, or parts where there is more than text |
//! | [`ContentBlock::Thinking`] | `reasoning_content` or `reasoning`, whichever the server uses |
//! | [`ContentBlock::ToolUse`], [`ContentBlock::ToolResult`] | `tool_calls`, and `tool` messages |
//! | text with `refusal` | `refusal`; the answer's stop reason is [`StopReason::Refusal`] |
//!
//! Thoughts go back to a server with the calls that they led to, and only there: models that call tools in the midst of
//! a thought need them, others refuse them. Thoughts that another protocol signed, and its blocks of unknown kinds, are
//! not sent here; and those of this protocol to no other, which is what `"foreign": {"chat_completions": {..}}` among
//! their further fields is for.
//!
//! [`ContentBlock::Thinking`]: crate::ContentBlock::Thinking
//! [`ContentBlock::ToolUse`]: crate::ContentBlock::ToolUse
//! [`ContentBlock::ToolResult`]: crate::ContentBlock::ToolResult
//! [`StopReason::Refusal`]: crate::StopReason::Refusal

mod answer;
mod calls;
mod decode;
mod encode;
mod turn;

pub use answer::{decode_body, error_of_body};
pub use decode::Decoder;
pub use encode::{Dialect, encode};

pub(crate) use turn::Turns;

/// The name of this protocol in blocks that have something of it.
const PROTOCOL: &str = "chat_completions";

#[cfg(test)]
mod tests;
