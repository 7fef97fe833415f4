//! A server that says exactly what a test wants, byte for byte, and remembers what it was asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

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
}

/// A running server; it stops with the test's runtime.
pub(crate) struct Server {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: serde_json::Value,
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
    let mut request = Request { head, body: serde_json::Value::Null };
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
pub(crate) fn events(events: &[serde_json::Value]) -> String {
    let frame = |event: &serde_json::Value| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    };
    events.iter().map(frame).collect()
}
