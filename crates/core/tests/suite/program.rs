//! Random runs: what code, drivers, operators and crashes can do, and the log that it leaves.

use jiff::SignedDuration;
use proptest::prelude::*;
use relight_core::{
    Effect, Event, EventEnvelope, Resolution, Seq, ToolFailure, ToolOutcome, WaitReason, budget::Limit,
};
use serde_json::Value;

use crate::{
    json::{any_json, any_text},
    support::{drive, envelope, hash, seq, usage},
};

/// Something that happens to a run; it is passed over where it cannot happen.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    AskModel(u8),
    AskTool(String, Value, Effect),
    /// The open call ends well, with this.
    Settle(Value),
    /// The open call fails, and the code goes on.
    Fail(Value),
    /// Another process drives.
    Drive,
    /// Nothing can find out what became of the open call.
    Wait,
    ResolveOutcome(Value),
    ResolveNotDone,
    Exceed(Limit, u64),
    Raise(Limit, u64),
    CancelRequested,
    Cancelled,
    Complete(Value),
    GiveUp(String),
}

/// The log of a random run: well-formed by construction, and not by asking the fold.
pub(crate) fn any_log() -> impl Strategy<Value = Vec<EventEnvelope>> {
    let ops = prop::collection::vec((any_op(), 0_i64..3), 0..24);
    (any_text(), any_json(), ops).prop_map(|(agent, input, ops)| {
        let mut world = World::default();
        world.push(0, Event::run_started(agent, input));
        for (op, millis) in ops {
            world.happens(op, millis);
        }
        world.log
    })
}

fn any_op() -> impl Strategy<Value = Op> {
    let effect = prop::sample::select(vec![Effect::Read, Effect::Idempotent, Effect::Write]);
    let limit = prop::sample::select(vec![Limit::Steps, Limit::Tokens]);
    let amount = prop_oneof![0_u64..4, Just(u64::MAX)];
    prop_oneof![
        8 => any::<u8>().prop_map(Op::AskModel),
        8 => (any_text(), any_json(), effect).prop_map(|(tool, input, effect)| Op::AskTool(tool, input, effect)),
        16 => any_json().prop_map(Op::Settle),
        3 => any_json().prop_map(Op::Fail),
        4 => Just(Op::Drive),
        3 => Just(Op::Wait),
        3 => any_json().prop_map(Op::ResolveOutcome),
        3 => Just(Op::ResolveNotDone),
        2 => (limit.clone(), amount.clone()).prop_map(|(limit, allowed)| Op::Exceed(limit, allowed)),
        4 => (limit, amount).prop_map(|(limit, to)| Op::Raise(limit, to)),
        1 => Just(Op::CancelRequested),
        1 => Just(Op::Cancelled),
        1 => any_json().prop_map(Op::Complete),
        1 => any_text().prop_map(Op::GiveUp),
    ]
}

/// The run as it stands, in the words of this test.
#[derive(Default)]
struct World {
    log: Vec<EventEnvelope>,
    millis: i64,
    drives: u64,
    open: Option<(Seq, Open)>,
    exceeded: Option<(Limit, u64)>,
    cancelling: bool,
    ended: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Open {
    Model,
    Tool,
}

impl World {
    fn happens(&mut self, op: Op, millis: i64) {
        let may_go_on = self.open.is_none() && self.exceeded.is_none() && !self.cancelling;
        let event = match (op, self.open) {
            _ if self.ended => return,
            (Op::AskModel(which), _) if may_go_on => {
                Event::model_call_requested(hash(&which.to_string()), None)
            }
            (Op::AskTool(tool, input, effect), _) if may_go_on => {
                let key = (effect != Effect::Read).then(|| format!("key of {tool}"));
                Event::tool_call_requested(tool, input, effect, key)
            }
            (Op::Settle(response), Some((intent, Open::Model))) => {
                Event::model_call_completed(intent, response, usage(3, 2))
            }
            (Op::Settle(value), Some((intent, Open::Tool))) => {
                Event::tool_call_completed(intent, ToolOutcome::Returned(value))
            }
            (Op::Fail(error), Some((intent, Open::Model))) => Event::model_call_failed(intent, error),
            (Op::Fail(error), Some((intent, Open::Tool))) => {
                let failure = ToolFailure { code: "failed".to_owned(), message: error.to_string() };
                Event::tool_call_completed(intent, ToolOutcome::Failed(failure))
            }
            (Op::Drive, _) => {
                self.drives += 1;
                drive(self.drives)
            }
            (Op::Wait, Some((intent, Open::Tool))) => {
                Event::suspended(WaitReason::Reconciliation { intent, why: "no answer".to_owned() })
            }
            (Op::Wait, None) => match self.exceeded {
                Some((limit, _)) => Event::suspended(WaitReason::Budget { limit }),
                None => return,
            },
            (Op::ResolveOutcome(value), Some((intent, Open::Tool))) => {
                Event::resolved(intent, Resolution::Outcome(ToolOutcome::Returned(value)), "ada")
            }
            (Op::ResolveNotDone, Some((intent, Open::Tool))) => {
                Event::resolved(intent, Resolution::NotDone {}, "ada")
            }
            (Op::Exceed(limit, allowed), _) if may_go_on => Event::budget_exceeded(limit, allowed, allowed),
            (Op::Raise(limit, to), _) => Event::budget_raised(limit, to, "ada"),
            (Op::CancelRequested, _) => Event::cancel_requested("ada"),
            (Op::Cancelled, open) => {
                Event::run_cancelled(open.map(|(intent, _)| intent).into_iter().collect())
            }
            (Op::Complete(output), _) if may_go_on => Event::run_completed(output),
            (Op::GiveUp(code), _) if may_go_on => Event::run_failed(code, "gave up"),
            _ => return,
        };
        self.push(millis, event);
    }

    fn push(&mut self, millis: i64, event: Event) {
        let at = self.log.len() as u64 + 1;
        self.millis += millis;
        match &event {
            Event::ModelCallRequested { .. } => self.open = Some((seq(at), Open::Model)),
            Event::ToolCallRequested { .. } => self.open = Some((seq(at), Open::Tool)),
            Event::ModelCallCompleted { .. }
            | Event::ModelCallFailed { .. }
            | Event::ToolCallCompleted { .. }
            | Event::Resolved { resolution: Resolution::Outcome(_), .. } => self.open = None,
            Event::BudgetExceeded { limit, allowed, .. } => self.exceeded = Some((*limit, *allowed)),
            Event::BudgetRaised { limit, to, .. } => {
                if let Some((exceeded, allowed)) = self.exceeded
                    && exceeded == *limit
                    && *to > allowed
                {
                    self.exceeded = None;
                }
            }
            Event::CancelRequested { .. } => self.cancelling = true,
            Event::RunCompleted { .. } | Event::RunFailed { .. } | Event::RunCancelled { .. } => {
                self.ended = true
            }
            _ => {}
        }
        let recorded_at = crate::support::start_time() + SignedDuration::from_millis(self.millis);
        self.log.push(EventEnvelope { recorded_at, ..envelope(at, event) });
    }
}
