//! Laws: any chunking gives the same message, a body is the same answer, and no JSON makes anything panic.

use proptest::prelude::*;

use super::*;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(&["", "look", "call_1", "{\"a\":", "{}", "é", "stop", "error", "thinking"][..])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        let names = prop::sample::select(
            &[
                "id",
                "model",
                "choices",
                "delta",
                "message",
                "content",
                "tool_calls",
                "function",
                "name",
                "arguments",
                "index",
                "finish_reason",
                "usage",
                "error",
                "reasoning",
                "refusal",
                "text",
                "thinking",
                "function_call",
                "service_tier",
                "prompt_tokens_details",
            ][..],
        );
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names, inner), 0..8).prop_map(|fields| Value::Object(
                fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            )),
        ]
    })
}

proptest! {
    #[test]
    fn any_chunking_and_a_body_give_the_same_message(
        thoughts in prop::collection::vec(any::<String>(), 0..3),
        texts in prop::collection::vec(any::<String>(), 0..4),
        calls in prop::collection::vec(prop::collection::vec(any::<String>(), 1..3), 0..3),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let mut chunks = vec![chunk(json!({ "role": "assistant", "content": "" }))];
        chunks.extend(thoughts.iter().map(|part| chunk(json!({ "reasoning_content": part }))));
        chunks.extend(texts.iter().map(|part| text(part)));
        let mut whole_calls = Vec::new();
        for (index, parts) in calls.iter().enumerate() {
            let arguments = json!({ "parts": parts }).to_string();
            let middle = arguments.char_indices().nth(arguments.chars().count() / 2).map_or(0, |(at, _)| at);
            let id = format!("call_{index}");
            chunks.push(call(json!({ "index": index, "id": id, "function": { "name": "look", "arguments": arguments[..middle] } })));
            chunks.push(call(json!({ "index": index, "function": { "arguments": arguments[middle..] } })));
            whole_calls.push(json!({ "id": id, "function": { "name": "look", "arguments": arguments } }));
        }
        chunks.extend([finished("stop"), costs()]);
        let message = json!({ "reasoning_content": thoughts.concat(), "content": texts.concat(), "tool_calls": whole_calls });
        let stream = framed(&chunks) + "data: [DONE]\n\n";
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|ends| &stream.as_bytes()[ends[0]..ends[1]]);

        let whole = fold_chunks([stream.as_bytes()], End::Clean);
        prop_assert!(whole.is_ok(), "{:?}", whole);
        prop_assert_eq!(fold_chunks(pieces, End::Clean), whole.clone());
        prop_assert_eq!(decode_body(body(message, "stop").to_string().as_bytes(), "asked-model"), whole);
    }

    /// The fold would refuse an event out of order, which `fold_chunks` takes for a panic.
    #[test]
    fn no_chunks_make_the_decoder_panic_or_speak_out_of_order(deltas in prop::collection::vec(any_json(), 0..12)) {
        let chunks: Vec<Value> = deltas.iter().flat_map(|delta| [chunk(delta.clone()), delta.clone()]).collect();
        if let Ok(answer) = fold_chunks([(framed(&chunks) + "data: [DONE]\n\n").as_bytes()], End::Clean) {
            let recorded = serde_json::to_string(&answer).unwrap();
            prop_assert_eq!(serde_json::from_str::<MessageResponse>(&recorded).unwrap(), answer);
        }
        for delta in deltas {
            let whole = body(delta.clone(), "stop").to_string();
            for text in [whole, delta.to_string()] {
                let _ = decode_body(text.as_bytes(), "m");
                let _ = error_of_body(500, text.as_bytes(), std::time::SystemTime::UNIX_EPOCH);
            }
        }
    }
}
