//! The events that items become.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use super::PROTOCOL;
use crate::event::StreamEvent;
use crate::vocabulary::{ContentBlock, foreign};

/// Events on their way out, with what must be known of all of them.
#[derive(Debug, Default)]
pub(in crate::responses) struct Out {
    pub(in crate::responses) events: VecDeque<StreamEvent>,
    blocks: u64,
    pub(super) has_called: bool,
    pub(super) has_refused: bool,
}

impl Out {
    /// Starts a block and gives its index.
    pub(super) fn start(&mut self, block: ContentBlock, extra: Map<String, Value>) -> u64 {
        let index = self.blocks;
        self.blocks += 1;
        self.events.push_back(StreamEvent::BlockStart { index, block, extra });
        index
    }

    pub(super) fn say(&mut self, event: StreamEvent) {
        self.events.push_back(event);
    }

    /// Says what the block has of this protocol, in place of what was said before.
    pub(super) fn own(&mut self, index: u64, own: Map<String, Value>) {
        self.events.push_back(StreamEvent::OtherDelta { index, fields: foreign(PROTOCOL, own) });
    }

    pub(super) fn stop(&mut self, index: u64) {
        self.events.push_back(StreamEvent::BlockStop { index });
    }
}
