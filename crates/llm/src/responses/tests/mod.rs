//! The protocol against its documentation and what servers were seen to send, each stream cut at every byte.

mod answers;
mod calls;
mod encoding;
mod errors;
mod properties;
mod servers;

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
    let mut take = |event: &sse::Event<'_>| {
        decoder.push(event);
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
            take(&event)?;
        }
    }
    if let (End::Clean, Some(event)) = (end, frames.finish()) {
        take(&event)?;
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
    let folded = check_end(&framed(events, "\n"), End::Clean);
    assert_eq!(check_end(&framed(events, "\r\n"), End::Clean), folded, "the same with CRLF");
    let unnamed: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    assert_eq!(fold_chunks([unnamed.as_bytes()], End::Clean), folded, "the same without names");
    if let Ok(response) = &folded {
        let recorded = serde_json::to_string(response).unwrap();
        assert_eq!(serde_json::from_str::<MessageResponse>(&recorded).unwrap(), *response, "as recorded");
    }
    folded
}

/// A stream and a body of the same answer are the same answer.
fn check_equal(events: &[Value], body: &Value) -> MessageResponse {
    let streamed = check(events).unwrap();
    assert_eq!(decode_body(body.to_string().as_bytes(), "asked-model").unwrap(), streamed);
    streamed
}

fn framed(events: &[Value], line_end: &str) -> String {
    let frame = |event: &Value| {
        let name = event["type"].as_str().unwrap_or("");
        ["event: ", name, line_end, "data: ", &event.to_string(), line_end, line_end].concat()
    };
    events.iter().map(frame).collect()
}

fn response(status: &str, output: Value) -> Value {
    json!({ "id": "resp_1", "object": "response", "model": "some-model", "status": status, "output": output,
            "error": null, "incomplete_details": null, "instructions": "Be terse.", "tools": [],
            "usage": if status == "in_progress" { json!(null) } else { usage() } })
}

fn usage() -> Value {
    json!({ "input_tokens": 10, "input_tokens_details": { "cached_tokens": 0 }, "output_tokens": 5,
            "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 15 })
}

fn created() -> Value {
    json!({ "type": "response.created", "sequence_number": 0, "response": response("in_progress", json!([])) })
}

fn completed(output: Value) -> Value {
    json!({ "type": "response.completed", "sequence_number": 9, "response": response("completed", output) })
}

fn added(index: u64, item: Value) -> Value {
    json!({ "type": "response.output_item.added", "output_index": index, "item": item })
}

fn done(index: u64, item: Value) -> Value {
    json!({ "type": "response.output_item.done", "output_index": index, "item": item })
}

fn text(index: u64, text: &str) -> Value {
    json!({ "type": "response.output_text.delta", "item_id": "msg_1", "output_index": index, "content_index": 0,
            "delta": text, "obfuscation": "xyz" })
}

fn message(text: &str) -> Value {
    let content = match text {
        "" => json!([]),
        text => json!([{ "type": "output_text", "text": text, "annotations": [], "logprobs": [] }]),
    };
    json!({ "type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": content })
}

fn call(arguments: &str) -> Value {
    json!({ "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": arguments,
            "status": "completed" })
}

fn arguments(index: u64, part: &str) -> Value {
    json!({ "type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": index, "delta": part })
}

fn look(input: Value) -> ContentBlock {
    ContentBlock::ToolUse { id: "call_1".into(), name: "look".into(), input }
}

fn cost() -> Usage {
    let mut usage = Usage::new(10, 5);
    usage.extra.insert("output_tokens_details".into(), json!({ "reasoning_tokens": 0 }));
    usage
}
