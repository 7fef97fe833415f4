//! The events of a streamed answer: one tolerant path from JSON objects to our events.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::answer::{Ending, Outcome};
use super::item::{Extent, Items, Place, Stream};
use crate::error::{ErrorKind, LlmError};
use crate::event::StreamEvent;
use crate::messages::{beginning_of, count, read_object};
use crate::openai::{
    error_of_fields, is_error, take_arguments, take_name, take_object, take_objects, take_text,
};
use crate::sse;
use crate::vocabulary::{StopReason, UsageUpdate};

/// Reads the events of one streamed answer, in whatever way a server tells them.
///
/// The same JSON objects come as server-sent events and as WebSocket frames; a frame is an event without a name. What
/// an event is, its `type` says. Nothing else can be relied on: servers leave out `response.created`, indexes and ids,
/// change ids between the events of one item, say arguments or text only at the end, or say all of it again there.
/// Whatever they do, an item comes out once. It is told by its `output_index`; without one by its id, else it is the
/// last one opened.
///
/// After the terminal event, and after an error, events are ignored. A stream that ends without a terminal event leaves
/// a [`Fold`](crate::Fold) unfinished, which makes it an error.
///
/// # Examples
///
/// ```
/// use relight_llm::{Fold, StopReason, responses::Decoder, sse::Event};
///
/// let mut decoder = Decoder::new("some-model");
/// let mut fold = Fold::new();
/// for data in [
///     r#"{"type":"response.output_text.delta","output_index":0,"delta":"Hel"}"#,
///     r#"{"type":"response.output_text.delta","output_index":0,"delta":"lo"}"#,
///     r#"{"type":"response.completed","response":{"id":"resp_1"}}"#,
/// ] {
///     decoder.push(&Event { name: "".into(), data: data.into() });
///     while let Some(event) = decoder.next_event() {
///         fold.apply(&event?)?;
///     }
/// }
/// let response = fold.finish()?;
/// assert_eq!((response.text().as_str(), response.stop_reason), ("Hello", StopReason::EndTurn));
/// # Ok::<(), relight_llm::LlmError>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    progress: Progress,
    /// What is known of the answer; the model is the request's until the server names its own.
    id: String,
    model: String,
    service_tier: Option<String>,
    items: Items,
    failure: Option<LlmError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Before,
    Open,
    Done,
}

impl Decoder {
    /// A decoder for the answer to a request to `model`.
    pub fn new(model: impl Into<String>) -> Decoder {
        Decoder {
            progress: Progress::Before,
            id: String::new(),
            model: model.into(),
            service_tier: None,
            items: Items::default(),
            failure: None,
        }
    }

    /// Takes the next event. Take out what it means before pushing more.
    pub fn push(&mut self, event: &sse::Event<'_>) {
        if self.progress == Progress::Done {
            return;
        }
        // Nearly every event of a stream is one of these, so they are read without building a tree.
        if let Some((stream, delta)) = Delta::read(&event.data) {
            self.begin();
            let place = Place {
                output_index: delta.output_index,
                item_id: delta.item_id.as_ref().map(|id| &*id.0),
                part: delta.content_index.or(delta.summary_index),
            };
            return self.items.grow(stream, &place, &delta.delta, Extent::More);
        }
        match read_object("an event", &event.data) {
            Ok(fields) => self.take(&event.name, fields),
            Err(_) if event.data.trim() == "[DONE]" => {}
            Err(_) if event.name == "error" => {
                self.fail(LlmError::new(ErrorKind::Server, beginning_of(&event.data)));
            }
            Err(error) => self.fail(error),
        }
    }

    /// What the events so far mean, in order; `None` until more are pushed.
    ///
    /// # Errors
    ///
    /// What the server reports, or [`ErrorKind::Protocol`] for an event that is not a JSON object. It is the last.
    pub fn next_event(&mut self) -> Option<Result<StreamEvent, LlmError>> {
        self.items.out.events.pop_front().map(Ok).or_else(|| self.failure.take().map(Err))
    }

    fn take(&mut self, name: &str, mut fields: Map<String, Value>) {
        if is_error(&fields) || (name == "error" && !fields.contains_key("type")) {
            return self.fail(error_of_fields(fields));
        }
        let kind = match fields.get("type") {
            Some(Value::String(kind)) => kind.clone(),
            _ => name.to_owned(),
        };
        match kind.as_str() {
            "response.created" | "response.queued" | "response.in_progress" => {
                match take_object(&mut fields, "response") {
                    Some(response) => self.know(response),
                    // A gateway's way to say that it is still there.
                    None => self.items.out.events.push_back(StreamEvent::Ping),
                }
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled"
            | "response.done" => {
                let response = take_object(&mut fields, "response").unwrap_or_default();
                self.end(&kind, response);
            }
            "keepalive" | "ping" => self.items.out.events.push_back(StreamEvent::Ping),
            _ => self.take_change(kind, fields),
        }
    }

    /// An event about an item or a part of one.
    fn take_change(&mut self, kind: String, mut fields: Map<String, Value>) {
        let item_id = take_name(&mut fields, "item_id");
        let index = |name: &str| fields.get(name).and_then(count);
        let place = Place {
            output_index: index("output_index"),
            item_id: item_id.as_deref(),
            part: index("content_index").or_else(|| index("summary_index")),
        };
        let object = |fields: &mut Map<String, Value>, name| take_object(fields, name).unwrap_or_default();
        let subject_and_stage = kind.strip_prefix("response.").and_then(|kind| kind.rsplit_once('.'));
        match subject_and_stage {
            Some(("output_item", "added")) => {
                self.begin();
                self.items.announce(place.output_index, object(&mut fields, "item"));
            }
            Some(("output_item", "done")) => {
                self.begin();
                self.items.conclude(place.output_index, object(&mut fields, "item"));
            }
            Some(("content_part" | "reasoning_summary_part", "added" | "done")) => {
                self.begin();
                self.items.tell_part(&place, object(&mut fields, "part"));
            }
            Some(("output_text.annotation", "added")) => {
                self.begin();
                self.items.annotate(&place, fields.remove("annotation").unwrap_or_default());
            }
            Some((stream, stage)) => {
                let whole = match stage {
                    "delta" => Some((Extent::More, "delta")),
                    "done" => Some((Extent::Whole, whole_field(stream))),
                    _ => None,
                };
                match (Stream::named(stream), whole) {
                    (Some(stream), Some((extent, field))) => {
                        self.begin();
                        let text = take_arguments(&mut fields, field).unwrap_or_default();
                        if let (Stream::Arguments, Some(name)) = (stream, take_name(&mut fields, "name")) {
                            self.items.name_call(&place, name);
                        }
                        self.items.grow(stream, &place, &text, extent);
                    }
                    _ => self.unknown(kind, fields),
                }
            }
            None => self.unknown(kind, fields),
        }
    }

    fn unknown(&mut self, kind: String, fields: Map<String, Value>) {
        self.items.out.events.push_back(StreamEvent::Unknown { kind, data: Value::Object(fields) });
    }

    /// The answer is there, as far as the object knows.
    fn know(&mut self, mut response: Map<String, Value>) {
        if let Some(id) = take_name(&mut response, "id") {
            self.id = id;
        }
        if let Some(model) = take_name(&mut response, "model") {
            self.model = model;
        }
        self.service_tier = take_text(&mut response, "service_tier").or(self.service_tier.take());
        self.begin();
    }

    fn begin(&mut self) {
        if self.progress == Progress::Before {
            self.progress = Progress::Open;
            self.items.out.events.push_back(StreamEvent::MessageStart {
                id: self.id.clone(),
                model: self.model.clone(),
                usage: UsageUpdate::default(),
                service_tier: None,
                extra: Map::new(),
            });
        }
    }

    /// Takes the last word on the answer: what it says of items wins where they are not complete.
    pub(super) fn end(&mut self, event: &str, mut response: Map<String, Value>) {
        let output = take_objects(&mut response, "output");
        let ending = Ending::read(event, response);
        let (id, model) = (ending.id.unwrap_or_default(), ending.model.unwrap_or_default());
        let is_news = |said: &str, known: &str| !said.is_empty() && said != known;
        match self.progress {
            Progress::Before => {
                self.id = id;
                if !model.is_empty() {
                    self.model = model;
                }
                self.begin();
            }
            _ if is_news(&id, &self.id) || is_news(&model, &self.model) => {
                self.items.out.events.push_back(StreamEvent::MessageNamed { id, model });
            }
            _ => {}
        }
        let (stop_reason, failure) = match ending.outcome {
            Outcome::Completed => (None, None),
            Outcome::Incomplete(reason) => (Some(reason), None),
            // The tokens are spent all the same.
            Outcome::Failed(error) => (Some(StopReason::Missing), Some(error)),
        };
        if failure.is_none() {
            self.items.finish(output, &self.id);
        }
        let stop_reason = stop_reason.unwrap_or_else(|| self.items.stop_reason());
        self.items.out.events.push_back(StreamEvent::MessageDelta {
            stop_reason,
            stop_sequence: None,
            usage: ending.usage,
            service_tier: ending.service_tier.or(self.service_tier.take()),
            extra: ending.extra,
        });
        match failure {
            Some(error) => self.fail(error),
            None => {
                self.items.out.events.push_back(StreamEvent::MessageStop);
                self.progress = Progress::Done;
            }
        }
    }

    fn fail(&mut self, error: LlmError) {
        self.failure = Some(error);
        self.progress = Progress::Done;
    }
}

/// What the field of a `done` event is called that holds all of it.
fn whole_field(stream: &str) -> &'static str {
    match stream {
        "function_call_arguments" => "arguments",
        "refusal" => "refusal",
        _ => "text",
    }
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    output_index: Option<u64>,
    content_index: Option<u64>,
    summary_index: Option<u64>,
    #[serde(borrow)]
    item_id: Option<Text<'a>>,
    #[serde(borrow)]
    delta: Cow<'a, str>,
}

/// Unlike a `Cow` in an `Option`, it is borrowed where it can be.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Delta<'a> {
    fn read(data: &'a str) -> Option<(Stream, Delta<'a>)> {
        let delta: Delta<'a> = serde_json::from_str(data).ok()?;
        let stream = Stream::named(delta.kind.strip_prefix("response.")?.strip_suffix(".delta")?)?;
        Some((stream, delta))
    }
}
