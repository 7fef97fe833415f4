//! Calls come out once, with all their arguments or marked as broken.

use super::*;

#[test]
fn a_call_told_four_times_comes_out_once() {
    let whole = r#"{"city":"X"}"#;
    let events = [
        created(),
        added(0, call("")),
        arguments(0, ""),
        arguments(0, "{\"ci"),
        arguments(0, "ty\":\"X\"}"),
        json!({ "type": "response.function_call_arguments.done", "item_id": "fc_1", "output_index": 0,
                "name": "look", "arguments": whole }),
        done(0, call(whole)),
        completed(json!([call(whole)])),
    ];
    let answer = check_equal(&events, &events[7]["response"]);
    assert_eq!(answer.content, vec![look(json!({ "city": "X" }))]);
    assert_eq!(answer.stop_reason, StopReason::ToolUse, "though the status is completed");
    // Whatever is missing of what is told again, the call is the same.
    for left_out in [
        vec![1],
        vec![2, 3, 4],
        vec![2, 3, 4, 5],
        vec![5, 6],
        vec![1, 5],
        vec![2, 3, 4, 5, 6],
        vec![1, 2, 3, 4, 5, 6],
    ] {
        let rest = events.iter().enumerate().filter(|(at, _)| !left_out.contains(at));
        let rest: Vec<Value> = rest.map(|(_, event)| event.clone()).collect();
        assert_eq!(check(&rest).unwrap(), answer, "without {left_out:?}");
    }
    let empty_output = [&events[..7], &[completed(json!([]))]].concat();
    assert_eq!(check(&empty_output).unwrap(), answer);
}

#[test]
fn a_call_whose_identity_comes_last_waits_for_it() {
    let begun = [created(), arguments(0, "{\"city\":"), arguments(0, "\"X\"}")];
    let whole = call(r#"{"city":"X"}"#);
    let ends = [
        vec![done(0, whole.clone()), completed(json!([]))],
        vec![completed(json!([whole]))],
        vec![
            done(0, json!({ "type": "function_call", "arguments": r#"{"city":"X"}"# })),
            completed(json!([whole])),
        ],
    ];
    for end in ends {
        let answer = check(&[&begun[..], &end].concat()).unwrap();
        assert_eq!(answer.content, vec![look(json!({ "city": "X" }))], "{end:?}");
    }
}

#[test]
fn arguments_that_come_only_at_the_end_or_not_at_all_are_read() {
    let done_event = json!({ "type": "response.function_call_arguments.done", "output_index": 0, "arguments": "{\"a\":1}" });
    let cases = [
        (vec![added(0, call("")), done(0, call("{\"a\":1}"))], json!({ "a": 1 })),
        (vec![added(0, call("")), done_event], json!({ "a": 1 })),
        (vec![added(0, call("{\"a\":1}"))], json!({ "a": 1 })),
        (
            vec![added(0, call("{\"a\":1}")), arguments(0, "{\"a\":1}"), done(0, call("{\"a\":1}"))],
            json!({ "a": 1 }),
        ),
        (vec![added(0, call("")), done(0, call(""))], json!({})),
        (vec![added(0, call("")), arguments(0, ""), done(0, call(""))], json!({})),
        // A done without arguments takes nothing away.
        (
            vec![
                added(0, call("")),
                arguments(0, "{\"a\":1}"),
                json!({ "type": "response.function_call_arguments.done", "output_index": 0 }),
            ],
            json!({ "a": 1 }),
        ),
        // Neither does another spelling.
        (
            vec![added(0, call("")), arguments(0, "{\"a\":1}"), done(0, call("{ \"a\": 1 }"))],
            json!({ "a": 1 }),
        ),
    ];
    for (events, input) in cases {
        let events = [&[created()], &events[..], &[completed(json!([]))]].concat();
        assert_eq!(check(&events).unwrap().content, vec![look(input)], "{events:?}");
    }
}

#[test]
fn arguments_may_be_an_object_instead_of_its_text() {
    let mut item = call("");
    item["arguments"] = json!({ "a": 1 });
    let end = completed(json!([item]));
    let answer = check_equal(&[created(), added(0, call("")), end.clone()], &end["response"]);
    assert_eq!(answer.content, vec![look(json!({ "a": 1 }))]);
}

#[test]
fn cut_arguments_are_marked_and_never_run() {
    let cut = r#"{"path":"a","content":"xy"#;
    let marked = ContentBlock::InvalidToolUse { id: "call_1".into(), name: "look".into(), raw: cut.into() };
    // The item says that it is completed; it is not.
    let claimed = completed(json!([call(cut)]));
    let answer = check_equal(
        &[created(), added(0, call("")), arguments(0, cut), claimed.clone()],
        &claimed["response"],
    );
    assert_eq!(answer.content, vec![marked.clone()]);
    assert_eq!(answer.tool_uses().count(), 0);

    let mut limit = response("incomplete", json!([]));
    limit["incomplete_details"] = json!({ "reason": "max_output_tokens" });
    let limit = json!({ "type": "response.incomplete", "response": limit });
    let answer = check(&[created(), added(0, call("")), arguments(0, cut), limit]).unwrap();
    assert_eq!((&answer.content[..], &answer.stop_reason), (&[marked][..], &StopReason::MaxTokens));
}

#[test]
fn calls_of_one_answer_are_told_apart() {
    let other = |arguments: &str| json!({ "type": "function_call", "call_id": "call_2", "name": "look", "arguments": arguments });
    let expected = vec![
        look(json!({ "a": 1 })),
        ContentBlock::ToolUse { id: "call_2".into(), name: "look".into(), input: json!({ "a": 1 }) },
    ];
    let whole = "{\"a\":1}";
    let streams = [
        // Side by side.
        vec![
            added(0, call("")),
            added(1, other("")),
            arguments(1, "{\"a\""),
            arguments(0, whole),
            arguments(1, ":1}"),
            done(1, other(whole)),
            done(0, call(whole)),
        ],
        // One index for both.
        vec![
            added(0, call("")),
            arguments(0, whole),
            done(0, call(whole)),
            added(0, other("")),
            arguments(0, whole),
            done(0, other(whole)),
        ],
        // Never announced, one index, told apart by the last word on the first.
        vec![
            arguments(0, whole),
            json!({ "type": "response.function_call_arguments.done", "output_index": 0, "arguments": whole }),
            done(0, call(whole)),
            arguments(0, whole),
            done(0, other(whole)),
        ],
        // Only at the end.
        vec![done(0, call(whole)), done(1, other(whole))],
        vec![],
    ];
    for events in streams {
        let end = completed(json!([call(whole), other(whole)]));
        let events = [&[created()], &events[..], &[end]].concat();
        assert_eq!(check(&events).unwrap().content, expected, "{events:?}");
    }
}

#[test]
fn further_fields_of_a_call_stand_beside_it() {
    let mut item = call("{}");
    item["namespace"] = json!("crm");
    let end = completed(json!([item]));
    let answer = check_equal(&[created(), added(0, call("")), done(0, item), end.clone()], &end["response"]);
    assert_eq!(answer.content.extra(0).unwrap()["foreign"]["responses"], json!({ "namespace": "crm" }));
}

#[test]
fn a_call_that_nobody_names_has_an_id_of_its_own_or_cannot_be_run() {
    let item = json!({ "type": "function_call", "id": "fc_9", "name": "look", "arguments": "{}" });
    let end = completed(json!([item]));
    let answer = check_equal(&[created(), done(0, item), end.clone()], &end["response"]);
    let call = |id: &str| ContentBlock::ToolUse { id: id.into(), name: "look".into(), input: json!({}) };
    assert_eq!(answer.content, vec![call("fc_9")]);

    let nameless = json!({ "type": "function_call", "name": "look", "arguments": "{}" });
    let answer = check(&[created(), completed(json!([nameless, nameless]))]).unwrap();
    assert_eq!(answer.content, vec![call("resp_1_call_0"), call("resp_1_call_1")]);

    let answer = check(&[created(), arguments(0, "{}"), completed(json!([]))]).unwrap();
    assert_eq!(answer.tool_uses().count(), 0);
    assert!(matches!(&answer.content[..], [ContentBlock::InvalidToolUse { .. }]));
}
