//! What the tested providers are asked, and what they answer.

use relight_llm::{ContentBlock, Message, MessageRequest, MessageResponse, StopReason, Usage};
use serde_json::json;

pub(super) fn request() -> MessageRequest {
    MessageRequest::new("some-model", 256).push_message(Message::user("What is 6 times 7?"))
}

/// Answers that every protocol can tell.
pub(super) fn answers() -> [MessageResponse; 3] {
    let usage = || Usage { cache_read_input_tokens: 4, ..Usage::new(6, 5) };
    let answer = |content: Vec<ContentBlock>, reason| {
        MessageResponse::new("answer_1", "some-model", content, reason).with_usage(usage())
    };
    let call = |id: &str, input| ContentBlock::ToolUse { id: id.to_owned(), name: "look".to_owned(), input };
    [
        answer(vec![ContentBlock::text("It is 42, or 四十二 \"in words\".")], StopReason::EndTurn),
        answer(
            vec![
                ContentBlock::text("I look."),
                call("call_1", json!({ "city": "Zürich", "n": [1, 2.5, null] })),
            ],
            StopReason::ToolUse,
        ),
        answer(vec![call("call_1", json!({})), call("call_2", json!({ "a": {} }))], StopReason::ToolUse),
    ]
}

/// One of them that begins with text.
pub(super) fn answer() -> MessageResponse {
    let [_, answer, _] = answers();
    answer
}
