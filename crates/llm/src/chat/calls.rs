//! The calls of an answer in the making: which piece belongs to which, however it is marked.

use serde_json::{Map, Value};

use crate::messages::count;
use crate::openai::{take_arguments, take_name, take_object};
use crate::vocabulary::ContentBlock;

/// All calls, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Call>);

#[derive(Debug, Default)]
struct Call {
    /// Where the server says it stands; some say nothing, some say the same of two.
    index: Option<u64>,
    id: Option<String>,
    name: Option<String>,
    /// The arguments as far as they came.
    arguments: String,
    block: Option<u64>,
}

/// What a piece of a call means for the answer.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// The call is known by now, and begins; where it stands among the calls.
    Begin(usize, ContentBlock),
    /// More of the arguments of a call that has begun.
    Grow(u64, String),
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all arguments are there, as far as one can see.
    pub(super) fn are_whole(&self) -> bool {
        self.0.iter().all(|call| call.arguments.is_empty() || is_whole(&call.arguments))
    }

    /// Takes a piece of a call.
    pub(super) fn push(&mut self, mut piece: Map<String, Value>) -> Vec<Step> {
        let index = piece.get("index").and_then(count);
        let id = take_name(&mut piece, "id");
        // Some leave the level of the function out.
        let mut function = take_object(&mut piece, "function").unwrap_or(piece);
        let name = take_name(&mut function, "name");
        let arguments = take_arguments(&mut function, "arguments").unwrap_or_default();

        let at = self.find(index, id.as_deref(), name.as_deref()).unwrap_or_else(|| {
            self.0.push(Call { index, ..Call::default() });
            self.0.len() - 1
        });
        let call = &mut self.0[at];
        call.id = call.id.take().or(id);
        call.name = call.name.take().or(name);
        call.arguments.push_str(&arguments);
        match (call.block, &call.id, &call.name) {
            (Some(block), ..) if !arguments.is_empty() => vec![Step::Grow(block, arguments)],
            (None, Some(id), Some(name)) => vec![Step::Begin(at, called(id, name))],
            _ => Vec::new(),
        }
    }

    /// Says at which block a call stands, and gets the arguments that came before.
    pub(super) fn begun(&mut self, at: usize, block: u64) -> Option<String> {
        let call = &mut self.0[at];
        call.block = Some(block);
        let is_wanted = call.name.is_some() && !call.arguments.is_empty();
        is_wanted.then(|| call.arguments.clone())
    }

    /// Calls that have not begun, since nobody named them. They get ids that no other call of the conversation has.
    pub(super) fn unnamed(&mut self, answer: &str) -> Vec<(usize, ContentBlock)> {
        let unnamed = self.0.iter().enumerate().filter(|(_, call)| call.block.is_none());
        let named = unnamed.map(|(at, call)| {
            let id = call.id.clone().unwrap_or_else(|| format!("{answer}_call_{at}"));
            let block = match &call.name {
                Some(name) => called(&id, name),
                // Nobody can say what is to be called.
                None => ContentBlock::InvalidToolUse { id, name: String::new(), raw: call.arguments.clone() },
            };
            (at, block)
        });
        named.collect()
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = u64> {
        self.0.iter().filter_map(|call| call.block)
    }

    /// The call that a piece belongs to; `None` if it begins another.
    fn find(&self, index: Option<u64>, id: Option<&str>, name: Option<&str>) -> Option<usize> {
        let last_that = |is_it: &dyn Fn(&Call) -> bool| self.0.iter().rposition(is_it);
        let same = |call: &Call| {
            id.is_some() && call.id.as_deref() == id && (index.is_none() || call.index == index)
        };
        if let Some(at) = last_that(&same) {
            return Some(at);
        }
        let at = match (index, id) {
            (Some(index), _) => last_that(&|call| call.index == Some(index)),
            (None, Some(_)) => None,
            (None, None) => self.0.len().checked_sub(1),
        }?;
        let call = &self.0[at];
        let is_other = match (id, &call.id) {
            (Some(id), Some(known)) => id != known,
            // Without ids, a name behind whole arguments begins the next call.
            _ => {
                name.is_some()
                    && call.name.is_some()
                    && (is_whole(&call.arguments) || name != call.name.as_deref())
            }
        };
        (!is_other).then_some(at)
    }
}

fn called(id: &str, name: &str) -> ContentBlock {
    ContentBlock::ToolUse { id: id.to_owned(), name: name.to_owned(), input: Value::Object(Map::new()) }
}

fn is_whole(arguments: &str) -> bool {
    serde_json::from_str::<Map<String, Value>>(arguments).is_ok()
}
