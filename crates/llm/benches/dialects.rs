//! SSE bytes to a folded message for OpenAI's two dialects, against splitting lines and one borrowed `serde_json` parse
//! per event.
//!
//! `cargo bench -p relight-llm --no-default-features --bench dialects`

use std::borrow::Cow;
use std::time::Duration;

use relight_llm::{Fold, LlmError, MessageResponse, StreamEvent, chat, responses, sse};
use relight_testkit::paired::{Paired, timed};
use serde_json::{Value, json};

fn main() {
    println!("speed of SSE to message as a share of line split and borrowed parse");
    report("Responses", &responses_stream, &fold_responses, &|stream| {
        parse_lines::<ResponsesLine<'_>>(stream)
    });
    report("Chat Completions", &chat_stream, &fold_chat, &|stream| parse_lines::<ChatLine<'_>>(stream));
}

fn report(
    name: &str,
    stream: &dyn Fn(&str, usize) -> String,
    fold: &dyn Fn(&[u8], usize) -> MessageResponse,
    parse: &dyn Fn(&str) -> usize,
) {
    println!("{name}, 10 MB of deltas of 6 bytes");
    let deltas = stream("token ", 10 << 20);
    for chunk in [4 << 10, 64 << 10, 1 << 20] {
        compare(&format!("chunks of {:>4} KiB", chunk >> 10), &deltas, chunk, fold, parse);
    }
    println!("{name}, one event of one delta");
    for megabytes in [1, 5, 10] {
        let event = stream(&"x".repeat(megabytes << 20), 1);
        compare(&format!("{megabytes:>2} MB, chunks of 4 KiB"), &event, 4 << 10, fold, parse);
    }
}

fn compare(
    name: &str,
    stream: &str,
    chunk: usize,
    fold: &dyn Fn(&[u8], usize) -> MessageResponse,
    parse: &dyn Fn(&str) -> usize,
) {
    let paired =
        Paired::measure(PAIRS, || timed(|| fold(stream.as_bytes(), chunk)), || timed(|| parse(stream)));
    let speed = |time: Duration| stream.len() as f64 / 1e6 / time.as_secs_f64();
    println!(
        "  {name}: {:.2} of the baseline; {:.0} MB/s against {:.0} MB/s; {paired}",
        1.0 / paired.ratio,
        speed(paired.subject),
        speed(paired.baseline),
    );
}

fn fold_responses(stream: &[u8], chunk: usize) -> MessageResponse {
    let mut decoder = responses::Decoder::new("m");
    fold_events(stream, chunk, |event, fold| {
        decoder.push(event);
        drain(fold, || decoder.next_event());
    })
}

fn fold_chat(stream: &[u8], chunk: usize) -> MessageResponse {
    let mut decoder = chat::Decoder::new("m");
    fold_events(stream, chunk, |event, fold| {
        decoder.push(event);
        drain(fold, || decoder.next_event());
    })
}

/// The subject: all of what the client does, without the socket.
fn fold_events(
    stream: &[u8],
    chunk: usize,
    mut take: impl FnMut(&sse::Event<'_>, &mut Fold),
) -> MessageResponse {
    let mut frames = sse::Decoder::new();
    let mut fold = Fold::new();
    for chunk in stream.chunks(chunk) {
        frames.push(chunk);
        while let Some(event) = frames.next_event().expect("events are within the limit") {
            take(&event, &mut fold);
        }
    }
    fold.finish().expect("the stream is whole")
}

fn drain(fold: &mut Fold, mut next: impl FnMut() -> Option<Result<StreamEvent, LlmError>>) {
    while let Some(event) = next() {
        fold.apply(&event.expect("the stream is valid")).expect("the events are in order");
    }
}

/// What the baseline reads of an event.
trait Line<'a>: serde::Deserialize<'a> {
    fn size(&self) -> usize;
}

#[derive(serde::Deserialize)]
struct ResponsesLine<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    output_index: u64,
    #[serde(borrow, default)]
    delta: Cow<'a, str>,
}

impl<'a> Line<'a> for ResponsesLine<'a> {
    fn size(&self) -> usize {
        self.kind.len() + usize::from(self.output_index > 0) + self.delta.len()
    }
}

#[derive(serde::Deserialize)]
struct ChatLine<'a> {
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
}

#[derive(serde::Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Delta<'a>,
}

#[derive(serde::Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Cow<'a, str>,
}

impl<'a> Line<'a> for ChatLine<'a> {
    fn size(&self) -> usize {
        self.choices.iter().map(|choice| choice.delta.content.len()).sum()
    }
}

/// The baseline: lines, and each event read once without copying.
fn parse_lines<'a, L: Line<'a>>(stream: &'a str) -> usize {
    let mut total = 0;
    let mut rest = stream;
    while let Some(end) = memchr::memchr(b'\n', rest.as_bytes()) {
        if let Some(data) = rest[..end].strip_prefix("data: {") {
            let data = &rest[end - data.len() - 1..end];
            let line: L = serde_json::from_str(data).expect("the stream is valid");
            total += line.size();
        }
        rest = &rest[end + 1..];
    }
    total
}

/// A stream of so many bytes of deltas of this text, one at least.
fn responses_stream(text: &str, bytes: usize) -> String {
    let frame =
        |event: Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    let delta =
        frame(json!({ "type": "response.output_text.delta", "sequence_number": 4, "item_id": "msg_1",
                              "output_index": 0, "content_index": 0, "delta": text }));
    let begin = frame(json!({ "type": "response.created", "response": { "id": "resp_1" } }));
    let end =
        frame(json!({ "type": "response.completed", "response": { "id": "resp_1", "status": "completed" } }));
    [begin, delta.repeat((bytes / delta.len()).max(1)), end].concat()
}

fn chat_stream(text: &str, bytes: usize) -> String {
    let frame = |delta: Value, reason: Value| {
        let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": reason });
        let chunk = json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
                            "choices": [choice] });
        format!("data: {chunk}\n\n")
    };
    let delta = frame(json!({ "content": text }), json!(null));
    let begin = frame(json!({ "role": "assistant", "content": "" }), json!(null));
    let end = frame(json!({}), json!("stop")) + "data: [DONE]\n\n";
    [begin, delta.repeat((bytes / delta.len()).max(1)), end].concat()
}

const PAIRS: usize = 25;
