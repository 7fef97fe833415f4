//! A request for one answer.

use std::sync::Arc;

use relight_canonical::Digest;
use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::{Content, Message, Tool, ToolChoice, is_default, is_nothing, no_empty_text, null_as_default};
use crate::error::{ErrorKind, LlmError};
use crate::hash;

/// What a model is asked: the conversation so far, and how to answer it.
///
/// Requests are built by value, and clones share the messages. Each request carries a running digest of its
/// conversation, so [`MessageRequest::hash`] costs the same for the thousandth turn as for the first.
///
/// # Recorded form
///
/// A JSON object of [`MessageRequest::rest`] and `messages`. What is absent, empty or the default is left out.
///
/// # Examples
///
/// ```
/// use relight_llm::{Message, MessageRequest};
///
/// let request = MessageRequest::new("some-model", 256)
///     .with_system("You are terse.")
///     .push_message(Message::user("What is 6 times 7?"));
/// assert_eq!(request.messages().len(), 1);
/// assert_eq!(request.hash(), request.clone().hash());
/// ```
#[derive(Clone, Debug)]
pub struct MessageRequest {
    rest: Arc<Rest>,
    messages: Arc<Vec<Message>>,
    conversation: Digest,
}

/// A request without its messages.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rest {
    pub(crate) model: String,
    pub(crate) max_tokens: u64,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub(crate) system: Content,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub(crate) tools: Vec<Tool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool_choice: Option<ToolChoice>,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub(crate) serial_tool_calls: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) temperature: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) top_p: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) top_k: Option<u64>,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub(crate) stop_sequences: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) thinking: Option<Thinking>,
    #[serde(default, deserialize_with = "no_empty_text", skip_serializing_if = "is_nothing")]
    pub(crate) effort: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output_schema: Option<Value>,
    #[serde(default, deserialize_with = "no_empty_text", skip_serializing_if = "is_nothing")]
    pub(crate) service_tier: Option<String>,
    #[serde(default, deserialize_with = "no_empty_text", skip_serializing_if = "is_nothing")]
    pub(crate) previous_response_id: Option<String>,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub(crate) metadata: Map<String, Value>,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub(crate) extra: Map<String, Value>,
}

impl MessageRequest {
    /// A request to `model` for an answer of at most `max_tokens`, without messages.
    pub fn new(model: impl Into<String>, max_tokens: u64) -> MessageRequest {
        let rest = Rest {
            model: model.into(),
            max_tokens,
            system: Content::new(),
            tools: Vec::new(),
            tool_choice: None,
            serial_tool_calls: false,
            temperature: None,
            top_p: None,
            top_k: None,
            stop_sequences: Vec::new(),
            thinking: None,
            effort: None,
            output_schema: None,
            service_tier: None,
            previous_response_id: None,
            metadata: Map::new(),
            extra: Map::new(),
        };
        MessageRequest { rest: Arc::new(rest), messages: Arc::default(), conversation: hash::no_messages() }
    }

    /// Puts a request together from what [`MessageRequest::rest`] and [`MessageRequest::messages`] gave.
    ///
    /// # Errors
    ///
    /// `rest` is no recorded form of a request, or one with a field that only a newer version knows.
    pub fn from_parts(
        rest: Value,
        messages: impl IntoIterator<Item = Message>,
    ) -> Result<MessageRequest, serde_json::Error> {
        let rest = Arc::new(serde_json::from_value(rest)?);
        let messages: Vec<Message> = messages.into_iter().collect();
        let conversation = messages.iter().fold(hash::no_messages(), hash::push_message);
        Ok(MessageRequest { rest, messages: Arc::new(messages), conversation })
    }

    /// The recorded form of everything but the messages.
    pub fn rest(&self) -> Value {
        serde_json::to_value(&*self.rest).expect("texts, numbers and JSON values are JSON")
    }

    /// Adds a message at the end of the conversation.
    #[must_use]
    pub fn push_message(mut self, message: Message) -> MessageRequest {
        self.conversation = hash::push_message(self.conversation, &message);
        Arc::make_mut(&mut self.messages).push(message);
        self
    }

    /// Adds messages at the end of the conversation.
    #[must_use]
    pub fn push_messages(self, messages: impl IntoIterator<Item = Message>) -> MessageRequest {
        messages.into_iter().fold(self, MessageRequest::push_message)
    }

    /// Says who the model is and how it shall act: text, or blocks.
    #[must_use]
    pub fn with_system(self, system: impl Into<Content>) -> MessageRequest {
        let system = system.into();
        self.with(|rest| rest.system = system)
    }

    /// The tools the model may call, instead of those named before.
    #[must_use]
    pub fn with_tools(self, tools: impl IntoIterator<Item = Tool>) -> MessageRequest {
        let tools = tools.into_iter().collect();
        self.with(|rest| rest.tools = tools)
    }

    /// One more tool the model may call.
    #[must_use]
    pub fn push_tool(self, tool: Tool) -> MessageRequest {
        self.with(|rest| rest.tools.push(tool))
    }

    /// Whether the model must call a tool.
    #[must_use]
    pub fn with_tool_choice(self, choice: ToolChoice) -> MessageRequest {
        self.with(|rest| rest.tool_choice = Some(choice))
    }

    /// At most one call an answer.
    #[must_use]
    pub fn with_serial_tool_calls(self) -> MessageRequest {
        self.with(|rest| rest.serial_tool_calls = true)
    }

    /// How freely the model chooses its words.
    #[must_use]
    pub fn with_temperature(self, temperature: f64) -> MessageRequest {
        self.with(|rest| rest.temperature = Some(temperature))
    }

    /// Restricts the model to the likeliest words up to this total probability.
    #[must_use]
    pub fn with_top_p(self, top_p: f64) -> MessageRequest {
        self.with(|rest| rest.top_p = Some(top_p))
    }

    /// Restricts the model to this many of the likeliest words.
    #[must_use]
    pub fn with_top_k(self, top_k: u64) -> MessageRequest {
        self.with(|rest| rest.top_k = Some(top_k))
    }

    /// Texts at which the model stops.
    #[must_use]
    pub fn with_stop_sequences<S: Into<String>>(
        self,
        sequences: impl IntoIterator<Item = S>,
    ) -> MessageRequest {
        let sequences = sequences.into_iter().map(Into::into).collect();
        self.with(|rest| rest.stop_sequences = sequences)
    }

    /// Whether and how much the model thinks before it answers.
    #[must_use]
    pub fn with_thinking(self, thinking: Thinking) -> MessageRequest {
        self.with(|rest| rest.thinking = Some(thinking))
    }

    /// How much effort the model makes (`"low"`, `"medium"`, `"high"`), where the model knows such a thing.
    #[must_use]
    pub fn with_effort(self, effort: impl Into<String>) -> MessageRequest {
        let effort = effort.into();
        self.with(|rest| rest.effort = unless_empty(effort))
    }

    /// The JSON Schema that the answer's text must satisfy.
    #[must_use]
    pub fn with_output_schema(self, schema: Value) -> MessageRequest {
        self.with(|rest| rest.output_schema = Some(schema).filter(|schema| !schema.is_null()))
    }

    /// The service tier to be served by, in the server's words.
    #[must_use]
    pub fn with_service_tier(self, tier: impl Into<String>) -> MessageRequest {
        let tier = tier.into();
        self.with(|rest| rest.service_tier = unless_empty(tier))
    }

    /// The answer that this request continues, for a server that keeps answers. The Messages API keeps none, and its
    /// requests leave this out.
    #[must_use]
    pub fn with_previous_response_id(self, id: impl Into<String>) -> MessageRequest {
        let id = id.into();
        self.with(|rest| rest.previous_response_id = unless_empty(id))
    }

    /// A note for the server's own records (`user_id`, say).
    #[must_use]
    pub fn with_metadata(self, name: impl Into<String>, value: Value) -> MessageRequest {
        let name = name.into();
        self.with(|rest| {
            rest.metadata.insert(name, value);
        })
    }

    /// A field of the body that this version has no name for. It is sent as it is, instead of one of that name.
    #[must_use]
    pub fn with_extra(self, name: impl Into<String>, value: Value) -> MessageRequest {
        let name = name.into();
        self.with(|rest| {
            rest.extra.insert(name, value);
        })
    }

    /// The model that is asked.
    pub fn model(&self) -> &str {
        &self.rest.model
    }

    /// The most tokens that the answer may have.
    pub fn max_tokens(&self) -> u64 {
        self.rest.max_tokens
    }

    /// Who the model is and how it shall act.
    pub fn system(&self) -> &Content {
        &self.rest.system
    }

    /// The tools the model may call.
    pub fn tools(&self) -> &[Tool] {
        &self.rest.tools
    }

    /// The JSON Schema that the answer's text must satisfy.
    pub fn output_schema(&self) -> Option<&Value> {
        self.rest.output_schema.as_ref()
    }

    /// The answer that this request continues.
    pub fn previous_response_id(&self) -> Option<&str> {
        self.rest.previous_response_id.as_deref()
    }

    /// The conversation so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Whether the request is one that can be recorded and sent; asked before either is done.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] for a number that is NaN or infinite, which JSON cannot hold, and for an extra
    /// field that would replace what every client writes itself (`messages`, `stream`).
    ///
    /// # Examples
    ///
    /// ```
    /// use relight_llm::MessageRequest;
    ///
    /// let error = MessageRequest::new("some-model", 256).with_temperature(f64::NAN).check().unwrap_err();
    /// assert!(error.message.contains("temperature is NaN"));
    /// ```
    pub fn check(&self) -> Result<(), LlmError> {
        let invalid = |message| Err(LlmError::new(ErrorKind::InvalidRequest, message));
        for (name, number) in [("temperature", self.rest.temperature), ("top_p", self.rest.top_p)] {
            if let Some(number) = number.filter(|number| !number.is_finite()) {
                return invalid(format!(
                    "{name} is {number}, which is not a JSON number; give it a finite one"
                ));
            }
        }
        if let Some(name) = ["messages", "stream"].iter().find(|name| self.rest.extra.contains_key(**name)) {
            return invalid(format!(
                "the extra field {name:?} is written by the client itself; leave it out"
            ));
        }
        Ok(())
    }

    /// The identity of what is asked, whatever way it travels, for a request that passes
    /// [`check`](MessageRequest::check). The [`hash`](crate::hash) module specifies it.
    pub fn hash(&self) -> Digest {
        hash::request(self.rest(), self.conversation)
    }

    pub(crate) fn settings(&self) -> &Rest {
        &self.rest
    }

    fn with(mut self, change: impl FnOnce(&mut Rest)) -> MessageRequest {
        change(Arc::make_mut(&mut self.rest));
        self
    }
}

/// Empty text says as much as none.
fn unless_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// Whether and how much a model thinks before it answers.
///
/// Recorded as `"disabled"`, `"adaptive"` or `{"budget_tokens": n}`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Thinking {
    /// Not at all.
    Disabled,
    /// As much as the model finds useful.
    Adaptive,
    /// Up to this many tokens.
    BudgetTokens(u64),
}

impl PartialEq for MessageRequest {
    fn eq(&self, other: &MessageRequest) -> bool {
        self.conversation == other.conversation && self.rest == other.rest
    }
}

impl Serialize for MessageRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Recorded<'a> {
            #[serde(flatten)]
            rest: &'a Rest,
            messages: &'a [Message],
        }
        Recorded { rest: &self.rest, messages: &self.messages }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for MessageRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MessageRequest, D::Error> {
        let mut rest = Map::deserialize(deserializer)?;
        let messages = match rest.remove("messages") {
            None | Some(Value::Null) => Vec::new(),
            Some(messages) => serde_json::from_value(messages).map_err(de::Error::custom)?,
        };
        MessageRequest::from_parts(Value::Object(rest), messages).map_err(de::Error::custom)
    }
}
