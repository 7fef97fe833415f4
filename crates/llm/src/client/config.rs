//! Where a client finds its server, what it shows there, and how patient it is.

use std::fmt;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

use super::protocol::Protocol;
use crate::error::{ErrorKind, LlmError};
use crate::retry::Policy;
use crate::sse::DEFAULT_EVENT_LIMIT;

/// Settings of a [`Client`](super::Client), plain data.
///
/// Nothing is read from the environment: a key comes from [`Config::with_api_key`] or not at all. Keys and header
/// values appear in no `Debug`.
///
/// # Limits
///
/// Every wait for the server and every amount that it may send has its limit, but there is none for the time of a whole
/// answer: a server that sends a ping now and then may take as long as it likes. [`Config::with_body_limit`] bounds the
/// bytes of an answer, pings included. An answer in memory may take several times its bytes.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use relight_llm::{Client, Config};
///
/// let config = Config::new()
///     .with_base_url("http://127.0.0.1:8080")
///     .with_max_retries(0)
///     .with_first_event_timeout(Duration::from_secs(30));
/// let client = Client::new(config)?;
/// # Ok::<(), relight_llm::LlmError>(())
/// ```
#[derive(Clone)]
pub struct Config {
    pub(super) protocol: Protocol,
    pub(super) base_url: String,
    pub(super) api_key: Option<SecretString>,
    pub(super) headers: Vec<(String, SecretString)>,
    pub(super) betas: Vec<String>,
    pub(super) retry: Policy,
    pub(super) connect_timeout: Duration,
    pub(super) first_event_timeout: Duration,
    pub(super) silence_timeout: Duration,
    pub(super) event_limit: usize,
    pub(super) body_limit: usize,
}

impl Config {
    /// The Messages API at Anthropic; the same as [`Config::messages`].
    pub fn new() -> Config {
        Config::messages()
    }

    /// The Messages API, at Anthropic unless another base URL is given.
    pub fn messages() -> Config {
        Config::of(Protocol::Messages, "https://api.anthropic.com")
    }

    /// The Responses API, at OpenAI unless another base URL is given.
    ///
    /// # Examples
    ///
    /// ```
    /// use relight_llm::{Client, Config};
    ///
    /// let client = Client::new(Config::responses().with_base_url("http://127.0.0.1:8080/v1"))?;
    /// # Ok::<(), relight_llm::LlmError>(())
    /// ```
    pub fn responses() -> Config {
        let mut config = Config::of(Protocol::Responses, "https://api.openai.com/v1");
        // As the vendor's own clients have it.
        config.retry.longest_wait = Duration::from_secs(120);
        config
    }

    /// Chat Completions, which Ollama, vLLM, llama.cpp, LM Studio and most gateways speak; at OpenAI unless another base
    /// URL is given (`http://127.0.0.1:11434/v1` is Ollama's).
    pub fn chat_completions() -> Config {
        let mut config = Config::responses();
        config.protocol = Protocol::ChatCompletions;
        config
    }

    fn of(protocol: Protocol, base_url: &str) -> Config {
        Config {
            protocol,
            base_url: base_url.to_owned(),
            api_key: None,
            headers: Vec::new(),
            betas: Vec::new(),
            retry: Policy::default(),
            connect_timeout: Duration::from_secs(10),
            first_event_timeout: Duration::from_secs(600),
            silence_timeout: Duration::from_secs(300),
            event_limit: DEFAULT_EVENT_LIMIT,
            body_limit: 256 << 20,
        }
    }

    /// The server. For the Messages API without the path of the API (`https://api.anthropic.com`); a trailing `/v1` is
    /// dropped. For the others with all of the path but its last part (`https://api.openai.com/v1`).
    #[must_use]
    pub fn with_base_url(mut self, url: impl Into<String>) -> Config {
        self.base_url = url.into();
        self
    }

    /// The key, sent as `x-api-key` to the Messages API, as `authorization: Bearer` to others. Without one no such header
    /// is sent.
    #[must_use]
    pub fn with_api_key(mut self, key: impl Into<SecretString>) -> Config {
        self.api_key = Some(key.into());
        self
    }

    /// A header for every request; its value is kept like a secret. It replaces one that the client would send.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<SecretString>) -> Config {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// A beta of the Messages API to take part in, named in `anthropic-beta`. Others have no such thing, and no client is
    /// made of it; what they want is given by [`Config::with_header`].
    #[must_use]
    pub fn with_beta(mut self, beta: impl Into<String>) -> Config {
        self.betas.push(beta.into());
        self
    }

    /// How often a failed call is tried again; 2 by default.
    #[must_use]
    pub fn with_max_retries(mut self, retries: u32) -> Config {
        self.retry.max_retries = retries;
        self
    }

    /// How long after its first try a call may be tried again; two minutes by default.
    #[must_use]
    pub fn with_retry_budget(mut self, budget: Duration) -> Config {
        self.retry.budget = budget;
        self
    }

    /// How long a connection may take to be made; 10 s by default.
    #[must_use]
    pub fn with_connect_timeout(mut self, limit: Duration) -> Config {
        self.connect_timeout = limit;
        self
    }

    /// How long the first event of a stream, or the head of a whole answer, may take; 10 min by default.
    #[must_use]
    pub fn with_first_event_timeout(mut self, limit: Duration) -> Config {
        self.first_event_timeout = limit;
        self
    }

    /// How long a server may send nothing within an answer, not even a ping; 5 min by default. There is no limit for a
    /// whole answer.
    #[must_use]
    pub fn with_silence_timeout(mut self, limit: Duration) -> Config {
        self.silence_timeout = limit;
        self
    }

    /// How large one event of a stream may be, in bytes; 64 MiB by default.
    #[must_use]
    pub fn with_event_limit(mut self, bytes: usize) -> Config {
        self.event_limit = bytes;
        self
    }

    /// How large a whole answer may be, streamed or not, in bytes; 256 MiB by default.
    #[must_use]
    pub fn with_body_limit(mut self, bytes: usize) -> Config {
        self.body_limit = bytes;
        self
    }

    /// The URL of the API's one endpoint.
    pub(super) fn endpoint(&self) -> Result<Url, LlmError> {
        let wrong = |what: &str| configuration(format!("the base URL {what}"));
        let mut url = Url::parse(&self.base_url).map_err(|error| {
            wrong(&format!("is not a URL ({error}); expected something like https://api.anthropic.com"))
        })?;
        if !["http", "https"].contains(&url.scheme()) {
            return Err(wrong(
                "has another scheme than http and https; expected something like https://api.anthropic.com",
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("holds a user name or password; give keys by with_api_key or with_header"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("has a query or fragment; expected only a server and a path"));
        }
        let path = url.path().trim_end_matches('/');
        let path = match self.protocol {
            Protocol::Messages => format!("{}/v1/messages", path.strip_suffix("/v1").unwrap_or(path)),
            Protocol::Responses => format!("{path}/responses"),
            Protocol::ChatCompletions => format!("{path}/chat/completions"),
        };
        url.set_path(&path);
        Ok(url)
    }

    /// The headers of every request.
    pub(super) fn header_map(&self) -> Result<HeaderMap, LlmError> {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        // A compressed stream is held back until a block is full, and one that is cut looks whole.
        headers.insert("accept-encoding", HeaderValue::from_static("identity"));
        let what = "the API key";
        match (self.protocol, &self.api_key) {
            (Protocol::Messages, key) => {
                headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
                if !self.betas.is_empty() {
                    headers.insert("anthropic-beta", header_value("anthropic-beta", &self.betas.join(","))?);
                }
                if let Some(key) = key {
                    headers.insert("x-api-key", secret_value(what, key)?);
                }
            }
            (Protocol::Responses | Protocol::ChatCompletions, _) if !self.betas.is_empty() => {
                let message =
                    "betas are named to the Messages API only; give what the server wants by with_header";
                return Err(configuration(message.to_owned()));
            }
            (Protocol::Responses | Protocol::ChatCompletions, Some(key)) => {
                // The key by itself is looked at, so that an empty one is seen.
                secret_value(what, key)?;
                let bearer = SecretString::from(format!("Bearer {}", key.expose_secret()));
                headers.insert("authorization", secret_value(what, &bearer)?);
            }
            (Protocol::Responses | Protocol::ChatCompletions, None) => {}
        }
        for (name, value) in &self.headers {
            let header = HeaderName::try_from(name.as_str())
                .map_err(|_| configuration(format!("{name:?} is not the name of a header")))?;
            headers.insert(header, secret_value(&format!("the value of the header {name:?}"), value)?);
        }
        Ok(headers)
    }

    pub(super) fn check_limits(&self) -> Result<(), LlmError> {
        let timeouts = [
            ("connect_timeout", self.connect_timeout),
            ("first_event_timeout", self.first_event_timeout),
            ("silence_timeout", self.silence_timeout),
        ];
        if let Some((name, _)) = timeouts.iter().find(|(_, limit)| limit.is_zero()) {
            return Err(configuration(format!("{name} is zero, so every call would fail; give it a time")));
        }
        for (name, limit) in [("event_limit", self.event_limit), ("body_limit", self.body_limit)] {
            if limit == 0 {
                return Err(configuration(format!("{name} is zero, so every answer would be too large")));
            }
        }
        Ok(())
    }

    /// What must appear in no text that leaves the client. In a header that is mostly the last word: `Bearer KEY`.
    pub(super) fn secrets(&self) -> impl Iterator<Item = SecretString> {
        let header_values = self.headers.iter().map(|(_, value)| value);
        let last_words = self.headers.iter().filter_map(|(_, value)| {
            let (_, word) = value.expose_secret().trim().rsplit_once(' ')?;
            Some(SecretString::from(word))
        });
        self.api_key.iter().chain(header_values).cloned().chain(last_words)
    }
}

impl Default for Config {
    fn default() -> Config {
        Config::new()
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header_names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        // A base URL may be wrong in that it holds a password, and is shown before anybody checks it.
        let base_url = self.endpoint().map_or("(not usable)".to_owned(), |_| self.base_url.clone());
        f.debug_struct("Config")
            .field("protocol", &self.protocol)
            .field("base_url", &base_url)
            .field("api_key", &self.api_key.as_ref().map(|_| "(secret)"))
            .field("headers", &header_names)
            .field("betas", &self.betas)
            .field("retry", &self.retry)
            .field("connect_timeout", &self.connect_timeout)
            .field("first_event_timeout", &self.first_event_timeout)
            .field("silence_timeout", &self.silence_timeout)
            .field("event_limit", &self.event_limit)
            .field("body_limit", &self.body_limit)
            .finish()
    }
}

fn secret_value(what: &str, secret: &SecretString) -> Result<HeaderValue, LlmError> {
    let mut value = header_value(what, secret.expose_secret())?;
    value.set_sensitive(true);
    Ok(value)
}

/// The text is not named in the error, since it may be a secret.
fn header_value(what: &str, text: &str) -> Result<HeaderValue, LlmError> {
    if text.is_empty() {
        return Err(configuration(format!("{what} is empty")));
    }
    HeaderValue::from_str(text).map_err(|_| {
        configuration(format!("{what} holds a character that no header may have (a line break?)"))
    })
}

pub(super) fn configuration(message: String) -> LlmError {
    LlmError::new(ErrorKind::Configuration, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(base_url: &str) -> Result<String, String> {
        let config = Config::new().with_base_url(base_url);
        config.endpoint().map(String::from).map_err(|error| error.to_string())
    }

    #[test]
    fn a_base_url_may_end_in_a_slash_or_in_v1() {
        for base_url in ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"] {
            assert_eq!(endpoint(base_url).unwrap(), "http://h:1/v1/messages");
        }
        assert_eq!(
            endpoint("https://h/gateway/anthropic").unwrap(),
            "https://h/gateway/anthropic/v1/messages"
        );
    }

    #[test]
    fn a_base_url_that_cannot_work_is_refused_by_name() {
        let refused = [
            ("", "is not a URL"),
            ("api.anthropic.com", "is not a URL"),
            ("ftp://h", "another scheme"),
            ("hunter2:x@h", "another scheme"),
            ("https://user:hunter2@h", "user name or password"),
            ("https://h?key=hunter2", "query or fragment"),
        ];
        for (base_url, reason) in refused {
            let error = endpoint(base_url).unwrap_err();
            assert!(error.contains(reason), "{base_url}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
            let shown = format!("{:?}", Config::new().with_base_url(base_url));
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }

    #[test]
    fn a_key_with_a_line_break_is_refused_without_being_named() {
        let error = Config::new().with_api_key("hunter2\n").header_map().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Configuration);
        assert!(error.to_string().contains("API key") && !error.to_string().contains("hunter2"), "{error}");
        assert!(Config::new().with_api_key("").header_map().is_err());
        assert!(Config::new().with_header("no name", "v").header_map().is_err());
    }

    #[test]
    fn a_limit_of_zero_is_refused_by_name() {
        let error = Config::new().with_silence_timeout(Duration::ZERO).check_limits().unwrap_err();
        assert!(error.to_string().contains("silence_timeout"), "{error}");
        let error = Config::new().with_body_limit(0).check_limits().unwrap_err();
        assert!(error.to_string().contains("body_limit"), "{error}");
    }

    #[test]
    fn a_base_url_of_openais_dialects_holds_all_but_the_last_part() {
        let endpoint = |config: Config| config.endpoint().unwrap().to_string();
        for base_url in ["http://h/api/v1", "http://h/api/v1/"] {
            assert_eq!(endpoint(Config::responses().with_base_url(base_url)), "http://h/api/v1/responses");
            assert_eq!(
                endpoint(Config::chat_completions().with_base_url(base_url)),
                "http://h/api/v1/chat/completions"
            );
        }
        assert_eq!(endpoint(Config::responses()), "https://api.openai.com/v1/responses");
    }

    #[test]
    fn debug_shows_no_secret() {
        let config = Config::new().with_api_key("sk-hunter2").with_header("authorization", "Bearer hunter2");
        let shown = format!("{config:?} {:?}", config.header_map().unwrap());
        assert!(shown.contains("authorization") && !shown.contains("hunter2"), "{shown}");
    }
}
