//! What one answer of the model asks for, and the tool calls of a turn.
//!
//! Every text that goes back to the model from here is made again on replay, and must then be the same; another text is
//! another loop, see the agent's hash.

use std::collections::BTreeSet;

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
        StopReason::ToolUse | StopReason::EndTurn | StopReason::StopSequence if asks_for_tools => {
            match twin(response) {
                None => Next::CallTools,
                Some(id) => Next::GiveUp {
                    code: "ambiguous_tool_calls",
                    message: format!(
                        "the model made two tool calls named {id:?} in one answer, so neither was made; their \
                         results could not be told apart"
                    ),
                },
            }
        }
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
    let mut results = Results::default();
    for call in calls(response) {
        match call {
            Call::Whole { id, name, input } => match agent.tool(name) {
                Some(tool) => results.push(id, ctx.tool_call(tool, input.clone()).await?),
                None => results.push(id, refused("unknown_tool", format!("there is no tool {name}"))),
            },
            Call::Cut { id, name } => {
                let message =
                    format!("the arguments for {name} are not a JSON object; the tool was not called");
                results.push(id, refused("invalid_input", message));
            }
        }
    }
    Ok(results.blocks.into())
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

/// The first id that two calls of an answer share.
fn twin(response: &MessageResponse) -> Option<&str> {
    let mut seen = BTreeSet::new();
    calls(response)
        .map(|call| match call {
            Call::Whole { id, .. } | Call::Cut { id, .. } => id,
        })
        .find(|id| !seen.insert(*id))
}

fn refused(code: &str, message: String) -> ToolOutcome {
    ToolOutcome::Failed(ToolFailure { code: code.to_owned(), message })
}

/// The results of one turn. They make one message, which must fit into one event.
#[derive(Default)]
struct Results {
    blocks: Vec<ContentBlock>,
    bytes: usize,
}

impl Results {
    fn push(&mut self, id: &str, outcome: ToolOutcome) {
        let (mut text, mut is_error) = match outcome {
            ToolOutcome::Returned(Value::String(text)) => (text, false),
            // Neither the order of keys nor the spelling of numbers may depend on how a library was built.
            ToolOutcome::Returned(value) => (relight_canonical::to_canonical(&value), false),
            ToolOutcome::Failed(failure) => (failure.to_string(), true),
        };
        let room = MAX_RESULTS_BYTES - self.bytes;
        let mut bytes = escaped(&text);
        if bytes > room {
            text = match is_error {
                true => "it failed, and what it said is too large for this conversation".to_owned(),
                false => "it was done, but its result is too large for this conversation".to_owned(),
            };
            (bytes, is_error) = (0, true);
        }
        self.bytes += bytes;
        let content = ContentBlock::text(text).into();
        self.blocks.push(ContentBlock::ToolResult { tool_use_id: id.to_owned(), content, is_error });
    }
}

/// How many bytes a text takes as JSON, at most.
fn escaped(text: &str) -> usize {
    let width = |byte: u8| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(width).sum()
}

/// What the results of one turn may take as JSON; half of what an event may.
const MAX_RESULTS_BYTES: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(stop: &str, content: Vec<ContentBlock>) -> Next {
        next(&MessageResponse::new("msg", "model", content, StopReason::from(stop.to_owned())))
    }

    fn call(id: &str) -> ContentBlock {
        ContentBlock::ToolUse { id: id.into(), name: "add".into(), input: json!({}) }
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
        let calls = || vec![call("a"), call("b")];
        for reason in ["tool_use", "end_turn", "stop_sequence"] {
            assert_eq!(check(reason, calls()), Next::CallTools, "{reason}");
        }
        assert!(matches!(check("max_tokens", calls()), Next::GiveUp { code: "max_tokens", .. }));
        assert!(matches!(check("refusal", calls()), Next::GiveUp { .. }));
    }

    #[test]
    fn calls_whose_results_could_not_be_told_apart_are_not_made() {
        let cut = ContentBlock::InvalidToolUse { id: "a".into(), name: "add".into(), raw: "{".into() };
        for twins in [vec![call("a"), call("b"), call("a")], vec![call("a"), cut]] {
            assert!(matches!(check("tool_use", twins), Next::GiveUp { code: "ambiguous_tool_calls", .. }));
        }
    }

    #[test]
    fn results_that_are_too_large_together_are_not_sent() {
        let mut results = Results::default();
        let large = || ToolOutcome::Returned(json!("\"".repeat(MAX_RESULTS_BYTES / 4)));
        for (id, outcome) in [("a", large()), ("b", large()), ("c", large()), ("d", large())] {
            results.push(id, outcome);
        }
        let is_error =
            |block: &ContentBlock| matches!(block, ContentBlock::ToolResult { is_error: true, .. });
        assert_eq!(results.blocks.iter().map(is_error).collect::<Vec<_>>(), [false, false, true, true]);
        let message = serde_json::to_string(&relight_llm::Message::user_blocks(results.blocks)).unwrap();
        assert!(message.len() < MAX_RESULTS_BYTES + 1024);
    }

    #[test]
    fn a_text_takes_no_more_room_than_is_counted() {
        for text in ["", "plain", "\"\\\u{0}\u{1f}\n\t", "é€😀", "\u{7f}\u{2028}"] {
            assert!(serde_json::to_string(text).unwrap().len() <= escaped(text) + 2, "{text:?}");
        }
    }
}
