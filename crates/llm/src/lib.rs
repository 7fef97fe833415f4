//! Talks to language models: one vocabulary, a client, and a stream decoder.
//!
//! | to | see |
//! |---|---|
//! | ask something | [`MessageRequest`], [`Message`], [`Tool`] |
//! | read the answer | [`MessageResponse`], [`ContentBlock`], [`StopReason`], [`Usage`] |
//! | bring a model of one's own | [`Provider`], [`MessageStream`] |
//! | put a stream together | [`StreamEvent`], [`Fold`] |
//! | know what failed | [`LlmError`] |
//! | know what a request's identity is | [`mod@hash`] |

mod error;
mod event;
mod fold;
pub mod hash;
mod provider;
mod vocabulary;

pub use error::{ErrorKind, LlmError, Stage};
pub use event::StreamEvent;
pub use fold::Fold;
pub use provider::{Delivery, MessageStream, Provider, Reply, Transport};
pub use vocabulary::{
    Content, ContentBlock, Message, MessageRequest, MessageResponse, Role, StopReason, Thinking, Tool,
    ToolChoice, Usage, UsageUpdate,
};
