//! Replays a log by asking for what it records, and checks each answer against the log itself.

use relight_core::{
    Digest, Event, EventEnvelope, Lane, Resolution, Role, Seq, ToolOutcome,
    budget::Limit,
    replay::{Ask, Checked, Replay, Settled, Step},
};
use serde_json::Value;

use crate::support::run;

/// How a replay that asks for exactly what is recorded came to its end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum End {
    /// No run was begun.
    Nothing,
    /// All is consumed, and the next call is live.
    Live,
    /// The last call was begun and never settled.
    Dangling(Seq),
    /// A limit is used up, and nobody has raised it.
    Exceeded(Limit),
    /// The run ended.
    Ended,
}

/// What a call was answered with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Answered(Value),
    Failed(Value),
    Outcome(ToolOutcome),
    Raised,
}

/// Replays a log with the code that wrote it.
///
/// # Panics
///
/// Where replay does anything but return what is recorded and go live where the records end.
pub(crate) fn walk(log: &[EventEnvelope]) -> (Vec<Answer>, End) {
    walk_as(log, log)
}

/// Replays `log` with code that asks for what `asks` records; both have their events at the same places.
pub(crate) fn walk_as(log: &[EventEnvelope], asks: &[EventEnvelope]) -> (Vec<Answer>, End) {
    let mut replay = Replay::new(run(), log.to_vec()).unwrap();
    assert_eq!(replay.log(), log, "the log that replay walks is the log that it was given");
    let Some(EventEnvelope { event: Event::RunStarted { agent_hash, input, .. }, .. }) = asks.first() else {
        assert_eq!(replay.begin("any", &Value::Null), Ok(false));
        check_live(&mut replay, 0);
        return (Vec::new(), End::Nothing);
    };
    assert_eq!(replay.begin(agent_hash, input), Ok(true));
    let end = asks.last().filter(|last| last.event.role() == Role::Closing);

    let mut answers = Vec::new();
    for (ordinal, asked) in (0..).zip(asks.iter().filter(|asked| asked.event.role() == Role::Asked)) {
        assert!(!replay.is_live(), "{asked:?} is still to come");
        match check(&mut replay, &asked.event, ordinal) {
            Checkpoint::Went(answer) => {
                let expected = recorded_answer(log, asked.seq);
                assert_eq!(Some(&answer), expected.as_ref(), "of event {}", asked.seq);
                answers.push(answer);
            }
            Checkpoint::Stopped(stopped) => {
                assert_eq!(recorded_answer(log, asked.seq), None, "event {} was settled", asked.seq);
                return (answers, stopped);
            }
            // A run that was cancelled in the middle of this call has nothing left to do.
            Checkpoint::Refused => {
                return (answers, check_ended(&mut replay, end.expect("it was cancelled")));
            }
        }
    }
    if let Some(end) = end {
        return (answers, check_ended(&mut replay, end));
    }
    let asked = answers.len() as u64;
    check_live(&mut replay, asked);
    (answers, End::Live)
}

enum Checkpoint {
    Went(Answer),
    Stopped(End),
    Refused,
}

/// Makes one recorded call again, with the budget check that stands before each.
fn check(replay: &mut Replay, asked: &Event, ordinal: u64) -> Checkpoint {
    let state = replay.state().clone();
    let checked = replay.check_budget(&Lane::ROOT);
    if let Event::BudgetExceeded { limit, .. } = asked {
        return match checked {
            Checked::Raised => Checkpoint::Went(Answer::Raised),
            Checked::Exceeded(exceeded) => {
                assert_eq!(exceeded, *limit);
                Checkpoint::Stopped(End::Exceeded(exceeded))
            }
            other => panic!("a recorded budget check was answered with {other:?}"),
        };
    }
    assert_eq!(checked, Checked::Passed, "the recorded call after the check shows that it passed");
    let request = || Value::Null;
    let ask = match asked {
        Event::ModelCallRequested { request_hash, .. } => {
            Ask::ModelCall { request_hash: *request_hash, request: &request }
        }
        Event::ToolCallRequested { tool, input, .. } => Ask::ToolCall { tool, input },
        other => panic!("code does not ask for {other:?}"),
    };
    let found = match replay.ask(&Lane::ROOT, ask) {
        Ok(found) => found,
        Err(divergence) => {
            assert_eq!(divergence.recorded["kind"], "run_cancelled", "{divergence}");
            return Checkpoint::Refused;
        }
    };
    assert_eq!(found.ordinal, ordinal);
    let checkpoint = match found.step {
        Step::Recorded(Settled::Answered { response, .. }) => {
            Checkpoint::Went(Answer::Answered(response.clone()))
        }
        Step::Recorded(Settled::Failed(error)) => Checkpoint::Went(Answer::Failed(error.clone())),
        Step::Recorded(Settled::Outcome(outcome)) => Checkpoint::Went(Answer::Outcome(outcome.clone())),
        Step::Dangling(dangling) => {
            let intent = dangling.intent;
            assert!(replay.is_live(), "only the last call of a log can be open");
            Checkpoint::Stopped(End::Dangling(intent))
        }
        Step::Live => panic!("a recorded call went live"),
    };
    assert_eq!(*replay.state(), state, "asking changes nothing");
    checkpoint
}

/// What the log says of the call at `intent`, found by reading it from front to back.
fn recorded_answer(log: &[EventEnvelope], intent: Seq) -> Option<Answer> {
    let mut exceeded = None;
    log.iter().find_map(|envelope| match &envelope.event {
        Event::ModelCallCompleted { intent: of, response, .. } if *of == intent => {
            Some(Answer::Answered(response.clone()))
        }
        Event::ModelCallFailed { intent: of, error, .. } if *of == intent => {
            Some(Answer::Failed(error.clone()))
        }
        Event::ToolCallCompleted { intent: of, outcome, .. }
        | Event::Resolved { intent: of, resolution: Resolution::Outcome(outcome), .. }
            if *of == intent =>
        {
            Some(Answer::Outcome(outcome.clone()))
        }
        Event::BudgetExceeded { limit, allowed, .. } if envelope.seq == intent => {
            exceeded = Some((*limit, *allowed));
            None
        }
        Event::BudgetRaised { limit, to, .. } => {
            exceeded.filter(|(of, allowed)| of == limit && to > allowed).map(|_| Answer::Raised)
        }
        _ => None,
    })
}

/// All is consumed, and the next call would be live.
fn check_live(replay: &mut Replay, ordinal: u64) {
    assert!(replay.is_live());
    assert_eq!(replay.check_budget(&Lane::ROOT), Checked::Live);
    assert_eq!(replay.finish(&Event::run_completed(Value::Null)), Ok(false));
    let request = || Value::Null;
    let ask = Ask::ModelCall { request_hash: Digest::of_bytes(b"new"), request: &request };
    let found = replay.ask(&Lane::ROOT, ask).unwrap();
    assert_eq!((found.ordinal, found.step), (ordinal, Step::Live));
}

/// The run has an end: it is recorded, and nothing more can be asked for.
fn check_ended(replay: &mut Replay, end: &EventEnvelope) -> End {
    if !matches!(end.event, Event::RunCancelled { .. }) {
        assert_eq!(replay.finish(&end.event), Ok(true));
    }
    let ask = Ask::ToolCall { tool: "another", input: &Value::Null };
    let more = replay.ask(&Lane::ROOT, ask).unwrap_err();
    assert_eq!(more.asked["kind"], "tool_call_requested");
    End::Ended
}
