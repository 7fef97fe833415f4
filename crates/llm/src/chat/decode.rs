//! The chunks of a streamed answer, in whatever way a server fills them.

use std::borrow::Cow;
use std::collections::VecDeque;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::PROTOCOL;
use super::calls::{Calls, Step};
use crate::error::{ErrorKind, LlmError};
use crate::event::StreamEvent;
use crate::messages::{beginning_of, count, read_object};
use crate::openai::{
    error_of_fields, is_error, take_name, take_object, take_objects, take_text, usage, without_nulls,
};
use crate::sse;
use crate::vocabulary::{ContentBlock, StopReason, UsageUpdate, foreign};

/// Reads the chunks of one streamed answer.
///
/// The answer ends with `[DONE]`, or with the stream where a finish reason came before; [`Decoder::finish`] tells that
/// the stream has ended cleanly. What comes after the end, and after an error, is ignored. A stream that breaks before
/// leaves a [`Fold`](crate::Fold) unfinished, which makes it an error.
///
/// # Examples
///
/// ```
/// use relight_llm::{Fold, StopReason, chat::Decoder, sse::Event};
///
/// let mut decoder = Decoder::new("some-model");
/// let mut fold = Fold::new();
/// for data in [
///     r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"Hello"}}]}"#,
///     r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
///     "[DONE]",
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
    id: String,
    /// The request's until the server names its own.
    model: String,
    blocks: u64,
    text: Option<u64>,
    thoughts: Option<u64>,
    refusal: Option<u64>,
    calls: Calls,
    finish_reason: Option<String>,
    usage: UsageUpdate,
    service_tier: Option<String>,
    extra: Map<String, Value>,
    events: VecDeque<StreamEvent>,
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
            blocks: 0,
            text: None,
            thoughts: None,
            refusal: None,
            calls: Calls::default(),
            finish_reason: None,
            usage: UsageUpdate::default(),
            service_tier: None,
            extra: Map::new(),
            events: VecDeque::new(),
            failure: None,
        }
    }

    /// Takes the next event. Take out what it means before pushing more.
    pub fn push(&mut self, event: &sse::Event<'_>) {
        if self.progress == Progress::Done {
            return;
        }
        // Nearly every chunk of a stream is more text, so it is read without building a tree.
        if let (Some(index), false, Some(text)) = (self.text, self.id.is_empty(), Chunk::text(&event.data)) {
            return self.events.push_back(StreamEvent::TextDelta { index, text });
        }
        match read_object("an event", &event.data) {
            Ok(fields) if event.name == "error" => self.fail(error_of_fields(fields)),
            Ok(fields) => self.take(fields),
            Err(_) if event.data.trim() == "[DONE]" => self.end(),
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
    /// What the server reports, or [`ErrorKind::Protocol`] for a chunk that is not a JSON object. It is the last.
    pub fn next_event(&mut self) -> Option<Result<StreamEvent, LlmError>> {
        self.events.pop_front().map(Ok).or_else(|| self.failure.take().map(Err))
    }

    /// The stream has ended cleanly. Without a finish reason, nobody can tell that from a cut.
    pub fn finish(&mut self) {
        if self.finish_reason.is_some() {
            self.end();
        }
    }

    /// Takes a chunk, or a body, which is one chunk that holds all.
    pub(super) fn take(&mut self, mut fields: Map<String, Value>) {
        if is_error(&fields) {
            return self.fail(error_of_fields(fields));
        }
        self.know(&mut fields);
        let choices = take_objects(&mut fields, "choices");
        for name in ECHOES {
            fields.remove(name);
        }
        self.extra.append(&mut without_nulls(fields));
        // More than one choice is not asked for, and would be other answers.
        let is_first = |choice: &Map<String, Value>| choice.get("index").and_then(count).unwrap_or(0) == 0;
        for choice in choices.into_iter().filter(is_first) {
            self.begin();
            self.take_choice(choice);
        }
    }

    fn know(&mut self, fields: &mut Map<String, Value>) {
        let (id, model) = (take_name(fields, "id"), take_name(fields, "model"));
        if self.progress == Progress::Before {
            self.id = id.unwrap_or(std::mem::take(&mut self.id));
            self.model = model.unwrap_or(std::mem::take(&mut self.model));
        } else if let (true, Some(id)) = (self.id.is_empty(), id) {
            self.id.clone_from(&id);
            self.events.push_back(StreamEvent::MessageNamed { id, model: model.unwrap_or_default() });
        }
        if let Some(stated) = take_object(fields, "usage") {
            self.usage = usage(stated);
        }
        self.service_tier = take_name(fields, "service_tier").or(self.service_tier.take());
    }

    fn take_choice(&mut self, mut choice: Map<String, Value>) {
        if let Some(error) = take_object(&mut choice, "error") {
            return self.fail(error_of_fields(error));
        }
        let said = take_object(&mut choice, "delta").or_else(|| take_object(&mut choice, "message"));
        if let Some(said) = said {
            self.take_said(said);
        }
        if let Some(reason) = take_name(&mut choice, "finish_reason") {
            if reason == "error" {
                let message = "the server broke the answer off, and does not say why";
                return self.fail(LlmError::new(ErrorKind::Server, message));
            }
            self.finish_reason = Some(reason);
        }
    }

    fn take_said(&mut self, mut said: Map<String, Value>) {
        for field in ["reasoning_content", "reasoning"] {
            if let Some(thoughts) = take_name(&mut said, field) {
                self.think(&thoughts, field);
                break;
            }
        }
        self.take_content(said.remove("content").unwrap_or_default());
        if let Some(refusal) = take_name(&mut said, "refusal") {
            let own = Map::from_iter([("refusal".to_owned(), json!(true))]);
            let (block, extra) = (ContentBlock::text(""), foreign(PROTOCOL, own));
            let index = start(&mut self.refusal, &mut self.blocks, &mut self.events, block, extra);
            self.events.push_back(StreamEvent::TextDelta { index, text: refusal });
        }
        let mut calls = take_objects(&mut said, "tool_calls");
        // The older way to ask for one call.
        calls.extend(take_object(&mut said, "function_call"));
        for piece in calls {
            for step in self.calls.push(piece) {
                match step {
                    Step::Begin(at, block) => self.begin_call(at, block),
                    Step::Grow(index, json) => {
                        self.events.push_back(StreamEvent::InputJsonDelta { index, json })
                    }
                }
            }
        }
    }

    /// Text, mostly. Some send a number as it is, some send parts, thoughts among them.
    fn take_content(&mut self, content: Value) {
        match content {
            Value::String(text) => self.say(text),
            Value::Number(_) | Value::Bool(_) => self.say(content.to_string()),
            Value::Array(parts) => parts.into_iter().for_each(|part| self.take_content(part)),
            Value::Object(mut part) => match part.remove("thinking") {
                Some(thoughts) => self.think(&text_of(&thoughts), "reasoning_content"),
                None => self.say(take_text(&mut part, "text").unwrap_or_default()),
            },
            Value::Null => {}
        }
    }

    fn say(&mut self, text: String) {
        if !text.is_empty() {
            let block = ContentBlock::text("");
            let index = start(&mut self.text, &mut self.blocks, &mut self.events, block, Map::new());
            self.events.push_back(StreamEvent::TextDelta { index, text });
        }
    }

    fn think(&mut self, thoughts: &str, field: &str) {
        if !thoughts.is_empty() {
            let own = Map::from_iter([("field".to_owned(), json!(field))]);
            let block = ContentBlock::Thinking { thinking: String::new(), signature: String::new() };
            let extra = foreign(PROTOCOL, own);
            let index = start(&mut self.thoughts, &mut self.blocks, &mut self.events, block, extra);
            self.events.push_back(StreamEvent::ThinkingDelta { index, thinking: thoughts.to_owned() });
        }
    }

    fn begin_call(&mut self, at: usize, block: ContentBlock) {
        let index = start(&mut None, &mut self.blocks, &mut self.events, block, Map::new());
        if let Some(json) = self.calls.begun(at, index) {
            self.events.push_back(StreamEvent::InputJsonDelta { index, json });
        }
    }

    fn begin(&mut self) {
        if self.progress == Progress::Before {
            self.progress = Progress::Open;
            self.events.push_back(StreamEvent::MessageStart {
                id: self.id.clone(),
                model: self.model.clone(),
                usage: UsageUpdate::default(),
                service_tier: None,
                extra: Map::new(),
            });
        }
    }

    /// The answer is whole.
    pub(super) fn end(&mut self) {
        if self.progress != Progress::Open {
            return;
        }
        self.progress = Progress::Done;
        for (at, block) in self.calls.unnamed(&self.id) {
            self.begin_call(at, block);
        }
        let stop_reason = self.stop_reason();
        let said = [self.thoughts, self.text, self.refusal].into_iter().flatten();
        let stops: Vec<u64> = said.chain(self.calls.blocks()).collect();
        self.events.extend(stops.into_iter().map(|index| StreamEvent::BlockStop { index }));
        self.events.push_back(StreamEvent::MessageDelta {
            stop_reason,
            stop_sequence: None,
            usage: std::mem::take(&mut self.usage),
            service_tier: self.service_tier.take(),
            extra: std::mem::take(&mut self.extra),
        });
        self.events.push_back(StreamEvent::MessageStop);
    }

    fn stop_reason(&self) -> StopReason {
        let called = !self.calls.is_empty();
        match self.finish_reason.as_deref() {
            // Whole calls wait for their results, whether that is said or not. Of anything else nobody knows.
            None if called && self.calls.are_whole() => StopReason::ToolUse,
            None => StopReason::Missing,
            Some("stop" | "eos" | "eos_token" | "end_turn") => match (called, self.refusal) {
                (true, _) => StopReason::ToolUse,
                (false, Some(_)) => StopReason::Refusal,
                (false, None) => StopReason::EndTurn,
            },
            Some("tool_calls" | "function_call" | "tool_use") => StopReason::ToolUse,
            Some("length" | "max_tokens" | "model_length") => StopReason::MaxTokens,
            Some("content_filter") => StopReason::Refusal,
            Some(other) => StopReason::Other(other.to_owned()),
        }
    }

    fn fail(&mut self, error: LlmError) {
        self.failure = Some(error);
        self.progress = Progress::Done;
    }
}

/// The index of a block, which starts if it has not.
fn start(
    known: &mut Option<u64>,
    blocks: &mut u64,
    events: &mut VecDeque<StreamEvent>,
    block: ContentBlock,
    extra: Map<String, Value>,
) -> u64 {
    *known.get_or_insert_with(|| {
        let index = *blocks;
        *blocks += 1;
        events.push_back(StreamEvent::BlockStart { index, block, extra });
        index
    })
}

/// The text in a value, or in the parts it consists of.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(text_of).collect(),
        Value::Object(part) => part.get("text").map(text_of).unwrap_or_default(),
        _ => String::new(),
    }
}

/// Fields of a chunk that say nothing of the answer.
const ECHOES: [&str; 5] = ["object", "created", "system_fingerprint", "obfuscation", "choices"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Chunk<'a> {
    #[serde(rename = "id")]
    _id: Option<IgnoredAny>,
    #[serde(rename = "object")]
    _object: Option<IgnoredAny>,
    #[serde(rename = "created")]
    _created: Option<IgnoredAny>,
    #[serde(rename = "model")]
    _model: Option<IgnoredAny>,
    #[serde(rename = "system_fingerprint")]
    _system_fingerprint: Option<IgnoredAny>,
    #[serde(rename = "service_tier")]
    _service_tier: Option<IgnoredAny>,
    #[serde(rename = "obfuscation")]
    _obfuscation: Option<IgnoredAny>,
    usage: Option<IgnoredAny>,
    #[serde(borrow)]
    choices: [Choice<'a>; 1],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Choice<'a> {
    index: u64,
    #[serde(borrow)]
    delta: Delta<'a>,
    #[serde(rename = "logprobs")]
    _logprobs: Option<IgnoredAny>,
    finish_reason: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Delta<'a> {
    #[serde(rename = "role")]
    _role: Option<IgnoredAny>,
    #[serde(borrow)]
    content: Cow<'a, str>,
}

impl<'a> Chunk<'a> {
    /// The text, if the chunk holds nothing else.
    fn text(data: &'a str) -> Option<String> {
        let chunk: Chunk<'a> = serde_json::from_str(data).ok()?;
        let [choice] = chunk.choices;
        let only_text = chunk.usage.is_none() && choice.index == 0 && choice.finish_reason.is_none();
        only_text.then(|| choice.delta.content.into_owned()).filter(|text| !text.is_empty())
    }
}
