//! What the demo's model says, and where it waits to be cut off.

use std::time::Duration;

use relight_testkit::{Answer, At, Block, Script};
use serde_json::json;

/// What the customer writes.
pub(super) const COMPLAINT: &str = "The lamp of order 1042 came broken. I want my money back.";

/// The tool that gives the money back.
pub(super) const WRITE: &str = "refund";

/// How much of its second answer the model gives before its listener is killed.
pub(super) const WORDS_BEFORE_THE_KILL: usize = 14;

/// The last answer.
pub(super) const FAREWELL: &str = "I am sorry about your lamp! I have refunded 49.90 EUR to the card you paid with. \
     You need not send the broken one back.";

/// Three answers. The first attempt at the second one stops in the middle and waits, so that the kill cannot come too
/// late; the model does not know about it and gives the same answer to whoever asks again.
pub(super) fn script(pace: Duration) -> Script {
    let read = Answer::blocks([
        Block::text("I will look the order up before I decide anything."),
        Block::tool_use("toolu_01", "read_order", json!({"path": "1042.txt"})),
    ]);
    let refund = Answer::blocks([
        Block::text(
            "The order is real and paid. The carrier noted a dented box on arrival, so the customer is right, and \
             49.90 EUR are due.",
        ),
        Block::tool_use("toolu_02", WRITE, json!({"order": "1042", "cents": 4990})),
    ]);
    Script::new()
        .pace(pace)
        .turn(read)
        .attempts([refund.clone().stall(At::Events(EVENTS_BEFORE_WORDS + WORDS_BEFORE_THE_KILL)), refund])
        .turn(Answer::text(FAREWELL))
}

/// An answer starts, its first block starts, and a ping comes.
const EVENTS_BEFORE_WORDS: usize = 3;
