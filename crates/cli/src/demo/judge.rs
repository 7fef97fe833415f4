//! The demo's verdict, from the facts alone: what the server saw, what the ledger and the log hold.

use std::collections::BTreeMap;

use relight::{Event, EventEnvelope, Seq, StoreError, core::Role, store::Digest};
use relight_testkit::{Progress, SeenRequest};
use serde_json::Value;

use super::{drive::DriveFacts, script};

/// Everything that is left of the demo when it is over.
pub(super) struct Facts {
    pub(super) drives: [DriveFacts; 3],
    /// What the last drive printed.
    pub(super) output: Option<Value>,
    pub(super) requests: Vec<SeenRequest>,
    pub(super) ledger: Vec<String>,
    pub(super) log: Result<(Vec<EventEnvelope>, Digest), StoreError>,
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
    let cut = facts.requests.iter().filter(|request| request.progress == Progress::ClientGone).count();
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
fn answers_sent(requests: &[SeenRequest]) -> BTreeMap<usize, usize> {
    let mut sent = BTreeMap::new();
    for request in requests.iter().filter(|request| request.progress == Progress::Completed) {
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
