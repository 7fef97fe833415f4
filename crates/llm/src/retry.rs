//! Whether and when a failed call is made again; pure, clock and chance are arguments.

use std::time::{Duration, SystemTime};

use crate::error::{ErrorKind, LlmError, Stage};

/// How often a call may be tried again, and for how long in all.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use relight_llm::{ErrorKind, LlmError, retry::{Decision, Hints, Policy}};
///
/// let busy = LlmError::new(ErrorKind::Overloaded, "busy").with_status(529);
/// let policy = Policy::default();
/// let first = policy.decide(&busy, Hints::default(), 0, Duration::ZERO, 0.0);
/// assert_eq!(first, Decision::RetryIn(Duration::from_millis(500)));
/// assert_eq!(policy.decide(&busy, Hints::default(), policy.max_retries, Duration::ZERO, 0.0), Decision::GiveUp);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// How often a call is tried again.
    pub max_retries: u32,
    /// How long after the first try another one may begin.
    pub budget: Duration,
    /// The longest wait that is kept at a server's request.
    pub longest_wait: Duration,
}

impl Default for Policy {
    /// Two retries within two minutes, and [`LONGEST_WAIT`].
    fn default() -> Policy {
        Policy { max_retries: 2, budget: Duration::from_secs(120), longest_wait: LONGEST_WAIT }
    }
}

/// What to do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Make the call again after this time.
    RetryIn(Duration),
    /// Hand the error to the caller.
    GiveUp,
}

/// What the headers of a failed answer say about another try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// How long to wait, from `retry-after-ms` or `retry-after`.
    pub retry_after: Option<Duration>,
    /// The server's own verdict, from `x-should-retry`.
    pub should_retry: Option<bool>,
}

impl Policy {
    /// Decides about a failure after `retries` retries, `elapsed` after the first try began. `jitter` is a number drawn
    /// from 0 to 1, which takes up to a quarter off the back-off.
    ///
    /// A wait that the server asks for is kept to the letter, or the call is given up: one that is longer than
    /// [`Policy::longest_wait`] or the rest of the budget is for the caller to wait, who may have better things to do.
    pub fn decide(
        &self,
        failure: &LlmError,
        hints: Hints,
        retries: u32,
        elapsed: Duration,
        jitter: f64,
    ) -> Decision {
        if retries >= self.max_retries || !is_worth_a_retry(failure, hints) {
            return Decision::GiveUp;
        }
        let wait = match hints.retry_after {
            Some(asked) if asked > self.longest_wait => return Decision::GiveUp,
            Some(asked) => asked,
            None => back_off(retries, jitter),
        };
        if elapsed.saturating_add(wait) > self.budget { Decision::GiveUp } else { Decision::RetryIn(wait) }
    }
}

fn is_worth_a_retry(failure: &LlmError, hints: Hints) -> bool {
    // Once the answer has begun, it is being paid for, and its beginning has been seen.
    if failure.stage == Stage::MidStream {
        return false;
    }
    if let Some(verdict) = hints.should_retry {
        return verdict;
    }
    match failure.kind {
        // Spent money does not come back by waiting, though the status be 429.
        ErrorKind::Billing | ErrorKind::Configuration | ErrorKind::TooLarge => false,
        ErrorKind::Connection | ErrorKind::RateLimited | ErrorKind::Overloaded | ErrorKind::Server => true,
        // The request is at the server and may be paid for (status 408 is the server's own word that it is not).
        _ => matches!(failure.status, Some(408 | 409)),
    }
}

fn back_off(retries: u32, jitter: f64) -> Duration {
    let longest = FIRST_BACK_OFF.saturating_mul(1_u32.checked_shl(retries).unwrap_or(u32::MAX));
    longest.min(LONGEST_BACK_OFF).mul_f64(1.0 - 0.25 * jitter.clamp(0.0, 1.0))
}

impl Hints {
    /// Reads the headers, by lower-case name. What makes no sense is as if it were absent.
    pub fn read<'a>(header: impl Fn(&str) -> Option<&'a str>, now: SystemTime) -> Hints {
        let milliseconds = header("retry-after-ms").and_then(|text| positive(text, 0.001));
        let retry_after = milliseconds.or_else(|| header("retry-after").and_then(|text| wait(text, now)));
        let should_retry = match header("x-should-retry").map(str::trim) {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        };
        Hints { retry_after, should_retry }
    }
}

/// Seconds, whole or not, or a date.
fn wait(text: &str, now: SystemTime) -> Option<Duration> {
    positive(text, 1.0).or_else(|| {
        let until = httpdate::parse_http_date(text.trim()).ok()?;
        until.duration_since(now).ok().filter(|wait| !wait.is_zero())
    })
}

fn positive(text: &str, unit: f64) -> Option<Duration> {
    let number: f64 = text.trim().parse().ok()?;
    Duration::try_from_secs_f64(number * unit).ok().filter(|wait| !wait.is_zero())
}

/// The longest wait that is kept at a server's request, unless one says otherwise.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);

const FIRST_BACK_OFF: Duration = Duration::from_millis(500);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Policy =
        Policy { max_retries: 3, budget: Duration::from_secs(30), longest_wait: LONGEST_WAIT };

    fn status(status: u16) -> LlmError {
        LlmError::new(ErrorKind::of_status(status), "").with_status(status)
    }

    fn is_retried(failure: &LlmError, hints: Hints) -> bool {
        POLICY.decide(failure, hints, 0, Duration::ZERO, 0.0) != Decision::GiveUp
    }

    #[test]
    fn what_may_pass_by_itself_is_tried_again() {
        for code in [408, 409, 429, 500, 502, 503, 504, 529, 599] {
            assert!(is_retried(&status(code), Hints::default()), "{code}");
        }
        assert!(is_retried(&LlmError::new(ErrorKind::Connection, ""), Hints::default()));
    }

    #[test]
    fn what_would_fail_again_is_not() {
        for code in [400, 401, 402, 403, 404, 413, 422, 301] {
            assert!(!is_retried(&status(code), Hints::default()), "{code}");
        }
        assert!(!is_retried(&LlmError::new(ErrorKind::Protocol, ""), Hints::default()));
    }

    #[test]
    fn a_request_that_may_be_paid_for_is_not_sent_again_for_slowness() {
        assert!(!is_retried(&LlmError::new(ErrorKind::Timeout, ""), Hints::default()));
        assert!(!is_retried(&LlmError::new(ErrorKind::Truncated, ""), Hints::default()));
    }

    #[test]
    fn a_spending_limit_is_not_waited_for() {
        let spent = LlmError::new(ErrorKind::Billing, "").with_status(429);
        assert!(!is_retried(&spent, Hints::default()));
    }

    #[test]
    fn nothing_is_tried_again_after_the_first_event() {
        let hints = Hints { should_retry: Some(true), ..Hints::default() };
        assert!(!is_retried(&status(529).mid_stream(), hints));
        assert!(!is_retried(&LlmError::new(ErrorKind::Connection, "").mid_stream(), Hints::default()));
    }

    #[test]
    fn the_servers_verdict_overrides_the_status() {
        assert!(is_retried(&status(400), Hints { should_retry: Some(true), ..Hints::default() }));
        assert!(!is_retried(&status(500), Hints { should_retry: Some(false), ..Hints::default() }));
    }

    #[test]
    fn the_back_off_doubles_up_to_eight_seconds_less_a_quarter_by_chance() {
        let policy = Policy { max_retries: 100, budget: Duration::MAX, ..POLICY };
        let wait =
            |retries, jitter| policy.decide(&status(500), Hints::default(), retries, Duration::ZERO, jitter);
        let retry_in = |millis| Decision::RetryIn(Duration::from_millis(millis));
        assert_eq!(wait(0, 0.0), retry_in(500));
        assert_eq!(wait(0, 1.0), retry_in(375));
        assert_eq!(wait(1, 0.0), retry_in(1000));
        assert_eq!(wait(4, 0.0), retry_in(8000));
        assert_eq!(wait(50, 0.5), retry_in(7000));
    }

    #[test]
    fn the_retries_are_counted() {
        assert_eq!(POLICY.decide(&status(500), Hints::default(), 3, Duration::ZERO, 0.0), Decision::GiveUp);
        let never = Policy { max_retries: 0, ..POLICY };
        assert_eq!(never.decide(&status(500), Hints::default(), 0, Duration::ZERO, 0.0), Decision::GiveUp);
    }

    #[test]
    fn no_try_begins_after_the_budget() {
        let decide = |elapsed| POLICY.decide(&status(500), Hints::default(), 0, elapsed, 0.0);
        assert_ne!(decide(Duration::from_millis(29_500)), Decision::GiveUp);
        assert_eq!(decide(Duration::from_millis(29_501)), Decision::GiveUp);
    }

    #[test]
    fn a_wait_that_the_server_asks_for_is_kept_or_the_call_given_up() {
        let policy = Policy { budget: Duration::MAX, ..POLICY };
        let asked = |seconds| Hints { retry_after: Some(Duration::from_secs(seconds)), ..Hints::default() };
        let decide = |seconds| policy.decide(&status(429), asked(seconds), 0, Duration::ZERO, 1.0);
        assert_eq!(decide(60), Decision::RetryIn(Duration::from_secs(60)));
        assert_eq!(decide(61), Decision::GiveUp);
        let patient = Policy { longest_wait: Duration::from_secs(120), ..policy };
        let wait = |seconds| patient.decide(&status(429), asked(seconds), 0, Duration::ZERO, 1.0);
        assert_eq!(wait(120), Decision::RetryIn(Duration::from_secs(120)));
        assert_eq!(wait(121), Decision::GiveUp);
        assert_eq!(POLICY.decide(&status(429), asked(31), 0, Duration::ZERO, 0.0), Decision::GiveUp);
    }

    #[test]
    fn retry_after_is_seconds_a_fraction_or_a_date_and_milliseconds_go_first() {
        let now = httpdate::parse_http_date("Fri, 01 May 2026 12:00:00 GMT").unwrap();
        let read = |headers: &[(&str, &'static str)]| {
            let find =
                |name: &str| headers.iter().find(|(header, _)| *header == name).map(|(_, value)| *value);
            Hints::read(find, now).retry_after
        };
        let millis = |count| Some(Duration::from_millis(count));
        assert_eq!(read(&[("retry-after", "7")]), millis(7000));
        assert_eq!(read(&[("retry-after", " 1.5 ")]), millis(1500));
        assert_eq!(read(&[("retry-after", "Fri, 01 May 2026 12:00:20 GMT")]), millis(20_000));
        assert_eq!(read(&[("retry-after", "7"), ("retry-after-ms", "250")]), millis(250));
        assert_eq!(read(&[("retry-after", "7"), ("retry-after-ms", "soon")]), millis(7000));
        for nonsense in ["0", "-1", "soon", "", "NaN", "inf", "1e300", "Fri, 01 May 2026 11:59:00 GMT"] {
            assert_eq!(read(&[("retry-after", nonsense)]), None, "{nonsense}");
        }
    }

    #[test]
    fn the_verdict_is_read_from_its_header() {
        let read = |value: &'static str| {
            Hints::read(|name| (name == "x-should-retry").then_some(value), SystemTime::UNIX_EPOCH)
        };
        assert_eq!(read("true").should_retry, Some(true));
        assert_eq!(read("false").should_retry, Some(false));
        assert_eq!(read("maybe").should_retry, None);
    }
}
