//! What the server saw: each request, and how far its answer got.

use std::fmt;

use tokio::sync::watch;

use crate::RequestBody;

/// A request as the server saw it.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct SeenRequest {
    /// The method, in capitals.
    pub method: String,
    /// The path without its query.
    pub path: String,
    /// The body; `None` where the request was refused before its body was understood.
    pub body: Option<RequestBody>,
    /// How many answers of the model the conversation held.
    pub turn: usize,
    /// How many earlier requests carried the same conversation.
    pub attempt: usize,
    /// The status of the answer; `None` until its head is sent.
    pub status: Option<u16>,
    /// How many events of the answer were handed to the connection; the one body of an answer that is not streamed
    /// counts as one.
    pub events_sent: usize,
    /// Where the answer stands.
    pub progress: Progress,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) conversation: Option<u64>,
}

/// Where the answer to a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// It is being sent.
    Answering,
    /// It waits, as scripted, for [`ScriptedServer::release`](crate::ScriptedServer::release).
    Stalled,
    /// All of it was sent.
    Completed,
    /// The client went away before the end.
    ClientGone,
    /// The server closed the connection, as scripted.
    Cut,
}

impl SeenRequest {
    /// A header of the request by its name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// Leaves out what headers hold: a key must not reach a log by way of a failed assertion.
impl fmt::Debug for SeenRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SeenRequest { method, path, body, turn, attempt, status, events_sent, progress, headers, .. } =
            self;
        f.debug_struct("SeenRequest")
            .field("method", method)
            .field("path", path)
            .field("headers", &headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("body", body)
            .field("turn", turn)
            .field("attempt", attempt)
            .field("status", status)
            .field("events_sent", events_sent)
            .field("progress", progress)
            .finish()
    }
}

/// The requests in the order in which they came; whoever waits for one is woken by each change.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    requests: watch::Sender<Vec<SeenRequest>>,
}

impl Log {
    pub(crate) fn new() -> Log {
        Log { requests: watch::Sender::new(Vec::new()) }
    }

    pub(crate) fn snapshot(&self) -> Vec<SeenRequest> {
        self.requests.borrow().clone()
    }

    pub(crate) async fn wait_for(&self, mut holds: impl FnMut(&[SeenRequest]) -> bool) {
        let mut changes = self.requests.subscribe();
        // It fails only when the sender is gone, and this log holds one.
        let _ = changes.wait_for(|requests| holds(requests)).await;
    }

    /// Enters a request whose answer begins; the second value counts the earlier ones with the same conversation.
    pub(crate) fn enter(&self, mut request: SeenRequest) -> (Entry, usize) {
        let mut index = 0;
        let mut attempt = 0;
        self.requests.send_modify(|requests| {
            index = requests.len();
            attempt = match request.conversation {
                Some(own) => requests.iter().filter(|earlier| earlier.conversation == Some(own)).count(),
                None => 0,
            };
            request.attempt = attempt;
            requests.push(request);
        });
        (Entry { log: self.clone(), index, ended: false }, attempt)
    }
}

/// A request's place in the log, held by whoever answers it. Dropped before the end, it says that the client is gone.
#[derive(Debug)]
pub(crate) struct Entry {
    log: Log,
    index: usize,
    ended: bool,
}

impl Entry {
    pub(crate) fn request_id(&self) -> String {
        format!("req_scripted_{:04}", self.index)
    }

    pub(crate) fn head_sent(&self, status: u16) {
        self.change(|request| request.status = Some(status));
    }

    pub(crate) fn event_sent(&self) {
        self.change(|request| request.events_sent += 1);
    }

    pub(crate) fn stalled(&self) {
        self.change(|request| request.progress = Progress::Stalled);
    }

    pub(crate) fn released(&self) {
        self.change(|request| request.progress = Progress::Answering);
    }

    pub(crate) fn completed(&mut self) {
        self.end(Progress::Completed);
    }

    pub(crate) fn cut(&mut self) {
        self.end(Progress::Cut);
    }

    fn end(&mut self, progress: Progress) {
        self.ended = true;
        self.change(|request| request.progress = progress);
    }

    fn change(&self, change: impl FnOnce(&mut SeenRequest)) {
        self.log.requests.send_modify(|requests| change(&mut requests[self.index]));
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.ended {
            self.end(Progress::ClientGone);
        }
    }
}
