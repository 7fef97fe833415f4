//! Whole answers, streamed and not: what comes out is what was meant.

use super::*;

#[test]
fn a_stream_as_documented_equals_the_same_answer_in_a_body() {
    let part = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] });
    let events = [
        created(),
        json!({ "type": "response.in_progress", "sequence_number": 1, "response": response("in_progress", json!([])) }),
        added(0, message("")),
        json!({ "type": "response.content_part.added", "item_id": "msg_1", "output_index": 0, "content_index": 0,
                "part": part("") }),
        text(0, "Hel"),
        json!({ "type": "keepalive", "sequence_number": 3 }),
        text(0, "lo, 世界 \"quoted\""),
        json!({ "type": "response.output_text.done", "item_id": "msg_1", "output_index": 0, "content_index": 0,
                "text": "Hello, 世界 \"quoted\"", "logprobs": [] }),
        json!({ "type": "response.content_part.done", "item_id": "msg_1", "output_index": 0, "content_index": 0,
                "part": part("Hello, 世界 \"quoted\"") }),
        done(0, message("Hello, 世界 \"quoted\"")),
        completed(json!([message("Hello, 世界 \"quoted\"")])),
    ];
    let answer = check_equal(&events, &events[10]["response"]);
    let expected =
        MessageResponse::new("resp_1", "some-model", "Hello, 世界 \"quoted\"", StopReason::EndTurn);
    assert_eq!(answer, expected.with_usage(cost()));
}

#[test]
fn cached_tokens_and_the_tier_that_served_are_told() {
    let mut end = completed(json!([message("Hi")]));
    end["response"]["usage"] =
        json!({ "input_tokens": 10, "input_tokens_details": { "cached_tokens": 4 }, "output_tokens": 5 });
    end["response"]["service_tier"] = json!("priority");
    let mut begin = created();
    begin["response"]["service_tier"] = json!("auto");
    let answer = check_equal(&[begin, text(0, "Hi"), end.clone()], &end["response"]);
    assert_eq!(answer.usage, Usage { cache_read_input_tokens: 4, ..Usage::new(6, 5) });
    assert_eq!(answer.service_tier.as_deref(), Some("priority"));
}

#[test]
fn thoughts_come_as_they_are_summarised_and_carry_what_must_be_replayed() {
    let item = |encrypted: Option<&str>, texts: &[&str]| {
        let summary: Vec<Value> =
            texts.iter().map(|text| json!({ "type": "summary_text", "text": text })).collect();
        json!({ "type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": encrypted })
    };
    let summary = |part: u64, kind: &str, field: &str, text: &str| {
        json!({ "type": format!("response.reasoning_summary_text.{kind}"), "item_id": "rs_1", "output_index": 0,
                "summary_index": part, field: text })
    };
    let events = [
        created(),
        added(0, item(Some("cut"), &[])),
        json!({ "type": "response.reasoning_summary_part.added", "item_id": "rs_1", "output_index": 0,
                "summary_index": 0, "part": { "type": "summary_text", "text": "" } }),
        summary(0, "delta", "delta", "Let me "),
        summary(0, "delta", "delta", "see."),
        summary(0, "done", "text", "Let me see."),
        json!({ "type": "response.reasoning_summary_part.done", "item_id": "rs_1", "output_index": 0,
                "summary_index": 0, "part": { "type": "summary_text", "text": "Let me see." } }),
        summary(1, "delta", "delta", "I see."),
        done(0, item(Some("gAAA"), &["Let me see.", "I see."])),
        text(1, "42"),
        done(1, message("42")),
        completed(json!([item(Some("gAAA"), &["Let me see.", "I see."]), message("42")])),
    ];
    let answer = check_equal(&events, &events[11]["response"]);
    let thoughts =
        ContentBlock::Thinking { thinking: "Let me see.\n\nI see.".into(), signature: "gAAA".into() };
    assert_eq!(answer.content[0], thoughts);
    assert_eq!(answer.content.extra(0).unwrap()["foreign"], json!({ "responses": { "id": "rs_1" } }));
    assert_eq!(answer.text(), "42");
}

#[test]
fn an_encrypted_reasoning_item_that_is_whole_only_at_its_end_keeps_content_and_id() {
    let end = json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA" });
    let begin = json!({ "type": "reasoning" });
    for output in [json!([]), json!([end])] {
        let answer =
            check(&[created(), added(0, begin.clone()), done(0, end.clone()), completed(output)]).unwrap();
        let thoughts = ContentBlock::Thinking { thinking: String::new(), signature: "gAAA".into() };
        assert_eq!(answer.content[..], [thoughts]);
        assert_eq!(answer.content.extra(0).unwrap()["foreign"]["responses"]["id"], "rs_1");
    }
}

#[test]
fn the_text_of_thoughts_comes_too() {
    let item = json!({ "type": "reasoning", "id": "rs_1", "summary": [],
                       "content": [{ "type": "reasoning_text", "text": "Hm." }] });
    let delta = json!({ "type": "response.reasoning_text.delta", "item_id": "rs_1", "output_index": 0,
                        "content_index": 0, "delta": "Hm." });
    let end = completed(json!([item]));
    let answer = check_equal(&[created(), delta, done(0, item), end.clone()], &end["response"]);
    assert_eq!(
        answer.content[0],
        ContentBlock::Thinking { thinking: "Hm.".into(), signature: String::new() }
    );
}

#[test]
fn a_refusal_is_content_and_the_reason_to_stop() {
    let item = json!({ "type": "message", "id": "msg_1", "role": "assistant",
                       "content": [{ "type": "refusal", "refusal": "I will not." }] });
    let refusal = |stage: &str, field: &str, text: &str| {
        json!({ "type": format!("response.refusal.{stage}"), "item_id": "msg_1", "output_index": 0,
                "content_index": 0, field: text })
    };
    let events = [
        created(),
        added(0, message("")),
        refusal("delta", "delta", "I will "),
        refusal("delta", "delta", "not."),
        refusal("done", "refusal", "I will not."),
        done(0, item.clone()),
        completed(json!([item])),
    ];
    let answer = check_equal(&events, &events[6]["response"]);
    assert_eq!((answer.text().as_str(), &answer.stop_reason), ("I will not.", &StopReason::Refusal));
    assert_eq!(answer.content.extra(0).unwrap()["foreign"]["responses"]["refusal"], true);
}

#[test]
fn an_answer_cut_by_its_limit_is_an_answer_with_a_reason() {
    let cut = |kind: &str, reason: &str| {
        let mut response = response("incomplete", json!([message("Hel")]));
        response["incomplete_details"] = json!({ "reason": reason });
        json!({ "type": kind, "response": response })
    };
    let cases = [
        ("response.incomplete", "max_output_tokens", StopReason::MaxTokens),
        ("response.incomplete", "content_filter", StopReason::Refusal),
        ("response.incomplete", "steered", StopReason::Other("steered".into())),
        // Some servers call the event otherwise than the status.
        ("response.completed", "max_output_tokens", StopReason::MaxTokens),
    ];
    for (kind, reason, stop_reason) in cases {
        let end = cut(kind, reason);
        let answer = check_equal(&[created(), text(0, "Hel"), end.clone()], &end["response"]);
        assert_eq!((answer.text().as_str(), answer.stop_reason), ("Hel", stop_reason));
        assert_eq!(answer.extra["incomplete_details"]["reason"], reason);
    }
    let bare = json!({ "type": "response.incomplete", "response": { "incomplete_details": { "reason": "max_output_tokens" } } });
    let answer = check(&[created(), text(0, "Hel"), bare]).unwrap();
    assert_eq!((answer.text().as_str(), answer.stop_reason), ("Hel", StopReason::MaxTokens));
}

#[test]
fn items_of_other_kinds_are_carried_as_they_came_and_break_nothing() {
    let search = json!({ "type": "web_search_call", "id": "ws_1", "status": "completed", "action": { "query": null } });
    let compaction = json!({ "type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA" });
    let events = [
        created(),
        added(0, json!({ "type": "web_search_call", "id": "ws_1", "status": "in_progress" })),
        json!({ "type": "response.web_search_call.searching", "output_index": 0, "item_id": "ws_1" }),
        json!({ "type": "brand.new", "x": 1 }),
        done(0, search.clone()),
        done(1, compaction.clone()),
        text(2, "Found."),
        done(2, message("Found.")),
        completed(json!([search, compaction, message("Found.")])),
    ];
    let answer = check_equal(&events, &events[8]["response"]);
    assert_eq!(answer.content.len(), 3);
    let ContentBlock::Other(fields) = &answer.content[0] else { panic!("{answer:?}") };
    assert_eq!(
        (&fields["action"], &fields["foreign"]),
        (&json!({ "query": null }), &json!({ "responses": {} }))
    );
    assert_eq!(answer.usage, cost(), "and the usage is still read");
}

#[test]
fn phases_and_annotations_stand_beside_the_text() {
    let cited = json!({ "type": "url_citation", "url": "https://example.com", "start_index": 0 });
    let mut final_item = message("42");
    final_item["phase"] = json!("final_answer");
    final_item["content"][0]["annotations"] = json!([cited]);
    let mut first = message("Let me see.");
    first["phase"] = json!("commentary");
    let events = [
        created(),
        added(0, first.clone()),
        text(0, "Let me see."),
        done(0, first.clone()),
        text(1, "42"),
        json!({ "type": "response.output_text.annotation.added", "output_index": 1, "content_index": 0,
                "annotation_index": 0, "annotation": cited }),
        done(1, final_item.clone()),
        completed(json!([first, final_item])),
    ];
    let answer = check_equal(&events, &events[7]["response"]);
    let own = |at| &answer.content.extra(at).unwrap()["foreign"]["responses"];
    assert_eq!(*own(0), json!({ "phase": "commentary" }));
    assert_eq!(*own(1), json!({ "phase": "final_answer", "annotations": [cited] }));

    let without_done = check(&[&events[..6], &[completed(json!([]))]].concat()).unwrap();
    assert_eq!(without_done.content.extra(1).unwrap()["foreign"]["responses"]["annotations"], json!([cited]));
}

#[test]
fn further_fields_of_the_response_survive_and_echoes_of_the_request_do_not() {
    let mut end = completed(json!([message("Hi")]));
    end["response"]["brand_new"] = json!({ "x": 1 });
    end["response"]["previous_response_id"] = json!("resp_0");
    let answer = check_equal(&[created(), text(0, "Hi"), end.clone()], &end["response"]);
    assert_eq!(serde_json::to_value(&answer.extra).unwrap(), json!({ "brand_new": { "x": 1 } }));
}

#[test]
fn several_parts_are_several_blocks() {
    let mut item = message("one");
    item["content"].as_array_mut().unwrap().push(json!({ "type": "output_text", "text": "two" }));
    let mut second = text(0, "two");
    second["content_index"] = json!(1);
    let end = completed(json!([item]));
    let answer = check_equal(&[created(), text(0, "one"), second, end.clone()], &end["response"]);
    assert_eq!(answer.content, vec![ContentBlock::text("one"), ContentBlock::text("two")]);
}
