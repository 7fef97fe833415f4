//! Model calls: streamed or whole they leave one log, failed or dropped they leave their intent.

use relight_core::Event;
use relight_llm::StreamEvent;
use relight_runtime::{ModelTurn, RuntimeError};
use relight_testkit::{Answer, At, Block, Script, ScriptedServer};
use serde_json::{Value, json};
use wiremock::{
    Mock, MockServer, ResponseTemplate,
    matchers::{method, path},
};

use crate::support::{begun, client, kinds, log, model_error, question, stores};

/// One answer in the two ways in which a server may give it.
struct Both {
    body: Value,
    stream: String,
    content_type: &'static str,
}

fn sse(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect()
}

/// A stream of these blocks, each a start and its deltas.
fn stream(usage: Value, blocks: &[(Value, Vec<Value>)], stop: Value, last_usage: Value) -> String {
    let mut events = vec![json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "model", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage}})];
    for (index, (start, deltas)) in blocks.iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        for delta in deltas {
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": stop, "usage": last_usage}));
    events.push(json!({"type": "message_stop"}));
    sse(&events)
}

fn body(content: Value, stop_reason: &str, usage: Value) -> Value {
    json!({"id": "msg_1", "role": "assistant", "model": "model", "content": content, "stop_reason": stop_reason,
        "usage": usage})
}

fn text_start() -> Value {
    json!({"type": "text", "text": ""})
}

fn text_delta(text: &str) -> Value {
    json!({"type": "text_delta", "text": text})
}

async fn check_both_leave_one_log(both: Both) {
    let server = MockServer::start().await;
    let streaming = |wanted: bool| {
        move |request: &wiremock::Request| {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            body["stream"].as_bool().unwrap_or(false) == wanted
        }
    };
    let at = || Mock::given(method("POST")).and(path("/v1/messages"));
    let whole = ResponseTemplate::new(200).set_body_json(&both.body);
    at().and(streaming(false)).respond_with(whole).expect(2).mount(&server).await;
    let streamed = ResponseTemplate::new(200).set_body_raw(both.stream, both.content_type);
    at().and(streaming(true)).respond_with(streamed).expect(2).mount(&server).await;
    let client = client(&server.uri());
    for (plain, streamed) in stores().into_iter().zip(stores()) {
        let mut ctx = begun(&plain).await;
        let from_body = ctx.model_call(&client, &question("hello")).await.unwrap();
        let mut ctx = begun(&streamed).await;
        let from_stream =
            ctx.model_call_streaming(&client, &question("hello"), |_: &StreamEvent| {}).await.unwrap();
        assert_eq!(from_body.response, from_stream.response);
        assert_eq!(from_body.usage, from_stream.usage);
        let (left, right) = (log(&plain).await, log(&streamed).await);
        assert_eq!(left, right);
        assert_eq!(kinds(&left), ["run_started", "model_call_requested", "model_call_completed"]);
        let Event::ModelCallCompleted { response, usage, .. } = &left[2].event else { panic!() };
        assert_eq!(response, &serde_json::to_value(&from_body.response).unwrap());
        assert_eq!(usage, &from_body.usage);
    }
}

#[tokio::test]
async fn a_text_in_one_body_or_two_deltas_leaves_one_log() {
    check_both_leave_one_log(Both {
        body: body(
            json!([{"type": "text", "text": "Hello there"}]),
            "end_turn",
            json!({"input_tokens": 9, "output_tokens": 3}),
        ),
        stream: stream(
            json!({"input_tokens": 9, "output_tokens": 1}),
            &[(text_start(), vec![text_delta("Hello"), text_delta(" there")])],
            json!({"stop_reason": "end_turn", "stop_sequence": null}),
            json!({"output_tokens": 3}),
        ),
        content_type: "text/event-stream",
    })
    .await;
}

#[tokio::test]
async fn a_stream_with_a_wrong_content_type_is_read_all_the_same() {
    check_both_leave_one_log(Both {
        body: body(
            json!([{"type": "text", "text": "Hi"}]),
            "end_turn",
            json!({"input_tokens": 9, "output_tokens": 3}),
        ),
        stream: stream(
            json!({"input_tokens": 9, "output_tokens": 1}),
            &[(text_start(), vec![text_delta("H"), text_delta("i")])],
            json!({"stop_reason": "end_turn", "stop_sequence": null}),
            json!({"output_tokens": 3}),
        ),
        content_type: "application/json",
    })
    .await;
}

#[tokio::test]
async fn thinking_text_and_a_tool_call_leave_one_log() {
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1, "b": 2.5}});
    check_both_leave_one_log(Both {
        body: body(
            json!([
                {"type": "thinking", "thinking": "Let me add.", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "ZGF0YQ=="},
                {"type": "text", "text": "Adding."},
                call,
            ]),
            "tool_use",
            json!({"input_tokens": 20, "output_tokens": 30}),
        ),
        stream: stream(
            json!({"input_tokens": 20, "output_tokens": 2}),
            &[
                (
                    json!({"type": "thinking", "thinking": "", "signature": ""}),
                    vec![
                        json!({"type": "thinking_delta", "thinking": "Let me"}),
                        json!({"type": "thinking_delta", "thinking": " add."}),
                        json!({"type": "signature_delta", "signature": "c2ln"}),
                    ],
                ),
                (json!({"type": "redacted_thinking", "data": "ZGF0YQ=="}), vec![]),
                (text_start(), vec![text_delta("Adding"), text_delta(".")]),
                (
                    json!({"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}}),
                    vec![
                        json!({"type": "input_json_delta", "partial_json": ""}),
                        json!({"type": "input_json_delta", "partial_json": "{\"a\": 1, \"b"}),
                        json!({"type": "input_json_delta", "partial_json": "\": 2.5}"}),
                    ],
                ),
            ],
            json!({"stop_reason": "tool_use", "stop_sequence": null}),
            json!({"output_tokens": 30}),
        ),
        content_type: "text/event-stream",
    })
    .await;
}

#[tokio::test]
async fn cached_tokens_and_a_stop_sequence_leave_one_log() {
    let usage = json!({"input_tokens": 2, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 40, "output_tokens": 5});
    let mut whole = body(json!([{"type": "text", "text": "one"}]), "stop_sequence", usage);
    whole["stop_sequence"] = json!("two");
    check_both_leave_one_log(Both {
        body: whole,
        stream: stream(
            json!({"input_tokens": 2, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 40, "output_tokens": 1}),
            &[(text_start(), vec![text_delta("one")])],
            json!({"stop_reason": "stop_sequence", "stop_sequence": "two"}),
            json!({"output_tokens": 5}),
        ),
        content_type: "text/event-stream",
    })
    .await;
}

#[tokio::test]
async fn a_replayed_call_makes_no_request_and_returns_what_was_recorded() {
    let server = ScriptedServer::start(Script::new().turn(Answer::text("four words of text"))).await.unwrap();
    let client = client(&server.base_url());
    for store in stores() {
        let before = server.requests().len();
        let mut ctx = begun(&store).await;
        let mut deltas = 0;
        let live = ctx
            .model_call_streaming(&client, &question("hello"), |_: &StreamEvent| deltas += 1)
            .await
            .unwrap();
        assert!(deltas > 0);
        let mut called = false;
        let mut ctx = begun(&store).await;
        let streamed = ctx
            .model_call_streaming(&client, &question("hello"), |_: &StreamEvent| called = true)
            .await
            .unwrap();
        assert!(!called, "replay calls nobody back");
        let mut ctx = begun(&store).await;
        let plain = ctx.model_call(&client, &question("hello")).await.unwrap();
        let parts = |turn: ModelTurn| (turn.response, turn.usage);
        let (live, streamed, plain) = (parts(live), parts(streamed), parts(plain));
        assert_eq!(live, streamed);
        assert_eq!(live, plain);
        assert_eq!(server.requests().len() - before, 1);
        assert_eq!(log(&store).await.len(), 3);
    }
}

#[tokio::test]
async fn an_error_in_mid_stream_leaves_the_intent_and_the_call_is_made_again() {
    for store in stores() {
        let failing = Answer::text("half of it").fail(At::Events(3), "overloaded_error", "Overloaded");
        let server = ScriptedServer::start(Script::new().attempts([failing, Answer::text("all of it")]))
            .await
            .unwrap();
        let client = client(&server.base_url());
        let mut ctx = begun(&store).await;
        let error =
            ctx.model_call_streaming(&client, &question("hello"), |_: &StreamEvent| {}).await.unwrap_err();
        let error = model_error(error);
        assert!(error.to_string().starts_with("Stream error"), "{error}");
        assert_eq!(server.requests().len(), 1, "a stream that had begun is not tried again");
        assert_eq!(kinds(&log(&store).await), ["run_started", "model_call_requested"]);
        let mut ctx = begun(&store).await;
        let turn = ctx.model_call_streaming(&client, &question("hello"), |_: &StreamEvent| {}).await.unwrap();
        assert_eq!(turn.response.text(), "all of it");
        assert_eq!(
            kinds(&log(&store).await),
            ["run_started", "model_call_requested", "model_call_completed"]
        );
    }
}

#[tokio::test]
async fn a_call_dropped_in_mid_stream_leaves_the_intent_and_its_context_refuses_to_go_on() {
    for store in stores() {
        let stalling = Answer::text("half of it").stall(At::Events(3));
        let server = ScriptedServer::start(Script::new().attempts([stalling, Answer::text("all of it")]))
            .await
            .unwrap();
        let client = client(&server.base_url());
        let mut ctx = begun(&store).await;
        {
            let request = question("hello");
            let call = ctx.model_call_streaming(&client, &request, |_: &StreamEvent| {});
            tokio::select! {
                _ = call => panic!("the server stalls"),
                () = server.wait_for(|seen| seen.iter().any(|request| request.events_sent == 3)) => {}
            }
        }
        assert_eq!(kinds(&log(&store).await), ["run_started", "model_call_requested"]);
        let refused = ctx.model_call(&client, &question("hello")).await.unwrap_err();
        assert!(matches!(refused, RuntimeError::Dropped { .. }), "{refused:?}");
        let mut ctx = begun(&store).await;
        let turn = ctx.model_call(&client, &question("hello")).await.unwrap();
        assert_eq!(turn.response.text(), "all of it");
        assert_eq!(
            kinds(&log(&store).await),
            ["run_started", "model_call_requested", "model_call_completed"]
        );
    }
}

#[tokio::test]
async fn a_failure_that_the_code_goes_on_from_is_replayed_with_what_came_after() {
    for store in stores() {
        let server = ScriptedServer::start(Script::new().turn_with(|request| match request.model() {
            "fast" => Answer::error(529, "overloaded_error", "Overloaded"),
            _ => Answer::text("from the other"),
        }))
        .await
        .unwrap();
        let client = client(&server.base_url());
        let fast =
            || relight_llm::MessageRequest::new("fast", 64).push_message(relight_llm::Message::user("hello"));
        let mut ctx = begun(&store).await;
        let first = model_error(ctx.model_call(&client, &fast()).await.unwrap_err());
        assert_eq!(log(&store).await.len(), 2, "a failure is not history before the code goes on");
        let turn = ctx.model_call(&client, &question("hello")).await.unwrap();
        ctx.complete(turn.response.text()).await.unwrap();
        let recorded = log(&store).await;
        assert_eq!(
            kinds(&recorded),
            [
                "run_started",
                "model_call_requested",
                "model_call_failed",
                "model_call_requested",
                "model_call_completed",
                "run_completed"
            ]
        );
        let made = server.requests().len();
        let mut ctx = begun(&store).await;
        let again = model_error(ctx.model_call(&client, &fast()).await.unwrap_err());
        assert_eq!(first, again);
        assert_eq!(ctx.model_call(&client, &question("hello")).await.unwrap().response, turn.response);
        ctx.complete(turn.response.text()).await.unwrap();
        assert_eq!(server.requests().len(), made);
        assert_eq!(log(&store).await, recorded);
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_is_an_error_and_a_streamed_one_keeps_what_came() {
    for streamed in [true, false] {
        let at = if streamed { At::Events(4) } else { At::Bytes(40) };
        let script = Script::new().turn(Answer::text("only half of it").cut(at));
        let server = ScriptedServer::start(script).await.unwrap();
        let client = client(&server.base_url());
        for store in stores() {
            let mut ctx = begun(&store).await;
            let cut = match streamed {
                true => ctx.model_call_streaming(&client, &question("hello"), |_: &StreamEvent| {}).await,
                false => ctx.model_call(&client, &question("hello")).await,
            };
            let error = model_error(cut.unwrap_err());
            assert_eq!(error.partial.is_some(), streamed, "{error:?}");
            assert_eq!(kinds(&log(&store).await), ["run_started", "model_call_requested"]);
        }
    }
}

#[tokio::test]
async fn fields_that_nobody_knows_survive_in_the_recorded_response() {
    let citations = json!([{"type": "char_location", "cited_text": "x", "document_index": 0}]);
    let block = Block::whole(json!({"type": "text", "text": "cited", "citations": citations, "novel": 1}));
    let strange = Block::whole(json!({"type": "strange", "deep": {"er": [1, null]}}));
    let server = ScriptedServer::start(Script::new().turn(Answer::blocks([block, strange]))).await.unwrap();
    for store in stores() {
        let mut ctx = begun(&store).await;
        ctx.model_call_streaming(&client(&server.base_url()), &question("hello"), |_: &StreamEvent| {})
            .await
            .unwrap();
        let log = log(&store).await;
        let Event::ModelCallCompleted { response, .. } = &log[2].event else { panic!() };
        assert_eq!(response["content"][0]["citations"], citations);
        assert_eq!(response["content"][0]["novel"], json!(1));
        assert_eq!(response["content"][1], json!({"type": "strange", "deep": {"er": [1, null]}}));
    }
}
