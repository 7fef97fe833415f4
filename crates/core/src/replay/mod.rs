//! The replay machine: the code says what it asks for next, the machine says what the log has for it.
//!
//! A call is identified by its lane and its ordinal (how many calls the code made in that lane before it). Kind,
//! name and content must agree with the record, or the code has diverged from the log: then nothing is appended,
//! nothing is done, and the code that wrote the log can still resume it.

mod ask;
mod difference;
mod divergence;

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::{Event, EventEnvelope, Lane, LogError, Resolution, Role, RunId, RunState, Seq, request};

use ask::describe;
pub use ask::{Ask, Checked, Dangling, Found, Settled, Step};
use difference::same;
pub use difference::{Difference, first_difference};
pub use divergence::Divergence;

/// A log, and how far the code has replayed it.
///
/// ```text
///             ask: recorded                  ask: nothing left
///   Replaying ─────────────▶ Replaying  ...  ─────────────────▶ Live
///       │ ask: other than recorded                 the code's own calls from here on
///       ▼
///   Divergence (the machine stays where it was)
/// ```
///
/// # Examples
///
/// A tool call, as whoever drives the code makes it:
///
/// ```
/// use relight_core::{Divergence, Lane, ToolOutcome, replay::{Ask, Replay, Settled, Step}};
/// use serde_json::json;
///
/// fn look(replay: &mut Replay) -> Result<Option<ToolOutcome>, Box<Divergence>> {
///     let ask = Ask::ToolCall { tool: "look", input: &json!({"at": "balance"}) };
///     Ok(match replay.ask(&Lane::ROOT, ask)?.step {
///         // It is in the log: nothing is done.
///         Step::Recorded(Settled::Outcome(outcome)) => Some(outcome.clone()),
///         // It was begun and nobody knows how it ended, or it is new: record the intent, then do it.
///         _ => None,
///     })
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let run = "0190f5d2-7c1a-7b6e-8f00-3c1d2e4f5a6b".parse()?;
/// let mut replay = Replay::new(run, Vec::new())?;
/// assert!(replay.is_live());
/// assert_eq!(look(&mut replay)?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Replay {
    run: RunId,
    log: Vec<EventEnvelope>,
    /// The code's own calls, by lane, in order, as indexes into `log`.
    lanes: HashMap<Lane, Track>,
    /// The event that says how an intent ended, as an index into `log`.
    settled: HashMap<Seq, usize>,
    /// The last event in which a person said that an intent was not done.
    cleared: HashMap<Seq, usize>,
    /// How many calls no code has asked for yet.
    unclaimed: usize,
    state: RunState,
}

#[derive(Debug, Default)]
struct Track {
    calls: Vec<usize>,
    next: usize,
    /// How many calls the code made in this lane, recorded or not.
    made: u64,
}

impl Replay {
    /// Indexes a log, which may be empty.
    ///
    /// # Errors
    ///
    /// [`LogError::Corrupt`] where an event cannot follow those before it, and where positions have gaps.
    pub fn new(run: RunId, log: Vec<EventEnvelope>) -> Result<Self, LogError> {
        let mut lanes: HashMap<Lane, Track> = HashMap::new();
        let mut settled = HashMap::new();
        let mut cleared = HashMap::new();
        let mut unclaimed = 0;
        let mut state = RunState::NotStarted;
        if let Some(first) = log.first().filter(|first| first.run_id != run) {
            let why = format!("it belongs to run {}", first.run_id);
            return Err(LogError::Corrupt { run, seq: Seq::FIRST, why });
        }
        for (index, envelope) in log.iter().enumerate() {
            state = state.apply(envelope)?;
            match (&envelope.event, envelope.event.role()) {
                (_, Role::Asked) => {
                    lanes.entry(envelope.lane.clone()).or_default().calls.push(index);
                    unclaimed += 1;
                }
                (_, Role::Settles(intent)) => {
                    settled.insert(intent, index);
                }
                (Event::Resolved { intent, resolution: Resolution::Outcome(_), .. }, _) => {
                    settled.insert(*intent, index);
                }
                (Event::Resolved { intent, resolution: Resolution::NotDone {}, .. }, _) => {
                    cleared.insert(*intent, index);
                }
                _ => {}
            }
        }
        Ok(Self { run, log, lanes, settled, cleared, unclaimed, state })
    }

    /// The state that the log leaves.
    pub const fn state(&self) -> &RunState {
        &self.state
    }

    /// The log.
    pub fn log(&self) -> &[EventEnvelope] {
        &self.log
    }

    /// Whether every recorded call was asked for again, so that the next one is live.
    pub const fn is_live(&self) -> bool {
        self.unclaimed == 0
    }

    /// The code begins the run: `true` where that is recorded already.
    ///
    /// # Errors
    ///
    /// [`Divergence`] where the log was begun by other code or with another input.
    pub fn begin(&self, agent_hash: &str, input: &Value) -> Result<bool, Box<Divergence>> {
        let Some(first) = self.log.first() else { return Ok(false) };
        let Event::RunStarted { agent_hash: recorded_hash, input: recorded_input, .. } = &first.event else {
            unreachable!("the state fold refuses a log that does not begin with its start");
        };
        let side =
            |hash: &str, input: &Value| json!({"kind": "run_started", "agent_hash": hash, "input": input});
        if recorded_hash == agent_hash && same(recorded_input, input) {
            return Ok(true);
        }
        let (recorded, asked) = (side(recorded_hash, recorded_input), side(agent_hash, input));
        Err(self.divergence(Seq::FIRST, &Lane::ROOT, None, recorded, asked))
    }

    /// The code asks for its next call in a lane.
    ///
    /// # Errors
    ///
    /// [`Divergence`] where the log records another call there, or where something would be done though recorded
    /// calls are left over in other lanes, or though the run has ended. The machine stays where it was.
    pub fn ask(&mut self, lane: &Lane, ask: Ask<'_>) -> Result<Found<'_>, Box<Divergence>> {
        let track = self.lanes.get(lane);
        let ordinal = track.map_or(0, |track| track.made);
        let recorded = track.and_then(|track| track.calls.get(track.next)).copied();
        let Some(index) = recorded else {
            if let Some(left) = self.left_over().or_else(|| self.closing()) {
                let recorded = describe(&left.event);
                return Err(self.divergence(left.seq, &left.lane, None, recorded, ask.describe()));
            }
            self.lanes.entry(lane.clone()).or_default().made += 1;
            return Ok(Found { ordinal, step: Step::Live });
        };
        if !ask.agrees_with(&self.log[index].event) {
            return Err(self.disagreement(index, lane, ordinal, ask));
        }
        // A run that was cancelled in the middle of a call has an end, and nothing may be done after it.
        if let Some(end) = self.closing().filter(|_| !self.settled.contains_key(&self.log[index].seq)) {
            return Err(self.divergence(end.seq, &end.lane, None, describe(&end.event), ask.describe()));
        }
        self.claim(lane);
        Ok(Found { ordinal, step: self.step(index) })
    }

    /// The code checks its budget in a lane before it goes on. After [`Checked::Raised`] it checks again, since
    /// the next limit may be used up too.
    pub fn check_budget(&mut self, lane: &Lane) -> Checked {
        let recorded = self.lanes.get(lane).and_then(|track| track.calls.get(track.next)).copied();
        let Some(index) = recorded else {
            // Past the end of a run no check is live; what the code asks for next will diverge.
            let live = self.is_live() && self.closing().is_none();
            return if live { Checked::Live } else { Checked::Passed };
        };
        let Event::BudgetExceeded { limit, allowed, .. } = self.log[index].event else {
            return Checked::Passed;
        };
        let raised = self.log[index..].iter().any(|later| {
            matches!(later.event, Event::BudgetRaised { limit: of, to, .. } if of == limit && to > allowed)
        });
        if !raised {
            return Checked::Exceeded(limit);
        }
        self.claim(lane);
        Checked::Raised
    }

    /// The code has recorded that a budget check found a limit used up.
    pub fn budget_was_exceeded(&mut self, lane: &Lane) {
        self.lanes.entry(lane.clone()).or_default().made += 1;
    }

    /// The code ends the run: `true` where that is recorded already.
    ///
    /// # Errors
    ///
    /// [`Divergence`] where recorded calls are left that no code asked for, or the log records another end.
    pub fn finish(&self, end: &Event) -> Result<bool, Box<Divergence>> {
        if let Some(left) = self.left_over() {
            return Err(self.divergence(left.seq, &left.lane, None, describe(&left.event), describe(end)));
        }
        let Some(last) = self.closing() else { return Ok(false) };
        let (recorded, asked) = (describe(&last.event), describe(end));
        if first_difference(&recorded, &asked).is_some() {
            return Err(self.divergence(last.seq, &last.lane, None, recorded, asked));
        }
        Ok(true)
    }

    fn closing(&self) -> Option<&EventEnvelope> {
        self.log.last().filter(|last| last.event.role() == Role::Closing)
    }

    /// The first recorded call that no code has asked for.
    fn left_over(&self) -> Option<&EventEnvelope> {
        let of_lane = |track: &Track| track.calls.get(track.next).copied();
        let first = self.lanes.values().filter_map(of_lane).min();
        first.map(|index| &self.log[index])
    }

    /// Moves a lane past its next recorded call.
    fn claim(&mut self, lane: &Lane) {
        let track = self.lanes.get_mut(lane).expect("a recorded call has a track");
        track.next += 1;
        track.made += 1;
        self.unclaimed -= 1;
    }

    fn step(&self, index: usize) -> Step<'_> {
        let envelope = &self.log[index];
        if let Some(settled) = self.settled.get(&envelope.seq) {
            return Step::Recorded(match &self.log[*settled].event {
                Event::ModelCallCompleted { response, usage, .. } => {
                    Settled::Answered { response, usage: *usage }
                }
                Event::ModelCallFailed { error, .. } => Settled::Failed(error),
                Event::ToolCallCompleted { outcome, .. }
                | Event::Resolved { resolution: Resolution::Outcome(outcome), .. } => {
                    Settled::Outcome(outcome)
                }
                _ => unreachable!("only these settle an intent"),
            });
        }
        let is_drive = |later: &&EventEnvelope| matches!(later.event, Event::DriveStarted { .. });
        let (effect, idempotency_key) = match &envelope.event {
            Event::ToolCallRequested { effect, idempotency_key, .. } => {
                (Some(*effect), idempotency_key.as_deref())
            }
            _ => (None, None),
        };
        Step::Dangling(Dangling {
            intent: envelope.seq,
            drives_since: self.log[index..].iter().filter(is_drive).count() as u64,
            effect,
            idempotency_key,
            cleared: self
                .cleared
                .get(&envelope.seq)
                .is_some_and(|word| !self.log[*word..].iter().any(|later| is_drive(&later))),
        })
    }

    fn disagreement(&self, index: usize, lane: &Lane, ordinal: u64, ask: Ask<'_>) -> Box<Divergence> {
        let envelope = &self.log[index];
        let mut recorded = describe(&envelope.event);
        let mut asked = ask.describe();
        // Two model calls are told apart by their hashes; what differs inside is shown where the log has it.
        if let (Event::ModelCallRequested { .. }, Ask::ModelCall { request, .. }) = (&envelope.event, ask)
            && let Ok(Some(full)) = request::expand(&self.log, envelope.seq)
        {
            let mut body = Value::Object(full.rest);
            body["messages"] = Value::Array(full.messages);
            let asked_body = request();
            // A request is recorded with what its hash leaves out; only what differs helps the reader.
            if first_difference(&body, &asked_body).is_some() {
                recorded = json!({"kind": "model_call_requested", "request": body});
                asked = json!({"kind": "model_call_requested", "request": asked_body});
            }
        }
        self.divergence(envelope.seq, lane, Some(ordinal), recorded, asked)
    }

    fn divergence(
        &self,
        seq: Seq,
        lane: &Lane,
        ordinal: Option<u64>,
        recorded: Value,
        asked: Value,
    ) -> Box<Divergence> {
        Box::new(Divergence::new(self.run, seq, lane.clone(), ordinal, recorded, asked))
    }
}
