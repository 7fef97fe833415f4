//! Laws: any chunking gives the same message, and no bytes make anything panic.

use proptest::prelude::*;

use super::*;

fn any_block() -> impl Strategy<Value = (Value, Vec<Value>)> {
    let parts = prop::collection::vec(any::<String>(), 0..4);
    prop_oneof![
        parts.clone().prop_map(|parts| {
            let deltas = parts.iter().map(|part| json!({ "type": "text_delta", "text": part }));
            (json!({ "type": "text", "text": "" }), deltas.collect())
        }),
        parts.clone().prop_map(|parts| {
            let deltas = parts.iter().map(|part| json!({ "type": "thinking_delta", "thinking": part }));
            let signature = json!({ "type": "signature_delta", "signature": "c2ln" });
            (
                json!({ "type": "thinking", "thinking": "", "signature": "" }),
                deltas.chain([signature]).collect(),
            )
        }),
        parts.prop_map(|parts| {
            let input = json!({ "parts": parts, "n": parts.len() }).to_string();
            let middle = input.char_indices().nth(input.chars().count() / 2).map_or(0, |(at, _)| at);
            let deltas = [&input[..middle], &input[middle..]]
                .map(|part| json!({ "type": "input_json_delta", "partial_json": part }));
            (tool(), deltas.to_vec())
        }),
    ]
}

fn stream_of(blocks: Vec<(Value, Vec<Value>)>) -> String {
    let mut events = vec![start()];
    for (index, (block, deltas)) in (0..).zip(blocks) {
        events.push(open(index, block));
        events.extend(deltas.into_iter().map(|change| delta(index, change)));
        events.push(close(index));
    }
    events.extend([ended("tool_use"), stop()]);
    framed(&events, "\n")
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_message(
        blocks in prop::collection::vec(any_block(), 0..5),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let stream = stream_of(blocks);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let chunks = cuts.windows(2).map(|ends| &stream.as_bytes()[ends[0]..ends[1]]);

        let whole = fold_chunks([stream.as_bytes()], End::Clean);
        prop_assert!(whole.is_ok());
        prop_assert_eq!(fold_chunks(chunks, End::Clean), whole);
    }

    #[test]
    fn an_answer_made_into_events_folds_to_itself(blocks in prop::collection::vec(any_block(), 0..5)) {
        let response = fold_chunks([stream_of(blocks).as_bytes()], End::Clean).unwrap();
        let mut fold = Fold::new();
        for event in crate::StreamEvent::of_response(&response) {
            fold.apply(&event).unwrap();
        }
        prop_assert_eq!(fold.finish().unwrap(), response);
    }

    #[test]
    fn no_bytes_make_the_decoder_or_the_fold_panic(
        pieces in prop::collection::vec(prop_oneof![
            any::<String>(),
            prop::sample::select(&[
                "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n",
                "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\"}}\n\n",
                "data: {\"type\":\"message_start\",\"message\":{}}\n\n",
                "data: {\"type\":\"message_delta\",\"delta\":null,\"usage\":7}\n\n",
                "event: error\ndata: {}\n\n", "data: {", "\n\n", "}",
            ][..]).prop_map(str::to_owned),
        ], 0..12),
    ) {
        let _ = fold_chunks([pieces.concat().as_bytes()], End::Clean);
        let _ = decode_body(pieces.concat().as_bytes());
        let _ = error_of_body(500, pieces.concat().as_bytes());
    }
}
