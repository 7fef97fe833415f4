//! A server that says exactly what a test wants, byte for byte, and remembers what it was asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use relight_llm::{Client, Config, LlmError, Message, MessageRequest, MessageStream};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// What the server does with one connection, after it has read the request.
pub(crate) enum Script {
    /// Sends this and closes the connection.
    Say(String),
    /// Sends this, then nothing more, until the client hangs up.
    SayAndWait(String),
    /// Like [`Script::SayAndWait`], and tells when the client hung up.
    SayAndReport(String, oneshot::Sender<()>),
    /// Sends this and resets the connection.
    SayAndReset(String),
    /// Sends the first text, then the second one again and again, one each so often, until the client hangs up.
    Repeat(String, String, Duration),
}

/// A running server; it stops with the test's runtime.
pub(crate) struct Server {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Request {
    /// All values of the header of this name.
    pub(crate) fn header(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        lines.filter(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
    }
}

impl Server {
    /// Serves one connection for each script, in order, and refuses all others.
    pub(crate) async fn start(scripts: impl IntoIterator<Item = Script>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let scripts: Vec<Script> = scripts.into_iter().collect();
        tokio::spawn(async move {
            for script in scripts {
                let (socket, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(socket, script, Arc::clone(&seen)));
            }
        });
        Server { url, requests }
    }

    /// Gives the same answer to every request of every connection, and counts the connections. The end of a body comes
    /// a moment after the rest.
    pub(crate) async fn keep_alive(body: String) -> (Server, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let answer = format!("{head}{:x}\r\n{body}\r\n", body.len());
        let (seen, counted) = (Arc::clone(&requests), Arc::clone(&connections));
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                socket.set_nodelay(true).unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                let (seen, answer) = (Arc::clone(&seen), answer.clone());
                tokio::spawn(async move {
                    while let Some(request) = read_request(&mut socket).await {
                        seen.lock().unwrap().push(request);
                        socket.write_all(answer.as_bytes()).await.unwrap();
                        // The client's task gets its turns meanwhile.
                        for _ in 0..100 {
                            tokio::task::yield_now().await;
                        }
                        socket.write_all(b"0\r\n\r\n").await.unwrap();
                    }
                });
            }
        });
        (Server { url, requests }, connections)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(mut socket: TcpStream, script: Script, seen: Arc<Mutex<Vec<Request>>>) {
    let request = read_request(&mut socket).await.expect("a client that connects asks something");
    seen.lock().unwrap().push(request);
    let (text, report) = match script {
        Script::Say(text) => {
            socket.write_all(text.as_bytes()).await.unwrap();
            return;
        }
        Script::SayAndWait(text) => (text, None),
        Script::SayAndReport(text, report) => (text, Some(report)),
        Script::SayAndReset(text) => {
            socket.write_all(text.as_bytes()).await.unwrap();
            socket.set_zero_linger().unwrap();
            return;
        }
        Script::Repeat(first, piece, pause) => {
            let mut said = socket.write_all(first.as_bytes()).await;
            while said.is_ok() {
                said = socket.write_all(piece.as_bytes()).await;
                match pause {
                    Duration::ZERO => tokio::task::yield_now().await,
                    pause => tokio::time::sleep(pause).await, // tidy: allow(sleep) because a slow server is the subject
                }
            }
            return;
        }
    };
    socket.write_all(text.as_bytes()).await.unwrap();
    let mut rest = Vec::new();
    // A client that hangs up may also reset the connection.
    let _ = socket.read_to_end(&mut rest).await;
    if let Some(report) = report {
        let _ = report.send(());
    }
}

/// The next request, or `None` if the client hangs up instead.
async fn read_request(socket: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if socket.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut request = Request { head, body: Value::Null };
    let length: usize = request.header("content-length")[0].parse().unwrap();
    while bytes.len() < end + length {
        assert_ne!(socket.read_buf(&mut bytes).await.unwrap(), 0, "the client hung up early");
    }
    request.body = serde_json::from_slice(&bytes[end..]).unwrap();
    Some(request)
}

/// An answer with a status and headers, whose body ends with the connection.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> String {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 {status} Status\r\nconnection: close\r\n{headers}\r\n{body}")
}

/// A stream of events.
pub(crate) fn events(events: &[Value]) -> String {
    let frame =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    events.iter().map(frame).collect()
}

pub(crate) fn config(server: &Server) -> Config {
    Config::new().with_base_url(&server.url).with_max_retries(0)
}

pub(crate) fn client(server: &Server) -> Client {
    Client::new(config(server)).unwrap()
}

pub(crate) fn request() -> MessageRequest {
    MessageRequest::new("some-model", 256).push_message(Message::user("Hi"))
}

pub(crate) fn start() -> Value {
    json!({ "type": "message_start", "message": { "id": "msg_1", "type": "message", "role": "assistant",
        "model": "some-model", "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": { "input_tokens": 10, "output_tokens": 1 } } })
}

pub(crate) fn text(text: &str) -> Value {
    json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } })
}

pub(crate) fn begun() -> Vec<Value> {
    vec![
        start(),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        text("Hel"),
    ]
}

pub(crate) fn whole() -> Vec<Value> {
    let end = [
        text("lo"),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn", "stop_sequence": null },
                "usage": { "output_tokens": 5 } }),
        json!({ "type": "message_stop" }),
    ];
    [begun(), end.to_vec()].concat()
}

pub(crate) fn body() -> Value {
    json!({ "id": "msg_1", "role": "assistant", "model": "some-model",
            "content": [{ "type": "text", "text": "Hello" }], "stop_reason": "end_turn",
            "usage": { "input_tokens": 10, "output_tokens": 5 } })
}

pub(crate) fn say(status: u16, headers: &[(&str, &str)], body: impl ToString) -> Script {
    Script::Say(answer(status, headers, &body.to_string()))
}

pub(crate) fn overloaded() -> Value {
    json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } })
}

/// The texts that came, and how it ended.
pub(crate) async fn read(mut stream: MessageStream) -> (String, Option<LlmError>) {
    let mut text = String::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => text.push_str(event.text().unwrap_or_default()),
            Err(error) => {
                assert!(stream.next().await.is_none(), "nothing comes after an error");
                return (text, Some(error));
            }
        }
    }
    (text, None)
}
