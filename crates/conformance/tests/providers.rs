//! The client keeps every promise of a provider over each of its protocols, against servers on real sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use relight_conformance::{ProviderHarness, Unmet, Way, provider};
use relight_llm::{
    Client, Config, ContentBlock, Delivery, LlmError, MessageRequest, MessageResponse, MessageStream,
    Provider, Reply, StopReason,
};
use relight_store::async_trait;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A protocol, as a server speaks it.
struct Protocol {
    config: fn() -> Config,
    body: fn(&MessageResponse) -> Value,
    /// The events of a stream: up to its first text, and the rest.
    events: fn(&MessageResponse) -> (Vec<Value>, Vec<Value>),
    overloaded: fn() -> Value,
}

#[async_trait]
impl ProviderHarness for Protocol {
    async fn answering(&self, answer: &MessageResponse, way: Way) -> Result<Box<dyn Provider>, Unmet> {
        let (begin, rest) = (self.events)(answer);
        let frames = |events: &[Value]| -> String {
            let frame = |event: &Value| {
                format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("message"))
            };
            events.iter().map(frame).collect()
        };
        let (status, body, stream, size) = match way {
            Way::Pieces(size) => {
                (200, (self.body)(answer).to_string(), frames(&[begin, rest].concat()), size)
            }
            Way::Cut => (200, String::new(), frames(&begin), 64),
            Way::Fails => (200, String::new(), frames(&[begin, vec![(self.overloaded)()]].concat()), 64),
            Way::Refused => {
                let refusal =
                    json!({ "error": { "type": "invalid_request_error", "message": "no" } }).to_string();
                (400, refusal.clone(), refusal, 64)
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(socket, status, body.clone(), stream.clone(), size));
            }
        });
        let config = (self.config)().with_base_url(format!("{url}/v1")).with_max_retries(0);
        Ok(Box::new(Client::new(config).unwrap()))
    }
}

/// Answers one request. The caller may be gone by any of these lines, which is no concern of the server's.
async fn serve(mut socket: TcpStream, status: u16, body: String, stream: String, size: usize) {
    let Some(request) = read_request(&mut socket).await else { return };
    let answer = if request["stream"] == true { stream } else { body };
    let _ = socket.set_nodelay(true);
    let head = format!("HTTP/1.1 {status} Status\r\nconnection: close\r\n\r\n");
    let _ = socket.write_all(head.as_bytes()).await;
    for piece in answer.as_bytes().chunks(size) {
        if socket.write_all(piece).await.is_err() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

async fn read_request(socket: &mut TcpStream) -> Option<Value> {
    let mut bytes = Vec::new();
    loop {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && let Ok(request) = serde_json::from_str(body)
        {
            return Some(request);
        }
    }
}

fn messages_block(block: &ContentBlock) -> Value {
    match block {
        ContentBlock::Text { text } => json!({ "type": "text", "text": text }),
        ContentBlock::ToolUse { id, name, input } => {
            json!({ "type": "tool_use", "id": id, "name": name, "input": input })
        }
        other => panic!("no answer of the suite has {other:?}"),
    }
}

fn messages_body(answer: &MessageResponse) -> Value {
    let content: Vec<Value> = answer.content.iter().map(messages_block).collect();
    json!({ "id": answer.id, "model": answer.model, "content": content, "stop_reason": answer.stop_reason.as_str(),
            "usage": { "input_tokens": 6, "cache_read_input_tokens": 4, "output_tokens": 5 } })
}

fn messages_events(answer: &MessageResponse) -> (Vec<Value>, Vec<Value>) {
    let mut start = messages_body(answer);
    start["content"] = json!([]);
    start["stop_reason"] = json!(null);
    let mut events = vec![json!({ "type": "message_start", "message": start })];
    let mut first_text = None;
    for (index, block) in answer.content.iter().enumerate() {
        let mut begun = messages_block(block);
        let (kind, field, whole) = match block {
            ContentBlock::Text { text } => ("text_delta", "text", text.clone()),
            _ => ("input_json_delta", "partial_json", begun["input"].to_string()),
        };
        let empty = if kind == "text_delta" { json!("") } else { json!({}) };
        begun[if kind == "text_delta" { "text" } else { "input" }] = empty;
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": begun }));
        for half in halves(&whole) {
            events.push(json!({ "type": "content_block_delta", "index": index, "delta": { "type": kind, field: half } }));
            first_text.get_or_insert(events.len());
        }
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    let delta = json!({ "stop_reason": answer.stop_reason.as_str() });
    events.push(json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 5 } }));
    events.push(json!({ "type": "message_stop" }));
    split(events, first_text)
}

fn responses_item(block: &ContentBlock) -> Value {
    match block {
        ContentBlock::Text { text } => {
            json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": text }] })
        }
        ContentBlock::ToolUse { id, name, input } => {
            json!({ "type": "function_call", "call_id": id, "name": name, "arguments": input.to_string() })
        }
        other => panic!("no answer of the suite has {other:?}"),
    }
}

fn responses_body(answer: &MessageResponse) -> Value {
    let output: Vec<Value> = answer.content.iter().map(responses_item).collect();
    let usage =
        json!({ "input_tokens": 10, "input_tokens_details": { "cached_tokens": 4 }, "output_tokens": 5 });
    json!({ "id": answer.id, "model": answer.model, "status": "completed", "output": output, "usage": usage })
}

fn responses_events(answer: &MessageResponse) -> (Vec<Value>, Vec<Value>) {
    let created = json!({ "id": answer.id, "model": answer.model, "status": "in_progress" });
    let mut events = vec![json!({ "type": "response.created", "response": created })];
    let mut first_text = None;
    for (index, block) in answer.content.iter().enumerate() {
        let item = responses_item(block);
        let (kind, whole) = match block {
            ContentBlock::Text { text } => ("response.output_text.delta", text.clone()),
            _ => ("response.function_call_arguments.delta", item["arguments"].as_str().unwrap().to_owned()),
        };
        let mut begun = item.clone();
        begun[if item["type"] == "message" { "content" } else { "arguments" }] = json!("");
        events.push(json!({ "type": "response.output_item.added", "output_index": index, "item": begun }));
        for half in halves(&whole) {
            events.push(json!({ "type": kind, "output_index": index, "content_index": 0, "delta": half }));
            first_text.get_or_insert(events.len());
        }
        events.push(json!({ "type": "response.output_item.done", "output_index": index, "item": item }));
    }
    events.push(json!({ "type": "response.completed", "response": responses_body(answer) }));
    split(events, first_text)
}

fn chat_calls(answer: &MessageResponse) -> Vec<Value> {
    let calls = answer.tool_uses().enumerate().map(|(index, (id, name, input))| {
        let function = json!({ "name": name, "arguments": input.to_string() });
        json!({ "index": index, "id": id, "type": "function", "function": function })
    });
    calls.collect()
}

fn chat_reason(answer: &MessageResponse) -> &'static str {
    if answer.stop_reason == StopReason::ToolUse { "tool_calls" } else { "stop" }
}

fn chat_usage() -> Value {
    json!({ "prompt_tokens": 10, "prompt_tokens_details": { "cached_tokens": 4 }, "completion_tokens": 5 })
}

fn chat_body(answer: &MessageResponse) -> Value {
    let message = json!({ "role": "assistant", "content": answer.text(), "tool_calls": chat_calls(answer) });
    let choice = json!({ "index": 0, "message": message, "finish_reason": chat_reason(answer) });
    json!({ "id": answer.id, "model": answer.model, "choices": [choice], "usage": chat_usage() })
}

fn chat_events(answer: &MessageResponse) -> (Vec<Value>, Vec<Value>) {
    let chunk = |delta: Value, reason: Value| {
        json!({ "id": answer.id, "model": answer.model,
                "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] })
    };
    let mut events = vec![chunk(json!({ "role": "assistant", "content": "" }), json!(null))];
    let text = answer.text();
    events.extend(halves(&text).map(|half| chunk(json!({ "content": half }), json!(null))));
    for call in chat_calls(answer) {
        let arguments = call["function"]["arguments"].as_str().unwrap().to_owned();
        let mut begun = call.clone();
        begun["function"]["arguments"] = json!("");
        events.push(chunk(json!({ "tool_calls": [begun] }), json!(null)));
        events.extend(halves(&arguments).map(|half| {
            let piece = json!({ "index": call["index"], "function": { "arguments": half } });
            chunk(json!({ "tool_calls": [piece] }), json!(null))
        }));
    }
    events.push(chunk(json!({}), json!(chat_reason(answer))));
    events.push(json!({ "id": answer.id, "choices": [], "usage": chat_usage() }));
    split(events, Some(2))
}

/// A text in two pieces, cut where a character ends.
fn halves(text: &str) -> impl Iterator<Item = &str> {
    let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
    [&text[..middle], &text[middle..]].into_iter()
}

fn split(mut events: Vec<Value>, at: Option<usize>) -> (Vec<Value>, Vec<Value>) {
    let rest = events.split_off(at.unwrap_or(1));
    (events, rest)
}

async fn check(protocol: Protocol) {
    let report = provider::run_all(&protocol).await;
    assert!(report.is_kept(), "{report}");
    assert_eq!(report.not_applicable().count(), 0, "{report}");
}

#[tokio::test]
async fn messages_keeps_every_promise() {
    check(Protocol {
        config: Config::messages,
        body: messages_body,
        events: messages_events,
        overloaded: || json!({ "type": "error", "error": { "type": "overloaded_error", "message": "busy" } }),
    })
    .await;
}

#[tokio::test]
async fn responses_keeps_every_promise() {
    check(Protocol {
        config: Config::responses,
        body: responses_body,
        events: responses_events,
        overloaded: || {
            let error = json!({ "code": "server_is_overloaded", "message": "busy" });
            json!({ "type": "response.failed", "response": { "status": "failed", "error": error } })
        },
    })
    .await;
}

#[tokio::test]
async fn chat_completions_keeps_every_promise() {
    check(Protocol {
        config: Config::chat_completions,
        body: chat_body,
        events: chat_events,
        overloaded: || json!({ "error": { "code": 503, "message": "busy" } }),
    })
    .await;
}

/// Takes an answer that breaks for a whole one, and forgets a word when it is asked for all at once.
struct Careless(MessageResponse);

#[async_trait]
impl Provider for Careless {
    async fn stream(&self, _: &MessageRequest) -> Result<MessageStream, LlmError> {
        Ok(MessageStream::of_response(&self.0, Delivery::default()))
    }

    async fn send(&self, request: &MessageRequest) -> Result<Reply, LlmError> {
        let answer = MessageResponse::new(&self.0.id, request.model(), "42", StopReason::EndTurn);
        Ok(Reply::new(answer, Delivery::default()))
    }
}

struct CarelessHarness;

#[async_trait]
impl ProviderHarness for CarelessHarness {
    async fn answering(&self, answer: &MessageResponse, _: Way) -> Result<Box<dyn Provider>, Unmet> {
        Ok(Box::new(Careless(answer.clone())))
    }
}

#[tokio::test]
async fn broken_promises_are_found() {
    let report = provider::run_all(&CarelessHarness).await;
    let broken = report.entries.iter().filter(|entry| matches!(entry.verdict, Err(Unmet::Broken(_))));
    let broken: Vec<&str> = broken.map(|entry| entry.promise).collect();
    assert_eq!(
        broken,
        [
            "send_equals_the_folded_stream",
            "an_answer_that_is_cut_is_an_error_with_its_beginning",
            "a_failure_in_mid_answer_is_typed_and_ends_the_stream",
            "a_refusal_is_an_error_before_the_answer",
            "errors_read_back_from_their_record",
        ]
    );
}
