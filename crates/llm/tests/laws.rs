//! Laws of the recorded forms, tried on random requests, answers and errors: what is recorded reads back as what it
//! was, and two requests hash equally if and only if they ask for the same.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use std::time::Duration;

use proptest::prelude::*;
use relight_canonical::to_canonical;
use relight_llm::messages::{Mode, decode_body, encode};
use relight_llm::{
    Content, ContentBlock, ErrorKind, LlmError, Message, MessageRequest, MessageResponse, Role, StopReason,
    Thinking, Tool, ToolChoice, Usage,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// Few texts, so that different things are often made of the same ones.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(&["", " ", "a", "b", "ab", "\u{0}é😀", "null", "{}"][..]).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

/// Names of further fields, among them those of our own.
fn name() -> impl Strategy<Value = String> {
    prop::sample::select(
        &[
            "type",
            "role",
            "text",
            "thinking",
            "signature",
            "data",
            "id",
            "name",
            "input",
            "raw",
            "tool_use_id",
            "content",
            "is_error",
            "source",
            "model",
            "stop_reason",
            "usage",
            "service_tier",
            "input_tokens",
            "description",
            "input_schema",
            "strict",
            "citations",
            "brand_new",
            "",
        ][..],
    )
    .prop_map(str::to_owned)
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("finite", |double| double.is_finite().then(|| Value::from(double))),
        prop::sample::select(&[0.0, -0.0, 1.0, 1e21][..]).prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..3).prop_map(|fields| Map::from_iter(fields).into()),
        ]
    })
}

fn fields() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec((name(), json_value()), 0..3).prop_map(Map::from_iter)
}

fn block() -> impl Strategy<Value = ContentBlock> {
    let flat = prop_oneof![
        text().prop_map(ContentBlock::text),
        (text(), text()).prop_map(|(thinking, signature)| ContentBlock::Thinking { thinking, signature }),
        text().prop_map(|data| ContentBlock::RedactedThinking { data }),
        (text(), text(), fields()).prop_map(|(id, name, input)| ContentBlock::ToolUse {
            id,
            name,
            input: input.into()
        }),
        (text(), text(), text()).prop_map(|(id, name, raw)| ContentBlock::InvalidToolUse { id, name, raw }),
        json_value().prop_map(|source| ContentBlock::Image { source }),
        json_value().prop_map(|source| ContentBlock::Document { source }),
        fields().prop_map(|mut fields| {
            fields.insert("type".to_owned(), json!("brand_new"));
            ContentBlock::Other(fields)
        }),
    ];
    flat.prop_recursive(2, 6, 2, |inner| {
        (text(), content_of(inner), any::<bool>()).prop_map(|(tool_use_id, content, is_error)| {
            ContentBlock::ToolResult { tool_use_id, content, is_error }
        })
    })
}

fn content_of(block: impl Strategy<Value = ContentBlock>) -> impl Strategy<Value = Content> {
    prop::collection::vec((block, fields()), 0..3).prop_map(|blocks| {
        blocks.into_iter().fold(Content::new(), |content, (block, extra)| {
            extra
                .into_iter()
                .fold(content.with_block(block), |content, (name, value)| content.with_extra(name, value))
        })
    })
}

fn content() -> impl Strategy<Value = Content> {
    content_of(block())
}

fn message() -> impl Strategy<Value = Message> {
    (prop::sample::select(&[Role::User, Role::Assistant][..]), content())
        .prop_map(|(role, content)| Message::new(role, content))
}

fn tool() -> impl Strategy<Value = Tool> {
    (text(), json_value(), text(), any::<bool>(), fields()).prop_map(
        |(name, schema, about, strict, extra)| {
            let tool = Tool::new(name, schema).with_description(about);
            let tool = if strict { tool.with_strict_schema() } else { tool };
            extra.into_iter().fold(tool, |tool, (name, value)| tool.with_extra(name, value))
        },
    )
}

#[derive(Clone, Debug)]
enum Setting {
    System(Content),
    Tool(Tool),
    Choice(String),
    Serial,
    Temperature(f64),
    TopK(u64),
    Stops(Vec<String>),
    Thinking(u64),
    Effort(String),
    Tier(String),
    Previous(String),
    Schema(Value),
    Metadata(String, Value),
    Extra(String, Value),
}

fn setting() -> impl Strategy<Value = Setting> {
    prop_oneof![
        content().prop_map(Setting::System),
        tool().prop_map(Setting::Tool),
        text().prop_map(Setting::Choice),
        Just(Setting::Serial),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Setting::Temperature),
        any::<u64>().prop_map(Setting::TopK),
        prop::collection::vec(text(), 0..3).prop_map(Setting::Stops),
        any::<u64>().prop_map(Setting::Thinking),
        text().prop_map(Setting::Effort),
        text().prop_map(Setting::Tier),
        text().prop_map(Setting::Previous),
        json_value().prop_map(Setting::Schema),
        (name(), json_value()).prop_map(|(name, value)| Setting::Metadata(name, value)),
        (name(), json_value()).prop_map(|(name, value)| Setting::Extra(name, value)),
    ]
}

fn set(request: MessageRequest, setting: Setting) -> MessageRequest {
    match setting {
        Setting::System(system) => request.with_system(system),
        Setting::Tool(tool) => request.push_tool(tool),
        Setting::Choice(name) => request.with_tool_choice(ToolChoice::Tool(name)),
        Setting::Serial => request.with_serial_tool_calls(),
        Setting::Temperature(number) => request.with_temperature(number),
        Setting::TopK(number) => request.with_top_k(number),
        Setting::Stops(texts) => request.with_stop_sequences(texts),
        Setting::Thinking(most) => request.with_thinking(Thinking::BudgetTokens(most)),
        Setting::Effort(effort) => request.with_effort(effort),
        Setting::Tier(tier) => request.with_service_tier(tier),
        Setting::Previous(id) => request.with_previous_response_id(id),
        Setting::Schema(schema) => request.with_output_schema(schema),
        Setting::Metadata(name, value) => request.with_metadata(name, value),
        Setting::Extra(name, value) => request.with_extra(name, value),
    }
}

fn request() -> impl Strategy<Value = MessageRequest> {
    let settings = prop::collection::vec(setting(), 0..3);
    let messages = prop::collection::vec(message(), 0..3);
    (text(), 0_u64..3, settings, messages).prop_map(|(model, most, settings, messages)| {
        settings.into_iter().fold(MessageRequest::new(model, most).push_messages(messages), set)
    })
}

/// An answer by a provider of one's own, further fields of any name included.
fn response() -> impl Strategy<Value = MessageResponse> {
    let reason = text().prop_map(StopReason::from);
    (text(), content(), reason, prop::option::of(text()), any::<[u64; 2]>(), fields(), fields()).prop_map(
        |(id, content, reason, sequence, [input, output], extra, extra_usage)| {
            let usage = Usage { extra: extra_usage, ..Usage::new(input, output) };
            let mut response = MessageResponse::new(id, "m", content, reason).with_usage(usage);
            response.stop_sequence = sequence;
            response.extra = extra;
            response
        },
    )
}

/// What is read from a record, written, and read again stays what it is, by way of text and of `Value`.
fn reread<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(recorded: &T) -> T {
    let text = serde_json::to_string(recorded).unwrap();
    let read: T = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text, "the same bytes");
    let value = serde_json::to_value(recorded).unwrap();
    assert_eq!(serde_json::from_value::<T>(value.clone()).unwrap(), read, "{text}");
    assert_eq!(serde_json::to_value(&read).unwrap(), value);
    read
}

/// A name that stands twice in one object would be lost on reading.
fn has_no_name_twice(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|value| value.to_string().len() == text.len())
}

proptest! {
    #[test]
    fn requests_read_back_as_what_they_were(request in request()) {
        let read = reread(&request);
        prop_assert_eq!(read.hash(), request.hash());
        let parts = MessageRequest::from_parts(request.rest(), request.messages().to_vec()).unwrap();
        prop_assert_eq!(parts.hash(), request.hash());
    }

    #[test]
    fn messages_read_back_as_what_they_were(message in message()) {
        let read = reread(&message);
        prop_assert_eq!(read.digest(), message.digest());
        prop_assert_eq!(read, message);
    }

    #[test]
    fn answers_read_back_and_go_back_to_the_model_the_same(response in response()) {
        let read = reread(&response);
        prop_assert_eq!(&read.content, &response.content);
        prop_assert_eq!(read.to_message().digest(), response.to_message().digest());
        let error = LlmError::new(ErrorKind::Truncated, "cut").with_partial(response).mid_stream();
        reread(&error);
    }

    #[test]
    fn errors_read_back_as_what_they_were(
        message in text(), code in text(), status in any::<u16>(), wait in any::<Duration>(), response in response(),
    ) {
        let error = LlmError::new(ErrorKind::of_status(status), message)
            .with_status(status)
            .with_code(code)
            .with_retry_after(wait)
            .with_partial(reread(&response));
        prop_assert_eq!(reread(&error), error);
    }

    #[test]
    fn decoded_answers_are_what_their_record_says(
        mut body in fields(), blocks in prop::collection::vec(fields(), 0..4),
        kinds in prop::collection::vec(prop::sample::select(&["text", "thinking", "redacted_thinking", "tool_use",
            "invalid_tool_use", "tool_result", "image", "document", "brand_new"][..]), 4),
    ) {
        let typed = blocks.into_iter().zip(kinds).map(|(mut block, kind)| {
            block.insert("type".to_owned(), json!(kind));
            Value::Object(block)
        });
        body.insert("content".to_owned(), typed.collect());
        body.remove("error");
        if body.get("type") == Some(&json!("error")) {
            body.remove("type");
        }
        let decoded = decode_body(Value::Object(body).to_string().as_bytes()).unwrap();
        prop_assert_eq!(reread(&decoded), decoded);
    }

    #[test]
    fn requests_hash_equally_if_and_only_if_they_ask_for_the_same(left in request(), right in request()) {
        let canonical = |request: &MessageRequest| to_canonical(&serde_json::to_value(request).unwrap());
        prop_assert_eq!(left.hash() == right.hash(), canonical(&left) == canonical(&right));
        prop_assert_eq!(left.hash() == right.hash(), left == right || canonical(&left) == canonical(&right));
    }

    #[test]
    fn a_body_on_the_wire_says_each_thing_once(request in request()) {
        let body = String::from_utf8(encode(&request, Mode::Stream).unwrap()).unwrap();
        prop_assert!(has_no_name_twice(&body), "{body}");
    }
}
