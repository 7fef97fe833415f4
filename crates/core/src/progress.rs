//! What a run has done so far: the counts and open intents that the state fold carries along.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{
    Effect, Event, EventEnvelope, Resolution, RunId, Seq, TokenUsage, WaitReason,
    budget::{Limit, Raised, Spent},
};

/// What a run has done so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The run.
    pub run_id: RunId,
    /// Which agent's code it belongs to.
    pub agent_hash: String,
    /// For searching.
    pub labels: BTreeMap<String, String>,
    /// When its first event was recorded.
    pub started_at: Timestamp,
    /// When its last event was recorded.
    pub updated_at: Timestamp,
    /// Its last position.
    pub head: Seq,
    /// How many drives noted their start.
    pub drives: u64,
    /// How many tool calls ended.
    pub tool_calls: u64,
    /// Model calls and tokens, as limits count them.
    pub spent: Spent,
    /// Tokens of all completed model calls.
    pub usage: TokenUsage,
    /// Limits raised for this run.
    pub raised: Raised,
    /// A limit that the code found used up and that nobody has raised since, with what it allowed.
    pub exceeded: Option<(Limit, u64)>,
    /// Intents that nothing has settled.
    pub open: BTreeMap<Seq, OpenIntent>,
}

/// An intent that nothing has settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenIntent {
    /// A model call.
    ModelCall,
    /// A tool call.
    ToolCall {
        /// The tool's name.
        tool: String,
        /// What the tool does to the world.
        effect: Effect,
    },
}

impl Progress {
    pub(crate) fn started(envelope: &EventEnvelope) -> Self {
        let (agent_hash, labels) = match &envelope.event {
            Event::RunStarted { agent_hash, labels, .. } => (agent_hash.clone(), labels.clone()),
            _ => unreachable!("only RunStarted opens a run"),
        };
        Self {
            run_id: envelope.run_id,
            agent_hash,
            labels,
            started_at: envelope.recorded_at,
            updated_at: envelope.recorded_at,
            head: envelope.seq,
            drives: 0,
            tool_calls: 0,
            spent: Spent::default(),
            usage: TokenUsage::default(),
            raised: Raised::default(),
            exceeded: None,
            open: BTreeMap::new(),
        }
    }

    pub(crate) fn note(&mut self, envelope: &EventEnvelope) -> Result<(), String> {
        self.head = envelope.seq;
        self.updated_at = envelope.recorded_at;
        match &envelope.event {
            Event::DriveStarted { drive, .. } => {
                let expected = self.drives.saturating_add(1);
                if *drive != expected {
                    return Err(format!("is number {drive}, but should be number {expected}"));
                }
                self.drives = expected;
            }
            Event::ModelCallRequested { .. } => {
                self.open.insert(envelope.seq, OpenIntent::ModelCall);
            }
            Event::ModelCallCompleted { intent, usage, .. } => {
                self.settle_model_call(*intent)?;
                self.spent.add_model_call(usage);
                self.usage = self.usage.plus(usage);
            }
            Event::ModelCallFailed { intent, .. } => self.settle_model_call(*intent)?,
            Event::ToolCallRequested { tool, effect, .. } => {
                self.open.insert(envelope.seq, OpenIntent::ToolCall { tool: tool.clone(), effect: *effect });
            }
            Event::ToolCallCompleted { intent, .. }
            | Event::Resolved { intent, resolution: Resolution::Outcome(_), .. } => {
                self.is_open_tool_call(*intent)?;
                self.open.remove(intent);
                self.tool_calls += 1;
            }
            Event::Resolved { intent, resolution: Resolution::NotDone {}, .. }
            | Event::Suspended { reason: WaitReason::Reconciliation { intent, .. } } => {
                self.is_open_tool_call(*intent)?;
            }
            Event::Suspended { reason: WaitReason::Budget { limit } } => {
                if self.exceeded.is_none_or(|(exceeded, _)| exceeded != *limit) {
                    return Err(format!("waits for a higher limit on {limit}, which is not used up"));
                }
            }
            Event::BudgetExceeded { limit, allowed, .. } => self.exceeded = Some((*limit, *allowed)),
            Event::BudgetRaised { limit, to, .. } => {
                self.raised = self.raised.to(*limit, *to);
                self.exceeded =
                    self.exceeded.filter(|(exceeded, allowed)| exceeded != limit || to <= allowed);
            }
            Event::RunCancelled { unsettled } => {
                if let Some(intent) = unsettled.iter().find(|intent| !self.open.contains_key(intent)) {
                    return Err(format!("leaves event {intent} unsettled, which is not open"));
                }
            }
            Event::RunStarted { .. }
            | Event::CancelRequested { .. }
            | Event::RunCompleted { .. }
            | Event::RunFailed { .. } => {}
        }
        Ok(())
    }

    /// What must be settled before the code may ask for more.
    pub(crate) fn stands_open(&self) -> Option<String> {
        if let Some(intent) = self.open.keys().next() {
            return Some(format!("event {intent}, which nothing has settled"));
        }
        self.exceeded.map(|(limit, allowed)| format!("a limit of {allowed} {limit}, which nobody has raised"))
    }

    fn settle_model_call(&mut self, intent: Seq) -> Result<(), String> {
        match self.open.get(&intent) {
            Some(OpenIntent::ModelCall) => {
                self.open.remove(&intent);
                Ok(())
            }
            Some(OpenIntent::ToolCall { tool, .. }) => {
                Err(format!("speaks of event {intent}, which is a call of the tool {tool}"))
            }
            None => Err(not_open(intent)),
        }
    }

    fn is_open_tool_call(&self, intent: Seq) -> Result<(), String> {
        match self.open.get(&intent) {
            Some(OpenIntent::ToolCall { .. }) => Ok(()),
            Some(OpenIntent::ModelCall) => Err(format!("speaks of event {intent}, which is a model call")),
            None => Err(not_open(intent)),
        }
    }
}

fn not_open(intent: Seq) -> String {
    format!("speaks of event {intent}, which is not an open call")
}
