//! A message in the making: parts of text, or of refusal, each of which is one block.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::out::Out;
use super::{Extent, PROTOCOL, Stream};
use crate::event::StreamEvent;
use crate::openai::{take_objects, take_text};
use crate::vocabulary::{ContentBlock, foreign};

#[derive(Debug, Default)]
pub(super) struct MessageItem {
    /// Resent with the message, where the server has such a thing.
    phase: Option<Value>,
    parts: BTreeMap<(u64, PartKind), Part>,
    /// The part that an event without an index is about.
    latest: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PartKind {
    Text,
    Refusal,
}

#[derive(Debug, Default)]
struct Part {
    /// How many bytes of text came.
    said: usize,
    annotations: Vec<Value>,
    /// What else the part says.
    own: Map<String, Value>,
    /// Parts without text make no block.
    block: Option<u64>,
}

impl MessageItem {
    pub(super) fn know(&mut self, item: &Map<String, Value>) {
        if let Some(phase) = item.get("phase").filter(|phase| phase.is_string()) {
            self.phase = Some(phase.clone());
        }
    }

    pub(super) fn grow(
        &mut self,
        kind: PartKind,
        index: Option<u64>,
        text: &str,
        extent: Extent,
        out: &mut Out,
    ) {
        let part = self.part(kind, index);
        let more = match extent {
            Extent::More => text,
            Extent::Whole => text.get(part.said..).unwrap_or_default(),
        };
        if more.is_empty() {
            return;
        }
        part.said += more.len();
        let index = *part.block.get_or_insert_with(|| {
            let extra = match kind {
                PartKind::Text => Map::new(),
                PartKind::Refusal => foreign(PROTOCOL, refusal()),
            };
            out.has_refused |= kind == PartKind::Refusal;
            out.start(ContentBlock::Text { text: String::new() }, extra)
        });
        out.say(StreamEvent::TextDelta { index, text: more.to_owned() });
    }

    /// Takes what a whole part says beside its text.
    pub(super) fn know_part(&mut self, stream: Stream, index: Option<u64>, mut part: Map<String, Value>) {
        let kind = if stream == Stream::Refusal { PartKind::Refusal } else { PartKind::Text };
        let says_nothing = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        part.retain(|name, value| name != "type" && !says_nothing(value));
        self.part(kind, index).own.append(&mut part);
    }

    pub(super) fn annotate(&mut self, index: Option<u64>, annotation: Value) {
        self.part(PartKind::Text, index).annotations.push(annotation);
    }

    pub(super) fn complete(&mut self, mut item: Map<String, Value>, out: &mut Out) {
        self.know(&item);
        for (index, mut part) in (0..).zip(take_objects(&mut item, "content")) {
            let (stream, kind, field) = match part.get("type").and_then(Value::as_str) {
                Some("output_text" | "text") => (Stream::Text, PartKind::Text, "text"),
                Some("refusal") => (Stream::Refusal, PartKind::Refusal, "refusal"),
                _ => continue,
            };
            let text = take_text(&mut part, field).unwrap_or_default();
            self.grow(kind, Some(index), &text, Extent::Whole, out);
            self.know_part(stream, Some(index), part);
        }
    }

    pub(super) fn close(&mut self, out: &mut Out) {
        for ((_, kind), part) in std::mem::take(&mut self.parts) {
            let Part { block: Some(index), annotations, mut own, .. } = part else { continue };
            if !annotations.is_empty() && !own.contains_key("annotations") {
                own.insert("annotations".to_owned(), Value::Array(annotations));
            }
            if let Some(phase) = &self.phase {
                own.insert("phase".to_owned(), phase.clone());
            }
            if !own.is_empty() {
                if kind == PartKind::Refusal {
                    own.append(&mut refusal());
                }
                out.own(index, own);
            }
            out.stop(index);
        }
    }

    fn part(&mut self, kind: PartKind, index: Option<u64>) -> &mut Part {
        self.latest = index.unwrap_or(self.latest);
        self.parts.entry((self.latest, kind)).or_default()
    }
}

fn refusal() -> Map<String, Value> {
    Map::from_iter([("refusal".to_owned(), json!(true))])
}
