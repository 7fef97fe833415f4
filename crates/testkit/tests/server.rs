//! The scripted server over real sockets, read byte by byte.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

use std::time::Duration;

use relight_testkit::{Answer, At, Block, Progress, Script, ScriptedServer, SeenRequest};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[tokio::test]
async fn an_answer_is_streamed_to_whoever_asks_for_a_stream() {
    let server = start(Script::new().turn(Answer::text("Hello, world"))).await;
    let answer = Client::ask(&server, &conversation(0, Stream::Yes)).await.rest().await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-type: text/event-stream; charset=utf-8\r\n"), "{answer}");
    assert_eq!(answer.matches("event: content_block_delta\n").count(), 2);
    assert!(answer.ends_with(LAST_CHUNK), "{answer}");

    let seen = only(&server);
    assert_eq!(seen.progress, Progress::Completed);
    assert_eq!((seen.status, seen.events_sent), (Some(200), 8));
}

#[tokio::test]
async fn the_same_answer_comes_as_one_body_without_a_stream() {
    let script = Script::new().turn(Answer::blocks([
        Block::thinking("Hm.", "sig"),
        Block::tool_use("toolu_1", "read", json!({ "path": "a" })),
    ]));
    let server = start(script).await;
    let answer = Client::ask(&server, &conversation(0, Stream::No)).await.json().await;
    assert_eq!(answer["stop_reason"], "tool_use");
    assert_eq!(answer["content"][0], json!({ "type": "thinking", "thinking": "Hm.", "signature": "sig" }));
    assert_eq!(answer["content"][1]["input"], json!({ "path": "a" }));
    assert_eq!(only(&server).events_sent, 1);
}

#[tokio::test]
async fn a_stalled_answer_stops_at_its_point_and_goes_on_when_released() {
    let server = start(Script::new().turn(Answer::text("one two three").stall(At::Events(4)))).await;
    let mut client = Client::ask(&server, &conversation(0, Stream::Yes)).await;
    until(&server, |seen| seen.progress == Progress::Stalled).await;
    client.read_until("one").await;
    assert_eq!(only(&server).events_sent, 4);

    server.release();
    let answer = client.rest().await;
    assert!(answer.contains("three") && answer.ends_with(LAST_CHUNK), "{answer}");
    assert_eq!(only(&server).progress, Progress::Completed);
}

#[tokio::test]
async fn a_client_that_goes_away_in_mid_answer_is_noticed() {
    let server = start(Script::new().turn(Answer::text("one two three").stall(At::Events(4)))).await;
    let client = Client::ask(&server, &conversation(0, Stream::Yes)).await;
    until(&server, |seen| seen.progress == Progress::Stalled).await;
    drop(client);
    until(&server, |seen| seen.progress == Progress::ClientGone).await;
    assert_eq!(only(&server).events_sent, 4);
}

#[tokio::test]
async fn a_cut_lets_all_before_it_through_and_nothing_after() {
    // Far more than the socket's buffers hold, so that it is still being written when the cut is due.
    let long = format!("{} ", "word".repeat(500)).repeat(12_000);
    let script = Script::new().turn(Answer::text(long).cut(At::Events(10_000)));
    let server = start(script).await;
    let answer = Client::ask(&server, &conversation(0, Stream::Yes)).await.rest().await;
    assert_eq!(answer.matches("event: ").count(), 10_000);
    assert!(!answer.ends_with(LAST_CHUNK));
    assert_eq!(only(&server).progress, Progress::Cut);
}

#[tokio::test]
async fn a_cut_inside_an_event_leaves_its_first_bytes() {
    let server = start(Script::new().turn(Answer::text("a").cut(At::Bytes(7)))).await;
    let answer = Client::ask(&server, &conversation(0, Stream::Yes)).await.rest().await;
    assert!(answer.ends_with("\r\n\r\n7\r\nevent: \r\n"), "{answer:?}");
}

#[tokio::test]
async fn a_cut_at_the_start_sends_no_byte() {
    let server = start(Script::new().turn(Answer::text("a").cut(At::Start))).await;
    let answer = Client::ask(&server, &conversation(0, Stream::Yes)).await.rest().await;
    assert_eq!(answer, "");
    assert_eq!(only(&server).status, None);
}

#[tokio::test]
async fn an_error_carries_its_status_headers_and_shape() {
    let answer = Answer::error(529, "overloaded_error", "Overloaded").header("retry-after", "0.5");
    let server = start(Script::new().turn(answer)).await;
    let answer = Client::ask(&server, &conversation(0, Stream::Yes)).await.rest().await;
    assert!(answer.starts_with("HTTP/1.1 529"), "{answer}");
    assert!(answer.contains("retry-after: 0.5\r\n"), "{answer}");
    assert!(answer.contains(r#""type":"overloaded_error""#), "{answer}");
}

#[tokio::test]
async fn a_repeated_request_gets_the_next_attempt() {
    let script =
        Script::new().attempts([Answer::error(529, "overloaded_error", "Overloaded"), Answer::text("done")]);
    let server = start(script).await;
    let first = Client::ask(&server, &conversation(0, Stream::No)).await.json().await;
    let second = Client::ask(&server, &conversation(0, Stream::No)).await.json().await;
    assert_eq!(first["type"], "error");
    assert_eq!(second["content"][0]["text"], "done");
    assert_eq!(server.requests()[1].attempt, 1);
}

#[tokio::test]
async fn a_request_that_breaks_a_rule_is_refused_in_the_apis_shape() {
    let server = start(Script::new().turn(Answer::text("hi")).require_key("right")).await;
    let body = conversation(0, Stream::No).to_string();
    let key = "x-api-key: right\r\nanthropic-version: 2023-06-01\r\n";

    check_refused(&server, "GET /v1/messages", key, &body, 405, "POST").await;
    check_refused(&server, "POST /v1/complete", key, &body, 404, "/v1/complete").await;
    check_refused(&server, "POST /v1/messages", "x-api-key: wrong\r\n", &body, 401, "x-api-key").await;
    check_refused(&server, "POST /v1/messages", "", &body, 401, "x-api-key").await;
    check_refused(&server, "POST /v1/messages", "x-api-key: right\r\n", &body, 400, "anthropic-version")
        .await;
    check_refused(&server, "POST /v1/messages", key, "{", 400, "not valid JSON").await;
    check_refused(&server, "POST /v1/messages", key, "[1]", 400, "model").await;
    check_refused(
        &server,
        "POST /v1/messages",
        key,
        &conversation(1, Stream::No).to_string(),
        400,
        "1 turns",
    )
    .await;
}

#[tokio::test]
async fn a_request_over_the_limit_is_refused_whether_it_says_its_length_or_not() {
    let server = start(Script::new().turn(Answer::text("hi")).max_request_bytes(100)).await;
    let body = "x".repeat(101);
    check_refused(&server, "POST /v1/messages", "", &body, 413, "larger than 100 bytes").await;

    let mut client = Client::connect(&server).await;
    let head = "POST /v1/messages HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    client.write(&format!("{head}65\r\n{body}\r\n")).await;
    client.read_until("larger than 100 bytes").await;
}

#[tokio::test]
async fn noise_on_the_socket_harms_nobody_else() {
    let server = start(Script::new().turn(Answer::text("hi"))).await;
    for noise in
        ["\0\0\0\0\r\n\r\n", "POST\r\n\r\n", "POST /v1/messages HTTP/1.1\r\ncontent-length: x\r\n\r\n"]
    {
        let mut client = Client::connect(&server).await;
        client.write(noise).await;
        client.rest().await;
    }
    let answer = Client::ask(&server, &conversation(0, Stream::No)).await.json().await;
    assert_eq!(answer["content"][0]["text"], "hi");
}

#[tokio::test]
async fn a_header_that_http_does_not_have_is_named() {
    let server = start(Script::new().turn(Answer::text("hi").header("no good", "x"))).await;
    let answer = Client::ask(&server, &conversation(0, Stream::No)).await.json().await;
    assert_eq!(answer["error"]["message"], "the script's answer cannot be sent: invalid HTTP header name");
}

#[tokio::test]
async fn what_was_seen_shows_headers_but_not_in_debug() {
    let server = start(Script::new().turn(Answer::text("hi"))).await;
    let headers = "Anthropic-Version: 2023-06-01\r\nX-Api-Key: sk-secret\r\n";
    let mut client = Client::connect(&server).await;
    client.request("POST /v1/messages", headers, &conversation(0, Stream::No).to_string()).await;
    client.rest().await;

    let seen = only(&server);
    assert_eq!(seen.header("x-api-key"), Some("sk-secret"));
    assert_eq!(seen.body.as_ref().map(|body| body.model()), Some("scripted"));
    assert!(!format!("{seen:?}{server:?}").contains("sk-secret"));
}

#[tokio::test]
async fn many_clients_are_answered_side_by_side() {
    let server = start(Script::new().turn(Answer::text("one two").stall(At::Events(4)))).await;
    let mut clients = Vec::new();
    for _ in 0..64 {
        clients.push(Client::ask(&server, &conversation(0, Stream::Yes)).await);
    }
    server
        .wait_for(|requests| requests.iter().filter(|seen| seen.progress == Progress::Stalled).count() == 64)
        .await;
    server.release();
    for client in clients {
        assert!(client.rest().await.ends_with(LAST_CHUNK));
    }
}

#[tokio::test]
async fn a_dropped_server_closes_its_connections() {
    let server = start(Script::new().turn(Answer::text("one two").stall(At::Events(4)))).await;
    let client = Client::ask(&server, &conversation(0, Stream::Yes)).await;
    until(&server, |seen| seen.progress == Progress::Stalled).await;
    let address = server.base_url().replace("http://", "");
    drop(server);
    assert!(!client.rest().await.ends_with(LAST_CHUNK));
    assert!(TcpStream::connect(address).await.is_err());
}

async fn check_refused(
    server: &ScriptedServer,
    line: &str,
    headers: &str,
    body: &str,
    status: u16,
    part: &str,
) {
    let mut client = Client::connect(server).await;
    client.request(line, headers, body).await;
    let answer = client.rest().await;
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(body.contains(r#""type":"error""#) && body.contains(part), "{body}");
}

async fn start(script: Script) -> ScriptedServer {
    ScriptedServer::start(script).await.unwrap()
}

fn only(server: &ScriptedServer) -> SeenRequest {
    let [seen] = <[SeenRequest; 1]>::try_from(server.requests()).unwrap();
    seen
}

async fn until(server: &ScriptedServer, holds: impl Fn(&SeenRequest) -> bool) {
    within(server.wait_for(|requests| requests.iter().any(&holds))).await;
}

/// A test that waits for something that does not come fails instead of hanging.
async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("it comes within 30 s")
}

#[derive(Clone, Copy)]
enum Stream {
    Yes,
    No,
}

fn conversation(turns: usize, stream: Stream) -> Value {
    let mut messages = vec![json!({ "role": "user", "content": "go" })];
    for _ in 0..turns {
        messages.push(json!({ "role": "assistant", "content": "said" }));
        messages.push(json!({ "role": "user", "content": "more" }));
    }
    json!({ "model": "scripted", "max_tokens": 9, "messages": messages, "stream": matches!(stream, Stream::Yes) })
}

/// An HTTP client that shows each byte.
struct Client {
    socket: TcpStream,
}

impl Client {
    async fn connect(server: &ScriptedServer) -> Client {
        let address = server.base_url().replace("http://", "");
        Client { socket: TcpStream::connect(address).await.unwrap() }
    }

    async fn ask(server: &ScriptedServer, body: &Value) -> Client {
        let mut client = Client::connect(server).await;
        client.request("POST /v1/messages", "anthropic-version: 2023-06-01\r\n", &body.to_string()).await;
        client
    }

    async fn request(&mut self, line: &str, headers: &str, body: &str) {
        let length = body.len();
        let head = format!(
            "{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
        );
        self.write(&(head + body)).await;
    }

    async fn write(&mut self, bytes: &str) {
        self.socket.write_all(bytes.as_bytes()).await.unwrap();
    }

    async fn read_until(&mut self, wanted: &str) {
        let mut read = Vec::new();
        while !String::from_utf8_lossy(&read).contains(wanted) {
            let count = within(self.socket.read_buf(&mut read)).await.unwrap();
            assert_ne!(count, 0, "no {wanted:?} in {}", String::from_utf8_lossy(&read));
        }
    }

    /// Everything until the connection ends, be it by a reset.
    async fn rest(mut self) -> String {
        let mut read = Vec::new();
        let _ = within(self.socket.read_to_end(&mut read)).await;
        String::from_utf8(read).unwrap()
    }

    async fn json(self) -> Value {
        let answer = self.rest().await;
        let (start, end) = (answer.find('{').unwrap(), answer.rfind('}').unwrap());
        serde_json::from_str(&answer[start..=end]).unwrap()
    }
}

const LAST_CHUNK: &str = "\r\n0\r\n\r\n";
