//! Laws of fold and replay, on random logs.

use proptest::prelude::*;
use relight_core::{Event, EventEnvelope, LogError, Role, RunState, replay::Replay};

use crate::{
    json::respelled,
    program::any_log,
    support::{log, run, seq},
    walk::{End, walk, walk_as},
};

proptest! {
    #[test]
    fn fold_and_replay_agree(log in any_log()) {
        let state = RunState::fold(&log).unwrap();
        let replay = Replay::new(run(), log.clone()).unwrap();
        prop_assert_eq!(replay.state(), &state);

        let (_, end) = walk(&log);
        let progress = state.progress().unwrap();
        match end {
            End::Nothing => prop_assert!(false, "the run was started"),
            End::Live => prop_assert!(progress.open.is_empty() && progress.exceeded.is_none()),
            End::Dangling(intent) => prop_assert_eq!(progress.open.keys().copied().collect::<Vec<_>>(), [intent]),
            End::Exceeded(limit) => prop_assert_eq!(progress.exceeded.map(|(limit, _)| limit), Some(limit)),
            End::Ended => prop_assert!(state.status().unwrap().kind().is_ended()),
        }
    }

    #[test]
    fn a_log_cut_anywhere_replays_its_prefix(log in any_log(), cut in any::<prop::sample::Index>()) {
        let prefix = &log[..cut.index(log.len() + 1)];
        let (whole, _) = walk(&log);
        let (answers, _) = walk(prefix);
        prop_assert_eq!(&whole[..answers.len()], answers);
    }

    #[test]
    fn key_order_and_number_spelling_cause_no_divergence(log in any_log()) {
        let asks: Vec<_> = log.iter().map(ask_respelled).collect();
        prop_assert_eq!(walk_as(&log, &asks), walk(&log));
    }

    #[test]
    fn the_fold_takes_a_log_event_by_event(log in any_log()) {
        let mut state = RunState::NotStarted;
        for (index, envelope) in log.iter().enumerate() {
            state = state.apply(envelope).unwrap();
            prop_assert_eq!(&state, &RunState::fold(&log[..=index]).unwrap());
            let summary = state.summary().unwrap();
            prop_assert_eq!(summary.events, index as u64 + 1);
            prop_assert_eq!(summary.updated_at, envelope.recorded_at);
        }
    }

    /// A log that no run left is refused, or it can be replayed like any other: never a panic, never a call in the
    /// middle that would be done live.
    #[test]
    fn whatever_the_fold_takes_can_be_replayed(log in any_log(), shuffle in any_shuffle()) {
        let log = shuffle.apply(log);
        match RunState::fold(&log) {
            Ok(_) => {
                walk(&log);
            }
            Err(error) => {
                prop_assert_eq!(Replay::new(run(), log.clone()).map(|_| ()).unwrap_err(), error.clone());
                let LogError::Corrupt { run: named, seq, .. } = error else { panic!("{error}") };
                prop_assert_eq!(named, run());
                prop_assert!(seq.number() <= log.len() as u64);
            }
        }
    }

    #[test]
    fn a_fold_that_refuses_names_the_first_event_that_cannot_follow(log in any_log(), shuffle in any_shuffle()) {
        let log = shuffle.apply(log);
        if let Err(LogError::Corrupt { seq, .. }) = RunState::fold(&log) {
            let before = usize::try_from(seq.number()).unwrap() - 1;
            prop_assert!(RunState::fold(&log[..before]).is_ok());
            prop_assert!(RunState::fold(&log[..=before]).is_err());
        }
    }
}

/// What the same code would ask for if it wrote its JSON in another way.
fn ask_respelled(envelope: &EventEnvelope) -> EventEnvelope {
    let event = match envelope.event.clone() {
        Event::RunStarted { agent_hash, input, .. } => Event::run_started(agent_hash, respelled(&input)),
        Event::ToolCallRequested { tool, input, effect, idempotency_key, .. } => {
            Event::tool_call_requested(tool, respelled(&input), effect, idempotency_key)
        }
        Event::RunCompleted { output, .. } => Event::run_completed(respelled(&output)),
        other => other,
    };
    EventEnvelope { event, ..envelope.clone() }
}

/// A change of the order of events, their places numbered anew.
#[derive(Debug, Clone)]
enum Shuffle {
    Swap(prop::sample::Index, prop::sample::Index),
    Remove(prop::sample::Index),
    Repeat(prop::sample::Index, prop::sample::Index),
}

fn any_shuffle() -> impl Strategy<Value = Shuffle> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        (index(), index()).prop_map(|(a, b)| Shuffle::Swap(a, b)),
        index().prop_map(Shuffle::Remove),
        (index(), index()).prop_map(|(from, to)| Shuffle::Repeat(from, to)),
    ]
}

impl Shuffle {
    fn apply(&self, before: Vec<EventEnvelope>) -> Vec<EventEnvelope> {
        let mut events: Vec<Event> = before.into_iter().map(|envelope| envelope.event).collect();
        let length = events.len();
        match self {
            Self::Swap(a, b) => events.swap(a.index(length), b.index(length)),
            Self::Remove(at) => {
                events.remove(at.index(length));
            }
            Self::Repeat(from, to) => events.insert(to.index(length + 1), events[from.index(length)].clone()),
        }
        log(events)
    }
}

#[test]
fn the_generator_reaches_every_kind_and_every_end() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let (mut kinds, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..400 {
        let log = any_log().new_tree(&mut runner).unwrap().current();
        kinds.extend(log.iter().map(|envelope| envelope.event.kind()));
        ends.push(match walk(&log).1 {
            End::Dangling(_) => "dangling",
            End::Exceeded(_) => "exceeded",
            End::Ended => "ended",
            End::Live => "live",
            End::Nothing => "nothing",
        });
    }
    for kind in Event::KINDS {
        assert!(kinds.contains(&kind), "{kind} is never generated");
    }
    for end in ["dangling", "exceeded", "ended", "live"] {
        assert!(ends.contains(&end), "no log ends {end}");
    }
}

#[test]
fn every_event_has_exactly_one_part_in_replay() {
    let asked = log([crate::support::started(), crate::support::asks_model("a")]);
    assert_eq!(asked[0].event.role(), Role::Opening);
    assert_eq!(asked[1].event.role(), Role::Asked);
    assert_eq!(Event::model_call_failed(seq(2), 1.into()).role(), Role::Settles(seq(2)));
}
