//! What the scripted model says to one request, and where on the way it fails.

use std::time::Duration;

use serde_json::{Value, json};

/// One answer of the scripted model: a message, or an error.
///
/// The same answer is streamed to a request with `"stream": true` and sent as one JSON body to any other.
///
/// ```
/// use relight_testkit::{Answer, Block};
/// use serde_json::json;
///
/// let answer = Answer::blocks([
///     Block::thinking("The file has to be read first.", "c2lnbmF0dXJl"),
///     Block::text("Let me look."),
///     Block::tool_use("toolu_1", "read_file", json!({ "path": "notes.txt" })),
/// ])
/// .usage(json!({ "input_tokens": 12, "cache_read_input_tokens": 900, "output_tokens": 31 }));
/// # let _ = answer;
/// ```
#[derive(Clone, Debug)]
pub struct Answer {
    pub(crate) content: Content,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) content_type: Option<String>,
    pub(crate) pace: Option<Duration>,
    pub(crate) faults: Vec<(At, Fault)>,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Block(pub(crate) Kind);

/// A point in an answer.
///
/// An answer that is not streamed counts as one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// Before the status line.
    Start,
    /// After this many events; `Events(0)` is after the head and before the first event.
    Events(usize),
    /// After this many bytes of the body.
    Bytes(usize),
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Message(Message),
    Error { status: u16, kind: String, message: String },
    Raw { status: u16, body: Vec<u8> },
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) blocks: Vec<Block>,
    pub(crate) stop_reason: String,
    pub(crate) stop_sequence: Option<String>,
    pub(crate) usage: Option<Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Text(String),
    Thinking { thinking: String, signature: String },
    ToolUse { id: String, name: String, input: Value },
    Whole(Value),
}

#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The connection is closed.
    Cut,
    /// Nothing more is sent until [`ScriptedServer::release`](crate::ScriptedServer::release).
    Stall,
    /// An `error` event ends the stream.
    Error { kind: String, message: String },
}

impl Answer {
    /// Text that ends the model's turn.
    pub fn text(text: impl Into<String>) -> Answer {
        Answer::blocks([Block::text(text)])
    }

    /// A call of one tool.
    pub fn tool_use(id: impl Into<String>, name: impl Into<String>, input: Value) -> Answer {
        Answer::blocks([Block::tool_use(id, name, input)])
    }

    /// Several blocks, in order.
    ///
    /// The stop reason is `tool_use` if one of them calls a tool, else `end_turn`.
    pub fn blocks(blocks: impl IntoIterator<Item = Block>) -> Answer {
        let blocks: Vec<Block> = blocks.into_iter().collect();
        let calls_tool = blocks.iter().any(|block| matches!(block.0, Kind::ToolUse { .. }));
        let stop_reason = if calls_tool { "tool_use" } else { "end_turn" }.to_owned();
        Answer::from(Content::Message(Message { blocks, stop_reason, stop_sequence: None, usage: None }))
    }

    /// An HTTP error in the API's own shape: `Answer::error(529, "overloaded_error", "Overloaded")`.
    pub fn error(status: u16, kind: impl Into<String>, message: impl Into<String>) -> Answer {
        Answer::from(Content::Error { status, kind: kind.into(), message: message.into() })
    }

    /// A body given byte for byte, whatever the request asked for; for servers that keep to no rules.
    ///
    /// Its content type is `text/event-stream` until [`content_type`](Answer::content_type) says otherwise.
    pub fn raw(status: u16, body: impl Into<Vec<u8>>) -> Answer {
        Answer::from(Content::Raw { status, body: body.into() })
    }

    /// Why the model stopped: `max_tokens`, `refusal`, `pause_turn`, or anything else.
    ///
    /// Does nothing to errors and raw bodies, which have no stop reason.
    #[must_use]
    pub fn stop_reason(mut self, reason: impl Into<String>) -> Answer {
        if let Content::Message(message) = &mut self.content {
            message.stop_reason = reason.into();
        }
        self
    }

    /// The model stopped at this sequence of the request; the stop reason becomes `stop_sequence`.
    #[must_use]
    pub fn stop_sequence(mut self, sequence: impl Into<String>) -> Answer {
        if let Content::Message(message) = &mut self.content {
            message.stop_reason = "stop_sequence".to_owned();
            message.stop_sequence = Some(sequence.into());
        }
        self
    }

    /// The final usage, as in the JSON body. Without it, tokens are estimated from the lengths of the texts.
    ///
    /// A stream starts with these fields and a placeholder for `output_tokens`, and ends with the true number.
    #[must_use]
    pub fn usage(mut self, usage: Value) -> Answer {
        if let Content::Message(message) = &mut self.content {
            message.usage = Some(usage);
        }
        self
    }

    /// A header of the answer, such as `retry-after`.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Answer {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Another content type than the right one.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Answer {
        self.content_type = Some(content_type.into());
        self
    }

    /// The time from one delta to the next, instead of the script's.
    #[must_use]
    pub fn pace(mut self, pace: Duration) -> Answer {
        self.pace = Some(pace);
        self
    }

    /// Closes the connection at this point. All that stands before it has been handed to the system by then.
    #[must_use]
    pub fn cut(self, at: At) -> Answer {
        self.fault(at, Fault::Cut)
    }

    /// Sends nothing more from this point until [`ScriptedServer::release`](crate::ScriptedServer::release), so that
    /// a test can act at exactly this point.
    #[must_use]
    pub fn stall(self, at: At) -> Answer {
        self.fault(at, Fault::Stall)
    }

    /// Ends a stream with an `error` event at this point; an answer that is not streamed is an HTTP error instead.
    #[must_use]
    pub fn fail(self, at: At, kind: impl Into<String>, message: impl Into<String>) -> Answer {
        self.fault(at, Fault::Error { kind: kind.into(), message: message.into() })
    }

    pub(crate) fn error_fault(&self) -> Option<(&str, &str)> {
        self.faults.iter().find_map(|(_, fault)| match fault {
            Fault::Error { kind, message } => Some((kind.as_str(), message.as_str())),
            Fault::Cut | Fault::Stall => None,
        })
    }

    fn fault(mut self, at: At, fault: Fault) -> Answer {
        self.faults.push((at, fault));
        self
    }
}

impl From<Content> for Answer {
    fn from(content: Content) -> Answer {
        Answer { content, headers: Vec::new(), content_type: None, pace: None, faults: Vec::new() }
    }
}

impl Block {
    /// Text, streamed word by word.
    pub fn text(text: impl Into<String>) -> Block {
        Block(Kind::Text(text.into()))
    }

    /// Thinking, streamed word by word, with its signature at the end.
    pub fn thinking(thinking: impl Into<String>, signature: impl Into<String>) -> Block {
        Block(Kind::Thinking { thinking: thinking.into(), signature: signature.into() })
    }

    /// A call of a tool, its input streamed in fragments of JSON that mean nothing by themselves.
    pub fn tool_use(id: impl Into<String>, name: impl Into<String>, input: Value) -> Block {
        Block(Kind::ToolUse { id: id.into(), name: name.into(), input })
    }

    /// Thinking that only the provider can read; streamed whole.
    pub fn redacted_thinking(data: impl Into<String>) -> Block {
        Block::whole(json!({ "type": "redacted_thinking", "data": data.into() }))
    }

    /// A block of any type, streamed whole: results of server tools, or types that are not known yet.
    pub fn whole(block: Value) -> Block {
        Block(Kind::Whole(block))
    }
}
