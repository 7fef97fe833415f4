//! The names and types that others rely on, used as a stranger would use them: a server of recorded bytes, a store in
//! memory, and contexts over a log.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "helpers of tests stand outside of test functions")]

mod support;

use std::{
    error::Error,
    fmt::Debug,
    sync::{Arc, Mutex, atomic::Ordering},
};

use jiff::Timestamp;
use relight_core::{Event, EventEnvelope, RunId};
use relight_llm::{Client, Config, Message, MessageRequest, MessageResponse, StreamEvent};
use relight_runtime::{ClockFn, ModelTurn, RunCtx, RuntimeError};
use relight_store::{EventStore, SqliteStore};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::oneshot,
};
use uuid::Uuid;

use support::{
    NOW, STREAM, bare_answer, begun, body, calls, client, fixed, kinds, raw_server, read_request, request,
    run_id, server, sse, store,
};

type Outcome = Result<(), Box<dyn Error>>;

/// One answer, whole and streamed: two equal logs, responses and usages. Gives back the response.
async fn check_one_log(
    body: Value,
    stream: &str,
    content_type: &str,
) -> Result<MessageResponse, Box<dyn Error>> {
    let server = server(body, stream, content_type).await;
    let client = client(&server.uri())?;
    let (left, right) = (store()?, store()?);
    let whole = begun(&left, Vec::new()).await?.model_call(&client, &request()).await?;
    let mut events = Vec::new();
    let streamed = begun(&right, Vec::new())
        .await?
        .model_call_streaming(&client, &request(), |event: &StreamEvent| events.push(event.clone()))
        .await?;
    assert!(!events.is_empty());
    assert_eq!(whole.response, streamed.response);
    assert_eq!(whole.usage, streamed.usage);
    let (left, right) = (left.read_log(run_id()).await?, right.read_log(run_id()).await?);
    assert_eq!(left, right);
    assert_eq!(kinds(&left), ["started", "requested", "completed"]);
    assert!(
        left.iter()
            .all(|envelope| envelope.recorded_at == NOW.parse().unwrap() && envelope.run_id == run_id())
    );
    let Event::ModelCallCompleted { response, usage, .. } = &left[2].event else { panic!("{left:?}") };
    assert_eq!(serde_json::from_value::<MessageResponse>(response.clone())?, whole.response);
    assert_eq!(usage, &whole.usage);
    Ok(whole.response)
}

#[test]
fn what_others_hold_can_be_shown_copied_and_compared() {
    fn value<T: Debug + Clone + PartialEq + Send + Sync + 'static>() {}
    fn shown<T: Debug + Send + Sync + 'static>() {}
    fn error<T: Error + Send + Sync + 'static>() {}
    value::<MessageResponse>();
    value::<MessageRequest>();
    value::<Message>();
    value::<StreamEvent>();
    value::<Event>();
    value::<EventEnvelope>();
    value::<RunId>();
    shown::<ModelTurn>();
    shown::<Client>();
    error::<RuntimeError>();
}

#[tokio::test]
async fn a_body_without_its_markers_and_a_stream_with_them_leave_one_log() -> Outcome {
    let response = check_one_log(body(), STREAM, "text/event-stream").await?;
    assert_eq!(response.text(), "Grüße, 世界 🌍");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn markers_nulls_and_cache_fields_in_the_body_change_nothing() -> Outcome {
    let mut full = body();
    full["type"] = json!("message");
    full["stop_sequence"] = Value::Null;
    full["usage"]["cache_creation_input_tokens"] = Value::Null;
    full["usage"]["cache_read_input_tokens"] = json!(0);
    for content_type in ["text/plain", "application/json", "text/event-stream; charset=utf-8"] {
        check_one_log(full.clone(), STREAM, content_type).await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_answer_without_content_or_without_usage_at_its_start_leaves_one_log() -> Outcome {
    let stream = |usage: Option<Value>| {
        let mut message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "model",
            "content": [], "stop_reason": null});
        if let Some(usage) = usage {
            message["usage"] = usage;
        }
        sse(&[
            json!({"type": "message_start", "message": message}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
                "usage": {"input_tokens": 3, "output_tokens": 1}}),
            json!({"type": "message_stop"}),
        ])
    };
    let empty = json!({"id": "msg_1", "role": "assistant", "model": "model", "content": [], "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 1}});
    let response = check_one_log(empty.clone(), &stream(None), "text/event-stream").await?;
    assert_eq!(response.text(), "");
    let usage = json!({"input_tokens": 3, "output_tokens": 0});
    check_one_log(empty, &stream(Some(usage)), "text/event-stream").await?;
    Ok(())
}

#[tokio::test]
async fn a_tool_call_with_numbers_at_their_ends_leaves_one_log_and_replays() -> Outcome {
    let input = r#"{"max":18446744073709551615,"min":-9223372036854775808,"tiny":5e-324,"huge":1.7976931348623157e308,"zero":-0.0,"third":0.1,"deep":[null,{"":"\u0000"}]}"#;
    let value: Value = serde_json::from_str(input)?;
    let body = json!({"id": "msg_1", "role": "assistant", "model": "model", "stop_reason": "tool_use",
        "content": [{"type": "tool_use", "id": "toolu_1", "name": "add", "input": value}],
        "usage": {"input_tokens": 1, "output_tokens": 1}});
    let halves = input.split_at(40);
    let delta = |part: &str| {
        let delta = json!({"type": "input_json_delta", "partial_json": part});
        json!({"type": "content_block_delta", "index": 0, "delta": delta})
    };
    let events = [
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
            "model": "model", "content": [], "stop_reason": null, "usage": {"input_tokens": 1, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}}}),
        delta(""),
        delta(halves.0),
        delta(halves.1),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null},
            "usage": {"output_tokens": 1}}),
        json!({"type": "message_stop"}),
    ];
    let response = check_one_log(body, &sse(&events), "text/event-stream").await?;
    let recorded = serde_json::to_value(&response)?;
    assert_eq!(recorded["content"][0]["input"], value);
    assert!(recorded["content"][0]["input"]["zero"].as_f64().unwrap().is_sign_negative());
    Ok(())
}

#[tokio::test]
async fn a_stream_in_pieces_of_any_size_and_of_no_declared_type_is_the_same_answer() -> Outcome {
    let whole = check_one_log(body(), STREAM, "text/event-stream").await?;
    for size in [1, 2, 3, 7, 64, 1000] {
        let (uri, _) = raw_server(bare_answer(STREAM.as_bytes(), size)).await?;
        let client = client(&uri)?;
        let mut text = String::new();
        let turn = begun(&store()?, Vec::new())
            .await?
            .model_call_streaming(&client, &request(), |event: &StreamEvent| {
                text.push_str(&format!("{event:?}"))
            })
            .await?;
        assert_eq!(turn.response, whole, "in pieces of {size}");
    }
    Ok(())
}

#[tokio::test]
async fn a_recorded_call_asks_nobody_and_calls_nobody_back() -> Outcome {
    let server = server(body(), STREAM, "text/event-stream").await;
    let client = client(&server.uri())?;
    for streamed_first in [true, false] {
        let store = store()?;
        let before = calls(&server).await;
        let mut ctx = begun(&store, Vec::new()).await?;
        let live = match streamed_first {
            true => ctx.model_call_streaming(&client, &request(), |_| {}).await?,
            false => ctx.model_call(&client, &request()).await?,
        };
        let log = store.read_log(run_id()).await?;
        let mut called = 0;
        let mut ctx = begun(&store, log.clone()).await?;
        let streamed = ctx.model_call_streaming(&client, &request(), |_: &StreamEvent| called += 1).await?;
        let plain = begun(&store, log.clone()).await?.model_call(&client, &request()).await?;
        assert_eq!(called, 0);
        let ModelTurn { response, usage, .. } = live;
        for replayed in [streamed, plain] {
            assert_eq!((&replayed.response, &replayed.usage), (&response, &usage));
        }
        assert_eq!(calls(&server).await - before, 1);
        assert_eq!(store.read_log(run_id()).await?, log);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_in_mid_stream_leaves_the_intent_last_and_the_next_context_records_one_completion() -> Outcome
{
    let cut = STREAM.find("event: content_block_stop").unwrap();
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let failing = server(body(), &format!("{}{error}", &STREAM[..cut]), "text/event-stream").await;
    let store = store()?;
    // With retries allowed: a stream that has begun is not tried again all the same.
    let retrying = Client::new(Config::new().with_base_url(failing.uri()).with_max_retries(3))?;
    let mut seen = 0;
    let failed = begun(&store, Vec::new())
        .await?
        .model_call_streaming(&retrying, &request(), |_: &StreamEvent| seen += 1)
        .await
        .unwrap_err();
    assert!(matches!(failed, RuntimeError::Model(_)), "{failed:?}");
    assert!(seen > 0);
    assert_eq!(calls(&failing).await, 1);
    let log = store.read_log(run_id()).await?;
    assert_eq!(kinds(&log), ["started", "requested"]);

    let healthy = server(body(), STREAM, "text/event-stream").await;
    let client = client(&healthy.uri())?;
    let turn =
        begun(&store, log).await?.model_call_streaming(&client, &request(), |_: &StreamEvent| {}).await?;
    assert_eq!(turn.response.text(), "Grüße, 世界 🌍");
    assert_eq!(kinds(&store.read_log(run_id()).await?), ["started", "requested", "completed"]);
    Ok(())
}

#[tokio::test]
async fn a_call_dropped_in_mid_stream_leaves_the_intent_last_and_poisons_its_context() -> Outcome {
    let cut = STREAM.find("event: content_block_stop").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let uri = format!("http://{}", listener.local_addr()?);
    // Half of an answer, and then nothing for as long as the connection lives.
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await?;
        read_request(&mut socket).await?;
        socket.write_all(&bare_answer(&STREAM.as_bytes()[..cut], usize::MAX).concat()).await?;
        let _ = socket.read(&mut [0; 1]).await;
        std::io::Result::Ok(())
    });
    let store = store()?;
    let stalled = client(&uri)?;
    let mut ctx = begun(&store, Vec::new()).await?;
    let (sender, begun_to_answer) = oneshot::channel();
    let mut sender = Some(sender);
    let question = request();
    {
        let call = ctx.model_call_streaming(&stalled, &question, |_: &StreamEvent| {
            let _ = sender.take().map(|sender| sender.send(()));
        });
        tokio::select! {
            turn = call => panic!("the server stalls, and yet: {turn:?}"),
            _ = begun_to_answer => {}
        }
    }
    let log = store.read_log(run_id()).await?;
    assert_eq!(kinds(&log), ["started", "requested"]);
    let server = server(body(), STREAM, "text/event-stream").await;
    let client = client(&server.uri())?;
    for _ in 0..2 {
        let refused = ctx.model_call(&client, &question).await.unwrap_err();
        assert!(matches!(refused, RuntimeError::Dropped { .. }), "{refused:?}");
    }
    assert_eq!(calls(&server).await, 0);
    begun(&store, log).await?.model_call(&client, &question).await?;
    assert_eq!(kinds(&store.read_log(run_id()).await?), ["started", "requested", "completed"]);
    Ok(())
}

#[tokio::test]
async fn a_call_dropped_before_it_was_ever_polled_did_nothing() -> Outcome {
    let server = server(body(), STREAM, "text/event-stream").await;
    let client = client(&server.uri())?;
    let store = store()?;
    let mut ctx = begun(&store, Vec::new()).await?;
    drop(ctx.model_call(&client, &request()));
    assert_eq!(kinds(&store.read_log(run_id()).await?), ["started"]);
    assert_eq!(ctx.model_call(&client, &request()).await?.response.text(), "Grüße, 世界 🌍");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_contexts_at_once_one_asks_and_records() -> Outcome {
    let server = server(body(), STREAM, "text/event-stream").await;
    let store = store()?;
    begun(&store, Vec::new()).await?;
    let log = store.read_log(run_id()).await?;
    let drives = [log.clone(), log].map(|log| {
        let (store, client) = (store.clone(), client(&server.uri()));
        let (clock, random) = fixed();
        let client = client.unwrap();
        tokio::spawn(async move {
            let mut ctx = RunCtx::with_hooks(store, run_id(), log, clock, random)?;
            ctx.begin("any string", &json!({"question": "hello"})).await?;
            let mut seen = Vec::new();
            let turn = ctx
                .model_call_streaming(&client, &request(), |event: &StreamEvent| {
                    seen.push(format!("{event:?}"))
                })
                .await?;
            Ok::<_, RuntimeError>((turn, seen.len()))
        })
    });
    let mut won = 0;
    for drive in drives {
        match drive.await? {
            Ok(_) => won += 1,
            Err(RuntimeError::Store(_)) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(won, 1);
    assert_eq!(calls(&server).await, 1);
    assert_eq!(kinds(&store.read_log(run_id()).await?), ["started", "requested", "completed"]);
    Ok(())
}

#[tokio::test]
async fn a_cut_stream_is_a_failure_wherever_it_was_cut() -> Outcome {
    for (end, _) in STREAM.match_indices("event: ") {
        let (uri, seen) = raw_server(bare_answer(&STREAM.as_bytes()[..end], 512)).await?;
        let store = store()?;
        let cut = begun(&store, Vec::new())
            .await?
            .model_call_streaming(&client(&uri)?, &request(), |_: &StreamEvent| {})
            .await;
        // A stream that lacks nothing but its last word is whole: some gateways leave that out.
        let is_whole = STREAM[end..].starts_with("event: message_stop");
        match cut {
            Ok(_) if is_whole => continue,
            Err(RuntimeError::Model(_)) if !is_whole => {}
            other => panic!("cut at {end}: {other:?}"),
        }
        assert_eq!(seen.load(Ordering::SeqCst), 1);
        assert_eq!(kinds(&store.read_log(run_id()).await?), ["started", "requested"]);
    }
    Ok(())
}

#[tokio::test]
async fn unknown_fields_survive_and_a_giant_index_allocates_nothing() -> Outcome {
    let stream = STREAM
        .replace(
            r#""text":""}"#,
            r#""text":"","citations":[{"cited_text":"x","novel":[1,null]}],"mood":"calm"}"#,
        )
        .replace(r#""index":0"#, r#""index":2147483648"#);
    let (uri, _) = raw_server(bare_answer(stream.as_bytes(), 512)).await?;
    let store = store()?;
    let mut ctx = begun(&store, Vec::new()).await?;
    let turn = ctx.model_call_streaming(&client(&uri)?, &request(), |_: &StreamEvent| {}).await?;
    let recorded = serde_json::to_value(&turn.response)?;
    assert_eq!(recorded["content"].as_array().unwrap().len(), 1);
    assert_eq!(recorded["content"][0]["citations"], json!([{"cited_text": "x", "novel": [1, null]}]));
    assert_eq!(recorded["content"][0]["mood"], "calm");
    Ok(())
}

#[tokio::test]
async fn every_time_in_a_log_was_told_by_the_clock() -> Outcome {
    let server = server(body(), STREAM, "text/event-stream").await;
    let client = client(&server.uri())?;
    let mut logs = Vec::new();
    for streamed in [true, false] {
        let told = Arc::new(Mutex::new(Vec::new()));
        let ticks = told.clone();
        let clock: ClockFn = Arc::new(move || {
            let mut ticks = ticks.lock().unwrap();
            let now = Timestamp::new(1_700_000_000 + ticks.len() as i64, 1).unwrap();
            ticks.push(now);
            now
        });
        let store = store()?;
        let mut ctx = RunCtx::with_hooks(store.clone(), run_id(), Vec::new(), clock, Arc::new(|| 4u64))?;
        ctx.begin(&format!("agent {}", 1), &Value::Null).await?;
        match streamed {
            true => ctx.model_call_streaming(&client, &request(), |_: &StreamEvent| {}).await?,
            false => ctx.model_call(&client, &request()).await?,
        };
        let log = store.read_log(run_id()).await?;
        let told = told.lock().unwrap();
        assert!(log.iter().all(|envelope| told.contains(&envelope.recorded_at)), "{told:?} {log:?}");
        logs.push(log);
    }
    assert_eq!(logs[0], logs[1]);
    Ok(())
}

#[tokio::test]
async fn a_log_with_a_gap_in_another_order_or_of_another_run_is_refused() -> Outcome {
    let server = server(body(), STREAM, "text/event-stream").await;
    let client = client(&server.uri())?;
    let store = store()?;
    begun(&store, Vec::new()).await?.model_call(&client, &request()).await?;
    let log = store.read_log(run_id()).await?;
    let mut gap = log.clone();
    gap.remove(1);
    let mut swapped = log.clone();
    swapped.swap(1, 2);
    let mut foreign = log.clone();
    foreign[1].run_id = RunId::from_uuid(Uuid::nil());
    for wrong in [gap, swapped, foreign] {
        let (clock, random) = fixed();
        let refused = RunCtx::with_hooks(store.clone(), run_id(), wrong, clock, random);
        assert!(refused.is_err());
    }
    Ok(())
}

#[tokio::test]
async fn a_context_over_a_log_that_is_cut_short_records_nothing_over_the_rest() -> Outcome {
    let server = server(body(), STREAM, "text/event-stream").await;
    let client = client(&server.uri())?;
    let store = store()?;
    begun(&store, Vec::new()).await?.model_call(&client, &request()).await?;
    let log = store.read_log(run_id()).await?;
    for keep in 0..3 {
        let (clock, random) = fixed();
        let stale = async {
            let mut ctx = RunCtx::with_hooks(store.clone(), run_id(), log[..keep].to_vec(), clock, random)?;
            ctx.begin("any string", &json!({"question": "hello"})).await?;
            ctx.model_call(&client, &request()).await
        };
        let lost = stale.await;
        assert!(lost.is_err(), "{keep}: {lost:?}");
        assert_eq!(store.read_log(run_id()).await?, log);
    }
    Ok(())
}

#[test]
fn a_program_needs_only_a_current_thread_and_question_marks() -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // A store in memory needs no runtime to be opened.
    let store = SqliteStore::in_memory()?;
    let text = runtime.block_on(async {
        let server = server(body(), STREAM, "text/plain").await;
        let client = Client::new(Config::new().with_base_url(server.uri() + "/").with_max_retries(0))?;
        let store: Arc<dyn EventStore> = Arc::new(store);
        let (clock, random) = fixed();
        let run_id = RunId::from_uuid(Uuid::nil());
        let mut ctx = RunCtx::with_hooks(Arc::clone(&store), run_id, vec![], clock, random)?;
        ctx.begin("", &json!(null)).await?;
        let mut events = 0;
        let mut count = |_: &StreamEvent| events += 1;
        let turn = ctx.model_call_streaming(&client, &request(), &mut count).await?;
        assert!(events > 0);
        let again = ctx.model_call(&client, &request()).await?;
        assert_eq!(turn.response, again.response);
        assert_eq!(store.read_log(run_id).await?.len(), 5);
        Ok::<_, Box<dyn Error>>(turn.response.text())
    })?;
    assert_eq!(text, "Grüße, 世界 🌍");
    Ok(())
}
