//! The demo's verdict, from the facts alone: what the server saw, what the ledger and the log hold.

use std::collections::BTreeMap;

use relight::{Event, EventEnvelope, Seq, StoreError, core::Role, store::Digest};
use relight_testkit::Progress;
use serde_json::Value;

use super::{drive::DriveFacts, script};

/// Everything that is left of the demo when it is over.
pub(super) struct Facts {
    pub(super) drives: [DriveFacts; 3],
    /// What the last drive printed.
    pub(super) output: Option<Value>,
    pub(super) requests: Vec<Request>,
    pub(super) ledger: Vec<String>,
    pub(super) log: Result<(Vec<EventEnvelope>, Digest), StoreError>,
}

/// A request that the model server saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// Which answer of the conversation it asked for, from zero.
    pub(super) turn: usize,
    pub(super) fate: Fate,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    /// Whoever asked was gone before the answer was complete.
    Cut,
    /// Neither, which the demo does not expect.
    Open,
}

impl From<Progress> for Fate {
    fn from(progress: Progress) -> Self {
        match progress {
            Progress::Completed => Self::Answered,
            Progress::ClientGone => Self::Cut,
            _ => Self::Open,
        }
    }
}

/// Something that must hold, and whether it does.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) holds: bool,
    pub(super) what: &'static str,
    pub(super) found: String,
}

/// One call of the run: a question to the model, or a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) intent: Seq,
    /// How often it was settled; once, if all is well.
    pub(super) settled: usize,
    /// The drive that asked for it, and the one that settled it, from zero.
    pub(super) asked_in: usize,
    pub(super) settled_in: Option<usize>,
}

/// All that must hold.
pub(super) fn judge(facts: &Facts) -> Vec<Check> {
    let check = |what, holds, found: String| Check { holds, what, found };
    let log = match &facts.log {
        Ok((log, _)) => log.as_slice(),
        Err(error) => return vec![check("the log is whole and verified", false, error.to_string())],
    };
    let calls = calls(log);
    let ends = facts.drives.iter().map(|drive| drive.recorded.last().map(|last| last.event.kind()));
    let ends: Vec<_> = ends.map(|kind| kind.unwrap_or("nothing")).collect();
    let answered = answers_sent(&facts.requests);
    let cut = facts.requests.iter().filter(|request| request.fate == Fate::Cut).count();
    let key = write_key(log).unwrap_or_default();
    let booked = facts.ledger.iter().filter(|line| line.contains(&key)).count();
    let open = calls.iter().filter(|call| call.settled != 1).count();
    let replayed = facts.drives.each_ref().map(|drive| drive.replayed);
    vec![
        check(
            "both kills fell where they hurt",
            ends == ["model_call_requested", "tool_call_requested", "run_completed"],
            format!("the drives ended with {}", ends.join(", ")),
        ),
        check(
            "the run came to its end",
            facts.output.as_ref().and_then(Value::as_str) == Some(script::FAREWELL),
            format!("its answer is {:?}", facts.output),
        ),
        check(
            "no answer of the model was paid twice",
            facts.requests.len() == 4
                && cut == 1
                && answered.values().all(|&times| times == 1)
                && answered.len() == 3,
            format!("{} requests, {cut} cut, answers by turn: {answered:?}", facts.requests.len()),
        ),
        check(
            "the money was sent exactly once",
            facts.ledger.len() == 1 && booked == 1 && !key.is_empty(),
            format!("{} lines in the ledger, {booked} with the call's key", facts.ledger.len()),
        ),
        check(
            "every call has exactly one outcome in the log",
            open == 0 && calls.len() == 5,
            format!("{} calls, {open} of them without one outcome", calls.len()),
        ),
        check(
            "what was recorded was replayed, not done again",
            replayed == [0, settled_before(&calls, 1), settled_before(&calls, 2)],
            format!("the drives replayed {replayed:?} calls"),
        ),
    ]
}

/// The calls of a log, in order.
pub(super) fn calls(log: &[EventEnvelope]) -> Vec<Call> {
    let mut drive = 0;
    let mut calls: Vec<Call> = Vec::new();
    for envelope in log {
        let name = match &envelope.event {
            Event::DriveStarted { drive: number, .. } => {
                drive = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
                continue;
            }
            Event::ModelCallRequested { .. } => "the model".to_owned(),
            Event::ToolCallRequested { tool, .. } => tool.clone(),
            event => {
                if let Role::Settles(intent) = event.role()
                    && let Some(call) = calls.iter_mut().find(|call| call.intent == intent)
                {
                    call.settled += 1;
                    call.settled_in = Some(drive);
                }
                continue;
            }
        };
        calls.push(Call { name, intent: envelope.seq, settled: 0, asked_in: drive, settled_in: None });
    }
    calls
}

/// How many calls the log could answer when a drive began.
fn settled_before(calls: &[Call], drive: usize) -> u64 {
    calls.iter().filter(|call| call.settled_in.is_some_and(|settled_in| settled_in < drive)).count() as u64
}

/// How often each turn's answer was sent in full.
fn answers_sent(requests: &[Request]) -> BTreeMap<usize, usize> {
    let mut sent = BTreeMap::new();
    for request in requests.iter().filter(|request| request.fate == Fate::Answered) {
        *sent.entry(request.turn).or_insert(0) += 1;
    }
    sent
}

fn write_key(log: &[EventEnvelope]) -> Option<String> {
    log.iter().find_map(|envelope| match &envelope.event {
        Event::ToolCallRequested { tool, idempotency_key, .. } if tool == script::WRITE => {
            idempotency_key.clone()
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use relight::{
        Effect, RunId,
        core::{Lane, Process, SCHEMA_VERSION, ToolOutcome},
    };
    use serde_json::json;

    use super::*;

    /// What a demo leaves that went as it must.
    fn facts() -> Facts {
        let digest = Digest::of_value(&json!("request"));
        let ask = || Event::model_call_requested(digest, None);
        let answer = |intent| Event::model_call_completed(seq(intent), json!({}), Default::default());
        let begin = |drive| {
            let process = Process {
                host: String::new(),
                boot: String::new(),
                pid_namespace: String::new(),
                pid: 1,
                started: String::new(),
            };
            Event::drive_started(drive, process, "relight")
        };
        let call = |tool: &str, effect, key: Option<&str>| {
            Event::tool_call_requested(tool, json!({}), effect, key.map(str::to_owned))
        };
        let outcome = |intent| Event::tool_call_completed(seq(intent), ToolOutcome::Returned(json!({})));
        let drives = [
            vec![
                Event::run_started("agent", json!(script::COMPLAINT)),
                begin(1),
                ask(),
                answer(3),
                call("read_order", Effect::Read, None),
                outcome(5),
                ask(),
            ],
            vec![begin(2), answer(7), call(script::WRITE, Effect::Write, Some("key-1"))],
            vec![begin(3), outcome(10), ask(), answer(13), Event::run_completed(json!(script::FAREWELL))],
        ];
        let mut number = 0;
        let drives = drives.map(|events| {
            events
                .into_iter()
                .map(|event| {
                    number += 1;
                    envelope(number, event)
                })
                .collect::<Vec<_>>()
        });
        let log = drives.concat();
        let mut replayed = [0, 2, 3].into_iter();
        let drives =
            drives.map(|recorded| DriveFacts { process: 1, replayed: replayed.next().unwrap(), recorded });
        let request = |turn, fate| Request { turn, fate };
        Facts {
            drives,
            output: Some(json!(script::FAREWELL)),
            requests: vec![
                request(0, Fate::Answered),
                request(1, Fate::Cut),
                request(1, Fate::Answered),
                request(2, Fate::Answered),
            ],
            ledger: vec![r#"{"key":"key-1","refund":{}}"#.to_owned()],
            log: Ok((log, digest)),
        }
    }

    fn envelope(number: u64, event: Event) -> EventEnvelope {
        EventEnvelope {
            run_id: RunId::from_parts("2026-01-01T00:00:00Z".parse().unwrap(), [0; 10]),
            seq: seq(number),
            schema_version: SCHEMA_VERSION,
            recorded_at: "2026-01-01T00:00:00Z".parse().unwrap(),
            lane: Lane::ROOT,
            event,
        }
    }

    fn seq(number: u64) -> Seq {
        Seq::new(number).unwrap()
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut Facts), broken: &[&str]) {
        let mut facts = facts();
        change(&mut facts);
        let found: Vec<_> =
            judge(&facts).into_iter().filter(|check| !check.holds).map(|check| check.what).collect();
        assert_eq!(found, broken);
    }

    #[test]
    fn a_demo_that_went_as_it_must_is_acquitted() {
        check(|_| {}, &[]);
    }

    #[test]
    fn money_that_was_sent_twice_or_never_is_found() {
        let verdict = "the money was sent exactly once";
        check(|facts| facts.ledger.push(facts.ledger[0].clone()), &[verdict]);
        check(|facts| facts.ledger.clear(), &[verdict]);
        check(|facts| facts.ledger[0] = r#"{"key":"another"}"#.to_owned(), &[verdict]);
    }

    #[test]
    fn an_answer_that_was_paid_twice_is_found() {
        let verdict = "no answer of the model was paid twice";
        check(|facts| facts.requests[1].fate = Fate::Answered, &[verdict]);
        check(|facts| facts.requests.push(facts.requests[0]), &[verdict]);
        check(|facts| facts.requests.truncate(3), &[verdict]);
    }

    #[test]
    fn a_kill_that_came_too_late_is_found() {
        let late = envelope(11, Event::run_completed(json!("")));
        check(|facts| facts.drives[1].recorded.push(late), &["both kills fell where they hurt"]);
    }

    #[test]
    fn a_lost_answer_or_outcome_is_found() {
        check(|facts| facts.output = None, &["the run came to its end"]);
        let lost = |facts: &mut Facts| {
            let (log, _) = facts.log.as_mut().unwrap();
            log.retain(|envelope| envelope.seq != seq(12));
        };
        check(lost, &["every call has exactly one outcome in the log"]);
    }

    #[test]
    fn work_that_was_done_again_is_found() {
        check(|facts| facts.drives[2].replayed = 2, &["what was recorded was replayed, not done again"]);
    }

    #[test]
    fn a_log_that_cannot_be_read_is_found() {
        let run = RunId::from_parts("2026-01-01T00:00:00Z".parse().unwrap(), [0; 10]);
        check(|facts| facts.log = Err(StoreError::UnknownRun { run }), &["the log is whole and verified"]);
    }
}
