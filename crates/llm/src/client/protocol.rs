//! The protocols that a client speaks, each by its pure half.

use std::time::SystemTime;

use crate::error::LlmError;
use crate::event::StreamEvent;
use crate::messages::{self, Mode};
use crate::vocabulary::{MessageRequest, MessageResponse};
use crate::{chat, responses, sse};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Messages,
    Responses,
    ChatCompletions,
}

impl Protocol {
    /// Writes a request for a server at `host`, since some things are called otherwise at one or another.
    pub(super) fn encode(
        self,
        request: &MessageRequest,
        mode: Mode,
        host: &str,
    ) -> Result<Vec<u8>, LlmError> {
        match self {
            Protocol::Messages => messages::encode(request, mode),
            Protocol::Responses => responses::encode(request, mode),
            Protocol::ChatCompletions => chat::encode(request, mode, chat::Dialect::of_host(host)),
        }
    }

    /// Reads a whole answer to a request to `model`.
    pub(super) fn decode_body(self, body: &[u8], model: &str) -> Result<MessageResponse, LlmError> {
        match self {
            Protocol::Messages => messages::decode_body(body),
            Protocol::Responses => responses::decode_body(body, model),
            Protocol::ChatCompletions => chat::decode_body(body, model),
        }
    }

    pub(super) fn error_of_body(self, status: u16, body: &[u8]) -> LlmError {
        match self {
            Protocol::Messages => messages::error_of_body(status, body),
            Protocol::Responses => responses::error_of_body(status, body, SystemTime::now()),
            Protocol::ChatCompletions => chat::error_of_body(status, body, SystemTime::now()),
        }
    }

    /// Reads a streamed answer to a request to `model`.
    pub(super) fn decoder(self, model: &str) -> Decoder {
        match self {
            Protocol::Messages => Decoder::Messages(None),
            Protocol::Responses => Decoder::Responses(Box::new(responses::Decoder::new(model))),
            Protocol::ChatCompletions => Decoder::ChatCompletions(Box::new(chat::Decoder::new(model))),
        }
    }
}

/// What a stream's events mean, one protocol or another.
pub(super) enum Decoder {
    /// Each event means one of ours at most.
    Messages(Option<Result<StreamEvent, LlmError>>),
    Responses(Box<responses::Decoder>),
    ChatCompletions(Box<chat::Decoder>),
}

impl Decoder {
    /// Takes the next event. Take out what it means before pushing more.
    pub(super) fn push(&mut self, event: &sse::Event<'_>) {
        match self {
            Decoder::Messages(next) => *next = messages::decode_event(event).transpose(),
            Decoder::Responses(decoder) => decoder.push(event),
            Decoder::ChatCompletions(decoder) => decoder.push(event),
        }
    }

    pub(super) fn next_event(&mut self) -> Option<Result<StreamEvent, LlmError>> {
        match self {
            Decoder::Messages(next) => next.take(),
            Decoder::Responses(decoder) => decoder.next_event(),
            Decoder::ChatCompletions(decoder) => decoder.next_event(),
        }
    }

    /// The stream has ended cleanly.
    pub(super) fn finish(&mut self) {
        match self {
            Decoder::Messages(_) | Decoder::Responses(_) => {}
            Decoder::ChatCompletions(decoder) => decoder.finish(),
        }
    }
}
