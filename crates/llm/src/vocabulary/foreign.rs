//! What a block has of one protocol only, kept for the way back and unknown to all others.
//!
//! The vocabulary is that of the Messages API. What another protocol says of a block beyond it stands in the block's
//! further fields as `"foreign": {"responses": {..}}`, so that it is recorded, survives, and goes back to where it came
//! from. To a server of any other protocol nothing of it is sent: thoughts and blocks of unknown kinds that have it are
//! left out there, texts and calls go without it.

use serde_json::{Map, Value};

use super::ContentBlock;

/// The further field under which it stands.
pub(crate) const FOREIGN: &str = "foreign";

/// Further fields that hold this for the protocol.
pub(crate) fn foreign(protocol: &str, own: Map<String, Value>) -> Map<String, Value> {
    let named = Map::from_iter([(protocol.to_owned(), Value::Object(own))]);
    Map::from_iter([(FOREIGN.to_owned(), Value::Object(named))])
}

/// What a block has of this protocol.
pub(crate) fn foreign_of<'a>(
    protocol: &str,
    block: &'a ContentBlock,
    extra: Option<&'a Map<String, Value>>,
) -> Option<&'a Map<String, Value>> {
    further(block, extra)?.get(FOREIGN)?.get(protocol)?.as_object()
}

/// Whether a block means something to another protocol than the Messages API only.
pub(crate) fn is_foreign(block: &ContentBlock, extra: Option<&Map<String, Value>>) -> bool {
    let opaque = matches!(
        block,
        ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. } | ContentBlock::Other(_)
    );
    opaque && further(block, extra).is_some_and(|fields| fields.get(FOREIGN).is_some_and(Value::is_object))
}

fn further<'a>(
    block: &'a ContentBlock,
    extra: Option<&'a Map<String, Value>>,
) -> Option<&'a Map<String, Value>> {
    match block {
        ContentBlock::Other(fields) => Some(fields),
        _ => extra,
    }
}
