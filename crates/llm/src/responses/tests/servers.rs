//! What servers other than the vendor's own were seen to send.

use super::*;

fn whole(answer: Result<MessageResponse, LlmError>) -> MessageResponse {
    answer.unwrap()
}

#[test]
fn events_without_indexes_are_about_the_item_opened_last() {
    // llama.cpp, lemonade: no output_index, no ids, no sequence numbers.
    let call = json!({ "type": "function_call", "call_id": "call_1", "name": "look", "arguments": "" });
    let mut finished = call.clone();
    finished["arguments"] = json!("{\"a\":1}");
    let events = [
        json!({ "type": "response.created", "response": { "id": "resp_1", "status": "in_progress" } }),
        json!({ "type": "response.output_item.added", "item": { "type": "reasoning", "summary": [] } }),
        json!({ "type": "response.reasoning_text.delta", "delta": "Hm." }),
        json!({ "type": "response.output_item.done", "item": { "type": "reasoning", "summary": [] } }),
        json!({ "type": "response.output_item.added", "item": { "type": "message", "content": [] } }),
        json!({ "type": "response.output_text.delta", "delta": "I " }),
        json!({ "type": "response.output_text.delta", "delta": "look." }),
        json!({ "type": "response.output_text.done", "text": "I look." }),
        json!({ "type": "response.output_item.done", "item": { "type": "message",
                "content": [{ "type": "output_text", "text": "I look." }] } }),
        json!({ "type": "response.output_item.added", "item": call }),
        json!({ "type": "response.function_call_arguments.delta", "delta": "{\"a\"" }),
        json!({ "type": "response.function_call_arguments.delta", "delta": ":1}" }),
        json!({ "type": "response.output_item.done", "item": finished }),
        json!({ "type": "response.completed", "response": { "id": "resp_1", "status": "completed", "output": [
            { "type": "reasoning", "summary": [], "content": [{ "type": "reasoning_text", "text": "Hm." }] },
            { "type": "message", "content": [{ "type": "output_text", "text": "I look." }] }, finished ] } }),
    ];
    let answer = whole(check(&events));
    assert_eq!(answer.content.len(), 3, "{answer:?}");
    assert_eq!((answer.text().as_str(), &answer.content[2]), ("I look.", &look(json!({ "a": 1 }))));
    assert_eq!(answer.model, "asked-model", "a missing model is the request's");
    assert_eq!(answer.usage, Usage::default(), "missing usage is zero");
}

#[test]
fn ids_that_change_between_the_events_of_an_item_do_not_divide_it() {
    // GitHub Copilot, mistral.rs, vLLM: another id in each event; only the index holds.
    let mut deltas = [text(0, "Hel"), text(0, "lo")];
    deltas[0]["item_id"] = json!("B");
    deltas[1]["item_id"] = json!("C");
    let item = |id: &str, text: &str| {
        let mut item = message(text);
        item["id"] = json!(id);
        item
    };
    let [first, second] = deltas;
    let events = [
        created(),
        added(0, item("A", "")),
        first,
        second,
        done(0, item("D", "Hello")),
        completed(json!([item("E", "Hello")])),
    ];
    assert_eq!(whole(check(&events)).content, vec![ContentBlock::text("Hello")]);

    let call = |id: Value, arguments: &str| json!({ "type": "function_call", "id": id, "call_id": "call_1", "name": "look", "arguments": arguments });
    let mut delta = arguments(0, "{\"a\":1}");
    delta["item_id"] = json!("B");
    let events = [
        created(),
        added(0, call(json!("A"), "")),
        delta,
        done(0, call(json!(null), "{\"a\":1}")),
        completed(json!([call(json!("D"), "{\"a\":1}")])),
    ];
    assert_eq!(whole(check(&events)).content, vec![look(json!({ "a": 1 }))]);
}

#[test]
fn a_call_whose_call_id_is_another_one_in_the_end_is_still_one_call() {
    let mut other = call("{\"a\": 1}");
    other["call_id"] = json!("call_9");
    let events = [
        created(),
        added(0, call("")),
        arguments(0, "{\"a\":1}"),
        done(0, call("{\"a\":1}")),
        completed(json!([other])),
    ];
    assert_eq!(whole(check(&events)).content, vec![look(json!({ "a": 1 }))]);
}

#[test]
fn items_never_announced_with_one_index_for_all_come_out_once_each() {
    // LiteLLM.
    let events = [
        created(),
        text(0, "I look."),
        arguments(0, "{\"a\":1}"),
        done(0, call("{\"a\":1}")),
        completed(json!([message("I look."), call("{\"a\":1}")])),
    ];
    assert_eq!(whole(check(&events)).content, vec![ContentBlock::text("I look."), look(json!({ "a": 1 }))]);
}

#[test]
fn text_without_a_done_event_and_output_that_is_empty_or_missing_are_enough() {
    // LlamaStack, new-api, 9router.
    let mut bare = completed(json!([]));
    bare["response"].as_object_mut().unwrap().remove("output");
    let mut null = completed(json!(null));
    null["response"]["usage"] = json!(null);
    for end in [completed(json!([])), bare, null, json!({ "type": "response.completed" })] {
        let answer = whole(check(&[created(), added(0, message("")), text(0, "Hello"), end]));
        assert_eq!((answer.text().as_str(), answer.stop_reason), ("Hello", StopReason::EndTurn));
        assert_eq!((answer.id.as_str(), answer.model.as_str()), ("resp_1", "some-model"));
    }
}

#[test]
fn text_that_comes_only_at_the_end_is_read_wherever_it_stands() {
    let item_done = done(0, message("Hello"));
    let text_done = json!({ "type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": "Hello" });
    let part_done = json!({ "type": "response.content_part.done", "output_index": 0, "content_index": 0,
                            "part": { "type": "output_text", "text": "Hello" } });
    for told in [vec![item_done], vec![text_done], vec![part_done], vec![]] {
        let events = [&[created()], &told[..], &[completed(json!([message("Hello")]))]].concat();
        assert_eq!(whole(check(&events)).content, vec![ContentBlock::text("Hello")], "{events:?}");
    }
    let cut = [created(), text(0, "Hel"), done(0, message("Hello")), completed(json!([]))];
    assert_eq!(whole(check(&cut)).text(), "Hello", "what the deltas lack is added");
}

#[test]
fn sparse_streams_name_the_answer_at_the_end_which_wins() {
    let end = completed(json!([]));
    let answer = whole(check(&[text(0, "Hello"), end.clone()]));
    assert_eq!(
        (answer.id.as_str(), answer.model.as_str(), answer.text().as_str()),
        ("resp_1", "some-model", "Hello")
    );
    assert_eq!(answer.usage, cost());
    let mut begin = created();
    begin["response"]["id"] = json!("resp_0");
    assert_eq!(whole(check(&[begin, text(0, "Hello"), end])).id, "resp_1");
}

#[test]
fn signs_of_life_before_the_answer_begin_nothing() {
    // OmniRoute: in_progress without a response, before created.
    for sign in ["response.in_progress", "response.queued", "keepalive", "codex.rate_limits"] {
        let answer = whole(check(&[json!({ "type": sign }), created(), text(0, "Hi"), completed(json!([]))]));
        assert_eq!((answer.id.as_str(), answer.text().as_str()), ("resp_1", "Hi"));
        assert_eq!(check(&[json!({ "type": sign })]).unwrap_err().stage, Stage::BeforeAnswer);
    }
}

#[test]
fn done_markers_comments_and_blank_events_are_passed_over() {
    // OpenRouter.
    let mut stream = String::from(": OPENROUTER PROCESSING\n\ndata:\n\nevent: keepalive\n\nretry: 3000\n\n");
    stream.push_str(&framed(&[created(), text(0, "Hi"), completed(json!([]))], "\n"));
    stream.push_str("data: [DONE]\n\n");
    assert_eq!(check_end(&stream, End::Clean).unwrap().text(), "Hi");
}

#[test]
fn usage_may_be_that_of_chat_and_its_details_null() {
    let mut end = completed(json!([]));
    end["response"]["usage"] =
        json!({ "prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": null });
    assert_eq!(whole(check(&[created(), text(0, "Hi"), end])).usage, Usage::new(10, 5));
}

#[test]
fn nothing_counts_after_the_terminal_event() {
    let late = [text(0, "!"), completed(json!([message("Bye")])), json!({ "type": "error", "message": "m" })];
    let events = [&[created(), text(0, "Hi"), completed(json!([]))], &late[..]].concat();
    assert_eq!(whole(check(&events)).text(), "Hi");
}
