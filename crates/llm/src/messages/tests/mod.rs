//! The protocol against its documentation and what servers were seen to send, each stream cut at every byte.

mod answers;
mod errors;
mod hostile;
mod properties;

use serde_json::{Value, json};

use super::*;
use crate::error::{ErrorKind, LlmError, Stage};
use crate::fold::Fold;
use crate::sse;
use crate::vocabulary::{Content, ContentBlock, MessageResponse, StopReason, Usage};

#[derive(Clone, Copy)]
enum End {
    Clean,
    Broken,
}

/// Everything from bytes to message, as the client does it, without a socket.
fn fold_chunks<'a>(
    chunks: impl IntoIterator<Item = &'a [u8]>,
    end: End,
) -> Result<MessageResponse, LlmError> {
    let mut decoder = sse::Decoder::new();
    let mut fold = Fold::new();
    for chunk in chunks {
        decoder.push(chunk);
        while let Some(event) = decoder.next_event().unwrap() {
            if let Some(event) = decode_event(&event)? {
                fold.apply(&event)?;
            }
            if fold.is_complete() {
                return fold.finish();
            }
        }
    }
    if let (End::Clean, Some(event)) = (end, decoder.finish())
        && let Some(event) = decode_event(&event)?
    {
        fold.apply(&event)?;
    }
    fold.finish()
}

fn check_end(stream: &str, end: End) -> Result<MessageResponse, LlmError> {
    let whole = fold_chunks([stream.as_bytes()], end);
    assert_eq!(fold_chunks(stream.as_bytes().chunks(1), end), whole, "byte by byte");
    for at in 0..=stream.len() {
        let (left, right) = stream.as_bytes().split_at(at);
        assert_eq!(fold_chunks([left, right], end), whole, "cut at {at}");
    }
    whole
}

/// The message of a stream of these events, whatever way it is cut.
fn check(events: &[Value]) -> Result<MessageResponse, LlmError> {
    let plain = framed(events, "\n");
    let folded = check_end(&plain, End::Clean);
    assert_eq!(check_end(&framed(events, "\r\n"), End::Clean), folded, "the same with CRLF");
    let unnamed: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    assert_eq!(fold_chunks([unnamed.as_bytes()], End::Clean), folded, "the same without names");
    folded
}

fn framed(events: &[Value], line_end: &str) -> String {
    let frame = |event: &Value| {
        let name = event["type"].as_str().unwrap_or("");
        ["event: ", name, line_end, "data: ", &event.to_string(), line_end, line_end].concat()
    };
    events.iter().map(frame).collect()
}

fn start() -> Value {
    json!({ "type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "some-model", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": { "input_tokens": 10, "output_tokens": 1 },
    }})
}

fn open(index: u64, block: Value) -> Value {
    json!({ "type": "content_block_start", "index": index, "content_block": block })
}

fn delta(index: u64, delta: Value) -> Value {
    json!({ "type": "content_block_delta", "index": index, "delta": delta })
}

fn text(index: u64, text: &str) -> Value {
    delta(index, json!({ "type": "text_delta", "text": text }))
}

fn arguments(index: u64, part: &str) -> Value {
    delta(index, json!({ "type": "input_json_delta", "partial_json": part }))
}

fn close(index: u64) -> Value {
    json!({ "type": "content_block_stop", "index": index })
}

fn ended(reason: &str) -> Value {
    json!({ "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null },
            "usage": { "output_tokens": 5 } })
}

fn stop() -> Value {
    json!({ "type": "message_stop" })
}

fn tool() -> Value {
    json!({ "type": "tool_use", "id": "toolu_1", "name": "look", "input": {} })
}

fn answer(content: impl Into<Content>, reason: StopReason) -> MessageResponse {
    MessageResponse::new("msg_1", "some-model", content, reason).with_usage(Usage::new(10, 5))
}
