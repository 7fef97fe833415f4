//! The hash of a request: the published values, the specification, and what must not change it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use proptest::prelude::*;
use relight_canonical::{Digest, to_canonical};
use relight_llm::{
    Content, ContentBlock, Message, MessageRequest, MessageResponse, StopReason, Thinking, Tool, ToolChoice,
};
use serde_json::{Value, json};

#[derive(serde::Deserialize)]
struct Golden {
    name: String,
    request: Value,
    hash: Digest,
}

fn golden() -> Vec<Golden> {
    serde_json::from_str(include_str!("golden/request_hashes.json")).unwrap()
}

fn read(recorded: &Value) -> MessageRequest {
    serde_json::from_value(recorded.clone()).unwrap()
}

/// The specification, word for word, on nothing but JSON.
fn by_the_book(recorded: &Value) -> Digest {
    let mut fields = recorded.as_object().unwrap().clone();
    let messages = fields.remove("messages").unwrap_or(json!([]));
    let mut conversation = Digest::of_bytes(b"relight/conversation/1");
    for message in messages.as_array().unwrap() {
        let digest = Digest::of_bytes(to_canonical(message).as_bytes());
        let both = [conversation.as_bytes().as_slice(), digest.as_bytes().as_slice()].concat();
        conversation = Digest::of_bytes(&both);
    }
    fields.insert("messages".to_owned(), json!(conversation.to_string()));
    Digest::of_bytes(to_canonical(&Value::Object(fields)).as_bytes())
}

#[test]
fn published_requests_keep_their_hashes() {
    for Golden { name, request, hash } in golden() {
        assert_eq!(read(&request).hash(), hash, "{name}");
    }
}

#[test]
fn the_hash_is_what_the_specification_says() {
    for Golden { name, request, .. } in golden() {
        assert_eq!(read(&request).hash(), by_the_book(&request), "{name}");
    }
}

#[test]
fn a_recorded_request_reads_back_as_what_it_was() {
    for Golden { name, request: recorded, .. } in golden() {
        let request = read(&recorded);
        assert_eq!(serde_json::to_value(&request).unwrap(), recorded, "{name}");
        let parts = MessageRequest::from_parts(request.rest(), request.messages().to_vec()).unwrap();
        assert_eq!(parts, request, "{name}");
        assert_eq!(parts.hash(), request.hash(), "{name}");
    }
}

#[test]
fn the_published_requests_use_every_field() {
    let used: std::collections::BTreeSet<String> = golden()
        .iter()
        .flat_map(|golden| golden.request.as_object().unwrap().keys().cloned().collect::<Vec<_>>())
        .collect();
    let built = serde_json::to_value(everything()).unwrap();
    let all: std::collections::BTreeSet<String> = built.as_object().unwrap().keys().cloned().collect();
    assert_eq!(used, all);
}

fn everything() -> MessageRequest {
    MessageRequest::new("some-model", 1024)
        .with_system(Content::from("Be terse.").with_extra("cache_control", json!({ "type": "ephemeral" })))
        .push_tool(
            Tool::new("look", json!({ "type": "object" })).with_description("Looks.").with_strict_schema(),
        )
        .with_tool_choice(ToolChoice::Tool("look".into()))
        .with_serial_tool_calls()
        .with_temperature(0.5)
        .with_top_p(0.9)
        .with_top_k(40)
        .with_stop_sequences(["END"])
        .with_thinking(Thinking::BudgetTokens(2048))
        .with_effort("high")
        .with_output_schema(json!({ "type": "object", "default": null }))
        .with_service_tier("auto")
        .with_previous_response_id("resp_1")
        .with_metadata("user_id", json!("u1"))
        .with_extra("brand_new", json!([null, 1.0]))
        .push_message(Message::user("Hi"))
}

#[test]
fn each_field_takes_part() {
    let base = serde_json::to_value(everything()).unwrap();
    let hash = read(&base).hash();
    for name in
        base.as_object().unwrap().keys().filter(|name| !["model", "max_tokens"].contains(&name.as_str()))
    {
        let mut without = base.clone();
        without.as_object_mut().unwrap().remove(name);
        assert_ne!(read(&without).hash(), hash, "{name}");
    }
    for (name, value) in [("model", json!("other")), ("max_tokens", json!(1025))] {
        let mut changed = base.clone();
        changed[name] = value;
        assert_ne!(read(&changed).hash(), hash, "{name}");
    }
}

#[test]
fn absent_null_empty_and_default_are_the_same() {
    let plain = MessageRequest::new("m", 1).push_message(Message::user("Hi"));
    let spelled = json!({
        "max_tokens": 1, "model": "m", "temperature": null, "tools": [], "system": [], "stop_sequences": null,
        "serial_tool_calls": false, "metadata": {}, "extra": null, "thinking": null, "tool_choice": null,
        "messages": [{ "content": "Hi", "role": "user" }],
    });
    assert_eq!(read(&spelled), plain);
    assert_eq!(read(&spelled).hash(), plain.hash());
    assert_eq!(serde_json::to_value(&plain).unwrap().as_object().unwrap().len(), 3);
}

#[test]
fn empty_settings_are_as_good_as_none() {
    let schema = json!({ "type": "object" });
    let plain = MessageRequest::new("m", 1).push_tool(Tool::new("look", schema.clone()));
    let empty = MessageRequest::new("m", 1)
        .push_tool(Tool::new("look", schema).with_description(""))
        .with_system("")
        .with_effort("")
        .with_service_tier("")
        .with_previous_response_id("")
        .with_output_schema(json!(null))
        .with_stop_sequences([""; 0]);
    assert_eq!(empty, plain);
    assert_eq!(empty.hash(), plain.hash());
    assert_eq!(Message::tool_result("1", ""), Message::tool_result("1", Content::new()));
}

#[test]
fn a_further_field_of_an_own_name_makes_no_second_request_of_the_same_hash() {
    let said = |text: &str| MessageRequest::new("m", 1).push_message(Message::user(text));
    let shadowed = Content::from("a").with_extra("text", json!("b"));
    assert_eq!(MessageRequest::new("m", 1).push_message(Message::user_blocks(shadowed)), said("b"));
    let tool = |name: &str| Tool::new(name, json!({}));
    let with = |tool| MessageRequest::new("m", 1).push_tool(tool).hash();
    assert_eq!(with(tool("a").with_extra("name", json!("b"))), with(tool("a")));
    assert_ne!(
        MessageRequest::new("m", 1).with_extra("model", json!("n")).hash(),
        MessageRequest::new("n", 1).hash()
    );
}

#[test]
fn a_null_that_is_not_ours_counts() {
    let request = |input| {
        let call = ContentBlock::ToolUse { id: "1".into(), name: "look".into(), input };
        MessageRequest::new("m", 1).push_message(Message::assistant_blocks(call)).hash()
    };
    assert_ne!(request(json!({ "a": null })), request(json!({})));
    let extra = |value| MessageRequest::new("m", 1).with_extra("a", value).hash();
    assert_ne!(extra(json!(null)), MessageRequest::new("m", 1).hash());
}

#[test]
fn a_field_of_a_newer_version_is_refused_and_not_dropped() {
    let newer = json!({ "model": "m", "max_tokens": 1, "brand_new": 1 });
    assert!(serde_json::from_value::<MessageRequest>(newer).unwrap_err().to_string().contains("brand_new"));
    let newer = json!({ "role": "user", "content": [], "brand_new": 1 });
    assert!(serde_json::from_value::<Message>(newer).unwrap_err().to_string().contains("brand_new"));
}

#[test]
fn the_order_and_the_borders_of_messages_count() {
    let hash = |messages: &[&str]| {
        MessageRequest::new("m", 1).push_messages(messages.iter().map(|text| Message::user(*text))).hash()
    };
    assert_ne!(hash(&["a", "b"]), hash(&["b", "a"]));
    assert_ne!(hash(&["a", "b"]), hash(&["ab"]));
    assert_ne!(hash(&["a"]), hash(&["a", ""]));
    assert_ne!(hash(&[]), hash(&[""]));
}

#[test]
fn an_answer_goes_back_as_the_message_it_would_be_if_written_by_hand() {
    let blocks = vec![
        ContentBlock::text("Let me look."),
        ContentBlock::ToolUse { id: "1".into(), name: "look".into(), input: json!({ "a": 1.0 }) },
    ];
    let response = MessageResponse::new("msg_1", "m", blocks.clone(), StopReason::ToolUse);
    assert_eq!(response.to_message(), Message::assistant_blocks(blocks.clone()));
    assert_eq!(response.to_message().digest(), Message::assistant_blocks(blocks).digest());
}

proptest! {
    #[test]
    fn the_running_digest_is_the_digest_of_the_whole(texts in prop::collection::vec(any::<String>(), 0..8), at in any::<prop::sample::Index>()) {
        let messages: Vec<Message> = texts.iter().map(|text| Message::user(text.as_str())).collect();
        let at = at.index(messages.len() + 1);
        let whole = MessageRequest::new("m", 1).push_messages(messages.clone());
        let first = MessageRequest::new("m", 1).push_messages(messages[..at].to_vec());
        let grown = first.clone().push_messages(messages[at..].to_vec());
        prop_assert_eq!(whole.hash(), grown.hash());
        prop_assert_eq!(first.messages().len(), at, "a clone is not changed by what grows out of it");
        prop_assert_eq!(whole.hash(), by_the_book(&serde_json::to_value(&whole).unwrap()));
    }
}
