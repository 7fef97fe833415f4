//! An answer as the steps by which it is sent, faults in their places. Pure; the server carries it out.

use std::time::Duration;

use bytes::Bytes;

use crate::answer::{Answer, At, Content, Fault};
use crate::wire::{self, Event};
use crate::{RequestBody, Script};

/// How an answer is sent.
#[derive(Debug, PartialEq)]
pub(crate) struct Plan {
    /// What happens before the status line; empty for nearly all answers.
    pub(crate) before: Vec<Step>,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Waits as long as the model takes for the next piece.
    Pace(Duration),
    /// Sends bytes of an event.
    Part(Bytes),
    /// The event that the parts since the last one make up is complete.
    EventSent,
    /// Waits for the release.
    Stall,
    /// Closes the connection.
    Cut,
}

impl Plan {
    /// The script's answer to a request that keeps the rules.
    pub(crate) fn answer(script: &Script, request: &RequestBody, attempt: usize) -> Plan {
        let answer = script.answer(request, attempt);
        if let (false, Some((kind, message))) = (request.wants_stream(), answer.error_fault()) {
            return Plan::refusal(status_of(kind), kind, message);
        }
        let streamed = request.wants_stream() && matches!(answer.content, Content::Message(_));
        let (status, content_type, events) = match &answer.content {
            Content::Message(message) if streamed => (200, SSE, wire::stream(message, request)),
            Content::Message(message) => (200, JSON, vec![whole(wire::body(message, request).to_string())]),
            Content::Error { status, kind, message } => {
                (*status, JSON, vec![whole(wire::error(kind, message).to_string())])
            }
            Content::Raw { status, body } => (*status, SSE, vec![whole(body.clone())]),
        };
        let mut headers = answer.headers.clone();
        headers.push((
            "content-type".into(),
            answer.content_type.clone().unwrap_or_else(|| content_type.into()),
        ));
        let steps = steps(events, answer.pace.unwrap_or(script.pace));
        with_faults(&answer, Plan { before: Vec::new(), status, headers, body: steps })
    }

    /// A refusal in the API's shape.
    pub(crate) fn refusal(status: u16, kind: &str, message: &str) -> Plan {
        let body = steps(vec![whole(wire::error(kind, message).to_string())], Duration::ZERO);
        let headers = vec![("content-type".into(), JSON.into())];
        Plan { before: Vec::new(), status, headers, body }
    }
}

/// The status that an error has where no stream has begun.
fn status_of(kind: &str) -> u16 {
    match kind {
        "invalid_request_error" => 400,
        "rate_limit_error" => 429,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => 500,
    }
}

fn whole(body: impl Into<Vec<u8>>) -> Event {
    Event { bytes: body.into(), delta: false }
}

fn steps(events: Vec<Event>, pace: Duration) -> Vec<Step> {
    let mut steps = Vec::new();
    for event in events {
        if event.delta && !pace.is_zero() {
            steps.push(Step::Pace(pace));
        }
        steps.extend([Step::Part(event.bytes.into()), Step::EventSent]);
    }
    steps
}

/// Puts each fault where it belongs; one that lies behind the end of the answer comes at its end.
fn with_faults(answer: &Answer, mut plan: Plan) -> Plan {
    for (at, fault) in &answer.faults {
        let (steps, place) = match at {
            At::Start => (&mut plan.before, 0),
            At::Events(count) => {
                let place = after_events(&plan.body, *count);
                (&mut plan.body, place)
            }
            At::Bytes(count) => {
                let place = split_at_byte(&mut plan.body, *count);
                (&mut plan.body, place)
            }
        };
        match fault {
            Fault::Cut => steps.splice(place.., [Step::Cut]).for_each(drop),
            Fault::Stall => steps.insert(place, Step::Stall),
            Fault::Error { kind, message } => {
                let event = Step::Part(wire::error_event(kind, message).bytes.into());
                steps.splice(place.., [event, Step::EventSent]).for_each(drop);
            }
        }
    }
    plan
}

/// The place behind the given number of events.
fn after_events(steps: &[Step], count: usize) -> usize {
    let ends =
        steps.iter().enumerate().filter(|(_, step)| **step == Step::EventSent).map(|(index, _)| index + 1);
    std::iter::once(0).chain(ends).nth(count).unwrap_or(steps.len())
}

/// The place behind the given number of bytes; a part that reaches over it is split.
fn split_at_byte(steps: &mut Vec<Step>, count: usize) -> usize {
    let mut left = count;
    for index in 0..steps.len() {
        let Step::Part(part) = &mut steps[index] else { continue };
        if left < part.len() {
            let after = part.split_off(left);
            steps.insert(index + 1, Step::Part(after));
            return index + 1;
        }
        left -= part.len();
    }
    steps.len()
}

const SSE: &str = "text/event-stream; charset=utf-8";
const JSON: &str = "application/json";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan(answer: Answer, stream: bool) -> Plan {
        let body = json!({
            "model": "m", "max_tokens": 1, "stream": stream, "messages": [{ "role": "user", "content": "go" }],
        });
        Plan::answer(
            &Script::new().turn(answer),
            &RequestBody::parse(body.to_string().as_bytes()).unwrap(),
            0,
        )
    }

    fn events(plan: &Plan) -> usize {
        plan.body.iter().filter(|step| **step == Step::EventSent).count()
    }

    fn bytes(plan: &Plan) -> Vec<u8> {
        let parts = plan.body.iter().filter_map(|step| match step {
            Step::Part(part) => Some(&part[..]),
            _ => None,
        });
        parts.collect::<Vec<_>>().concat()
    }

    #[test]
    fn a_cut_leaves_just_what_stands_before_it() {
        let all = bytes(&plan(Answer::text("a b c"), true));
        let cut = plan(Answer::text("a b c").cut(At::Events(4)), true);
        assert_eq!(events(&cut), 4);
        assert_eq!(cut.body.last(), Some(&Step::Cut));
        assert!(all.starts_with(&bytes(&cut)));

        for count in 0..all.len() {
            let cut = plan(Answer::text("a b c").cut(At::Bytes(count)), true);
            assert_eq!(bytes(&cut), all[..count]);
            assert_eq!(cut.body.last(), Some(&Step::Cut));
        }
    }

    #[test]
    fn a_stall_leaves_the_answer_as_it_is() {
        let all = bytes(&plan(Answer::text("a b c"), true));
        let stalled = plan(Answer::text("a b c").stall(At::Events(2)).stall(At::Bytes(9)), true);
        assert_eq!(bytes(&stalled), all);
        assert_eq!(stalled.body.iter().filter(|step| **step == Step::Stall).count(), 2);
    }

    #[test]
    fn an_error_event_takes_the_place_of_the_rest() {
        let failed = plan(Answer::text("a b c").fail(At::Events(3), "overloaded_error", "Overloaded"), true);
        assert_eq!(events(&failed), 4);
        let text = String::from_utf8(bytes(&failed)).unwrap();
        assert!(text.ends_with("event: error\ndata: {\"error\":{\"message\":\"Overloaded\",\"type\":\"overloaded_error\"},\"type\":\"error\"}\n\n"), "{text}");
    }

    #[test]
    fn an_error_is_a_status_where_nothing_is_streamed() {
        let failed = plan(Answer::text("a").fail(At::Events(3), "overloaded_error", "Overloaded"), false);
        assert_eq!(failed.status, 529);
        assert!(String::from_utf8(bytes(&failed)).unwrap().contains("Overloaded"));
    }

    #[test]
    fn a_fault_at_the_start_comes_before_the_status_line() {
        assert_eq!(plan(Answer::text("a").cut(At::Start), true).before, [Step::Cut]);
        assert_eq!(plan(Answer::text("a").stall(At::Start), true).before, [Step::Stall]);
    }

    #[test]
    fn only_deltas_take_time() {
        let paced = plan(Answer::text("a b c").pace(Duration::from_millis(5)), true);
        assert_eq!(paced.body.iter().filter(|step| matches!(step, Step::Pace(_))).count(), 3);
        let one_body = plan(Answer::text("a b c").pace(Duration::from_millis(5)), false);
        assert_eq!(events(&one_body), 1);
        assert!(matches!(one_body.body[..], [Step::Part(_), Step::EventSent]));
    }

    #[test]
    fn the_content_type_is_right_unless_it_is_said_to_be_wrong() {
        let content_type =
            |plan: Plan| plan.headers.into_iter().find(|(name, _)| name == "content-type").unwrap().1;
        assert_eq!(content_type(plan(Answer::text("a"), true)), SSE);
        assert_eq!(content_type(plan(Answer::text("a"), false)), JSON);
        assert_eq!(content_type(plan(Answer::error(529, "overloaded_error", "Overloaded"), true)), JSON);
        assert_eq!(content_type(plan(Answer::text("a").content_type("text/plain"), true)), "text/plain");
    }
}
