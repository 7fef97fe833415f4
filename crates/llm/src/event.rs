//! What a streamed answer is made of, whatever protocol it came by.

use serde_json::{Map, Value};

use crate::vocabulary::{ContentBlock, MessageResponse, StopReason, UsageUpdate};

/// One event of a streamed answer.
///
/// An answer starts once, then its blocks start, grow and stop, then comes why it stopped, then the end. Blocks are
/// told apart by `index`, which is only a name: it need not start at zero or be small.
///
/// # Examples
///
/// ```
/// use relight_llm::StreamEvent;
///
/// let event = StreamEvent::TextDelta { index: 0, text: "Hel".into() };
/// assert_eq!(event.text(), Some("Hel"));
/// assert_eq!(StreamEvent::Ping.text(), None);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// The answer starts.
    MessageStart {
        /// The server's name for the answer.
        id: String,
        /// The model that answers.
        model: String,
        /// What is known of the cost so far.
        usage: UsageUpdate,
        /// The service tier that serves it, where that is known already.
        service_tier: Option<String>,
        /// Further fields of the answer.
        extra: Map<String, Value>,
    },
    /// What the server calls the answer, where that becomes known only behind its start. What is empty changes nothing.
    MessageNamed {
        /// The server's name for the answer.
        id: String,
        /// The model that answers.
        model: String,
    },
    /// A block starts.
    BlockStart {
        /// Names the block within the answer.
        index: u64,
        /// The block as far as it is known.
        block: ContentBlock,
        /// Further fields of the block.
        extra: Map<String, Value>,
    },
    /// More text.
    TextDelta {
        /// Names the block.
        index: u64,
        /// What is added.
        text: String,
    },
    /// More thoughts.
    ThinkingDelta {
        /// Names the block.
        index: u64,
        /// What is added.
        thinking: String,
    },
    /// The signature of the thoughts.
    SignatureDelta {
        /// Names the block.
        index: u64,
        /// The whole signature.
        signature: String,
    },
    /// More of a call's arguments, as JSON text that may be cut anywhere.
    InputJsonDelta {
        /// Names the block.
        index: u64,
        /// What is added.
        json: String,
    },
    /// One more citation of a text block.
    CitationDelta {
        /// Names the block.
        index: u64,
        /// The citation, as it came.
        citation: Value,
    },
    /// A change of a kind that this version does not know. Texts are added to the field of their name, other values
    /// replace it.
    OtherDelta {
        /// Names the block.
        index: u64,
        /// The changed fields.
        fields: Map<String, Value>,
    },
    /// A block is complete.
    BlockStop {
        /// Names the block.
        index: u64,
    },
    /// What becomes known at the end: why the answer stopped, what it cost. May come more than once.
    MessageDelta {
        /// Why the answer stopped; [`StopReason::Missing`] changes nothing.
        stop_reason: StopReason,
        /// Which stop sequence it ran into.
        stop_sequence: Option<String>,
        /// The cost, in totals.
        usage: UsageUpdate,
        /// The service tier that served it, where that is known only now.
        service_tier: Option<String>,
        /// Further fields of the answer.
        extra: Map<String, Value>,
    },
    /// The answer is complete.
    MessageStop,
    /// The server is still there.
    Ping,
    /// An event of a kind that this version does not know. It changes nothing.
    Unknown {
        /// Its type.
        kind: String,
        /// The event, as it came.
        data: Value,
    },
}

impl StreamEvent {
    /// The events of an answer that is there already: each block whole, then the end.
    pub fn of_response(response: &MessageResponse) -> Vec<StreamEvent> {
        let mut events = vec![StreamEvent::MessageStart {
            id: response.id.clone(),
            model: response.model.clone(),
            usage: UsageUpdate::default(),
            service_tier: None,
            extra: Map::new(),
        }];
        for (index, (position, block)) in (0..).zip(response.content.iter().enumerate()) {
            let extra = response.content.extra(position).cloned().unwrap_or_default();
            events.push(StreamEvent::BlockStart { index, block: block.clone(), extra });
            events.push(StreamEvent::BlockStop { index });
        }
        events.push(StreamEvent::MessageDelta {
            stop_reason: response.stop_reason.clone(),
            stop_sequence: response.stop_sequence.clone(),
            usage: response.usage.clone().into(),
            service_tier: response.service_tier.clone(),
            extra: response.extra.clone(),
        });
        events.push(StreamEvent::MessageStop);
        events
    }

    /// The text that this event adds to the answer, if it does.
    pub fn text(&self) -> Option<&str> {
        match self {
            StreamEvent::TextDelta { text, .. } => Some(text),
            StreamEvent::BlockStart { block: ContentBlock::Text { text }, .. } if !text.is_empty() => {
                Some(text)
            }
            _ => None,
        }
    }
}
