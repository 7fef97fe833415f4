//! What the loop does with each way in which an answer may end.

use std::sync::Arc;

use relight_runtime::{Agent, RunOutcome, Runtime, RuntimeError};
use relight_testkit::{Answer, At, Block, Script, ScriptedServer};
use serde_json::{Value, json};

use crate::support::{client, stores};

async fn run(
    script: Script,
    configure: impl Fn(relight_runtime::AgentBuilder) -> relight_runtime::AgentBuilder,
) -> (Result<RunOutcome, RuntimeError>, usize) {
    let server = ScriptedServer::start(script).await.unwrap();
    let builder = Agent::builder().provider(Arc::new(client(&server.base_url()))).model("model");
    let agent = configure(builder).build().unwrap();
    let runtime = Runtime::new(stores().remove(0));
    (runtime.start(&agent, "go").await, server.requests().len())
}

fn failed_with(outcome: Result<RunOutcome, RuntimeError>) -> String {
    match outcome {
        Ok(RunOutcome::Failed { code, .. }) => code,
        other => panic!("it should fail, not {other:?}"),
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_or_refused_is_not_taken_for_a_finished_one() {
    for (reason, code) in [
        ("max_tokens", "max_tokens"),
        ("refusal", "refusal"),
        ("model_context_window_exceeded", "context_window"),
        ("novel_reason", "unknown_stop_reason"),
        ("tool_use", "no_tool_call"),
    ] {
        let script = Script::new().turn(Answer::text("half an answer").stop_reason(reason));
        let (outcome, requests) = run(script, |agent| agent).await;
        assert_eq!(failed_with(outcome), code);
        assert_eq!(requests, 1);
    }
}

#[tokio::test]
async fn a_paused_turn_is_sent_back_unchanged_and_goes_on() {
    let script =
        Script::new().turn(Answer::text("Searching").stop_reason("pause_turn")).turn_with(|request| {
            let last = request.messages().last().unwrap();
            assert_eq!(last["role"], "assistant");
            assert_eq!(last["content"][0]["text"], "Searching");
            Answer::text("found")
        });
    let (outcome, requests) = run(script, |agent| agent).await;
    assert_eq!(outcome.unwrap(), RunOutcome::Completed { output: json!("found") });
    assert_eq!(requests, 2);
}

#[tokio::test]
async fn a_stop_sequence_ends_an_answer() {
    let script = Script::new().turn(Answer::text("one").stop_sequence("two"));
    let (outcome, _) = run(script, |agent| agent).await;
    assert_eq!(outcome.unwrap(), RunOutcome::Completed { output: json!("one") });
}

#[tokio::test]
async fn a_truncated_stream_is_an_error_that_the_run_can_be_resumed_from() {
    let script = Script::new().turn(Answer::text("half of an answer").cut(At::Events(4)));
    let (outcome, requests) = run(script, |agent| agent).await;
    assert!(matches!(outcome, Err(RuntimeError::Model(_))), "{outcome:?}");
    assert_eq!(requests, 1);
}

#[tokio::test]
async fn a_tool_that_is_not_there_is_told_to_the_model() {
    let script = Script::new()
        .turn(Answer::blocks([Block::tool_use("toolu_1", "nothing", json!({}))]))
        .turn_with(|request| {
            let result = request.tool_results()[0];
            assert_eq!(result["is_error"], json!(true));
            Answer::text("so be it")
        });
    let (outcome, _) = run(script, |agent| agent).await;
    assert_eq!(outcome.unwrap(), RunOutcome::Completed { output: json!("so be it") });
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]})
}

#[tokio::test]
async fn an_answer_with_a_schema_is_an_object_that_fits_it() {
    let script = Script::new()
        .turn(Answer::text("three"))
        .turn(Answer::text("{\"sum\": \"3\"}"))
        .turn(Answer::text("{\"sum\": 3}"));
    let (outcome, requests) = run(script, |agent| agent.output_schema(schema())).await;
    assert_eq!(outcome.unwrap(), RunOutcome::Completed { output: json!({"sum": 3}) });
    assert_eq!(requests, 3, "the model was told twice what did not fit");
}

#[tokio::test]
async fn an_answer_that_never_fits_its_schema_fails_the_run() {
    let script = Script::new().otherwise(|_| Answer::text("three"));
    let (outcome, requests) = run(script, |agent| agent.output_schema(schema())).await;
    assert_eq!(failed_with(outcome), "invalid_output");
    assert_eq!(requests, 3);
}
