//! One agent file on servers of three protocols: only its provider block changes.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

use relight::Event;
use relight_testkit::Script;
use serde_json::{Value, json};

use crate::support::World;

/// Answers by the protocol of the path: a call of `read_file` first, then, once it has the result, "All done."
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let (path, body) = read_request(&mut socket);
            let has_result = body.contains("forty-two");
            let events = match (path.as_str(), has_result) {
                ("/v1/messages", false) => messages_call(),
                ("/v1/messages", true) => messages_text(),
                ("/v1/responses", false) => responses_call(),
                ("/v1/responses", true) => responses_text(),
                ("/v1/chat/completions", false) => chat_call(),
                ("/v1/chat/completions", true) => chat_text(),
                other => panic!("{other:?} was asked for"),
            };
            let frames: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
            socket.write_all([head, &frames].concat().as_bytes()).unwrap();
        }
    });
    url
}

fn read_request(socket: &mut TcpStream) -> (String, String) {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = socket.read(&mut piece).unwrap();
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if Some(body.len()) == length {
            let path = head.split(' ').nth(1).unwrap();
            return (path.to_owned(), body.to_owned());
        }
        assert_ne!(count, 0, "the client hung up early");
    }
}

fn messages_call() -> Vec<Value> {
    let call =
        json!({ "type": "tool_use", "id": "call_1", "name": "read_file", "input": { "path": "a.txt" } });
    messages(call, "tool_use")
}

fn messages_text() -> Vec<Value> {
    messages(json!({ "type": "text", "text": "All done." }), "end_turn")
}

fn messages(block: Value, reason: &str) -> Vec<Value> {
    vec![
        json!({ "type": "message_start", "message": { "id": "msg_1", "model": "m", "content": [] } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": reason } }),
        json!({ "type": "message_stop" }),
    ]
}

fn responses_call() -> Vec<Value> {
    let arguments = json!({ "path": "a.txt" }).to_string();
    responses(
        json!({ "type": "function_call", "call_id": "call_1", "name": "read_file", "arguments": arguments }),
    )
}

fn responses_text() -> Vec<Value> {
    responses(
        json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "All done." }] }),
    )
}

fn responses(item: Value) -> Vec<Value> {
    vec![
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": { "id": "resp_1", "output": [item] } }),
    ]
}

fn chat_call() -> Vec<Value> {
    let arguments = json!({ "path": "a.txt" }).to_string();
    let call =
        json!({ "index": 0, "id": "call_1", "function": { "name": "read_file", "arguments": arguments } });
    chat(json!({ "tool_calls": [call] }), "tool_calls")
}

fn chat_text() -> Vec<Value> {
    chat(json!({ "content": "All done." }), "stop")
}

fn chat(delta: Value, reason: &str) -> Vec<Value> {
    vec![json!({ "id": "chat_1", "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] })]
}

#[tokio::test]
async fn an_agent_file_runs_on_every_protocol_by_its_provider_block() {
    let url = serve();
    let mut told = Vec::new();
    for (protocol, base_url) in [
        ("messages", url.clone()),
        ("responses", format!("{url}/v1")),
        ("chat_completions", format!("{url}/v1")),
    ] {
        let world = World::new(Script::new()).await;
        fs::write(world.path("a.txt"), "forty-two").unwrap();
        let rest = "model = \"m\"\nsystem = \"Read.\"\n[[tools]]\nkind = \"read_file\"\nroot = \".\"\n";
        let provider = format!(
            "provider = {{ protocol = \"{protocol}\", base_url = \"{base_url}\", max_retries = 0 }}\n"
        );
        fs::write(world.path("agent.toml"), provider + rest).unwrap();

        let ran = world.run().await.ended(0);
        assert!(ran.stdout.contains("All done."), "{protocol}: {ran:?}");
        let log = world.log(world.only_run().await).await;
        let hash = log.iter().find_map(|envelope| match &envelope.event {
            Event::RunStarted { agent_hash, .. } => Some(agent_hash.clone()),
            _ => None,
        });
        told.push((hash.unwrap(), world.kinds().await));
    }
    assert!(
        told.iter().all(|one| *one == told[0]),
        "the same agent, the same log but for what was answered: {told:?}"
    );
}
