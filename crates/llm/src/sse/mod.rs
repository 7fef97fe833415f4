//! Server-sent events: bytes in, events out; pure, and linear in the bytes.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr2;
use serde::de::IgnoredAny;

/// Finds the events in a stream of bytes, however the bytes are cut into chunks.
///
/// It follows the WHATWG's rules for event streams, with these readings for APIs that send JSON:
///
/// - An event whose data is empty or blank is skipped; many servers send `data:` to keep a connection alive.
/// - `id` and `retry` are ignored, since no API of a model resumes by them.
/// - An event that the end of the stream leaves unterminated counts if its data is JSON, see [`Decoder::finish`].
/// - Bytes that are not UTF-8 become U+FFFD, and what follows them is read as usual.
///
/// # Examples
///
/// ```
/// use relight_llm::sse::Decoder;
///
/// let mut decoder = Decoder::new();
/// let mut seen = Vec::new();
/// for chunk in ["event: gree", "ting\ndata: {\"n\":1}\n", "\n: a comment\n\n"] {
///     decoder.push(chunk.as_bytes());
///     while let Some(event) = decoder.next_event()? {
///         seen.push((event.name.into_owned(), event.data.into_owned()));
///     }
/// }
/// assert_eq!(seen, [("greeting".to_owned(), r#"{"n":1}"#.to_owned())]);
/// # Ok::<(), relight_llm::sse::EventTooLarge>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    /// Bytes that came and are not decoded; those before `start` are done with.
    buffer: Vec<u8>,
    start: usize,
    /// How far behind `start` the search for the end of the line has come, so that a long line is searched once.
    searched: usize,
    line_feed: LineFeed,
    byte_order_mark: ByteOrderMark,
    /// The event in the making.
    name: Vec<u8>,
    data: Vec<u8>,
    /// The data ends in a line feed that belongs to it only if another line follows.
    has_data: bool,
    dispatched: bool,
    limit: usize,
}

/// Whether a line feed at the start of the buffer belongs to a carriage return that ended the last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineFeed {
    EndsALine,
    IsSkipped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteOrderMark {
    Possible,
    Past,
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// What the `event` field says; empty if there was none.
    pub name: Cow<'a, str>,
    /// The lines of data, joined by line feeds.
    pub data: Cow<'a, str>,
}

impl Decoder {
    /// A decoder that accepts events of up to [`DEFAULT_EVENT_LIMIT`] bytes.
    pub fn new() -> Decoder {
        Decoder::with_limit(DEFAULT_EVENT_LIMIT)
    }

    /// A decoder that accepts events (data, and any one line) of up to `limit` bytes.
    pub fn with_limit(limit: usize) -> Decoder {
        Decoder {
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            line_feed: LineFeed::EndsALine,
            byte_order_mark: ByteOrderMark::Possible,
            name: Vec::new(),
            data: Vec::new(),
            has_data: false,
            dispatched: false,
            limit,
        }
    }

    /// Takes the next bytes. Take all events out before pushing more, else the bytes pile up.
    pub fn push(&mut self, chunk: &[u8]) {
        if self.start > 0 {
            // What is left is at most one unfinished line if the events were taken out, so this stays linear.
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(chunk);
    }

    /// The next event that is complete, or `None` until more bytes come.
    ///
    /// # Errors
    ///
    /// [`EventTooLarge`] if the event in the making is over the limit. The stream cannot be read on.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, EventTooLarge> {
        self.forget_dispatched();
        self.skip_byte_order_mark();
        loop {
            let Some((from, to)) = self.take_line() else {
                let unfinished = self.buffer.len() - self.start;
                self.check_size(unfinished)?;
                return Ok(None);
            };
            if from == to {
                if self.end_event() {
                    return Ok(Some(self.event()));
                }
                continue;
            }
            self.check_size(to - from)?;
            self.take_field(from, to);
        }
    }

    /// The last event, at the clean end of a stream that leaves it without its blank line. It counts only if its data
    /// is whole JSON. After a broken connection, do not ask: what was cut cannot be told from what is whole.
    pub fn finish(&mut self) -> Option<Event<'_>> {
        self.forget_dispatched();
        self.skip_byte_order_mark();
        let (from, to) = (self.start, self.buffer.len());
        self.start = to;
        self.searched = 0;
        if from < to && !(self.line_feed == LineFeed::IsSkipped && &self.buffer[from..to] == b"\n") {
            self.take_field(from, to);
        }
        if self.end_event() && serde_json::from_slice::<IgnoredAny>(&self.data).is_ok() {
            return Some(self.event());
        }
        None
    }

    /// The range of the next whole line in the buffer, without its end.
    fn take_line(&mut self) -> Option<(usize, usize)> {
        if self.byte_order_mark == ByteOrderMark::Possible {
            return None;
        }
        if self.line_feed == LineFeed::IsSkipped
            && let Some(first) = self.buffer.get(self.start)
        {
            // A CRLF may be split over chunks; the line was taken at the CR already.
            if *first == b'\n' {
                self.start += 1;
            }
            self.line_feed = LineFeed::EndsALine;
        }
        let from = self.start;
        let Some(found) = memchr2(b'\n', b'\r', &self.buffer[from + self.searched..]) else {
            self.searched = self.buffer.len() - from;
            return None;
        };
        let to = from + self.searched + found;
        if self.buffer[to] == b'\r' {
            self.line_feed = LineFeed::IsSkipped;
        }
        self.start = to + 1;
        self.searched = 0;
        Some((from, to))
    }

    fn take_field(&mut self, from: usize, to: usize) {
        let line = &self.buffer[from..to];
        if let Some(value) = field(line, b"data") {
            self.data.extend_from_slice(value);
            self.data.push(b'\n');
            self.has_data = true;
        } else if let Some(value) = field(line, b"event") {
            self.name.clear();
            self.name.extend_from_slice(value);
        }
    }

    /// At a blank line: whether there is an event to hand out.
    fn end_event(&mut self) -> bool {
        if !self.has_data || self.data.trim_ascii().is_empty() {
            self.name.clear();
            self.data.clear();
            self.has_data = false;
            return false;
        }
        self.data.pop();
        self.dispatched = true;
        true
    }

    fn event(&self) -> Event<'_> {
        Event { name: String::from_utf8_lossy(&self.name), data: String::from_utf8_lossy(&self.data) }
    }

    fn forget_dispatched(&mut self) {
        if self.dispatched {
            self.name.clear();
            self.data.clear();
            self.has_data = false;
            self.dispatched = false;
        }
    }

    fn skip_byte_order_mark(&mut self) {
        if self.byte_order_mark == ByteOrderMark::Past || self.buffer.is_empty() {
            return;
        }
        if self.buffer.starts_with(UTF8_BYTE_ORDER_MARK) {
            self.start = UTF8_BYTE_ORDER_MARK.len();
        } else if UTF8_BYTE_ORDER_MARK.starts_with(&self.buffer) {
            return;
        }
        self.byte_order_mark = ByteOrderMark::Past;
    }

    fn check_size(&self, line: usize) -> Result<(), EventTooLarge> {
        let size = self.data.len() + line;
        if size > self.limit { Err(EventTooLarge { limit: self.limit }) } else { Ok(()) }
    }
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

/// The value of the field of this name, if the line holds one.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    match line.strip_prefix(name)? {
        [] => Some(&[]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

/// An event is larger than the decoder accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTooLarge {
    /// The limit in bytes.
    pub limit: usize,
}

impl fmt::Display for EventTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event of the stream is larger than {} bytes", self.limit)
    }
}

impl std::error::Error for EventTooLarge {}

/// How large an event may be unless one says otherwise: 64 MiB, since generated images come as one event.
pub const DEFAULT_EVENT_LIMIT: usize = 64 << 20;

const UTF8_BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[cfg(test)]
mod tests;
