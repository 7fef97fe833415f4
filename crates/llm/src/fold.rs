//! Puts a streamed answer together, event by event; pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::error::{ErrorKind, LlmError};
use crate::event::StreamEvent;
use crate::vocabulary::{
    Content, ContentBlock, MessageResponse, OWN_FIELDS, StopReason, UsageUpdate, tool_call,
};

/// An answer in the making.
///
/// ```text
/// Before ── MessageStart ──▶ Open ── MessageStop ──▶ Complete
/// ```
///
/// Blocks stand in the order in which they started; their indexes are only names, and the largest one costs no more
/// than the smallest.
///
/// # Examples
///
/// ```
/// use relight_llm::{ContentBlock, Fold, MessageResponse, StopReason, StreamEvent};
///
/// let answer = MessageResponse::new("msg_1", "some-model", ContentBlock::text("Hello"), StopReason::EndTurn);
/// let mut fold = Fold::new();
/// for event in StreamEvent::of_response(&answer) {
///     fold.apply(&event)?;
/// }
/// assert_eq!(fold.finish()?, answer);
/// # Ok::<(), relight_llm::LlmError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Fold {
    progress: Progress,
    /// Everything but the content.
    response: MessageResponse,
    blocks: Vec<Block>,
    /// Where the blocks stand that have not stopped, by index.
    open: BTreeMap<u64, usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Progress {
    #[default]
    Before,
    Open,
    Complete,
}

#[derive(Clone, Debug)]
struct Block {
    block: ContentBlock,
    extra: Map<String, Value>,
    /// A call's arguments as far as they came; parsed once, when the block stops.
    json: String,
}

impl Fold {
    /// An answer of which nothing has come.
    pub fn new() -> Fold {
        Fold::default()
    }

    /// Takes the next event.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Protocol`] if the event cannot come now: anything before the start, a second start, a change of a
    /// block that is not open or of another kind. The answer so far is unchanged and may be taken with
    /// [`Fold::partial`].
    pub fn apply(&mut self, event: &StreamEvent) -> Result<(), LlmError> {
        match (self.progress, event) {
            (_, StreamEvent::Ping | StreamEvent::Unknown { .. }) | (Progress::Complete, _) => Ok(()),
            (Progress::Before, StreamEvent::MessageStart { id, model, usage, service_tier, extra }) => {
                self.progress = Progress::Open;
                self.response.id.clone_from(id);
                self.response.model.clone_from(model);
                self.update(usage, service_tier.as_ref(), extra);
                Ok(())
            }
            (Progress::Before, _) => Err(protocol("an event came before the start of the answer")),
            (Progress::Open, StreamEvent::MessageStart { .. }) => Err(protocol("the answer started twice")),
            (Progress::Open, StreamEvent::MessageNamed { id, model }) => {
                for (known, named) in [(&mut self.response.id, id), (&mut self.response.model, model)] {
                    if !named.is_empty() {
                        known.clone_from(named);
                    }
                }
                Ok(())
            }
            (Progress::Open, StreamEvent::BlockStart { index, block, extra }) => {
                self.start_block(*index, block.clone(), extra.clone())
            }
            (Progress::Open, StreamEvent::BlockStop { index }) => {
                let at = self.open.remove(index).ok_or_else(|| not_open(*index))?;
                self.blocks[at].stop();
                Ok(())
            }
            (
                Progress::Open,
                StreamEvent::MessageDelta { stop_reason, stop_sequence, usage, service_tier, extra },
            ) => {
                if *stop_reason != StopReason::Missing {
                    self.response.stop_reason = stop_reason.clone();
                }
                if stop_sequence.is_some() {
                    self.response.stop_sequence.clone_from(stop_sequence);
                }
                self.update(usage, service_tier.as_ref(), extra);
                Ok(())
            }
            (Progress::Open, StreamEvent::MessageStop) => {
                self.progress = Progress::Complete;
                Ok(())
            }
            (
                Progress::Open,
                StreamEvent::TextDelta { index, .. }
                | StreamEvent::ThinkingDelta { index, .. }
                | StreamEvent::SignatureDelta { index, .. }
                | StreamEvent::InputJsonDelta { index, .. }
                | StreamEvent::CitationDelta { index, .. }
                | StreamEvent::OtherDelta { index, .. },
            ) => {
                let at = *self.open.get(index).ok_or_else(|| not_open(*index))?;
                self.blocks[at].grow(*index, event)
            }
        }
    }

    /// Whether the answer has begun.
    pub fn has_started(&self) -> bool {
        self.progress != Progress::Before
    }

    /// Whether the terminal event came.
    pub fn is_complete(&self) -> bool {
        self.progress == Progress::Complete
    }

    /// The answer, once no more events will come.
    ///
    /// It is complete after the terminal event; or, where a gateway swallows that one, after a stop reason with all
    /// blocks stopped.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Truncated`] with the answer so far, if it is not complete.
    pub fn finish(self) -> Result<MessageResponse, LlmError> {
        match self.check_end() {
            Ok(()) => Ok(self.response(Block::stop)),
            Err(error) if self.has_started() => Err(error.with_partial(self.response(Block::cut))),
            Err(error) => Err(error),
        }
    }

    /// The answer so far. A call whose arguments are still on their way is a [`ContentBlock::InvalidToolUse`].
    pub fn partial(&self) -> MessageResponse {
        self.clone().response(Block::cut)
    }

    /// Whether the stream may end here; the error is without the answer so far.
    pub(crate) fn check_end(&self) -> Result<(), LlmError> {
        let cut = |message| Err(LlmError::new(ErrorKind::Truncated, message));
        match self.progress {
            Progress::Complete => Ok(()),
            Progress::Open if self.response.stop_reason != StopReason::Missing && self.open.is_empty() => {
                Ok(())
            }
            Progress::Open => cut("the stream ended before the answer did").map_err(LlmError::mid_stream),
            Progress::Before => cut("the stream ended before the answer began"),
        }
    }

    /// What came, with this done to the blocks that are still open.
    fn response(mut self, close: impl Fn(&mut Block)) -> MessageResponse {
        for at in std::mem::take(&mut self.open).into_values() {
            close(&mut self.blocks[at]);
        }
        let mut content = Content::new();
        for Block { block, extra, .. } in self.blocks {
            content.push(block, extra);
        }
        let cut = matches!(
            self.response.stop_reason,
            StopReason::MaxTokens | StopReason::ModelContextWindowExceeded
        );
        if let (true, Some(last)) = (cut, content.last_mut()) {
            suspect_empty_arguments(last);
        }
        self.response.content = content;
        self.response
    }

    fn update(&mut self, usage: &UsageUpdate, service_tier: Option<&String>, extra: &Map<String, Value>) {
        self.response.usage.update(usage);
        if service_tier.is_some() {
            self.response.service_tier = service_tier.cloned();
        }
        let further =
            |(name, value): &(&String, &Value)| !value.is_null() && !OWN_FIELDS.contains(&name.as_str());
        for (name, value) in extra.iter().filter(further) {
            self.response.extra.insert(name.clone(), value.clone());
        }
    }

    fn start_block(
        &mut self,
        index: u64,
        block: ContentBlock,
        extra: Map<String, Value>,
    ) -> Result<(), LlmError> {
        if self.open.contains_key(&index) {
            return Err(protocol(format!("block {index} started twice")));
        }
        self.open.insert(index, self.blocks.len());
        self.blocks.push(Block { block, extra, json: String::new() });
        Ok(())
    }
}

impl Block {
    fn grow(&mut self, index: u64, event: &StreamEvent) -> Result<(), LlmError> {
        match (&mut self.block, event) {
            (ContentBlock::Text { text }, StreamEvent::TextDelta { text: more, .. }) => text.push_str(more),
            (ContentBlock::Thinking { thinking, .. }, StreamEvent::ThinkingDelta { thinking: more, .. }) => {
                thinking.push_str(more);
            }
            (
                ContentBlock::Thinking { signature, .. },
                StreamEvent::SignatureDelta { signature: whole, .. },
            ) => {
                signature.clone_from(whole);
            }
            (
                ContentBlock::ToolUse { .. } | ContentBlock::InvalidToolUse { .. } | ContentBlock::Other(_),
                StreamEvent::InputJsonDelta { json, .. },
            ) => self.json.push_str(json),
            (ContentBlock::Text { .. }, StreamEvent::CitationDelta { citation, .. }) => {
                let citations = self.extra.entry("citations").or_insert_with(|| Value::Array(Vec::new()));
                match citations {
                    Value::Array(citations) => citations.push(citation.clone()),
                    other => *other = Value::Array(vec![citation.clone()]),
                }
            }
            (ContentBlock::Other(fields), StreamEvent::OtherDelta { fields: changes, .. }) => {
                merge(fields, changes)
            }
            (_, StreamEvent::OtherDelta { fields: changes, .. }) => merge(&mut self.extra, changes),
            (block, event) => {
                let (kind, change) = (kind_of(block), change_of(event));
                return Err(protocol(format!("block {index} is {kind}, which cannot grow by {change}")));
            }
        }
        Ok(())
    }

    /// Ends the block; a call's arguments are parsed now.
    fn stop(&mut self) {
        if self.json.is_empty() {
            return;
        }
        let raw = std::mem::take(&mut self.json);
        match &mut self.block {
            ContentBlock::ToolUse { id, name, .. } | ContentBlock::InvalidToolUse { id, name, .. } => {
                let (id, name) = (std::mem::take(id), std::mem::take(name));
                self.block = match serde_json::from_str(&raw) {
                    Ok(input @ Value::Object(_)) => tool_call(id, name, input),
                    Ok(_) | Err(_) => ContentBlock::InvalidToolUse { id, name, raw },
                };
            }
            ContentBlock::Other(fields) => {
                let input = serde_json::from_str(&raw).unwrap_or(Value::String(raw));
                fields.insert("input".to_owned(), input);
            }
            _ => {}
        }
    }

    /// Ends the block where the stream broke; a call's arguments cannot be trusted, even if they happen to parse.
    fn cut(&mut self) {
        if let ContentBlock::ToolUse { id, name, .. } = &self.block {
            let raw = std::mem::take(&mut self.json);
            self.block = ContentBlock::InvalidToolUse { id: id.clone(), name: name.clone(), raw };
        }
    }
}

/// The last call of an answer that ran out of tokens, without arguments: whether it had any nobody knows.
fn suspect_empty_arguments(block: &mut ContentBlock) {
    if let ContentBlock::ToolUse { id, name, input: Value::Object(arguments) } = block
        && arguments.is_empty()
    {
        *block = ContentBlock::InvalidToolUse { id: id.clone(), name: name.clone(), raw: String::new() };
    }
}

fn merge(fields: &mut Map<String, Value>, changes: &Map<String, Value>) {
    for (name, change) in changes.iter().filter(|(_, change)| !change.is_null()) {
        match (fields.get_mut(name), change) {
            (Some(Value::String(text)), Value::String(more)) => text.push_str(more),
            (_, change) => {
                fields.insert(name.clone(), change.clone());
            }
        }
    }
}

fn kind_of(block: &ContentBlock) -> &str {
    match block {
        ContentBlock::Text { .. } => "text",
        ContentBlock::Thinking { .. } => "thinking",
        ContentBlock::RedactedThinking { .. } => "redacted thinking",
        ContentBlock::ToolUse { .. } | ContentBlock::InvalidToolUse { .. } => "a tool call",
        ContentBlock::ToolResult { .. } => "a tool result",
        ContentBlock::Image { .. } => "an image",
        ContentBlock::Document { .. } => "a document",
        ContentBlock::Other(_) => "of an unknown kind",
    }
}

fn change_of(event: &StreamEvent) -> &'static str {
    match event {
        StreamEvent::TextDelta { .. } => "text",
        StreamEvent::ThinkingDelta { .. } => "thoughts",
        StreamEvent::SignatureDelta { .. } => "a signature",
        StreamEvent::InputJsonDelta { .. } => "arguments",
        StreamEvent::CitationDelta { .. } => "a citation",
        _ => "this event",
    }
}

fn not_open(index: u64) -> LlmError {
    protocol(format!("block {index} is not open"))
}

fn protocol(message: impl Into<String>) -> LlmError {
    LlmError::new(ErrorKind::Protocol, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::vocabulary::Usage;

    /// What the code gets live is then what the record gives back in replay.
    #[test]
    fn further_fields_never_have_an_own_name_whatever_a_provider_sends() {
        let fields = |value: Value| value.as_object().unwrap().clone();
        let shadow = fields(json!({ "id": "shadow", "usage": {}, "further": 1 }));
        let usage = UsageUpdate {
            extra: fields(json!({ "input_tokens": 7, "further": 2 })),
            ..UsageUpdate::default()
        };
        let events = [
            StreamEvent::MessageStart {
                id: "own".into(),
                model: "m".into(),
                usage,
                service_tier: None,
                extra: shadow.clone(),
            },
            StreamEvent::BlockStart {
                index: 0,
                block: ContentBlock::text("own"),
                extra: fields(json!({ "type": "shadow", "text": "shadow", "further": 3 })),
            },
            StreamEvent::BlockStart {
                index: 1,
                block: ContentBlock::Other(fields(json!({ "type": "brand_new", "a": 1 }))),
                extra: fields(json!({ "a": 2 })),
            },
            StreamEvent::MessageStop,
        ];
        let mut fold = Fold::new();
        for event in &events {
            fold.apply(event).unwrap();
        }
        let response = fold.finish().unwrap();
        assert_eq!(response.extra, fields(json!({ "further": 1 })));
        assert_eq!(response.usage, Usage { extra: fields(json!({ "further": 2 })), ..Usage::default() });
        assert_eq!(response.content.extra(0).unwrap(), &fields(json!({ "further": 3 })));
        let recorded = serde_json::to_string(&response).unwrap();
        assert_eq!(serde_json::from_str::<MessageResponse>(&recorded).unwrap(), response, "{recorded}");
    }
}
