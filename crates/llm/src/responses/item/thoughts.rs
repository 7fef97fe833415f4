//! A reasoning item in the making: its summary or its text, and what only the server can read.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::out::Out;
use super::{Extent, PROTOCOL, Stream};
use crate::event::StreamEvent;
use crate::openai::{take_name, take_objects, take_text, without_nulls};
use crate::vocabulary::{ContentBlock, foreign};

#[derive(Debug, Default)]
pub(super) struct Thoughts {
    /// How many bytes came, by whether they are text (not summary) and the part's index.
    said: BTreeMap<(bool, u64), usize>,
    latest: u64,
    signature: Option<String>,
    /// What else the item says, its id above all.
    own: Map<String, Value>,
    block: Option<u64>,
}

impl Thoughts {
    pub(super) fn begin(&mut self, out: &mut Out) -> u64 {
        *self.block.get_or_insert_with(|| {
            let block = ContentBlock::Thinking { thinking: String::new(), signature: String::new() };
            out.start(block, foreign(PROTOCOL, Map::new()))
        })
    }

    pub(super) fn grow(
        &mut self,
        stream: Stream,
        part: Option<u64>,
        text: &str,
        extent: Extent,
        out: &mut Out,
    ) {
        let index = self.begin(out);
        self.latest = part.unwrap_or(self.latest);
        let is_text = stream == Stream::Thoughts;
        let part = (is_text, self.latest);
        let said = self.said.get(&part).copied().unwrap_or_default();
        let more = match extent {
            Extent::More => text,
            Extent::Whole => text.get(said..).unwrap_or_default(),
        };
        if more.is_empty() {
            return;
        }
        if said == 0 && !self.said.is_empty() {
            out.say(StreamEvent::ThinkingDelta { index, thinking: "\n\n".to_owned() });
        }
        self.said.insert(part, said + more.len());
        out.say(StreamEvent::ThinkingDelta { index, thinking: more.to_owned() });
    }

    pub(super) fn complete(&mut self, mut item: Map<String, Value>, out: &mut Out) {
        for (stream, field) in [(Stream::Thoughts, "content"), (Stream::Summary, "summary")] {
            for (part, mut fields) in (0..).zip(take_objects(&mut item, field)) {
                let text = take_text(&mut fields, "text").unwrap_or_default();
                self.grow(stream, Some(part), &text, Extent::Whole, out);
            }
        }
        // Only now it is final; before, it may have been missing or cut.
        self.signature = take_name(&mut item, "encrypted_content").or(self.signature.take());
        for name in ["type", "status", "content", "summary", "encrypted_content"] {
            item.remove(name);
        }
        self.own = without_nulls(item);
        self.begin(out);
    }

    pub(super) fn close(&mut self, out: &mut Out) {
        let index = self.begin(out);
        if let Some(signature) = self.signature.take() {
            out.say(StreamEvent::SignatureDelta { index, signature });
        }
        // Text of thoughts goes back as text, a summary as a summary.
        if self.said.keys().any(|(is_text, _)| *is_text) {
            self.own.insert("content".to_owned(), json!(true));
        }
        out.own(index, std::mem::take(&mut self.own));
        out.stop(index);
    }
}
