//! One HTTP exchange: the request goes out, the answer comes in, each wait with its limit.

use std::fmt::Display;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::Stream;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Response, StatusCode, Url};

use super::config::Config;
use super::failure::{Failure, Redactor, of_transport, server_of};
use super::protocol::{Decoder, Protocol};
use super::{ERROR_BODY_LIMIT, ERROR_BODY_TIMEOUT, Inner};
use crate::error::{ErrorKind, LlmError};
use crate::event::StreamEvent;
use crate::messages::{Mode, beginning_of};
use crate::provider::{Delivery, Transport};
use crate::retry::Hints;
use crate::sse;

/// Sends a request and waits for the head of a successful answer.
pub(super) async fn post(client: &Inner, mode: Mode, body: Bytes) -> Result<(Answer, Delivery), Failure> {
    let accept = match mode {
        Mode::Whole => "application/json",
        Mode::Stream => "text/event-stream",
    };
    let request = client
        .http
        .post(client.endpoint.clone())
        .header("accept", accept)
        .headers(client.headers.clone())
        .body(body);
    let limit = client.config.first_event_timeout;
    let response = tokio::time::timeout(limit, request.send())
        .await
        .map_err(|_| slow_start(&client.endpoint, limit))?
        .map_err(|error| of_transport(error, &client.endpoint))?;

    let status = response.status();
    let delivery = delivery(response.headers(), &client.redactor);
    let hints = hints(response.headers());
    let coding = coding(response.headers());
    let answer = Answer {
        response,
        endpoint: client.endpoint.clone(),
        silence: client.config.silence_timeout,
        read: 0,
        limit: client.config.body_limit,
    };
    match coding {
        Some(coding) => Err(compressed(status, &coding, &answer, hints).with_request_id(delivery.request_id)),
        None if status == StatusCode::OK => Ok((answer, delivery)),
        None => Err(refusal(client.config.protocol, status, answer, hints)
            .await
            .with_request_id(delivery.request_id)),
    }
}

/// The error for an answer with any other status than 200.
async fn refusal(protocol: Protocol, status: StatusCode, mut answer: Answer, mut hints: Hints) -> Failure {
    answer.limit = ERROR_BODY_LIMIT;
    let mut body = Vec::new();
    // What came before the connection broke or a limit was met still says more than the status alone.
    let limit = answer.silence.min(ERROR_BODY_TIMEOUT);
    let reading = async {
        while let Ok(Some(chunk)) = answer.chunk().await {
            body.extend_from_slice(&chunk);
        }
    };
    let _ = tokio::time::timeout(limit, reading).await;
    let mut error = protocol.error_of_body(status.as_u16(), &body);
    if status.is_redirection() {
        error.message = format!(
            "{} redirects, which is not followed with a key; check the base URL",
            server_of(&answer.endpoint)
        );
    }
    // The API names what it has not; anybody else does not know the path.
    if status == StatusCode::NOT_FOUND && error.code.is_none() {
        let (server, path, says) = (server_of(&answer.endpoint), answer.endpoint.path(), error.message);
        error.message = format!("check the base URL, {server}{path} was asked for: {says}");
    }
    // Some servers say in the body how long to wait, and only there.
    hints.retry_after = hints.retry_after.or(error.retry_after);
    error.retry_after = hints.retry_after;
    Failure { error, hints }
}

/// The error for an answer that is compressed, which was not asked for: a stream of it cannot be read as it comes, and
/// one that is cut looks whole.
fn compressed(status: StatusCode, coding: &str, answer: &Answer, hints: Hints) -> Failure {
    let message = format!(
        "{} compresses its answer ({coding}) though it was asked not to; check what stands between it and here",
        server_of(&answer.endpoint)
    );
    let status = status.as_u16();
    let mut error = LlmError::new(ErrorKind::of_status(status), message).with_status(status);
    error.retry_after = hints.retry_after;
    Failure { error, hints }
}

/// A successful answer whose body is still to be read.
pub(super) struct Answer {
    response: Response,
    endpoint: Url,
    silence: Duration,
    /// How many bytes have come, and how many may.
    read: usize,
    limit: usize,
}

impl Answer {
    /// The next bytes of the body.
    async fn chunk(&mut self) -> Result<Option<Bytes>, LlmError> {
        let chunk = tokio::time::timeout(self.silence, self.response.chunk())
            .await
            .map_err(|_| silent(&self.endpoint, self.silence))?
            .map_err(|error| of_transport(error, &self.endpoint))?;
        self.read += chunk.as_ref().map_or(0, Bytes::len);
        if self.read > self.limit {
            return Err(too_large(&format!("more than {} bytes came", self.limit), "body_limit"));
        }
        Ok(chunk)
    }

    /// The whole body. Once it has begun, the answer is there and being paid for, so what breaks then is not retried.
    pub(super) async fn whole_body(mut self) -> Result<Vec<u8>, LlmError> {
        let mut body = Vec::new();
        loop {
            match self.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => return Ok(body),
                Err(error) if self.read == 0 => return Err(error),
                Err(error) => return Err(error.mid_stream()),
            }
        }
    }
}

/// The events of a streamed answer.
pub(super) struct EventSource {
    answer: Answer,
    frames: sse::Decoder,
    decoder: Decoder,
    /// For a body that holds no events.
    protocol: Protocol,
    state: State,
    /// How the body began, to show what came instead of events.
    beginning: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    /// The body has ended cleanly; an event without its blank line may be left.
    Ended,
    /// The last event is decoded; what it means is taken out before the decoder is told of the end.
    Finishing,
    Done,
}

impl EventSource {
    pub(super) fn new(answer: Answer, config: &Config, model: &str) -> EventSource {
        EventSource {
            answer,
            frames: sse::Decoder::with_limit(config.event_limit),
            decoder: config.protocol.decoder(model),
            protocol: config.protocol,
            state: State::Reading,
            beginning: Vec::new(),
        }
    }

    /// The first event of the answer, for which there is a limit of its own, `waited` of which has passed. Pings before
    /// it begin nothing.
    pub(super) async fn first(&mut self, limit: Duration, waited: Duration) -> Result<StreamEvent, LlmError> {
        let silence = std::mem::replace(&mut self.answer.silence, Duration::MAX);
        let reading = async {
            loop {
                match self.next().await {
                    Some(Ok(StreamEvent::Ping | StreamEvent::Unknown { .. })) => {}
                    other => return other,
                }
            }
        };
        let first = tokio::time::timeout(limit.saturating_sub(waited), reading).await;
        self.answer.silence = silence;
        match first {
            Ok(Some(event)) => event,
            Ok(None) => Err(self.nothing_came()),
            Err(_) => Err(slow_start(&self.answer.endpoint, limit)),
        }
    }

    /// The remaining events, in order.
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<StreamEvent, LlmError>> + Send {
        futures::stream::unfold(self, async |mut source| {
            let event = source.next().await?;
            Some((event, source))
        })
    }

    async fn next(&mut self) -> Option<Result<StreamEvent, LlmError>> {
        loop {
            match self.decoded() {
                Ok(Some(StreamEvent::MessageStop)) => {
                    self.give_back_connection().await;
                    return Some(Ok(StreamEvent::MessageStop));
                }
                Ok(Some(event)) => return Some(Ok(event)),
                Err(error) => return Some(Err(self.fail(error))),
                Ok(None) => {}
            }
            match self.state {
                State::Reading => match self.answer.chunk().await {
                    Ok(Some(chunk)) => self.take(&chunk),
                    Ok(None) => self.state = State::Ended,
                    Err(error) => return Some(Err(self.fail(error))),
                },
                State::Ended => {
                    if let Some(last) = self.frames.finish() {
                        self.decoder.push(&last);
                    }
                    self.state = State::Finishing;
                }
                State::Finishing => match self.decoder.next_event() {
                    Some(event) => return Some(event),
                    None => {
                        self.decoder.finish();
                        self.state = State::Done;
                    }
                },
                State::Done => return self.decoder.next_event(),
            }
        }
    }

    /// The next event among the bytes that have come.
    fn decoded(&mut self) -> Result<Option<StreamEvent>, LlmError> {
        if self.state != State::Reading {
            return Ok(None);
        }
        loop {
            if let Some(event) = self.decoder.next_event() {
                return event.map(Some);
            }
            let event = self.frames.next_event().map_err(|error| too_large(&error, "event_limit"))?;
            let Some(event) = event else { return Ok(None) };
            self.decoder.push(&event);
        }
    }

    /// Reads the end of the body, which comes right behind the terminal event, so that the very next call finds the
    /// connection free. A server that does not end the body loses its connection instead.
    async fn give_back_connection(&mut self) {
        self.state = State::Done;
        let rest = async { while let Ok(Some(_)) = self.answer.chunk().await {} };
        let _ = tokio::time::timeout(BODY_END_TIMEOUT, rest).await;
    }

    fn take(&mut self, chunk: &[u8]) {
        let more = chunk.len().min(BEGINNING_LIMIT.saturating_sub(self.beginning.len()));
        self.beginning.extend_from_slice(&chunk[..more]);
        self.frames.push(chunk);
    }

    fn fail(&mut self, error: LlmError) -> LlmError {
        self.state = State::Done;
        error
    }

    /// The error for a 200 that holds no event: often a server that knows no streams, or an error it forgot to frame.
    fn nothing_came(&self) -> LlmError {
        match self.protocol.decode_body(&self.beginning, "") {
            Err(error) if error.kind != ErrorKind::Protocol => error,
            _ if self.beginning.trim_ascii().is_empty() => {
                LlmError::new(ErrorKind::Truncated, "the stream ended before its first event")
            }
            _ => {
                let body = beginning_of(&String::from_utf8_lossy(&self.beginning));
                LlmError::new(ErrorKind::Protocol, format!("what came is no stream of events: {body}"))
            }
        }
    }
}

fn delivery(headers: &HeaderMap, redactor: &Redactor) -> Delivery {
    let shown = |value: &HeaderValue| {
        let text = redactor.clean_text(beginning_of(value.to_str().ok()?));
        (!text.is_empty()).then_some(text)
    };
    let text = |name: &str| headers.get(name).and_then(shown);
    let rate_limits = headers.iter().filter(|(name, _)| is_rate_limit(name.as_str()));
    Delivery {
        transport: Transport::Http,
        request_id: text("request-id").or_else(|| text("x-request-id")),
        rate_limits: rate_limits
            .filter_map(|(name, value)| Some((name.to_string(), shown(value)?)))
            .collect(),
        ..Delivery::default()
    }
}

/// How the body is compressed, if it is.
fn coding(headers: &HeaderMap) -> Option<String> {
    let coding = headers.get("content-encoding")?.to_str().unwrap_or("of no known kind").trim();
    (!coding.is_empty() && !coding.eq_ignore_ascii_case("identity")).then(|| beginning_of(coding))
}

fn is_rate_limit(header: &str) -> bool {
    ["anthropic-ratelimit-", "anthropic-priority-", "x-ratelimit-"]
        .iter()
        .any(|prefix| header.starts_with(prefix))
}

fn hints(headers: &HeaderMap) -> Hints {
    Hints::read(|name| headers.get(name).and_then(|value| value.to_str().ok()), SystemTime::now())
}

fn too_large(what: &impl Display, limit: &str) -> LlmError {
    LlmError::new(ErrorKind::TooLarge, format!("{what}; raise {limit} if that is meant to be"))
}

fn slow_start(endpoint: &Url, limit: Duration) -> LlmError {
    let message =
        format!("{} did not begin to answer within {limit:?} (first_event_timeout)", server_of(endpoint));
    LlmError::new(ErrorKind::Timeout, message)
}

fn silent(endpoint: &Url, limit: Duration) -> LlmError {
    let message = format!("{} sent nothing for {limit:?} (silence_timeout)", server_of(endpoint));
    LlmError::new(ErrorKind::Timeout, message)
}

/// How much of a stream is kept until its first event, to show what came instead.
const BEGINNING_LIMIT: usize = 16 << 10;
const BODY_END_TIMEOUT: Duration = Duration::from_millis(100);
