//! The Responses API over real sockets: what is sent, what is made of answers, and when a call is tried again.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

#[allow(dead_code, reason = "other tests need the rest")]
#[path = "client/support.rs"]
mod support;

use std::time::Duration;

use relight_llm::{
    Client, Config, ContentBlock, ErrorKind, Message, MessageRequest, Provider, Stage, StopReason, Transport,
};
use serde_json::{Value, json};
use support::{Script, Server, answer, events};

fn client(server: &Server, retries: u32) -> Client {
    let config = Config::responses().with_base_url(format!("{}/v1", server.url)).with_max_retries(retries);
    Client::new(config).unwrap()
}

fn request() -> MessageRequest {
    MessageRequest::new("some-model", 256).with_service_tier("priority").push_message(Message::user("Hi"))
}

fn whole() -> Value {
    json!({
        "id": "resp_1", "object": "response", "status": "completed", "model": "some-model", "service_tier": "priority",
        "output": [
            { "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA" },
            { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "I look." }] },
            { "type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{\"n\":1}" },
        ],
        "usage": { "input_tokens": 10, "input_tokens_details": { "cached_tokens": 4 }, "output_tokens": 5 },
    })
}

fn streamed() -> Vec<Value> {
    let mut all = begun();
    all.push(json!({ "type": "response.output_text.delta", "output_index": 1, "delta": " look." }));
    for index in [0, 1, 2] {
        all.push(json!({ "type": "response.output_item.done", "output_index": index, "item": whole()["output"][index] }));
    }
    all.push(json!({ "type": "response.completed", "response": whole() }));
    all
}

fn begun() -> Vec<Value> {
    vec![
        json!({ "type": "response.created", "response": { "id": "resp_1", "model": "some-model", "status": "in_progress" } }),
        json!({ "type": "response.output_item.added", "output_index": 0, "item": { "type": "reasoning", "summary": [] } }),
        json!({ "type": "response.output_text.delta", "output_index": 1, "delta": "I" }),
    ]
}

fn say(status: u16, headers: &[(&str, &str)], body: impl ToString) -> Script {
    Script::Say(answer(status, headers, &body.to_string()))
}

#[tokio::test]
async fn a_body_and_a_folded_stream_are_the_same_answer() {
    let server = Server::start([say(200, &[], whole()), say(200, &[], events(&streamed()))]).await;
    let client = client(&server, 0);
    let sent = client.send(&request()).await.unwrap();
    let folded = client.stream(&request()).await.unwrap().into_reply().await.unwrap();
    assert_eq!(sent.response, folded.response);
    assert_eq!((sent.delivery.transport, folded.delivery.transport), (Transport::Http, Transport::Http));
    let response = sent.response;
    assert_eq!((response.id.as_str(), &response.stop_reason), ("resp_1", &StopReason::ToolUse));
    assert_eq!(response.service_tier.as_deref(), Some("priority"));
    assert_eq!(response.tool_uses().collect::<Vec<_>>(), [("call_1", "look", &json!({ "n": 1 }))]);
    let usage = &response.usage;
    assert_eq!((usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens), (6, 4, 5));
}

#[tokio::test]
async fn a_call_is_one_post_with_the_key_once_and_none_unless_given() {
    let server = Server::start([say(200, &[], whole()), say(200, &[], events(&streamed()))]).await;
    client(&server, 0).send(&request()).await.unwrap();
    let config = Config::responses().with_base_url(format!("{}/v1/", server.url)).with_api_key("sk-1");
    Client::new(config).unwrap().stream(&request()).await.unwrap().into_reply().await.unwrap();

    let [plain, keyed] = &server.requests()[..] else { panic!("two requests") };
    for request in [plain, keyed] {
        assert!(request.head.starts_with("POST /v1/responses HTTP/1.1\r\n"), "{}", request.head);
        assert_eq!(request.header("content-type"), ["application/json"]);
        assert_eq!(request.header("accept-encoding"), ["identity"]);
        assert_eq!(request.header("anthropic-version").len() + request.header("x-api-key").len(), 0);
        assert_eq!(
            (&request.body["model"], &request.body["service_tier"]),
            (&json!("some-model"), &json!("priority"))
        );
        assert_eq!(request.body["input"][0]["content"], json!([{ "type": "input_text", "text": "Hi" }]));
        assert_eq!(request.body.get("store"), None);
    }
    assert_eq!((plain.header("authorization").len(), plain.body.get("stream")), (0, None));
    assert_eq!((keyed.header("authorization"), &keyed.body["stream"]), (vec!["Bearer sk-1"], &json!(true)));
}

#[tokio::test]
async fn a_conversation_goes_on_with_what_was_answered() {
    let server = Server::start([say(200, &[], events(&streamed())), say(200, &[], whole())]).await;
    let client = client(&server, 0);
    let asked = client.stream(&request()).await.unwrap().into_reply().await.unwrap().response;
    let next = request().push_message(asked.to_message()).push_message(Message::tool_result("call_1", "42"));
    client.send(&next).await.unwrap();
    let input = server.requests()[1].body["input"].clone();
    let kinds: Vec<&str> =
        input.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "reasoning", "message", "function_call", "function_call_output"]);
    assert_eq!((&input[1]["encrypted_content"], &input[1]["summary"]), (&json!("gAAA"), &json!([])));
    assert_eq!((&input[4]["call_id"], &input[4]["output"]), (&json!("call_1"), &json!("42")));
}

#[tokio::test]
async fn a_failure_before_the_first_event_is_tried_again_and_a_quota_is_not() {
    let soon = [("retry-after-ms", "1")];
    let busy = json!({ "error": { "code": "rate_limit_exceeded", "message": "m" } });
    for first in [say(429, &soon, &busy), say(500, &soon, ""), say(409, &soon, "")] {
        let server = Server::start([first, say(200, &[], events(&streamed()))]).await;
        let reply = client(&server, 1).stream(&request()).await.unwrap().into_reply().await.unwrap();
        assert_eq!(reply.delivery.retries, 1);
    }
    let quota = json!({ "error": { "code": "insufficient_quota", "message": "m" } });
    let limit = json!({ "error": { "type": "usage_limit_reached", "message": "m", "resets_in_seconds": 7 } });
    for (status, body, kind, wait) in [
        (429, &quota, ErrorKind::Billing, None),
        (429, &limit, ErrorKind::Billing, Some(Duration::from_secs(7))),
        (402, &busy, ErrorKind::Billing, None),
        (400, &busy, ErrorKind::InvalidRequest, None),
    ] {
        let server = Server::start([say(status, &[], body)]).await;
        let error = client(&server, 5).send(&request()).await.unwrap_err();
        assert_eq!((error.kind, error.status, error.retry_after), (kind, Some(status), wait));
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_stream_that_breaks_after_its_first_event_is_never_tried_again() {
    let failed = json!({ "type": "response.failed", "response": { "status": "failed",
                         "error": { "code": "server_error", "message": "m" }, "usage": { "input_tokens": 3 } } });
    let error_event = json!({ "type": "error", "error": { "code": "server_error", "message": "m" } });
    for (last, kind) in [
        (vec![failed], ErrorKind::Server),
        (vec![error_event], ErrorKind::Server),
        (vec![], ErrorKind::Truncated),
    ] {
        let server =
            Server::start([say(200, &[("x-request-id", "req_1")], events(&[begun(), last].concat()))]).await;
        let mut stream = client(&server, 5).stream(&request()).await.unwrap();
        let mut text = String::new();
        let error = loop {
            match stream.next().await.unwrap() {
                Ok(event) => text.push_str(event.text().unwrap_or_default()),
                Err(error) => break error,
            }
        };
        assert!(stream.next().await.is_none());
        assert_eq!((text.as_str(), error.kind, error.stage), ("I", kind, Stage::MidStream));
        assert!(error.to_string().starts_with("Stream error"), "{error}");
        assert_eq!(error.request_id.as_deref(), Some("req_1"));
        let partial = error.partial.unwrap();
        assert!(partial.content.contains(&ContentBlock::text("I")), "{partial:?}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_error_instead_of_the_answer_is_a_refusal() {
    let error = json!({ "error": { "message": "m", "code": "context_length_exceeded" } });
    let framed = format!("data: {error}\n\n");
    for said in [framed, error.to_string()] {
        let server = Server::start([say(200, &[], said)]).await;
        let error = client(&server, 5).stream(&request()).await.unwrap_err();
        assert_eq!((error.kind, error.stage), (ErrorKind::InvalidRequest, Stage::BeforeAnswer));
        assert_eq!(error.code.as_deref(), Some("context_length_exceeded"));
    }
}

#[tokio::test]
async fn an_answer_is_complete_though_the_server_keeps_the_connection_open() {
    let server = Server::start([Script::SayAndWait(answer(200, &[], &events(&streamed())))]).await;
    let reply = client(&server, 0).stream(&request()).await.unwrap().into_reply().await.unwrap();
    assert_eq!(reply.response.text(), "I look.");
}

#[test]
fn what_cannot_work_is_refused_by_name() {
    let refused = [
        (Config::responses().with_beta("b"), "betas"),
        (Config::responses().with_api_key(""), "API key is empty"),
        (Config::responses().with_base_url("api.openai.com/v1"), "not a URL"),
    ];
    for (config, named) in refused {
        let error = Client::new(config).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Configuration);
        assert!(error.message.contains(named), "{error}");
    }
}

#[tokio::test]
async fn no_secret_is_in_any_debug_or_error() {
    let quoting = json!({ "error": { "message": "bad key sk-hunter2", "code": "sk-hunter2" } });
    let server = Server::start([
        say(401, &[], &quoting),
        say(200, &[], events(&[begun(), vec![quoting.clone()]].concat())),
    ])
    .await;
    let config =
        Config::responses().with_base_url(&server.url).with_api_key("sk-hunter2").with_max_retries(0);
    let mut all = format!("{config:?}");
    let client = Client::new(config).unwrap();
    all.push_str(&format!("{client:?}"));
    let refused = client.send(&request()).await.unwrap_err();
    let broken = client.stream(&request()).await.unwrap().into_reply().await.unwrap_err();
    for error in [refused, broken] {
        all.push_str(&format!("{error} {error:?} {}", serde_json::to_string(&error).unwrap()));
    }
    assert!(all.contains("bad key") && !all.contains("hunter2"), "{all}");
}
