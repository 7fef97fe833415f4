//! The scripted model's sockets: accepts connections, reads requests, and sends what the plan says.

use std::convert::Infallible;
use std::future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use http_body_util::{BodyExt as _, LengthLimitError, Limited, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::connection::{Connection, Scissors};
use crate::plan::{Plan, Step};
use crate::seen::{Entry, Log, Progress, SeenRequest};
use crate::{RequestBody, Script};

/// An HTTP server on loopback that speaks the Anthropic Messages API and answers from a [`Script`].
///
/// It is an ordinary server: clients in other processes may use it as well. It holds each request that it saw until it
/// is dropped, which also closes all its connections.
///
/// # Examples
///
/// ```
/// use relight_testkit::{Answer, Progress, Script, ScriptedServer};
/// use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = ScriptedServer::start(Script::new().turn(Answer::text("Hello."))).await?;
///
/// // Any client will do; this one has nothing but a socket.
/// let address = server.base_url().replace("http://", "");
/// let mut socket = tokio::net::TcpStream::connect(&address).await?;
/// let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}"#;
/// let length = body.len();
/// let head = format!("POST /v1/messages HTTP/1.0\r\nanthropic-version: 2023-06-01\r\ncontent-length: {length}\r\n\r\n");
/// socket.write_all(format!("{head}{body}").as_bytes()).await?;
///
/// let mut answer = String::new();
/// socket.read_to_string(&mut answer).await?;
/// assert!(answer.contains("Hello."));
/// assert_eq!(server.requests()[0].progress, Progress::Completed);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ScriptedServer {
    address: SocketAddr,
    log: Log,
    releases: Arc<watch::Sender<u64>>,
    acceptor: JoinHandle<()>,
}

impl ScriptedServer {
    /// Listens on a free port of the loopback interface, served by tasks of the runtime that calls it.
    ///
    /// # Errors
    ///
    /// If the system gives no port.
    pub async fn start(script: Script) -> io::Result<ScriptedServer> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let log = Log::new();
        let releases = Arc::new(watch::Sender::new(0));
        let model = Model { script: Arc::new(script), log: log.clone(), releases: releases.clone() };
        let acceptor = tokio::spawn(accept(listener, model));
        Ok(ScriptedServer { address, log, releases, acceptor })
    }

    /// Where the server is, without a path: `http://127.0.0.1:40123`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests so far, in the order in which they came, as they stand now.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.log.snapshot()
    }

    /// Waits until the requests are as `holds` wants them; it looks again after each event that is sent.
    ///
    /// It waits for ever if that never happens: put `tokio::time::timeout` around it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example(server: relight_testkit::ScriptedServer) {
    /// // The second request has begun, and three events of its answer are on their way.
    /// server.wait_for(|requests| requests.get(1).is_some_and(|second| second.events_sent >= 3)).await;
    /// # }
    /// ```
    pub async fn wait_for(&self, holds: impl FnMut(&[SeenRequest]) -> bool) {
        self.log.wait_for(holds).await;
    }

    /// Lets all answers go on that are stalled now; those that stall later wait for the next call.
    pub fn release(&self) {
        self.releases.send_modify(|count| *count += 1);
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        // The acceptor owns the tasks of all connections, which end with it.
        self.acceptor.abort();
    }
}

/// What every connection shares.
#[derive(Clone)]
struct Model {
    script: Arc<Script>,
    log: Log,
    releases: Arc<watch::Sender<u64>>,
}

async fn accept(listener: TcpListener, model: Model) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => drop(connections.spawn(serve(socket, model.clone()))),
                // Out of file descriptors, most likely: some are free again when a connection ends.
                Err(_) => tokio::time::sleep(RETRY_ACCEPT).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(socket: TcpStream, model: Model) {
    // Each event goes out by itself, as from the real API.
    let _ = socket.set_nodelay(true);
    let (connection, scissors) = Connection::new(socket);
    let service = service_fn(|request| model.clone().answer(request, scissors.clone()));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new());
    // A connection ends in an error whenever it is cut or its client dies, which the log already says.
    let _ = http.serve_connection(TokioIo::new(connection), service).await;
}

impl Model {
    async fn answer(
        self,
        request: Request<Incoming>,
        scissors: Scissors,
    ) -> Result<Response<AnswerBody>, Infallible> {
        let (head, body) = request.into_parts();
        let mut seen = see(&head);
        let (plan, entry) = match self.understand(&seen, body).await {
            Ok(body) => {
                seen.turn = body.assistant_turns();
                seen.conversation = Some(body.conversation());
                seen.body = Some(body.clone());
                let (entry, attempt) = self.log.enter(seen);
                (Plan::answer(&self.script, &body, attempt), entry)
            }
            Err(refusal) => (refusal, self.log.enter(seen).0),
        };
        let mut sender = Sender { entry, scissors, releases: self.releases };
        for step in plan.before {
            sender.wait(step).await;
        }
        Ok(sender.respond(plan.status, &plan.headers, plan.body))
    }

    /// The body of a request that keeps the rules of the API.
    ///
    /// # Errors
    ///
    /// The answer that says which rule was broken.
    async fn understand(&self, seen: &SeenRequest, body: Incoming) -> Result<RequestBody, Plan> {
        let limit = self.script.max_request_bytes;
        let too_large =
            || Plan::refusal(413, "request_too_large", &format!("the request is larger than {limit} bytes"));
        if body.size_hint().lower() > limit as u64 {
            return Err(too_large());
        }
        // All of it is read before anything else is refused: a client that is still writing might miss the answer.
        let body = Limited::new(body, limit).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                return too_large();
            }
            Plan::refusal(400, "invalid_request_error", &format!("the request body broke off: {error}"))
        })?;
        if seen.path != MESSAGES {
            let message = format!("there is no {}; this server answers POST {MESSAGES}", seen.path);
            return Err(Plan::refusal(404, "not_found_error", &message));
        }
        if seen.method != "POST" {
            let message = format!("{MESSAGES} takes POST, not {}", seen.method);
            return Err(Plan::refusal(405, "invalid_request_error", &message));
        }
        if self.script.key.is_some() && seen.header("x-api-key") != self.script.key.as_deref() {
            return Err(Plan::refusal(401, "authentication_error", "invalid x-api-key"));
        }
        if seen.header("anthropic-version").is_none() {
            return Err(Plan::refusal(400, "invalid_request_error", "anthropic-version: header is required"));
        }
        RequestBody::parse(&body.to_bytes())
            .map_err(|fault| Plan::refusal(400, "invalid_request_error", &fault))
    }
}

fn see(head: &Parts) -> SeenRequest {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    SeenRequest {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        body: None,
        turn: 0,
        attempt: 0,
        status: None,
        events_sent: 0,
        progress: Progress::Answering,
        headers: head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        conversation: None,
    }
}

/// Carries out the steps of one answer.
struct Sender {
    entry: Entry,
    scissors: Scissors,
    releases: Arc<watch::Sender<u64>>,
}

impl Sender {
    /// The response; its body is made step by step as the connection asks for it.
    fn respond(self, status: u16, headers: &[(String, String)], body: Vec<Step>) -> Response<AnswerBody> {
        let head = Response::builder().status(status).header("request-id", self.entry.request_id());
        let head = headers.iter().fold(head, |head, (name, value)| head.header(name, value));
        match head.body(()) {
            Ok(head) => {
                self.entry.head_sent(status);
                head.map(|()| self.send(body))
            }
            // The script asks for a status or a header that HTTP does not have.
            Err(fault) => {
                let fault = format!("the script's answer cannot be sent: {fault}");
                self.entry.head_sent(500);
                let mut response = Response::new(self.send(Plan::refusal(500, "api_error", &fault).body));
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                response
            }
        }
    }

    fn send(self, steps: Vec<Step>) -> AnswerBody {
        let frames = stream::unfold((self, steps.into_iter()), async |(mut sender, mut steps)| {
            loop {
                match steps.next() {
                    Some(Step::Part(bytes)) => return Some((Ok(Frame::data(bytes)), (sender, steps))),
                    Some(step) => sender.wait(step).await,
                    None => {
                        sender.entry.completed();
                        return None;
                    }
                }
            }
        });
        StreamBody::new(frames.boxed())
    }

    /// Takes a step that sends nothing.
    async fn wait(&mut self, step: Step) {
        match step {
            Step::Part(_) => {}
            Step::EventSent => self.entry.event_sent(),
            Step::Pace(pace) => tokio::time::sleep(pace).await,
            Step::Stall => {
                let mut releases = self.releases.subscribe();
                self.entry.stalled();
                // It fails only when the sender is gone, and this holds one.
                let _ = releases.changed().await;
                self.entry.released();
            }
            Step::Cut => {
                self.entry.cut();
                self.scissors.cut();
                future::pending().await
            }
        }
    }
}

type AnswerBody = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

const MESSAGES: &str = "/v1/messages";

const RETRY_ACCEPT: Duration = Duration::from_millis(50);
