//! A try that failed: the error, what the headers say about another try, and no secret in either.

use std::error::Error;

use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};

use crate::error::{ErrorKind, LlmError};
use crate::retry::Hints;

/// Why a try failed, and what the server says about another one.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: LlmError,
    pub(super) hints: Hints,
}

impl Failure {
    pub(super) fn with_request_id(mut self, id: Option<String>) -> Failure {
        self.error.request_id = self.error.request_id.or(id);
        self
    }
}

impl From<LlmError> for Failure {
    fn from(error: LlmError) -> Failure {
        Failure { error, hints: Hints::default() }
    }
}

/// The error for an HTTP exchange that broke.
pub(super) fn of_transport(error: reqwest::Error, endpoint: &Url) -> LlmError {
    let server = server_of(endpoint);
    // The URL says nothing that is not said here, and the innermost cause says what happened.
    let error = error.without_url();
    let cause = innermost(&error);
    let (kind, message) = if error.is_timeout() && error.is_connect() {
        (
            ErrorKind::Connection,
            format!("no connection to {server} within the time limit; check the base URL and the network"),
        )
    } else if error.is_connect() {
        (
            ErrorKind::Connection,
            format!("no connection to {server} ({cause}); check the base URL and the network"),
        )
    } else {
        (ErrorKind::Connection, format!("the connection to {server} broke ({cause})"))
    };
    LlmError::new(kind, message).with_source(error)
}

/// A server by scheme, host and port.
pub(super) fn server_of(endpoint: &Url) -> String {
    endpoint.origin().ascii_serialization()
}

fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    cause.to_string()
}

/// Takes secrets out of texts that a server wrote: some quote the key that they refuse.
#[derive(Clone)]
pub(super) struct Redactor(Vec<SecretString>);

impl Redactor {
    pub(super) fn new(secrets: Vec<SecretString>) -> Redactor {
        Redactor(secrets)
    }

    pub(super) fn clean(&self, mut error: LlmError) -> LlmError {
        for secret in &self.0 {
            let secret = secret.expose_secret();
            for text in [Some(&mut error.message), error.code.as_mut(), error.request_id.as_mut()]
                .into_iter()
                .flatten()
            {
                if text.contains(secret) {
                    *text = text.replace(secret, "(secret)");
                }
            }
        }
        error
    }
}
