//! A message of a conversation: immutable, cheap to clone, hashed and encoded once.

use std::fmt;
use std::sync::{Arc, OnceLock};

use relight_canonical::Digest;
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use serde_json::Value;

use super::{Content, ContentBlock, Form};
use crate::chat::Turns;
use crate::responses::Input;

/// A message, by whoever said it.
///
/// Clones share one allocation. The digest and the encoding are made when first asked for and kept, so that a long
/// conversation is hashed and encoded once, not once a turn.
///
/// # Recorded form
///
/// `{"role": "user" | "assistant", "content": [block, …]}`, with the content as [`Content`] says.
///
/// # Examples
///
/// ```
/// use relight_llm::{Message, Role};
///
/// let message = Message::user("What is 6 times 7?");
/// assert_eq!(message.role(), Role::User);
/// assert_eq!(message.content().text(), "What is 6 times 7?");
/// assert_eq!(message.digest(), Message::user("What is 6 times 7?").digest());
/// ```
#[derive(Clone)]
pub struct Message(Arc<Inner>);

struct Inner {
    role: Role,
    content: Content,
    digest: OnceLock<Digest>,
    messages_api: OnceLock<Box<[u8]>>,
    responses_api: OnceLock<Input>,
    chat_api: OnceLock<Turns>,
}

impl Message {
    /// A message with this content.
    pub fn new(role: Role, content: impl Into<Content>) -> Message {
        let content = content.into();
        Message(Arc::new(Inner {
            role,
            content,
            digest: OnceLock::new(),
            messages_api: OnceLock::new(),
            responses_api: OnceLock::new(),
            chat_api: OnceLock::new(),
        }))
    }

    /// Text by the user.
    pub fn user(text: impl Into<String>) -> Message {
        Message::new(Role::User, text.into())
    }

    /// Blocks by the user.
    pub fn user_blocks(blocks: impl Into<Content>) -> Message {
        Message::new(Role::User, blocks)
    }

    /// Text by the model.
    pub fn assistant(text: impl Into<String>) -> Message {
        Message::new(Role::Assistant, text.into())
    }

    /// Blocks by the model. What it really answered is better taken from
    /// [`MessageResponse::to_message`](super::MessageResponse::to_message).
    pub fn assistant_blocks(blocks: impl Into<Content>) -> Message {
        Message::new(Role::Assistant, blocks)
    }

    /// What a tool answered to the call `tool_use_id`.
    pub fn tool_result(tool_use_id: impl Into<String>, content: impl Into<Content>) -> Message {
        Message::user_blocks(ContentBlock::ToolResult {
            tool_use_id: tool_use_id.into(),
            content: content.into(),
            is_error: false,
        })
    }

    /// How a tool failed at the call `tool_use_id`.
    pub fn tool_error(tool_use_id: impl Into<String>, content: impl Into<Content>) -> Message {
        Message::user_blocks(ContentBlock::ToolResult {
            tool_use_id: tool_use_id.into(),
            content: content.into(),
            is_error: true,
        })
    }

    /// Who said it.
    pub fn role(&self) -> Role {
        self.0.role
    }

    /// What was said.
    pub fn content(&self) -> &Content {
        &self.0.content
    }

    /// The digest of the recorded form.
    pub fn digest(&self) -> Digest {
        *self.0.digest.get_or_init(|| Digest::of_value(&self.to_value()))
    }

    /// The recorded form.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("roles, texts and JSON values are JSON")
    }

    /// The message as the Messages API accepts it.
    pub(crate) fn messages_api(&self) -> &[u8] {
        self.0.messages_api.get_or_init(|| {
            let form = MessageForm { message: self, form: Form::MessagesApi };
            serde_json::to_vec(&form).expect("roles, texts and JSON values are JSON").into()
        })
    }

    /// The message as the Responses API accepts it.
    pub(crate) fn responses_api(&self) -> &Input {
        self.0.responses_api.get_or_init(|| Input::of(self))
    }

    /// The message as Chat Completions accepts it.
    pub(crate) fn chat_api(&self) -> &Turns {
        self.0.chat_api.get_or_init(|| Turns::of(self))
    }
}

/// Who said a message. Results of tools are said by the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// The model's counterpart.
    User,
    /// The model.
    Assistant,
}

impl PartialEq for Message {
    fn eq(&self, other: &Message) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.role() == other.role() && self.content() == other.content())
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("role", &self.role()).field("content", self.content()).finish()
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        MessageForm { message: self, form: Form::Recorded }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Message, D::Error> {
        // A field that a newer version records would change the hash if it were dropped.
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Recorded {
            role: Role,
            content: Content,
        }
        let Recorded { role, content } = Recorded::deserialize(deserializer)?;
        Ok(Message::new(role, content))
    }
}

struct MessageForm<'a> {
    message: &'a Message,
    form: Form,
}

impl Serialize for MessageForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Message", 2)?;
        fields.serialize_field("role", &self.message.role())?;
        fields.serialize_field("content", &self.message.content().in_form(self.form))?;
        fields.end()
    }
}
