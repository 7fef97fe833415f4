//! Talks to language models: one vocabulary, a client, and a stream decoder.
//!
//! | to | see |
//! |---|---|
//! | ask something | [`MessageRequest`], [`Message`], [`Tool`] |
//! | read the answer | [`MessageResponse`], [`ContentBlock`], [`StopReason`], [`Usage`] |
//! | reach a server | `Client`, `Config` (feature `http`) |
//! | bring a model of one's own | [`Provider`], [`MessageStream`] |
//! | put a stream together | [`StreamEvent`], [`Fold`] |
//! | know what failed | [`LlmError`] |
//! | know what a request's identity is | [`mod@hash`] |
//!
//! Everything but the client is pure and compiles without features: [`sse`] finds events in bytes, [`messages`],
//! [`responses`] and [`chat`] speak the protocols, [`Fold`] puts answers together, [`retry`] decides about another try.

pub mod chat;
#[cfg(feature = "http")]
mod client;
mod error;
mod event;
mod fold;
pub mod hash;
pub mod messages;
mod openai;
mod provider;
pub mod responses;
pub mod retry;
pub mod sse;
mod vocabulary;

#[cfg(feature = "http")]
pub use client::{Client, Config};
pub use error::{ErrorKind, LlmError, Stage};
pub use event::StreamEvent;
pub use fold::Fold;
pub use provider::{Delivery, MessageStream, Provider, Reply, Transport};
pub use vocabulary::{
    Content, ContentBlock, Message, MessageRequest, MessageResponse, Role, StopReason, Thinking, Tool,
    ToolChoice, Usage, UsageUpdate,
};
