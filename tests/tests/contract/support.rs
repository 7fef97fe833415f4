//! A server of recorded bytes, a store, a client and a context, each made only of what others rely on.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use jiff::Timestamp;
use relight_core::{Event, EventEnvelope, RunId};
use relight_llm::{Client, Config, Message, MessageRequest};
use relight_runtime::{ClockFn, RandomFn, RunCtx};
use relight_store::{EventStore, SqliteStore};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use uuid::Uuid;
use wiremock::{
    Mock, MockServer, ResponseTemplate,
    matchers::{body_partial_json, method, path},
};

pub fn body() -> Value {
    json!({
        "id": "msg_1", "role": "assistant", "model": "model",
        "content": [{"type": "text", "text": "Grüße, 世界 🌍"}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 9, "output_tokens": 5},
    })
}

/// The framing of a server that gives events no names and ends its lines in CRLF.
pub fn sse(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\r\n\r\n")).collect()
}

pub fn run_id() -> RunId {
    RunId::from_uuid(Uuid::from_u128(0x5eed))
}

pub fn fixed() -> (ClockFn, RandomFn) {
    let now: Timestamp = NOW.parse().unwrap();
    (Arc::new(move || now), Arc::new(|| 4u64))
}

pub fn store() -> Result<Arc<dyn EventStore>, Box<dyn Error>> {
    Ok(Arc::new(SqliteStore::in_memory()?))
}

pub fn client(uri: &str) -> Result<Client, Box<dyn Error>> {
    Ok(Client::new(Config::new().with_base_url(uri).with_max_retries(0))?)
}

pub fn request() -> MessageRequest {
    MessageRequest::new("model", 256).push_message(Message::user("hello"))
}

/// A context over this log that has begun.
pub async fn begun(store: &Arc<dyn EventStore>, log: Vec<EventEnvelope>) -> Result<RunCtx, Box<dyn Error>> {
    let (clock, random) = fixed();
    let mut ctx = RunCtx::with_hooks(store.clone(), run_id(), log, clock, random)?;
    ctx.begin("any string", &json!({"question": "hello"})).await?;
    Ok(ctx)
}

pub fn kinds(log: &[EventEnvelope]) -> Vec<&'static str> {
    let kind = |envelope: &EventEnvelope| match &envelope.event {
        Event::RunStarted { .. } => "started",
        Event::ModelCallRequested { .. } => "requested",
        Event::ModelCallCompleted { .. } => "completed",
        Event::ModelCallFailed { .. } => "failed",
        _ => "other",
    };
    log.iter().map(kind).collect()
}

/// A server that gives one answer to whole calls and one to streamed calls.
pub async fn server(body: Value, stream: &str, content_type: &str) -> MockServer {
    let server = MockServer::start().await;
    let at = || Mock::given(method("POST")).and(path("/v1/messages"));
    let streamed = ResponseTemplate::new(200).set_body_raw(stream, content_type);
    at().and(body_partial_json(json!({"stream": true}))).respond_with(streamed).mount(&server).await;
    at().respond_with(ResponseTemplate::new(200).set_body_json(body)).with_priority(9).mount(&server).await;
    server
}

pub async fn calls(server: &MockServer) -> usize {
    server.received_requests().await.unwrap_or_default().len()
}

/// A server that reads a request to its end and then writes what it is told, in these pieces, for each connection.
pub async fn raw_server(pieces: Vec<Vec<u8>>) -> Result<(String, Arc<AtomicUsize>), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let uri = format!("http://{}", listener.local_addr()?);
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::SeqCst);
            let pieces = pieces.clone();
            tokio::spawn(async move {
                socket.set_nodelay(true)?;
                read_request(&mut socket).await?;
                for piece in pieces {
                    socket.write_all(&piece).await?;
                    socket.flush().await?;
                    tokio::task::yield_now().await;
                }
                socket.shutdown().await
            });
        }
    });
    Ok((uri, seen))
}

pub async fn read_request(socket: &mut TcpStream) -> std::io::Result<()> {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = socket.read(&mut buffer).await?;
        seen.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&seen).to_lowercase();
        let Some(head) = text.find("\r\n\r\n") else { continue };
        let length =
            text[..head].lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if read == 0 || seen.len() >= head + 4 + length.unwrap_or(0) {
            return Ok(());
        }
    }
}

/// A 200 without a content type that ends with its connection, cut into pieces of this many bytes.
pub fn bare_answer(body: &[u8], size: usize) -> Vec<Vec<u8>> {
    let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_vec();
    std::iter::once(head).chain(body.chunks(size).map(<[u8]>::to_vec)).collect()
}

/// To the nanosecond, so that whoever keeps less is found.
pub const NOW: &str = "2026-11-30T12:00:00.123456789Z";

pub const STREAM: &str = concat!(
    "event: message_start\n",
    r#"data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"model","content":[],"stop_reason":null,"usage":{"input_tokens":9,"output_tokens":1}}}"#,
    "\n\nevent: content_block_start\n",
    r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
    "\n\nevent: ping\ndata: {\"type\": \"ping\"}",
    "\n\nevent: content_block_delta\n",
    r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Grüße, "}}"#,
    "\n\nevent: content_block_delta\n",
    r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"世界 🌍"}   }"#,
    "\n\nevent: content_block_stop\n",
    r#"data: {"type":"content_block_stop","index":0}"#,
    "\n\nevent: message_delta\n",
    r#"data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}}"#,
    "\n\nevent: message_stop\n",
    r#"data: {"type":"message_stop"}"#,
    "\n\n",
);
