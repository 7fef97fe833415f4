//! SSE bytes to a folded message, against splitting lines and one borrowed `serde_json` parse per event.
//!
//! `cargo bench -p relight-llm --no-default-features --bench fold`

use std::borrow::Cow;
use std::time::Duration;

use relight_llm::{Fold, MessageResponse, messages, sse};
use relight_testkit::paired::{Paired, timed};
use serde_json::json;

fn main() {
    let deltas = stream_of_deltas(10 << 20);
    println!(
        "10 MB of deltas of 6 bytes; speed of SSE to message as a share of line split and borrowed parse"
    );
    for chunk in [4 << 10, 64 << 10, 1 << 20] {
        report(&format!("chunks of {:>4} KiB", chunk >> 10), &deltas, chunk);
    }
    println!("one event of one delta");
    for megabytes in [1, 5, 10] {
        let event = stream_with(&"x".repeat(megabytes << 20));
        report(&format!("{megabytes:>2} MB, chunks of 4 KiB"), &event, 4 << 10);
    }
}

fn report(name: &str, stream: &str, chunk: usize) {
    let fold = || timed(|| fold(stream.as_bytes(), chunk));
    let paired = Paired::measure(PAIRS, fold, || timed(|| parse_lines(stream)));
    println!(
        "  {name}: {:.2} of the baseline; {:.0} MB/s against {:.0} MB/s; {paired}",
        1.0 / paired.ratio,
        speed(stream, paired.subject),
        speed(stream, paired.baseline),
    );
}

fn speed(stream: &str, time: Duration) -> f64 {
    stream.len() as f64 / 1e6 / time.as_secs_f64()
}

/// The subject: all of what the client does, without the socket.
fn fold(stream: &[u8], chunk: usize) -> MessageResponse {
    let mut decoder = sse::Decoder::new();
    let mut fold = Fold::new();
    for chunk in stream.chunks(chunk) {
        decoder.push(chunk);
        while let Some(event) = decoder.next_event().expect("events are within the limit") {
            if let Some(event) = messages::decode_event(&event).expect("the stream is valid") {
                fold.apply(&event).expect("the events are in order");
            }
        }
    }
    fold.finish().expect("the stream is whole")
}

#[derive(serde::Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    index: u64,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
}

#[derive(serde::Deserialize)]
struct Delta<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
}

/// The baseline: lines, and each event read once without copying.
fn parse_lines(stream: &str) -> usize {
    let mut total = 0;
    let mut rest = stream;
    while let Some(end) = memchr::memchr(b'\n', rest.as_bytes()) {
        if let Some(data) = rest[..end].strip_prefix("data: ") {
            let line: Line<'_> = serde_json::from_str(data).expect("the stream is valid");
            let delta = line.delta.as_ref();
            let text = delta.and_then(|delta| delta.text.as_ref()).map_or(0, |text| text.len());
            let kind = delta.and_then(|delta| delta.kind.as_ref()).map_or(0, |kind| kind.len());
            total += line.kind.len() + usize::from(line.index > 0) + text + kind;
        }
        rest = &rest[end + 1..];
    }
    total
}

fn stream_of_deltas(bytes: usize) -> String {
    let delta = frame(
        &json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "token " } }),
    );
    enclosed(&delta.repeat(bytes / delta.len()))
}

fn stream_with(text: &str) -> String {
    enclosed(&frame(
        &json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } }),
    ))
}

fn enclosed(deltas: &str) -> String {
    let start = json!({ "type": "message_start", "message": { "id": "msg_1", "model": "m", "content": [] } });
    let open =
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } });
    let close = json!({ "type": "content_block_stop", "index": 0 });
    let end = json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 5 } });
    let stop = json!({ "type": "message_stop" });
    [frame(&start), frame(&open), deltas.to_owned(), frame(&close), frame(&end), frame(&stop)].concat()
}

fn frame(event: &serde_json::Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("events have a type"))
}

const PAIRS: usize = 25;
