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
    let message = if error.is_timeout() && error.is_connect() {
        format!("no connection to {server} in time (connect_timeout); check the base URL and the network")
    } else if error.is_connect() {
        format!("no connection to {server} ({cause}); check the base URL and the network")
    } else {
        format!("the connection to {server} broke ({cause})")
    };
    LlmError::new(ErrorKind::Connection, message).with_source(error)
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
    pub(super) fn new(secrets: impl IntoIterator<Item = SecretString>) -> Redactor {
        let hidden = |secret: &SecretString| secret.expose_secret().len() >= SHORTEST_SECRET;
        Redactor(secrets.into_iter().filter(hidden).collect())
    }

    pub(super) fn clean(&self, mut error: LlmError) -> LlmError {
        let texts = [Some(&mut error.message), error.code.as_mut(), error.request_id.as_mut()];
        for text in texts.into_iter().flatten() {
            *text = self.clean_text(std::mem::take(text));
        }
        error
    }

    pub(super) fn clean_text(&self, mut text: String) -> String {
        for secret in &self.0 {
            let secret = secret.expose_secret();
            if text.contains(secret) {
                text = text.replace(secret, "(secret)");
            }
            if let Some(kept) = text.strip_suffix(" …") {
                // The text was cut, and may end in the beginning of the secret.
                let is_cut = |length: &usize| secret.get(..*length).is_some_and(|part| kept.ends_with(part));
                if let Some(length) = (SHORTEST_SECRET..secret.len()).rev().find(is_cut) {
                    text = format!("{}(secret) …", &kept[..kept.len() - length]);
                }
            }
        }
        text
    }
}

/// Anything shorter would be found in every text.
const SHORTEST_SECRET: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_taken_out_whole_or_cut() {
        let redactor =
            Redactor::new(["hunter2".into(), "sk-hunter2".into(), "abc".into(), "é-secret".into()]);
        let check = |text: &str, clean: &str| assert_eq!(redactor.clean_text(text.to_owned()), clean);
        check("the key hunter2 is wrong", "the key (secret) is wrong");
        check("it is hunter2", "it is (secret)");
        check("you said hunter …", "you said (secret) …");
        check("you said é-sec …", "you said (secret) …");
        check("nothing abc to hide, hunt", "nothing abc to hide, hunt");
    }
}
