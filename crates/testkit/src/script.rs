//! Which answer a request gets: a function of its conversation, so that a call issued again gets the same one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Answer, RequestBody};

/// What the scripted model says, turn by turn.
///
/// Turn *n* answers a request whose conversation holds *n* answers already. How many requests came before does not
/// matter: after a crash, a call that is issued again meets the same answer.
///
/// ```
/// use relight_testkit::{Answer, Script};
/// use serde_json::json;
///
/// let script = Script::new()
///     .turn(Answer::tool_use("toolu_1", "roll", json!({ "sides": 6 })))
///     .turn_with(|request| Answer::text(format!("You rolled {}.", request.tool_results()[0]["content"])))
///     .require_key("secret");
/// # let _ = script;
/// ```
#[derive(Clone)]
pub struct Script {
    turns: Vec<Turn>,
    otherwise: Option<Respond>,
    pub(crate) pace: Duration,
    pub(crate) key: Option<String>,
    pub(crate) max_request_bytes: usize,
}

#[derive(Clone, Debug)]
enum Turn {
    /// By attempt; the last one stays. Never empty.
    Attempts(Vec<Answer>),
    With(Respond),
}

#[derive(Clone)]
struct Respond(Arc<dyn Fn(&RequestBody) -> Answer + Send + Sync>);

impl Script {
    /// A script without a turn.
    pub fn new() -> Script {
        Script {
            turns: Vec::new(),
            otherwise: None,
            pace: Duration::ZERO,
            key: None,
            max_request_bytes: MAX_REQUEST_BYTES,
        }
    }

    /// The answer of the next turn.
    #[must_use]
    pub fn turn(self, answer: Answer) -> Script {
        self.push(Turn::Attempts(vec![answer]))
    }

    /// The answers of the next turn, attempt by attempt: the first request with a conversation gets the first answer, a
    /// repeated one the next, and from the last on it stays.
    ///
    /// # Panics
    ///
    /// If there is no answer among them.
    #[must_use]
    pub fn attempts(self, answers: impl IntoIterator<Item = Answer>) -> Script {
        let answers: Vec<Answer> = answers.into_iter().collect();
        assert!(!answers.is_empty(), "a turn needs at least one answer");
        self.push(Turn::Attempts(answers))
    }

    /// The answer of the next turn, made from the request.
    #[must_use]
    pub fn turn_with(self, respond: impl Fn(&RequestBody) -> Answer + Send + Sync + 'static) -> Script {
        self.push(Turn::With(Respond(Arc::new(respond))))
    }

    /// What answers all turns after the last one. Without it, they get an error.
    #[must_use]
    pub fn otherwise(mut self, respond: impl Fn(&RequestBody) -> Answer + Send + Sync + 'static) -> Script {
        self.otherwise = Some(Respond(Arc::new(respond)));
        self
    }

    /// The time from one delta to the next: zero by default, some tens of milliseconds to please the eye.
    #[must_use]
    pub fn pace(mut self, pace: Duration) -> Script {
        self.pace = pace;
        self
    }

    /// Refuses requests that do not carry this `x-api-key`.
    #[must_use]
    pub fn require_key(mut self, key: impl Into<String>) -> Script {
        self.key = Some(key.into());
        self
    }

    /// Refuses requests whose body is larger, as the real API does above 32 MiB, which is the default.
    #[must_use]
    pub fn max_request_bytes(mut self, limit: usize) -> Script {
        self.max_request_bytes = limit;
        self
    }

    /// The answer to a request; `attempt` counts the earlier ones with the same conversation.
    pub(crate) fn answer(&self, request: &RequestBody, attempt: usize) -> Answer {
        let turn = request.assistant_turns();
        match (self.turns.get(turn), &self.otherwise) {
            (Some(Turn::Attempts(answers)), _) => answers[attempt.min(answers.len() - 1)].clone(),
            (Some(Turn::With(respond)), _) | (None, Some(respond)) => (respond.0)(request),
            (None, None) => {
                let has = self.turns.len();
                Answer::error(
                    400,
                    "invalid_request_error",
                    format!(
                        "the script has {has} turns, and this conversation asks for another after {turn}"
                    ),
                )
            }
        }
    }

    fn push(mut self, turn: Turn) -> Script {
        self.turns.push(turn);
        self
    }
}

impl Default for Script {
    fn default() -> Script {
        Script::new()
    }
}

/// Does not show the key.
impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Script { turns, otherwise, pace, key, max_request_bytes } = self;
        let key = key.as_ref().map(|_| "required");
        f.debug_struct("Script")
            .field("turns", turns)
            .field("otherwise", otherwise)
            .field("pace", pace)
            .field("key", &key)
            .field("max_request_bytes", max_request_bytes)
            .finish()
    }
}

impl fmt::Debug for Respond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fn(&RequestBody) -> Answer")
    }
}

const MAX_REQUEST_BYTES: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(turns: usize) -> RequestBody {
        let mut messages = vec![json!({ "role": "user", "content": "go" })];
        for _ in 0..turns {
            messages.push(json!({ "role": "assistant", "content": "said" }));
            messages.push(json!({ "role": "user", "content": "more" }));
        }
        RequestBody::parse(
            json!({ "model": "m", "max_tokens": 1, "messages": messages }).to_string().as_bytes(),
        )
        .unwrap()
    }

    #[track_caller]
    fn check(script: &Script, turn: usize, attempt: usize, part: &str) {
        let answer = format!("{:?}", script.answer(&request(turn), attempt));
        assert!(answer.contains(part), "{answer}");
    }

    #[test]
    fn the_turn_decides_and_not_the_count_of_requests() {
        let script = Script::new().turn(Answer::text("first")).turn(Answer::text("second"));
        check(&script, 0, 0, "first");
        check(&script, 0, 7, "first");
        check(&script, 1, 0, "second");
    }

    #[test]
    fn a_repeated_request_gets_the_next_attempt_and_then_the_last() {
        let script = Script::new().attempts([Answer::text("first"), Answer::text("second")]);
        check(&script, 0, 0, "first");
        check(&script, 0, 1, "second");
        check(&script, 0, 2, "second");
    }

    #[test]
    fn the_key_is_not_shown() {
        let shown = format!("{:?}", Script::new().require_key("sk-secret"));
        assert!(!shown.contains("sk-secret"), "{shown}");
    }

    #[test]
    fn a_turn_beyond_the_script_is_an_error_that_says_so() {
        let script = Script::new().turn(Answer::text("first"));
        check(&script, 1, 0, "the script has 1 turns");
        let script = script.otherwise(|request| Answer::text(format!("{} turns", request.assistant_turns())));
        check(&script, 3, 0, "3 turns");
    }
}
