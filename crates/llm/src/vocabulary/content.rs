//! The content of a message or an answer: its blocks, and what the wire says of them beyond our fields.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeSeq, Serializer};
use serde_json::{Map, Value};

use super::{BlockForm, ContentBlock, Form, is_foreign};

/// Blocks in order; reads like a slice of [`ContentBlock`].
///
/// A block may have fields that this version has no place for (`citations`, `cache_control`). They are kept beside
/// the block, recorded with it and sent back with it. Text that is empty makes no block.
///
/// # Recorded form
///
/// A JSON array with one object a block, each with its `type` and fields as the Messages API names them, further
/// fields among them. A block of an unknown kind stands as it came, so a version that learns its kind reads old
/// records too. A call that cannot be run is `{"type": "invalid_tool_use", "id", "name", "raw"}`. On reading, a
/// plain string is one text block.
///
/// # Examples
///
/// ```
/// use relight_llm::{Content, ContentBlock};
/// use serde_json::json;
///
/// let content = Content::from("A long document …").with_extra("cache_control", json!({ "type": "ephemeral" }));
/// assert_eq!(content[0], ContentBlock::text("A long document …"));
/// assert_eq!(content.extra(0).unwrap()["cache_control"]["type"], "ephemeral");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    blocks: Vec<ContentBlock>,
    /// By position; a block without further fields has no entry.
    extra: BTreeMap<usize, Map<String, Value>>,
}

impl Content {
    /// No blocks.
    pub fn new() -> Content {
        Content::default()
    }

    /// Adds a block at the end.
    #[must_use]
    pub fn with_block(mut self, block: ContentBlock) -> Content {
        self.blocks.push(block);
        self
    }

    /// Sets a field of the last block's JSON form, mostly one that [`ContentBlock`] has no place for; `null` takes it
    /// away from a block of a known kind. Without a block it does nothing.
    #[must_use]
    pub fn with_extra(mut self, name: impl Into<String>, value: Value) -> Content {
        if let Some(block) = self.blocks.pop() {
            let extra = self.extra.remove(&self.blocks.len());
            let form = BlockForm { block: &block, extra: extra.as_ref(), form: Form::Recorded };
            let mut fields = form.to_map();
            fields.insert(name.into(), value);
            self.push_map(fields);
        }
        self
    }

    /// The further fields of the block at `position`.
    pub fn extra(&self, position: usize) -> Option<&Map<String, Value>> {
        self.extra.get(&position)
    }

    /// All text blocks, joined.
    pub fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            ContentBlock::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// Adds a block with its further fields; of them, those that the block itself has a place for are dropped.
    pub(crate) fn push(&mut self, mut block: ContentBlock, mut extra: Map<String, Value>) {
        if let ContentBlock::Other(fields) = &mut block {
            fields.append(&mut extra);
        }
        let own = block.own_fields();
        extra.retain(|name, _| name != "type" && !own.contains(&name.as_str()));
        if !extra.is_empty() {
            self.extra.insert(self.blocks.len(), extra);
        }
        self.blocks.push(block);
    }

    /// Adds a block in its JSON form.
    pub(crate) fn push_map(&mut self, fields: Map<String, Value>) {
        let (block, extra) = ContentBlock::from_map(fields);
        self.push(block, extra);
    }

    pub(crate) fn last_mut(&mut self) -> Option<&mut ContentBlock> {
        self.blocks.last_mut()
    }

    pub(crate) fn in_form(&self, form: Form) -> ContentForm<'_> {
        ContentForm { content: self, form }
    }

    /// Whether nothing would be written in this form.
    pub(crate) fn is_empty_in(&self, form: Form) -> bool {
        self.blocks.iter().enumerate().all(|(position, block)| is_left_out(block, self.extra(position), form))
    }
}

impl Deref for Content {
    type Target = [ContentBlock];

    fn deref(&self) -> &[ContentBlock] {
        &self.blocks
    }
}

impl<'a> IntoIterator for &'a Content {
    type Item = &'a ContentBlock;
    type IntoIter = std::slice::Iter<'a, ContentBlock>;

    fn into_iter(self) -> Self::IntoIter {
        self.blocks.iter()
    }
}

impl From<Vec<ContentBlock>> for Content {
    fn from(blocks: Vec<ContentBlock>) -> Content {
        Content { blocks, extra: BTreeMap::new() }
    }
}

impl<const N: usize> From<[ContentBlock; N]> for Content {
    fn from(blocks: [ContentBlock; N]) -> Content {
        Content::from(Vec::from(blocks))
    }
}

impl From<ContentBlock> for Content {
    fn from(block: ContentBlock) -> Content {
        Content::from([block])
    }
}

impl From<String> for Content {
    fn from(text: String) -> Content {
        if text.is_empty() { Content::new() } else { Content::from(ContentBlock::Text { text }) }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Content {
        Content::from(text.to_owned())
    }
}

impl FromIterator<ContentBlock> for Content {
    fn from_iter<I: IntoIterator<Item = ContentBlock>>(blocks: I) -> Content {
        Content::from(Vec::from_iter(blocks))
    }
}

impl PartialEq<Vec<ContentBlock>> for Content {
    fn eq(&self, blocks: &Vec<ContentBlock>) -> bool {
        self.blocks == *blocks && self.extra.is_empty()
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.in_form(Form::Recorded).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Content, D::Error> {
        struct Blocks;
        impl<'de> Visitor<'de> for Blocks {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or an array of content blocks")
            }

            fn visit_str<E>(self, text: &str) -> Result<Content, E> {
                Ok(Content::from(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut blocks: A) -> Result<Content, A::Error> {
                let mut content = Content::new();
                while let Some(fields) = blocks.next_element()? {
                    content.push_map(fields);
                }
                Ok(content)
            }
        }
        deserializer.deserialize_any(Blocks)
    }
}

/// Content on its way into JSON.
pub(crate) struct ContentForm<'a> {
    content: &'a Content,
    form: Form,
}

impl Serialize for ContentForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        for (position, block) in self.content.blocks.iter().enumerate() {
            let extra = self.content.extra(position);
            if !is_left_out(block, extra, self.form) {
                seq.serialize_element(&BlockForm { block, extra, form: self.form })?;
            }
        }
        seq.end()
    }
}

/// The Messages API rejects a text block that is empty or blank, and what only a server of another protocol can read.
fn is_left_out(block: &ContentBlock, extra: Option<&Map<String, Value>>, form: Form) -> bool {
    let is_blank = matches!(block, ContentBlock::Text { text } if text.trim().is_empty());
    form == Form::MessagesApi && (is_blank || is_foreign(block, extra))
}
