//! The output items of an answer in the making: which event is about which of them, and what it adds.

mod call;
mod message;
mod out;
mod thoughts;

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value};

use self::call::Call;
use self::message::{MessageItem, PartKind};
use self::out::Out;
use self::thoughts::Thoughts;
use super::PROTOCOL;
use crate::openai::{take_name, take_text};
use crate::vocabulary::{ContentBlock, FOREIGN, StopReason, foreign};

/// All items of an answer, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) out: Out,
    list: Vec<Item>,
    /// The latest item of a kind at an index; servers use an index twice.
    by_index: BTreeMap<(Kind, u64), usize>,
    by_id: HashMap<String, usize>,
    by_call: HashMap<String, usize>,
    latest: BTreeMap<Kind, usize>,
}

#[derive(Debug)]
struct Item {
    body: Body,
    output_index: Option<u64>,
    is_open: bool,
}

#[derive(Debug)]
enum Body {
    Message(MessageItem),
    Call(Call),
    Thoughts(Thoughts),
    /// An item of any other kind, which is of use only when it is whole.
    Other(Map<String, Value>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Message,
    Call,
    Thoughts,
    Other,
}

/// What an event adds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Text,
    Refusal,
    Arguments,
    Summary,
    Thoughts,
}

/// How much of it an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// The next piece.
    More,
    /// All of it, said before or not.
    Whole,
}

/// Where an event says that it belongs; each of it may be missing.
pub(super) struct Place<'a> {
    pub(super) output_index: Option<u64>,
    pub(super) item_id: Option<&'a str>,
    pub(super) part: Option<u64>,
}

enum Found {
    Open(usize),
    Closed,
    Nowhere,
}

impl Stream {
    /// By the middle of the event's type (`output_text` in `response.output_text.delta`).
    pub(super) fn named(name: &str) -> Option<Stream> {
        match name {
            "output_text" => Some(Stream::Text),
            "refusal" => Some(Stream::Refusal),
            "function_call_arguments" => Some(Stream::Arguments),
            "reasoning_summary_text" => Some(Stream::Summary),
            "reasoning_text" => Some(Stream::Thoughts),
            _ => None,
        }
    }

    fn kind(self) -> Kind {
        match self {
            Stream::Text | Stream::Refusal => Kind::Message,
            Stream::Arguments => Kind::Call,
            Stream::Summary | Stream::Thoughts => Kind::Thoughts,
        }
    }
}

impl Kind {
    fn of(item: &Map<String, Value>) -> Kind {
        match item.get("type").and_then(Value::as_str) {
            Some("message") => Kind::Message,
            Some("function_call") => Kind::Call,
            Some("reasoning") => Kind::Thoughts,
            _ => Kind::Other,
        }
    }
}

impl Items {
    /// Adds to an item; to a new one, if it was never announced.
    pub(super) fn grow(&mut self, stream: Stream, place: &Place<'_>, text: &str, extent: Extent) {
        let at = match self.find(stream.kind(), place) {
            // After its last word, more at the same place is another call.
            Found::Open(at) if extent == Extent::More && self.is_said(at) => self.open(stream.kind(), place),
            Found::Open(at) => at,
            Found::Closed if extent == Extent::Whole => return,
            Found::Closed | Found::Nowhere => self.open(stream.kind(), place),
        };
        match (&mut self.list[at].body, stream) {
            (Body::Message(message), Stream::Text) => {
                message.grow(PartKind::Text, place.part, text, extent, &mut self.out);
            }
            (Body::Message(message), _) => {
                message.grow(PartKind::Refusal, place.part, text, extent, &mut self.out);
            }
            (Body::Call(call), _) => call.grow(text, extent, &mut self.out),
            (Body::Thoughts(thoughts), stream) => {
                thoughts.grow(stream, place.part, text, extent, &mut self.out);
            }
            (Body::Other(_), _) => {}
        }
    }

    /// Takes an item as it is announced. What it holds is not final, but names it.
    pub(super) fn announce(&mut self, output_index: Option<u64>, item: Map<String, Value>) {
        let kind = Kind::of(&item);
        let id = text_of(&item, "id").map(str::to_owned);
        let place = Place { output_index, item_id: id.as_deref(), part: None };
        let same_call = text_of(&item, "call_id").and_then(|call| self.by_call.get(call)).copied();
        let known = match (same_call, output_index) {
            (Some(at), _) => Some(at),
            (None, Some(index)) => self.by_index.get(&(kind, index)).copied(),
            (None, None) => place.item_id.and_then(|id| self.by_id.get(id)).copied(),
        };
        let known = known.filter(|at| self.list[*at].is_open && self.may_be(*at, kind, &item));
        let at = known.unwrap_or_else(|| self.open(kind, &place));
        match &mut self.list[at].body {
            Body::Message(message) => message.know(&item),
            Body::Call(call) => call.know(item, &mut self.out),
            Body::Thoughts(thoughts) => {
                thoughts.begin(&mut self.out);
            }
            Body::Other(fields) => *fields = item,
        }
        self.note_call(at);
    }

    /// Takes an item that is said to be whole, and ends it.
    pub(super) fn conclude(&mut self, output_index: Option<u64>, item: Map<String, Value>) {
        let kind = Kind::of(&item);
        let id = text_of(&item, "id").map(str::to_owned);
        let place = Place { output_index, item_id: id.as_deref(), part: None };
        let same_call = text_of(&item, "call_id").and_then(|call| self.by_call.get(call)).copied();
        let at = match (same_call, self.find(kind, &place)) {
            (Some(at), _) => at,
            (None, Found::Open(at)) if self.may_be(at, kind, &item) => at,
            (None, Found::Closed) if kind != Kind::Call => return,
            (None, _) => self.open(kind, &place),
        };
        self.complete(at, item);
    }

    /// A whole part of an item, or one that begins.
    pub(super) fn tell_part(&mut self, place: &Place<'_>, mut part: Map<String, Value>) {
        let stream = match text_of(&part, "type") {
            Some("output_text" | "text") => Stream::Text,
            Some("refusal") => Stream::Refusal,
            Some("reasoning_text") => Stream::Thoughts,
            Some("summary_text") => Stream::Summary,
            _ => return,
        };
        let text = take_text(&mut part, "text").or_else(|| take_text(&mut part, "refusal"));
        self.grow(stream, place, &text.unwrap_or_default(), Extent::Whole);
        if let Found::Open(at) = self.find(stream.kind(), place)
            && let Body::Message(message) = &mut self.list[at].body
        {
            message.know_part(stream, place.part, part);
        }
    }

    pub(super) fn annotate(&mut self, place: &Place<'_>, annotation: Value) {
        if let Found::Open(at) = self.find(Kind::Message, place)
            && let Body::Message(message) = &mut self.list[at].body
        {
            message.annotate(place.part, annotation);
        }
    }

    /// The name of a call, from an event that is not about the whole item.
    pub(super) fn name_call(&mut self, place: &Place<'_>, name: String) {
        if let Found::Open(at) = self.find(Kind::Call, place)
            && let Body::Call(call) = &mut self.list[at].body
        {
            call.know(Map::from_iter([("name".to_owned(), Value::String(name))]), &mut self.out);
        }
    }

    /// Takes the whole output, which some servers leave empty, and ends all items. `id` is the answer's.
    pub(super) fn finish(&mut self, output: Vec<Map<String, Value>>, id: &str) {
        let mut told: HashSet<usize> =
            output.iter().filter_map(|item| self.by_call.get(text_of(item, "call_id")?)).copied().collect();
        let mut next = BTreeMap::new();
        for (index, item) in (0..).zip(output) {
            let at = match self.matching(index, &item, &told, &mut next) {
                Some(at) => at,
                None => {
                    let id = text_of(&item, "id").map(str::to_owned);
                    let place = Place { output_index: Some(index), item_id: id.as_deref(), part: None };
                    self.open(Kind::of(&item), &place)
                }
            };
            told.insert(at);
            self.complete(at, item);
        }
        for at in 0..self.list.len() {
            self.close(at, id);
        }
    }

    /// What the answer's content says of why it ended.
    pub(super) fn stop_reason(&self) -> StopReason {
        if self.out.has_called {
            StopReason::ToolUse
        } else if self.out.has_refused {
            StopReason::Refusal
        } else {
            StopReason::EndTurn
        }
    }

    /// The item that one of the final output is, if it came before. Ids and indexes may be others by then; what holds
    /// is a call's id, then the order among items of a kind. `next` is where to look on for each kind.
    fn matching(
        &self,
        index: u64,
        item: &Map<String, Value>,
        told: &HashSet<usize>,
        next: &mut BTreeMap<Kind, usize>,
    ) -> Option<usize> {
        let kind = Kind::of(item);
        if let Some(at) = text_of(item, "call_id").and_then(|call| self.by_call.get(call)) {
            return Some(*at);
        }
        let is_it = |at: &usize| !told.contains(at) && self.may_be(*at, kind, item);
        let by_id = text_of(item, "id").and_then(|id| self.by_id.get(id));
        let by_index = self.by_index.get(&(kind, index));
        if let Some(at) = [by_id, by_index].into_iter().flatten().copied().find(is_it) {
            return Some(at);
        }
        let begin = next.entry(kind).or_default();
        while *begin < self.list.len() && (told.contains(begin) || self.list[*begin].kind() != kind) {
            *begin += 1;
        }
        Some(*begin).filter(|at| *at < self.list.len()).filter(is_it)
    }

    /// Whether an item that came can be this one. Two calls of one name are told apart by what they ask.
    fn may_be(&self, at: usize, kind: Kind, item: &Map<String, Value>) -> bool {
        match &self.list[at].body {
            Body::Call(call) => kind == Kind::Call && call.may_be(item),
            Body::Other(fields) => {
                kind == Kind::Other && fields.get("type").is_none_or(|own| Some(own) == item.get("type"))
            }
            _ => self.list[at].kind() == kind,
        }
    }

    fn is_said(&self, at: usize) -> bool {
        matches!(&self.list[at].body, Body::Call(call) if call.is_said())
    }

    fn find(&self, kind: Kind, place: &Place<'_>) -> Found {
        let of_index = place.output_index.and_then(|index| self.by_index.get(&(kind, index)));
        let of_id =
            || place.item_id.and_then(|id| self.by_id.get(id)).filter(|at| self.list[**at].kind() == kind);
        // An item without an index cannot be found by one.
        let fits = |at: &&usize| place.output_index.is_none() || self.list[**at].output_index.is_none();
        let latest = || self.latest.get(&kind).filter(fits);
        match of_index.or_else(of_id).or_else(latest) {
            Some(at) if self.list[*at].is_open => Found::Open(*at),
            Some(_) => Found::Closed,
            None => Found::Nowhere,
        }
    }

    fn open(&mut self, kind: Kind, place: &Place<'_>) -> usize {
        let at = self.list.len();
        let body = match kind {
            Kind::Message => Body::Message(MessageItem::default()),
            Kind::Call => Body::Call(Call::new(place.item_id)),
            Kind::Thoughts => Body::Thoughts(Thoughts::default()),
            Kind::Other => Body::Other(Map::new()),
        };
        self.list.push(Item { body, output_index: place.output_index, is_open: true });
        self.latest.insert(kind, at);
        if let Some(index) = place.output_index {
            self.by_index.insert((kind, index), at);
        }
        if let Some(id) = place.item_id {
            self.by_id.insert(id.to_owned(), at);
        }
        at
    }

    fn note_call(&mut self, at: usize) {
        if let Body::Call(call) = &self.list[at].body
            && let Some(id) = call.id()
        {
            self.by_call.entry(id.to_owned()).or_insert(at);
        }
    }

    /// Adds what is missing of an item, and ends it.
    fn complete(&mut self, at: usize, item: Map<String, Value>) {
        if !self.list[at].is_open {
            return;
        }
        match &mut self.list[at].body {
            Body::Message(message) => message.complete(item, &mut self.out),
            Body::Call(call) => call.complete(item, &mut self.out),
            Body::Thoughts(thoughts) => thoughts.complete(item, &mut self.out),
            Body::Other(fields) => *fields = item,
        }
        self.note_call(at);
        // A call that is not named yet may be by the end of the answer.
        if !matches!(&self.list[at].body, Body::Call(call) if !call.has_begun()) {
            self.close(at, "");
        }
    }

    fn close(&mut self, at: usize, answer: &str) {
        let item = &mut self.list[at];
        if !std::mem::take(&mut item.is_open) {
            return;
        }
        match &mut item.body {
            Body::Message(message) => message.close(&mut self.out),
            Body::Call(call) => call.close(answer, at, &mut self.out),
            Body::Thoughts(thoughts) => thoughts.close(&mut self.out),
            Body::Other(fields) => {
                let mut fields = std::mem::take(fields);
                fields.remove(FOREIGN);
                fields.append(&mut foreign(PROTOCOL, Map::new()));
                let (block, extra) = ContentBlock::from_map(fields);
                let index = self.out.start(block, extra);
                self.out.stop(index);
            }
        }
    }
}

impl Item {
    fn kind(&self) -> Kind {
        match self.body {
            Body::Message(_) => Kind::Message,
            Body::Call(_) => Kind::Call,
            Body::Thoughts(_) => Kind::Thoughts,
            Body::Other(_) => Kind::Other,
        }
    }
}

fn text_of<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Takes the id out of an item, unless it says nothing.
fn take_id(item: &mut Map<String, Value>) -> Option<String> {
    take_name(item, "id")
}
