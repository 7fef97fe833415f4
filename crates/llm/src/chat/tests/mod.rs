//! The protocol against its documentation and what servers were seen to send, each stream cut at every byte.

mod answers;
mod encoding;
mod properties;
mod quirks;

use serde_json::{Value, json};

use super::*;
use crate::error::{ErrorKind, LlmError, Stage};
use crate::fold::Fold;
use crate::sse;
use crate::vocabulary::{ContentBlock, MessageResponse, StopReason, Usage};

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
    let mut frames = sse::Decoder::new();
    let mut decoder = Decoder::new("asked-model");
    let mut fold = Fold::new();
    let mut drain = |decoder: &mut Decoder| {
        while let Some(event) = decoder.next_event() {
            let event = event.map_err(|error| match fold.has_started() {
                true => error.with_partial(fold.partial()),
                false => error,
            })?;
            fold.apply(&event).expect("the decoder's events are in order");
        }
        Ok(())
    };
    for chunk in chunks {
        frames.push(chunk);
        while let Some(event) = frames.next_event().unwrap() {
            decoder.push(&event);
            drain(&mut decoder)?;
        }
    }
    if let End::Clean = end {
        if let Some(event) = frames.finish() {
            decoder.push(&event);
            drain(&mut decoder)?;
        }
        decoder.finish();
        drain(&mut decoder)?;
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

/// The message of a stream of these chunks and `[DONE]`, whatever way it is cut.
fn check(chunks: &[Value]) -> Result<MessageResponse, LlmError> {
    let folded = check_end(&(framed(chunks) + "data: [DONE]\n\n"), End::Clean);
    if let Ok(response) = &folded {
        let recorded = serde_json::to_string(response).unwrap();
        assert_eq!(serde_json::from_str::<MessageResponse>(&recorded).unwrap(), *response, "as recorded");
    }
    folded
}

/// A stream and a body of the same answer are the same answer.
fn check_equal(chunks: &[Value], body: &Value) -> MessageResponse {
    let streamed = check(chunks).unwrap();
    assert_eq!(decode_body(body.to_string().as_bytes(), "asked-model").unwrap(), streamed);
    streamed
}

fn framed(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

fn chunk(delta: Value) -> Value {
    json!({ "id": "chat_1", "object": "chat.completion.chunk", "created": 1, "model": "some-model",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] })
}

fn finished(reason: &str) -> Value {
    let mut chunk = chunk(json!({}));
    chunk["choices"][0]["finish_reason"] = json!(reason);
    chunk
}

fn costs() -> Value {
    json!({ "id": "chat_1", "model": "some-model", "choices": [],
            "usage": { "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 } })
}

fn text(text: &str) -> Value {
    chunk(json!({ "content": text }))
}

fn call(piece: Value) -> Value {
    chunk(json!({ "tool_calls": [piece] }))
}

fn body(message: Value, reason: &str) -> Value {
    json!({ "id": "chat_1", "object": "chat.completion", "model": "some-model",
            "choices": [{ "index": 0, "message": message, "finish_reason": reason }],
            "usage": { "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 } })
}

fn look(id: &str, input: Value) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: "look".into(), input }
}
