//! Laws: any chunking gives the same message, a body is the same answer, and no JSON makes anything panic.

use proptest::prelude::*;

use super::*;

/// An item, and the events that tell of it.
fn any_item() -> impl Strategy<Value = (Value, Vec<Value>)> {
    let parts = prop::collection::vec(any::<String>(), 1..4);
    prop_oneof![
        parts.clone().prop_map(|parts| {
            let deltas = parts.iter().map(|part| json!({ "type": "response.output_text.delta", "content_index": 0, "delta": part }));
            (message(&parts.concat()), deltas.collect())
        }),
        parts.clone().prop_map(|parts| {
            let deltas = parts.iter().map(|part| json!({ "type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": part }));
            let item = json!({ "type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA",
                               "summary": [{ "type": "summary_text", "text": parts.concat() }] });
            (item, deltas.collect())
        }),
        (parts, any::<u64>()).prop_map(|(parts, id)| {
            let input = json!({ "parts": parts }).to_string();
            let middle = input.char_indices().nth(input.chars().count() / 2).map_or(0, |(at, _)| at);
            let deltas = [&input[..middle], &input[middle..]]
                .map(|part| json!({ "type": "response.function_call_arguments.delta", "delta": part }));
            let mut item = call(&input);
            item["call_id"] = json!(format!("call_{id}"));
            (item, deltas.to_vec())
        }),
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(
            &[
                "",
                "message",
                "function_call",
                "reasoning",
                "output_text",
                "refusal",
                "call_1",
                "{\"a\":",
                "é",
                "failed",
                "incomplete"
            ][..]
        )
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let names = prop::sample::select(
            &[
                "type",
                "id",
                "item",
                "item_id",
                "output_index",
                "content_index",
                "call_id",
                "name",
                "arguments",
                "content",
                "summary",
                "text",
                "refusal",
                "part",
                "response",
                "output",
                "status",
                "usage",
                "error",
                "delta",
                "encrypted_content",
                "annotations",
                "annotation",
                "input_tokens_details",
                "cached_tokens",
                "phase",
                "foreign",
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

fn any_event() -> impl Strategy<Value = Value> {
    let kinds = prop::sample::select(
        &[
            "response.created",
            "response.output_item.added",
            "response.output_item.done",
            "response.content_part.added",
            "response.content_part.done",
            "response.output_text.delta",
            "response.output_text.done",
            "response.refusal.delta",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.reasoning_summary_text.delta",
            "response.reasoning_text.done",
            "response.output_text.annotation.added",
            "response.completed",
            "response.failed",
            "error",
            "brand.new",
        ][..],
    );
    (kinds, any_json()).prop_map(|(kind, fields)| {
        let mut event = if fields.is_object() {
            fields
        } else {
            json!({ "delta": fields, "item": { "type": "function_call" } })
        };
        event["type"] = json!(kind);
        event
    })
}

proptest! {
    #[test]
    fn any_chunking_and_a_body_give_the_same_message(
        items in prop::collection::vec(any_item(), 0..5),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let mut events = vec![created()];
        for (index, (item, deltas)) in (0..).zip(&items) {
            let mut begin = item.clone();
            for (name, empty) in [("arguments", json!("")), ("content", json!([])), ("summary", json!([]))] {
                if begin.get(name).is_some() {
                    begin[name] = empty;
                }
            }
            events.push(added(index, begin));
            events.extend(deltas.iter().cloned().map(|mut delta| {
                delta["output_index"] = json!(index);
                delta
            }));
            events.push(done(index, item.clone()));
        }
        let output: Vec<Value> = items.into_iter().map(|(item, _)| item).collect();
        let end = completed(Value::from(output));
        let body = end["response"].to_string();
        events.push(end);
        let stream = framed(&events, "\n");
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let chunks = cuts.windows(2).map(|ends| &stream.as_bytes()[ends[0]..ends[1]]);

        let whole = fold_chunks([stream.as_bytes()], End::Clean);
        prop_assert!(whole.is_ok(), "{:?}", whole);
        prop_assert_eq!(fold_chunks(chunks, End::Clean), whole.clone());
        prop_assert_eq!(decode_body(body.as_bytes(), "asked-model"), whole);
    }

    /// The fold would refuse an event out of order, which `fold_chunks` takes for a panic.
    #[test]
    fn no_events_make_the_decoder_panic_or_speak_out_of_order(events in prop::collection::vec(any_event(), 0..12)) {
        let answer = fold_chunks([framed(&events, "\n").as_bytes()], End::Clean);
        if let Ok(answer) = answer {
            let recorded = serde_json::to_string(&answer).unwrap();
            prop_assert_eq!(serde_json::from_str::<MessageResponse>(&recorded).unwrap(), answer);
        }
        for event in events {
            let _ = decode_body(event.to_string().as_bytes(), "m");
            let _ = error_of_body(500, event.to_string().as_bytes(), std::time::SystemTime::UNIX_EPOCH);
        }
    }
}
