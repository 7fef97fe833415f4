//! Chat Completions over real sockets: what is sent, what is made of answers, and when a call is tried again.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

#[allow(dead_code, reason = "other tests need the rest")]
#[path = "client/support.rs"]
mod support;

use relight_llm::{Client, Config, ErrorKind, Message, MessageRequest, Provider, Stage, StopReason};
use serde_json::{Value, json};
use support::{Script, Server, answer};

fn client(server: &Server, retries: u32) -> Client {
    let config =
        Config::chat_completions().with_base_url(format!("{}/v1", server.url)).with_max_retries(retries);
    Client::new(config.with_api_key("sk-1")).unwrap()
}

fn request() -> MessageRequest {
    MessageRequest::new("some-model", 256).push_message(Message::user("Hi"))
}

fn whole() -> Value {
    let call = json!({ "id": "call_1", "type": "function", "function": { "name": "look", "arguments": "{\"n\":1}" } });
    json!({
        "id": "chat_1", "model": "some-model",
        "choices": [{ "index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "tool_calls": [call] } }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 5 },
    })
}

fn chunk(delta: Value, finish_reason: Value) -> Value {
    json!({ "id": "chat_1", "model": "some-model",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish_reason }] })
}

fn begun() -> Vec<Value> {
    vec![
        chunk(json!({ "reasoning_content": "Hm." }), json!(null)),
        chunk(json!({ "content": "I" }), json!(null)),
    ]
}

fn streamed() -> String {
    let call =
        json!({ "index": 0, "id": "call_1", "function": { "name": "look", "arguments": "{\"n\":1}" } });
    let rest = [
        chunk(json!({ "content": " look." }), json!(null)),
        chunk(json!({ "tool_calls": [call] }), json!("tool_calls")),
        json!({ "id": "chat_1", "choices": [], "usage": whole()["usage"] }),
    ];
    framed(&[begun(), rest.to_vec()].concat())
}

fn framed(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

fn say(status: u16, headers: &[(&str, &str)], body: impl ToString) -> Script {
    Script::Say(answer(status, headers, &body.to_string()))
}

#[tokio::test]
async fn a_body_and_a_folded_stream_are_the_same_answer_with_and_without_done() {
    let done = streamed() + "data: [DONE]\n\n";
    let unended = streamed().trim_end().to_owned();
    let server = Server::start([
        say(200, &[], whole()),
        say(200, &[], streamed()),
        say(200, &[], done),
        say(200, &[], unended),
    ])
    .await;
    let client = client(&server, 0);
    let sent = client.send(&request()).await.unwrap().response;
    for _ in 0..3 {
        let folded = client.stream(&request()).await.unwrap().into_reply().await.unwrap().response;
        assert_eq!(sent, folded);
    }
    assert_eq!((sent.text().as_str(), &sent.stop_reason), ("I look.", &StopReason::ToolUse));
    assert_eq!(sent.tool_uses().collect::<Vec<_>>(), [("call_1", "look", &json!({ "n": 1 }))]);
    assert_eq!((sent.usage.input_tokens, sent.usage.output_tokens), (10, 5));
}

#[tokio::test]
async fn a_conversation_goes_on_with_what_was_answered() {
    let server = Server::start([say(200, &[], streamed()), say(200, &[], whole())]).await;
    let client = client(&server, 0);
    let asked = client.stream(&request()).await.unwrap().into_reply().await.unwrap().response;
    let next = request().push_message(asked.to_message()).push_message(Message::tool_result("call_1", "42"));
    client.send(&next).await.unwrap();
    let [first, second] = &server.requests()[..] else { panic!("two requests") };
    for request in [first, second] {
        assert!(request.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", request.head);
        assert_eq!(request.header("authorization"), ["Bearer sk-1"]);
        assert_eq!(
            (&request.body["max_tokens"], &request.body["model"]),
            (&json!(256), &json!("some-model"))
        );
    }
    assert_eq!((&first.body["stream"], &second.body.get("stream")), (&json!(true), &None));
    let messages = &second.body["messages"];
    assert_eq!(messages[1]["reasoning_content"], "Hm.");
    assert_eq!(messages[1]["tool_calls"][0]["function"]["arguments"], "{\"n\":1}");
    assert_eq!(messages[2], json!({ "role": "tool", "tool_call_id": "call_1", "content": "42" }));
}

#[tokio::test]
async fn a_failure_before_the_first_event_is_tried_again_and_after_it_never() {
    let server = Server::start([say(503, &[("retry-after-ms", "1")], ""), say(200, &[], streamed())]).await;
    let reply = client(&server, 1).stream(&request()).await.unwrap().into_reply().await.unwrap();
    assert_eq!(reply.delivery.retries, 1);

    let envelope = json!({ "error": { "message": "m", "code": 429 } });
    for (last, kind) in [(vec![envelope], ErrorKind::RateLimited), (vec![], ErrorKind::Truncated)] {
        let server = Server::start([say(200, &[], framed(&[begun(), last].concat()))]).await;
        let error = client(&server, 5).stream(&request()).await.unwrap().into_reply().await.unwrap_err();
        assert_eq!((error.kind, error.stage), (kind, Stage::MidStream));
        assert_eq!(error.partial.unwrap().text(), "I");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_finish_reason_before_a_broken_connection_is_no_end() {
    let server = Server::start([say(200, &[("content-length", "100000")], streamed())]).await;
    let error = client(&server, 0).stream(&request()).await.unwrap().into_reply().await.unwrap_err();
    assert_eq!((error.kind, error.stage), (ErrorKind::Connection, Stage::MidStream));
}
