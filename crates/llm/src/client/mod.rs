//! A client over HTTP, by whichever protocol its server speaks.

mod config;
mod exchange;
mod failure;
mod protocol;
mod tls;

pub use config::Config;

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use reqwest::header::HeaderMap;
use reqwest::{Url, redirect};
use tracing::Instrument;

use self::config::configuration;
use self::exchange::EventSource;
use self::failure::{Failure, Redactor};
use crate::error::LlmError;
use crate::event::StreamEvent;
use crate::messages::Mode;
use crate::provider::{Delivery, MessageStream, Provider, Reply};
use crate::retry::Decision;
use crate::vocabulary::MessageRequest;

/// Talks to a server of one protocol: [`Provider::stream`] by server-sent events, [`Provider::send`] by one body.
///
/// Clones share connections and are cheap. A call that fails before its first event is tried again as [`Config`]
/// allows; after that, never.
///
/// # Examples
///
/// ```no_run
/// # async fn run() -> Result<(), relight_llm::LlmError> {
/// use relight_llm::{Client, Config, Message, MessageRequest, Provider};
///
/// let client = Client::new(Config::new().with_api_key(std::env::var("ANTHROPIC_API_KEY").unwrap_or_default()))?;
/// let request = MessageRequest::new("claude-sonnet-4-5", 256).push_message(Message::user("What is 6 times 7?"));
///
/// let mut stream = client.stream(&request).await?;
/// while let Some(event) = stream.next().await {
///     if let Some(text) = event?.text() {
///         print!("{text}");
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    config: Config,
    endpoint: Url,
    headers: HeaderMap,
    http: reqwest::Client,
    redactor: Redactor,
}

impl Client {
    /// A client with these settings. No connection is made yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration), naming the setting that cannot work.
    pub fn new(config: Config) -> Result<Client, LlmError> {
        config.check_limits()?;
        let endpoint = config.endpoint()?;
        let headers = config.header_map()?;
        let mut http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls::tls(endpoint.scheme())?)
            // A redirect would hand the key to whomever the server names.
            .redirect(redirect::Policy::none())
            .connect_timeout(config.connect_timeout)
            .user_agent(concat!("relight-llm/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&endpoint) {
            http = http.no_proxy();
        }
        let http = http.build().map_err(|error| configuration(error.to_string()))?;
        let redactor = Redactor::new(config.secrets());
        Ok(Client(Arc::new(Inner { config, endpoint, headers, http, redactor })))
    }

    /// Opens a stream once, up to its first event; `model` is the one that is asked.
    async fn open(&self, body: Bytes, model: &str) -> Result<(StreamEvent, EventSource, Delivery), Failure> {
        let tried = Instant::now();
        let (answer, mut delivery) = exchange::post(&self.0, Mode::Stream, body).await?;
        let mut events = EventSource::new(answer, &self.0.config, model);
        match events.first(self.0.config.first_event_timeout, tried.elapsed()).await {
            Ok(first) => {
                delivery.first_event = Some(tried.elapsed());
                Ok((first, events, delivery))
            }
            Err(error) => Err(Failure::from(error).with_request_id(delivery.request_id)),
        }
    }

    /// Fetches a whole answer once.
    async fn fetch(&self, body: Bytes, model: &str) -> Result<Reply, Failure> {
        let tried = Instant::now();
        let (answer, mut delivery) = exchange::post(&self.0, Mode::Whole, body).await?;
        match answer.whole_body().await.and_then(|body| self.0.config.protocol.decode_body(&body, model)) {
            Ok(response) => {
                delivery.first_event = Some(tried.elapsed());
                Ok(Reply::new(response, delivery))
            }
            Err(error) => Err(Failure::from(error).with_request_id(delivery.request_id)),
        }
    }
}

impl Inner {
    fn host(&self) -> &str {
        self.endpoint.host_str().unwrap_or_default()
    }
}

/// The tries of one call.
struct Tries<'a> {
    client: &'a Inner,
    begin: Instant,
    retries: u32,
}

impl Tries<'_> {
    fn new(client: &Inner) -> Tries<'_> {
        Tries { client, begin: Instant::now(), retries: 0 }
    }

    /// Waits until the next try, or gives the failure back as the call's error.
    async fn wait_after(&mut self, failure: Failure) -> Result<(), LlmError> {
        let Failure { error, hints } = failure;
        let error = self.client.redactor.clean(error);
        let (kind, status, retries) = (error.kind, error.status, self.retries);
        match self.client.config.retry.decide(&error, hints, retries, self.begin.elapsed(), jitter()) {
            Decision::GiveUp => {
                tracing::debug!(?kind, status, retries, "model call failed");
                Err(error)
            }
            Decision::RetryIn(wait) => {
                tracing::debug!(?kind, status, retries, ?wait, "model call is tried again");
                tokio::time::sleep(wait).await;
                self.retries += 1;
                Ok(())
            }
        }
    }
}

#[async_trait]
impl Provider for Client {
    async fn stream(&self, request: &MessageRequest) -> Result<MessageStream, LlmError> {
        let span = tracing::debug_span!("model_call", model = request.model(), streamed = true);
        let opening = async {
            let body = Bytes::from(self.0.config.protocol.encode(request, Mode::Stream, self.0.host())?);
            let mut tries = Tries::new(&self.0);
            loop {
                match self.open(body.clone(), request.model()).await {
                    Ok((first, events, delivery)) => {
                        let delivery = Delivery { retries: tries.retries, ..delivery };
                        return Ok(self.handed_out(first, events, delivery));
                    }
                    Err(failure) => tries.wait_after(failure).await?,
                }
            }
        };
        opening.instrument(span).await
    }

    async fn send(&self, request: &MessageRequest) -> Result<Reply, LlmError> {
        let span = tracing::debug_span!("model_call", model = request.model(), streamed = false);
        let fetching = async {
            let body = Bytes::from(self.0.config.protocol.encode(request, Mode::Whole, self.0.host())?);
            let mut tries = Tries::new(&self.0);
            loop {
                match self.fetch(body.clone(), request.model()).await {
                    Ok(mut reply) => {
                        reply.delivery.retries = tries.retries;
                        return Ok(reply);
                    }
                    Err(failure) => tries.wait_after(failure).await?,
                }
            }
        };
        fetching.instrument(span).await
    }
}

impl Client {
    /// The stream as the caller gets it: errors in it are those of a stream, and name no secret.
    fn handed_out(&self, first: StreamEvent, events: EventSource, delivery: Delivery) -> MessageStream {
        let redactor = self.0.redactor.clone();
        let rest =
            events.into_stream().map(move |event| event.map_err(|error| redactor.clean(error).mid_stream()));
        MessageStream::new(futures::stream::iter([Ok(first)]).chain(rest), delivery)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("config", &self.0.config).finish_non_exhaustive()
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A number from 0 to 1. Retries of many clients shall not come at once; for that the hasher's seed is chance enough.
fn jitter() -> f64 {
    let drawn = RandomState::new().build_hasher().finish();
    f64::from(u32::try_from(drawn >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

/// How long a broken or refused answer's body is waited for, to say what the server has to say.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of a refused answer's body is read.
const ERROR_BODY_LIMIT: usize = 1 << 20;
