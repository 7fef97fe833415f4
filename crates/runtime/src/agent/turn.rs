//! What one answer of the model asks for, and the tool calls of a turn.

use relight_core::{ToolFailure, ToolOutcome};
use relight_llm::{Content, ContentBlock, MessageResponse, StopReason};
use serde_json::Value;

use super::Agent;
use crate::{RunCtx, RuntimeError};

/// What the loop does after an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The model is done.
    Answered,
    /// The model waits for tools.
    CallTools,
    /// The turn was interrupted; the answer is sent back as it is.
    GoOn,
    /// The model did not finish its answer and never will.
    GiveUp { code: &'static str, message: String },
}

/// Reads the stop reason. Only a finished answer is taken for one, and only calls that are whole are made.
pub(super) fn next(response: &MessageResponse) -> Next {
    let give_up = |code, message: &str| Next::GiveUp { code, message: message.to_owned() };
    let asks_for_tools = calls(response).next().is_some();
    match &response.stop_reason {
        StopReason::ToolUse | StopReason::EndTurn if asks_for_tools => Next::CallTools,
        StopReason::EndTurn | StopReason::StopSequence => Next::Answered,
        StopReason::PauseTurn => Next::GoOn,
        StopReason::ToolUse => give_up("no_tool_call", "the model waits for tools, but called none"),
        StopReason::MaxTokens => give_up(
            "max_tokens",
            "the model's answer was cut at max_tokens; raise max_tokens and start a new run",
        ),
        StopReason::ModelContextWindowExceeded => give_up(
            "context_window",
            "the model's context window is full, so its answer was cut; start a new run with less in it",
        ),
        StopReason::Refusal => give_up("refusal", "the model refused to answer"),
        StopReason::Missing => give_up("no_stop_reason", "the model's answer ended without a reason"),
        other => Next::GiveUp {
            code: "unknown_stop_reason",
            message: format!("the model stopped for a reason that is not known here: {}", other.as_str()),
        },
    }
}

/// Makes the calls of one turn, one after another, and gives one result for each.
pub(super) async fn call_tools(
    agent: &Agent,
    ctx: &mut RunCtx,
    response: &MessageResponse,
) -> Result<Content, RuntimeError> {
    let mut results = Vec::new();
    for call in calls(response) {
        let (id, outcome) = match call {
            Call::Whole { id, name, input } => match agent.tool(name) {
                Some(tool) => (id, ctx.tool_call(tool, input.clone()).await?),
                None => (id, refused("unknown_tool", format!("there is no tool {name}"))),
            },
            Call::Cut { id, name } => {
                let message =
                    format!("the arguments for {name} are not a JSON object; the tool was not called");
                (id, refused("invalid_input", message))
            }
        };
        results.push(result(id, outcome));
    }
    Ok(results.into())
}

enum Call<'a> {
    Whole { id: &'a str, name: &'a str, input: &'a Value },
    Cut { id: &'a str, name: &'a str },
}

fn calls(response: &MessageResponse) -> impl Iterator<Item = Call<'_>> {
    response.content.iter().filter_map(|block| match block {
        ContentBlock::ToolUse { id, name, input } => Some(Call::Whole { id, name, input }),
        ContentBlock::InvalidToolUse { id, name, .. } => Some(Call::Cut { id, name }),
        _ => None,
    })
}

fn refused(code: &str, message: String) -> ToolOutcome {
    ToolOutcome::Failed(ToolFailure { code: code.to_owned(), message })
}

fn result(id: &str, outcome: ToolOutcome) -> ContentBlock {
    let (text, is_error) = match outcome {
        ToolOutcome::Returned(Value::String(text)) => (text, false),
        ToolOutcome::Returned(value) => (value.to_string(), false),
        ToolOutcome::Failed(failure) => (failure.to_string(), true),
    };
    let content = ContentBlock::text(text).into();
    ContentBlock::ToolResult { tool_use_id: id.to_owned(), content, is_error }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(stop: &str, content: Vec<ContentBlock>) -> Next {
        next(&MessageResponse::new("msg", "model", content, StopReason::from(stop.to_owned())))
    }

    fn call() -> Vec<ContentBlock> {
        vec![ContentBlock::ToolUse { id: "a".into(), name: "add".into(), input: json!({}) }]
    }

    #[test]
    fn only_a_finished_answer_is_taken_for_one() {
        let text = || vec![ContentBlock::text("half an ans")];
        assert_eq!(check("end_turn", text()), Next::Answered);
        assert_eq!(check("stop_sequence", text()), Next::Answered);
        for reason in ["max_tokens", "refusal", "model_context_window_exceeded", "tool_use", "", "novel"] {
            assert!(matches!(check(reason, text()), Next::GiveUp { .. }), "{reason}");
        }
    }

    #[test]
    fn a_paused_turn_goes_on() {
        assert_eq!(check("pause_turn", vec![]), Next::GoOn);
    }

    #[test]
    fn tools_are_called_only_when_the_turn_is_whole() {
        assert_eq!(check("tool_use", call()), Next::CallTools);
        assert_eq!(check("end_turn", call()), Next::CallTools);
        assert!(matches!(check("max_tokens", call()), Next::GiveUp { code: "max_tokens", .. }));
        assert!(matches!(check("refusal", call()), Next::GiveUp { .. }));
    }
}
