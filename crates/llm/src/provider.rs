//! The trait of everything that answers a request, and the stream in which answers arrive.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use futures::{Stream, StreamExt};

use crate::error::LlmError;
use crate::event::StreamEvent;
use crate::fold::Fold;
use crate::vocabulary::{MessageRequest, MessageResponse};

/// Something that answers requests: a `Client`, or one's own.
///
/// # Examples
///
/// A provider that answers everything with one word:
///
/// ```
/// use async_trait::async_trait;
/// use relight_llm::{
///     ContentBlock, Delivery, LlmError, MessageRequest, MessageResponse, MessageStream, Provider, StopReason,
/// };
///
/// struct Parrot;
///
/// #[async_trait]
/// impl Provider for Parrot {
///     async fn stream(&self, request: &MessageRequest) -> Result<MessageStream, LlmError> {
///         let said = ContentBlock::text("Hello");
///         let answer = MessageResponse::new("msg_1", request.model(), said, StopReason::EndTurn);
///         Ok(MessageStream::of_response(&answer, Delivery::default()))
///     }
/// }
///
/// # futures::executor::block_on(async {
/// let reply = Parrot.send(&MessageRequest::new("parrot", 16)).await?;
/// assert_eq!(reply.response.text(), "Hello");
/// # Ok::<(), LlmError>(())
/// # }).unwrap();
/// ```
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// Starts an answer. `Ok` means that the answer has begun; how it goes on is in the stream.
    ///
    /// # Errors
    ///
    /// No answer has begun, and none will come of this call. Whether the server did any work is unknown. The call may
    /// be made again; a provider that retries has done so by now.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, or the stream later, abandons the answer and leaves the provider usable.
    async fn stream(&self, request: &MessageRequest) -> Result<MessageStream, LlmError>;

    /// Gets a whole answer, equal to that of a folded stream, which is how it is made unless a provider has a better
    /// way.
    ///
    /// # Errors
    ///
    /// As for [`Provider::stream`], and whatever may go wrong in the stream, with the partial answer inside.
    ///
    /// # Cancel safety
    ///
    /// As for [`Provider::stream`].
    async fn send(&self, request: &MessageRequest) -> Result<Reply, LlmError> {
        self.stream(request).await?.into_reply().await
    }
}

/// An answer on its way: owned, and independent of the provider it came from.
///
/// The stream checks and folds what passes through it. An event that cannot come, or an end before the answer's end,
/// comes out as an `Err` with the partial answer inside. After an `Err`, and after
/// [`StreamEvent::MessageStop`], nothing more comes.
///
/// # Examples
///
/// ```
/// # futures::executor::block_on(async {
/// use relight_llm::{ContentBlock, Delivery, MessageResponse, MessageStream, StopReason};
///
/// let answer = MessageResponse::new("msg_1", "some-model", ContentBlock::text("Hello"), StopReason::EndTurn);
/// let mut stream = MessageStream::of_response(&answer, Delivery::default());
/// let mut text = String::new();
/// while let Some(event) = stream.next().await {
///     text.push_str(event?.text().unwrap_or_default());
/// }
/// assert_eq!(text, "Hello");
/// assert_eq!(stream.into_reply().await?.response, answer);
/// # Ok::<(), relight_llm::LlmError>(())
/// # }).unwrap();
/// ```
pub struct MessageStream {
    /// `None` once it has ended.
    events: Option<Events>,
    fold: Fold,
    failure: Option<LlmError>,
    delivery: Delivery,
}

type Events = Pin<Box<dyn Stream<Item = Result<StreamEvent, LlmError>> + Send>>;

impl MessageStream {
    /// A stream of these events.
    pub fn new<S>(events: S, delivery: Delivery) -> MessageStream
    where
        S: Stream<Item = Result<StreamEvent, LlmError>> + Send + 'static,
    {
        MessageStream { events: Some(Box::pin(events)), fold: Fold::new(), failure: None, delivery }
    }

    /// A stream of an answer that is there already.
    pub fn of_response(response: &MessageResponse, delivery: Delivery) -> MessageStream {
        let events = StreamEvent::of_response(response).into_iter().map(Ok);
        MessageStream::new(futures::stream::iter(events), delivery)
    }

    /// How the answer came.
    pub fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// The next event; `None` when the answer is complete, or after an error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<Result<StreamEvent, LlmError>> {
        StreamExt::next(self).await
    }

    /// Takes the rest of the events and gives the whole answer, those taken before included.
    ///
    /// # Errors
    ///
    /// What went wrong in the stream, also if it has been handed out before.
    pub async fn into_reply(mut self) -> Result<Reply, LlmError> {
        while let Some(event) = self.next().await {
            event?;
        }
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok(Reply { response: self.fold.finish()?, delivery: self.delivery }),
        }
    }

    /// Folds what came; an event that cannot come, and an end that is none, become errors.
    fn check(
        &mut self,
        item: Option<Result<StreamEvent, LlmError>>,
    ) -> Result<Option<StreamEvent>, LlmError> {
        match item.transpose()? {
            Some(event) => self.fold.apply(&event).map(|()| Some(event)),
            None => self.fold.check_end().map(|()| None),
        }
    }

    /// The error with what the stream knows: the answer so far, and the server's name for the call.
    fn with_progress(&self, mut error: LlmError) -> LlmError {
        if error.request_id.is_none() {
            error.request_id.clone_from(&self.delivery.request_id);
        }
        match (self.fold.has_started(), &error.partial) {
            (true, None) => error.with_partial(self.fold.partial()).mid_stream(),
            (true, Some(_)) => error.mid_stream(),
            (false, _) => error,
        }
    }
}

impl Stream for MessageStream {
    type Item = Result<StreamEvent, LlmError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(events) = self.events.as_mut() else { return Poll::Ready(None) };
        let item = std::task::ready!(events.as_mut().poll_next(context));
        let checked = self.check(item).map_err(|error| {
            let error = self.with_progress(error);
            self.failure = Some(error.clone());
            error
        });
        if !matches!(checked, Ok(Some(_))) || self.fold.is_complete() {
            self.events = None;
        }
        Poll::Ready(checked.transpose())
    }
}

impl fmt::Debug for MessageStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageStream").field("delivery", &self.delivery).finish_non_exhaustive()
    }
}

/// A whole answer, and how it came.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reply {
    /// What the model answered.
    pub response: MessageResponse,
    /// How it came.
    pub delivery: Delivery,
}

impl Reply {
    /// An answer with how it came.
    pub fn new(response: MessageResponse, delivery: Delivery) -> Reply {
        Reply { response, delivery }
    }
}

/// How an answer came. It is no part of the answer, and is never recorded, hashed or compared.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Delivery {
    /// The way it travelled.
    pub transport: Transport,
    /// The server's name for the call.
    pub request_id: Option<String>,
    /// How often the call was tried again.
    pub retries: u32,
    /// What the server's headers say of rate limits, by header name.
    pub rate_limits: Vec<(String, String)>,
    /// The time from the last try to its first event, or to the whole answer where it was not streamed.
    pub first_event: Option<Duration>,
}

/// The way an answer travelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// A way of the provider's own.
    #[default]
    Custom,
    /// HTTP, in one body or as server-sent events.
    Http,
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::error::{ErrorKind, Stage};
    use crate::vocabulary::{ContentBlock, StopReason, UsageUpdate};

    fn start() -> StreamEvent {
        StreamEvent::MessageStart {
            id: "msg_1".into(),
            model: "m".into(),
            usage: UsageUpdate::default(),
            service_tier: None,
            extra: serde_json::Map::new(),
        }
    }

    fn stream(events: Vec<Result<StreamEvent, LlmError>>) -> MessageStream {
        MessageStream::new(futures::stream::iter(events), Delivery::default())
    }

    fn drain(stream: &mut MessageStream) -> Vec<Result<StreamEvent, LlmError>> {
        block_on(async {
            let mut items = Vec::new();
            while let Some(item) = stream.next().await {
                items.push(item);
            }
            items
        })
    }

    #[test]
    fn a_stream_that_ends_early_ends_in_an_error_with_the_partial_answer() {
        let mut cut = stream(vec![Ok(start())]);
        let items = drain(&mut cut);
        let Err(error) = &items[1] else { panic!("{items:?}") };
        assert_eq!((error.kind, error.stage), (ErrorKind::Truncated, Stage::MidStream));
        assert_eq!(error.partial.as_ref().unwrap().id, "msg_1");
        assert_eq!(block_on(cut.into_reply()).unwrap_err(), *error, "and the reply is the same error");
    }

    #[test]
    fn an_error_gains_the_partial_answer_and_ends_the_stream() {
        let busy = LlmError::new(ErrorKind::Overloaded, "busy");
        let mut broken = stream(vec![Ok(start()), Err(busy), Ok(StreamEvent::MessageStop)]);
        let items = drain(&mut broken);
        assert_eq!(items.len(), 2);
        let error = items[1].as_ref().unwrap_err();
        assert_eq!((error.kind, error.stage), (ErrorKind::Overloaded, Stage::MidStream));
        assert!(error.partial.is_some() && error.to_string().starts_with("Stream error"));
    }

    #[test]
    fn an_event_that_cannot_come_is_an_error() {
        let items = drain(&mut stream(vec![Ok(StreamEvent::BlockStop { index: 0 })]));
        assert_eq!(items[0].as_ref().unwrap_err().kind, ErrorKind::Protocol);
    }

    #[test]
    fn nothing_comes_after_the_terminal_event() {
        let late = Err(LlmError::new(ErrorKind::Connection, "reset"));
        let mut stream = stream(vec![Ok(start()), Ok(StreamEvent::MessageStop), late]);
        assert_eq!(drain(&mut stream).len(), 2);
        assert_eq!(block_on(stream.into_reply()).unwrap().response.id, "msg_1");
    }

    #[test]
    fn a_reply_may_be_asked_for_at_any_time() {
        let answer = MessageResponse::new("msg_1", "m", ContentBlock::text("Hello"), StopReason::EndTurn);
        for taken in 0..5 {
            let mut stream = MessageStream::of_response(&answer, Delivery::default());
            let reply = block_on(async {
                for _ in 0..taken {
                    stream.next().await.unwrap().unwrap();
                }
                stream.into_reply().await
            });
            assert_eq!(reply.unwrap().response, answer);
        }
    }
}
