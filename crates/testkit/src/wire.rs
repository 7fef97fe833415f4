//! An answer as bytes: events as the real API streams them, or one JSON body. Pure.

use serde_json::{Value, json};

use crate::RequestBody;
use crate::answer::{Block, Kind, Message};

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) bytes: Vec<u8>,
    /// Whether a part of the message arrives with it, which takes the model time.
    pub(crate) delta: bool,
}

/// The events of a streamed message, in order.
pub(crate) fn stream(message: &Message, request: &RequestBody) -> Vec<Event> {
    let usage = usage(message, request);
    let mut start = body(message, request);
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    start["stop_sequence"] = Value::Null;
    start["usage"] = usage.clone();
    if let Some(placeholder) = start["usage"].get_mut("output_tokens") {
        *placeholder = json!(1);
    }

    let mut events = vec![json!({ "type": "message_start", "message": start })];
    for (index, block) in message.blocks.iter().enumerate() {
        let (opened, deltas) = parts(block);
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": opened }));
        if index == 0 {
            events.push(json!({ "type": "ping" }));
        }
        events.extend(
            deltas
                .into_iter()
                .map(|delta| json!({ "type": "content_block_delta", "index": index, "delta": delta })),
        );
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    let mut end = json!({
        "type": "message_delta",
        "delta": { "stop_reason": message.stop_reason, "stop_sequence": message.stop_sequence },
    });
    if let Some(output_tokens) = usage.get("output_tokens") {
        end["usage"] = json!({ "output_tokens": output_tokens });
    }
    events.push(end);
    events.push(json!({ "type": "message_stop" }));
    events.iter().enumerate().map(|(index, event)| encode(event, index)).collect()
}

/// A message as the one JSON body of an answer that is not streamed.
pub(crate) fn body(message: &Message, request: &RequestBody) -> Value {
    json!({
        // From the conversation alone: the same call has the same answer, however often it is issued.
        "id": format!("msg_scripted_{:02}", request.assistant_turns()),
        "type": "message",
        "role": "assistant",
        "model": request.model(),
        "content": message.blocks.iter().map(whole).collect::<Vec<_>>(),
        "stop_reason": message.stop_reason,
        "stop_sequence": message.stop_sequence,
        "usage": usage(message, request),
    })
}

/// An error in the API's shape.
pub(crate) fn error(kind: &str, message: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": message } })
}

/// The `error` event that may end a stream.
pub(crate) fn error_event(kind: &str, message: &str) -> Event {
    encode(&error(kind, message), 0)
}

/// The event with its name, padded with spaces before the last brace as the real API does since 2024.
fn encode(event: &Value, index: usize) -> Event {
    let name = event["type"].as_str().unwrap_or_default();
    let json = event.to_string();
    let open = json.strip_suffix('}').unwrap_or(&json);
    let padding = " ".repeat(index * 5 % 13);
    Event {
        bytes: format!("event: {name}\ndata: {open}{padding}}}\n\n").into_bytes(),
        delta: name == "content_block_delta",
    }
}

fn whole(block: &Block) -> Value {
    match &block.0 {
        Kind::Text(text) => json!({ "type": "text", "text": text }),
        Kind::Thinking { thinking, signature } => {
            json!({ "type": "thinking", "thinking": thinking, "signature": signature })
        }
        Kind::ToolUse { id, name, input } => {
            json!({ "type": "tool_use", "id": id, "name": name, "input": input })
        }
        Kind::Whole(block) => block.clone(),
    }
}

/// A block as it is opened, and what follows piece by piece.
fn parts(block: &Block) -> (Value, Vec<Value>) {
    let mut opened = whole(block);
    let deltas = match &block.0 {
        Kind::Text(text) => {
            opened["text"] = json!("");
            words(text).map(|word| json!({ "type": "text_delta", "text": word })).collect()
        }
        Kind::Thinking { thinking, signature } => {
            opened["thinking"] = json!("");
            opened["signature"] = json!("");
            words(thinking)
                .map(|word| json!({ "type": "thinking_delta", "thinking": word }))
                .chain([json!({ "type": "signature_delta", "signature": signature })])
                .collect()
        }
        Kind::ToolUse { input, .. } => {
            opened["input"] = json!({});
            // The real API opens with an empty fragment, and stays with it alone where there is no argument.
            let input = if input == &json!({}) { String::new() } else { input.to_string() };
            let fragments: Vec<&str> = std::iter::once("").chain(fragments(&input)).collect();
            fragments.iter().map(|part| json!({ "type": "input_json_delta", "partial_json": part })).collect()
        }
        Kind::Whole(_) => Vec::new(),
    };
    (opened, deltas)
}

/// Cuts before white space, so that the pieces joined are the text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let word = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
        let end = rest[word..].find(char::is_whitespace).map_or(rest.len(), |length| word + length);
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Cuts JSON anywhere but inside a character.
fn fragments(json: &str) -> impl Iterator<Item = &str> {
    let mut rest = json;
    std::iter::from_fn(move || {
        let end =
            rest.char_indices().map(|(at, _)| at).chain([rest.len()]).nth(FRAGMENT).unwrap_or(rest.len());
        let (fragment, after) = rest.split_at(end);
        rest = after;
        (!fragment.is_empty()).then_some(fragment)
    })
}

/// What the answer says, or an estimate that is the same for the same call.
fn usage(message: &Message, request: &RequestBody) -> Value {
    let tokens = |json: String| (json.len() as u64).div_ceil(4);
    message.usage.clone().unwrap_or_else(|| {
        json!({
            "input_tokens": tokens(request.json()["messages"].to_string()),
            "output_tokens": message.blocks.iter().map(|block| tokens(whole(block).to_string())).sum::<u64>(),
        })
    })
}

const FRAGMENT: usize = 11;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Answer;
    use crate::answer::Content;

    fn message(answer: Answer) -> Message {
        match answer.content {
            Content::Message(message) => message,
            other => panic!("no message: {other:?}"),
        }
    }

    fn request() -> RequestBody {
        RequestBody::parse(br#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"go"}]}"#)
            .unwrap()
    }

    fn events(answer: Answer) -> Vec<Value> {
        let events = stream(&message(answer), &request());
        events
            .iter()
            .map(|event| {
                let text = std::str::from_utf8(&event.bytes).unwrap();
                let (name, data) = text.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
                let json: Value = serde_json::from_str(data.strip_suffix("\n\n").unwrap()).unwrap();
                assert_eq!(json["type"], name);
                json
            })
            .collect()
    }

    fn names(events: &[Value]) -> Vec<&str> {
        events.iter().map(|event| event["type"].as_str().unwrap()).collect()
    }

    #[test]
    fn a_text_is_streamed_word_by_word() {
        let events = events(Answer::text("Hello, world"));
        assert_eq!(
            names(&events),
            [
                "message_start",
                "content_block_start",
                "ping",
                "content_block_delta",
                "content_block_delta",
                "content_block_stop",
                "message_delta",
                "message_stop",
            ]
        );
        assert_eq!(events[0]["message"]["stop_reason"], Value::Null);
        assert_eq!(events[3]["delta"], json!({ "type": "text_delta", "text": "Hello," }));
        assert_eq!(events[4]["delta"]["text"], " world");
        assert_eq!(events[6]["delta"], json!({ "stop_reason": "end_turn", "stop_sequence": null }));
    }

    #[test]
    fn a_tool_call_opens_empty_and_ends_as_its_input() {
        let input = json!({ "path": "straße/文件.txt", "deep": [1, 2, { "x": null }] });
        let events = events(Answer::tool_use("toolu_1", "read", input.clone()));
        let deltas: Vec<&str> =
            events.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
        assert_eq!(
            events[1]["content_block"],
            json!({ "type": "tool_use", "id": "toolu_1", "name": "read", "input": {} })
        );
        assert_eq!(deltas[0], "");
        assert!(deltas.len() > 3);
        assert_eq!(serde_json::from_str::<Value>(&deltas.concat()).unwrap(), input);
    }

    #[test]
    fn a_tool_call_without_arguments_streams_nothing_but_an_empty_fragment() {
        let events = events(Answer::tool_use("toolu_1", "now", json!({})));
        let deltas: Vec<&Value> =
            events.iter().filter(|event| event["type"] == "content_block_delta").collect();
        assert_eq!(deltas.len(), 1);
        assert_eq!(deltas[0]["delta"]["partial_json"], "");
    }

    #[test]
    fn thinking_ends_with_its_signature() {
        let events = events(Answer::blocks([Block::thinking("Let me see.", "sig"), Block::text("Yes.")]));
        assert_eq!(
            events[1]["content_block"],
            json!({ "type": "thinking", "thinking": "", "signature": "" })
        );
        assert_eq!(events[6]["delta"], json!({ "type": "signature_delta", "signature": "sig" }));
        assert_eq!(events[7], json!({ "type": "content_block_stop", "index": 0 }));
        assert_eq!(events[8]["index"], 1);
    }

    #[test]
    fn usage_starts_with_a_placeholder_and_ends_with_the_sum() {
        let usage = json!({ "input_tokens": 9, "cache_read_input_tokens": 4, "output_tokens": 16 });
        let answer = Answer::text("a").usage(usage.clone());
        assert_eq!(body(&message(answer.clone()), &request())["usage"], usage);
        let events = events(answer);
        assert_eq!(
            events[0]["message"]["usage"],
            json!({ "input_tokens": 9, "cache_read_input_tokens": 4, "output_tokens": 1 })
        );
        assert_eq!(events[events.len() - 2]["usage"], json!({ "output_tokens": 16 }));
    }

    #[test]
    fn a_usage_that_is_none_of_the_apis_is_sent_as_it_is() {
        for usage in [json!({ "input_tokens": 9 }), json!(7), Value::Null] {
            let events = events(Answer::text("a").usage(usage.clone()));
            assert_eq!(events[0]["message"]["usage"], usage);
            assert_eq!(events[events.len() - 2].get("usage"), None);
        }
    }

    proptest! {
        #[test]
        fn the_pieces_joined_are_the_whole(text in "[ \\n\\ta-cé文]{0,40}") {
            prop_assert_eq!(words(&text).collect::<String>(), text.as_str());
            prop_assert_eq!(fragments(&text).collect::<String>(), text);
        }
    }
}
