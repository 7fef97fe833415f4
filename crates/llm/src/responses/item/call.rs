//! A function call in the making. It comes out once it is known whose call it is.

use serde_json::{Map, Value};

use super::out::Out;
use super::{Extent, PROTOCOL, text_of};
use crate::event::StreamEvent;
use crate::openai::{take_arguments, take_name, without_nulls};
use crate::vocabulary::{ContentBlock, foreign};

#[derive(Debug)]
pub(super) struct Call {
    /// The item's own id; some servers give no other.
    item_id: Option<String>,
    id: Option<String>,
    name: Option<String>,
    /// The arguments as far as they came.
    arguments: String,
    /// What the announcement said of the arguments; it counts where nothing else does.
    announced: Option<String>,
    is_said: bool,
    /// What else the item says.
    own: Map<String, Value>,
    block: Option<u64>,
}

impl Call {
    pub(super) fn new(item_id: Option<&str>) -> Call {
        Call {
            item_id: item_id.map(str::to_owned),
            id: None,
            name: None,
            arguments: String::new(),
            announced: None,
            is_said: false,
            own: Map::new(),
            block: None,
        }
    }

    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Whether all arguments were said to have come.
    pub(super) fn is_said(&self) -> bool {
        self.is_said
    }

    pub(super) fn has_begun(&self) -> bool {
        self.block.is_some()
    }

    /// Whether an item may be this call: by its id, or where ids change, by name and arguments.
    pub(super) fn may_be(&self, item: &Map<String, Value>) -> bool {
        let arguments = match item.get("arguments") {
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => String::new(),
            Some(other) => other.to_string(),
        };
        let same_id = match (self.id(), text_of(item, "call_id")) {
            (Some(own), Some(other)) => own == other,
            _ => false,
        };
        let same_name = match (self.name.as_deref(), text_of(item, "name")) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        };
        let unnamed = self.id.is_none() || text_of(item, "call_id").is_none();
        let telling = !self.arguments.is_empty() && !arguments.is_empty();
        same_id || (same_name && (unnamed || telling) && agree(&self.arguments, &arguments))
    }

    /// Takes what an announcement, or part of one, says.
    pub(super) fn know(&mut self, mut item: Map<String, Value>, out: &mut Out) {
        self.announced = take_arguments(&mut item, "arguments").or(self.announced.take());
        self.identify(item, out);
    }

    pub(super) fn grow(&mut self, text: &str, extent: Extent, out: &mut Out) {
        let more = match extent {
            Extent::More => text,
            Extent::Whole => {
                self.is_said = true;
                match text.strip_prefix(self.arguments.as_str()) {
                    Some(rest) => rest,
                    // Spelled otherwise; nothing has been handed out yet, so the whole counts.
                    None if self.block.is_none() && !text.is_empty() => {
                        self.arguments.clear();
                        text
                    }
                    None => "",
                }
            }
        };
        self.arguments.push_str(more);
        self.say(more, out);
    }

    pub(super) fn complete(&mut self, mut item: Map<String, Value>, out: &mut Out) {
        let arguments = take_arguments(&mut item, "arguments").unwrap_or_default();
        self.identify(item, out);
        self.grow(&arguments, Extent::Whole, out);
    }

    /// Ends the call. One that nobody named gets an id that no other call of the conversation has.
    pub(super) fn close(&mut self, answer: &str, position: usize, out: &mut Out) {
        if self.arguments.is_empty()
            && let Some(announced) = self.announced.take()
        {
            self.grow(&announced, Extent::Whole, out);
        }
        if self.block.is_none() {
            let id = self.id.take().or_else(|| self.item_id.take());
            self.id = Some(id.unwrap_or_else(|| format!("{answer}_call_{position}")));
            let (id, name) = (self.id.clone().unwrap_or_default(), self.name.clone().unwrap_or_default());
            if name.is_empty() {
                // Nobody can say what is to be called.
                let block = ContentBlock::InvalidToolUse { id, name, raw: self.arguments.clone() };
                let index = out.start(block, Map::new());
                out.has_called = true;
                return out.stop(index);
            }
            self.begin(id, name, out);
        }
        if let Some(index) = self.block {
            if !self.own.is_empty() {
                out.own(index, std::mem::take(&mut self.own));
            }
            out.stop(index);
        }
    }

    fn identify(&mut self, mut item: Map<String, Value>, out: &mut Out) {
        let (id, name) = (take_name(&mut item, "call_id"), take_name(&mut item, "name"));
        self.id = self.id.take().or(id);
        self.name = self.name.take().or(name);
        self.item_id = super::take_id(&mut item).or(self.item_id.take());
        for name in ["type", "status", "object", "item_id"] {
            item.remove(name);
        }
        self.own.append(&mut without_nulls(item));
        if let (None, Some(id), Some(name)) = (self.block, self.id.clone(), self.name.clone()) {
            self.begin(id, name, out);
        }
    }

    fn begin(&mut self, id: String, name: String, out: &mut Out) {
        let own = if self.own.is_empty() { Map::new() } else { foreign(PROTOCOL, self.own.clone()) };
        let block = ContentBlock::ToolUse { id, name, input: Value::Object(Map::new()) };
        self.block = Some(out.start(block, own));
        out.has_called = true;
        let arguments = self.arguments.clone();
        self.say(&arguments, out);
    }

    fn say(&self, more: &str, out: &mut Out) {
        if let (Some(index), false) = (self.block, more.is_empty()) {
            out.say(StreamEvent::InputJsonDelta { index, json: more.to_owned() });
        }
    }
}

/// Whether the arguments that came may be the beginning, or another spelling, of these.
fn agree(came: &str, whole: &str) -> bool {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    whole.is_empty() || whole.starts_with(came) || read(came).is_some_and(|value| Some(value) == read(whole))
}
