//! One event of a log as one line for people.

use jiff::Timestamp;
use relight::{
    Event, EventEnvelope,
    core::{Resolution, ToolOutcome, WaitReason},
};
use serde_json::Value;

use super::{style, text::shortened};

/// `   7  +1.204s  tool call   refund {"order":"1042"}`; times count from the run's start.
pub(crate) fn line(envelope: &EventEnvelope, started_at: Timestamp) -> String {
    let dim = style::DIM;
    let (what, detail) = describe(&envelope.event);
    let after = since(started_at, envelope.recorded_at);
    let room = super::width(std::io::stdout(), WIDTH).saturating_sub(MARGIN).max(20);
    format!("{:>5}  {dim}{after:>10}{dim:#}  {what:<16}  {}", envelope.seq.number(), shortened(&detail, room))
}

/// What an event is called, and what it holds in short.
pub(crate) fn describe(event: &Event) -> (&'static str, String) {
    match event {
        Event::RunStarted { input, .. } => ("run started", input.to_string()),
        Event::DriveStarted { drive, process, .. } => {
            ("drive started", format!("drive {drive}, process {}", process.pid))
        }
        Event::ModelCallRequested { .. } => ("model call", String::new()),
        Event::ModelCallCompleted { response, usage, .. } => {
            let tokens = usage.total();
            ("model answered", format!("{} ({tokens} tokens)", shortened(&said(response), SAID)))
        }
        Event::ModelCallFailed { error, .. } => ("model failed", text_of(&error["message"])),
        Event::ToolCallRequested { tool, input, .. } => ("tool call", format!("{tool} {input}")),
        Event::ToolCallCompleted { outcome, .. } => tool_ended(outcome),
        Event::Resolved { intent, resolution, by, .. } => {
            let what = match resolution {
                Resolution::NotDone {} => "was not done".to_owned(),
                Resolution::Outcome(ToolOutcome::Returned(value)) => format!("was done: {value}"),
                Resolution::Outcome(ToolOutcome::Failed(failure)) => format!("failed: {failure}"),
            };
            ("resolved", format!("by {by}: event {intent} {what}"))
        }
        Event::Suspended { reason: WaitReason::Reconciliation { intent, why }, .. } => {
            ("waits", format!("for a person: was event {intent} done? {why}"))
        }
        Event::Suspended { reason: WaitReason::Budget { limit }, .. } => {
            ("waits", format!("for a higher limit on {limit}"))
        }
        Event::BudgetExceeded { limit, allowed, spent, .. } => {
            ("limit reached", format!("{limit}: {spent} of {allowed}"))
        }
        Event::BudgetRaised { limit, to, by, .. } => ("limit raised", format!("{limit} to {to}, by {by}")),
        Event::CancelRequested { by, .. } => ("cancel asked", format!("by {by}")),
        Event::RunCompleted { output, .. } => ("run completed", text_of(output)),
        Event::RunFailed { code, message, .. } => ("run failed", format!("{message} ({code})")),
        Event::RunCancelled { unsettled, .. } if unsettled.is_empty() => ("run cancelled", String::new()),
        Event::RunCancelled { unsettled, .. } => {
            let events: Vec<_> = unsettled.iter().map(ToString::to_string).collect();
            ("run cancelled", format!("unknown stays the outcome of event {}", events.join(", ")))
        }
        other => (other.kind(), String::new()),
    }
}

/// The text of a recorded answer, and the tools it calls.
fn said(response: &Value) -> String {
    let blocks = response["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let parts = blocks.iter().filter_map(|block| match block["type"].as_str()? {
        "text" => block["text"].as_str().map(str::to_owned),
        "tool_use" => Some(format!("→ {}", block["name"].as_str().unwrap_or("?"))),
        _ => None,
    });
    parts.collect::<Vec<_>>().join(" ")
}

fn tool_ended(outcome: &ToolOutcome) -> (&'static str, String) {
    match outcome {
        ToolOutcome::Returned(value) => ("tool returned", text_of(value)),
        ToolOutcome::Failed(failure) => ("tool failed", failure.to_string()),
    }
}

/// A text as it is, anything else as JSON.
fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn since(started_at: Timestamp, at: Timestamp) -> String {
    let millis = at.duration_since(started_at).as_millis();
    format!("+{}.{:03}s", millis / 1000, (millis % 1000).abs())
}

/// How wide a line is where it goes to no terminal.
const WIDTH: usize = 150;

/// The columns before an event's detail.
const MARGIN: usize = 37;

/// How much of what a model said is worth a line.
const SAID: usize = 90;

#[cfg(test)]
mod tests {
    use relight::{Effect, Seq};
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_shows_what_was_said_and_which_tools_it_calls() {
        let response = json!({"content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "Let me\nlook."},
            {"type": "tool_use", "id": "a", "name": "read_file", "input": {}},
        ]});
        let event = Event::model_call_completed(Seq::FIRST, response, Default::default());
        assert_eq!(describe(&event), ("model answered", "Let me look. → read_file (0 tokens)".to_owned()));
    }

    #[test]
    fn a_call_shows_its_input() {
        let event = Event::tool_call_requested("add", json!({"a": 1}), Effect::Read, None);
        assert_eq!(describe(&event), ("tool call", r#"add {"a":1}"#.to_owned()));
    }

    #[test]
    fn times_count_from_the_start() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(since(at("2026-01-01T00:00:00Z"), at("2026-01-01T00:01:02.0345Z")), "+62.034s");
    }
}
