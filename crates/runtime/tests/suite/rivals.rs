//! Two drives of one run by the runtime, each over a handle of its own: one loses before it does anything live.

use std::sync::Arc;

use relight_core::{Effect, Event, Process, Seq};
use relight_llm::{MessageResponse, Provider};
use relight_runtime::{Agent, RunOutcome, RuntimeError, this_process};
use relight_store::{EventStore, StoreError};
use serde_json::{Value, json};

use crate::support::{
    Finds, Ledger, Model, Yielding, call, calls, go_on, kinds, memory, new_run, says, seed,
};

/// An agent that calls its tool once and then answers.
struct Setting {
    agent: Agent,
    model: Arc<Model>,
    tool: Arc<Ledger>,
}

fn asks_for_the_tool() -> MessageResponse {
    calls([call("a", "tool", json!({}))])
}

fn setting(effect: Effect) -> Setting {
    let (model, tool) =
        (Model::turns([asks_for_the_tool(), says("done")]), Ledger::new("tool", effect, Finds::Certainly));
    let provider: Arc<dyn Provider> = model.clone();
    let agent = Agent::builder().provider(provider).model("model").tool(tool.clone()).build().unwrap();
    Setting { agent, model, tool }
}

/// What a drive that died has left, up to the call of the model or of the tool.
fn left_by_a_dead_drive(setting: &Setting, upto: Upto) -> Vec<Event> {
    let dead = Process { started: "1".to_owned(), ..this_process().clone() };
    let request = relight_llm::MessageRequest::new("model", 4096)
        .push_tool(relight_llm::Tool::new("tool", setting_schema()).with_description("Writes an entry."))
        .push_message(relight_llm::Message::user("go"));
    let effect = relight_runtime::Tool::spec(setting.tool.as_ref()).effect;
    let mut events = vec![
        Event::run_started(setting.agent.hash().to_string(), json!("go")),
        Event::drive_started(1, dead, "test"),
        Event::model_call_requested(request.hash(), None),
    ];
    if upto != Upto::Model {
        let answer = serde_json::to_value(asks_for_the_tool()).unwrap();
        events.push(Event::model_call_completed(Seq::new(3).unwrap(), answer, Default::default()));
    }
    if upto == Upto::Tool {
        let key = (effect != Effect::Read).then(|| "key".to_owned());
        events.push(Event::tool_call_requested("tool", json!({}), effect, key));
    }
    events
}

fn setting_schema() -> Value {
    json!({"type": "object", "properties": {}})
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Upto {
    Model,
    Answer,
    Tool,
}

#[tokio::test]
async fn of_two_resumes_one_loses_before_it_asks_a_model_or_runs_a_tool() {
    for (upto, effect) in [
        (Upto::Model, Effect::Read),
        (Upto::Answer, Effect::Read),
        (Upto::Answer, Effect::Write),
        (Upto::Tool, Effect::Read),
        (Upto::Tool, Effect::Idempotent),
        (Upto::Tool, Effect::Write),
    ] {
        let (store, run, setting) = (memory(), new_run(), setting(effect));
        seed(&store, run, left_by_a_dead_drive(&setting, upto)).await;
        let handles: [Arc<dyn EventStore>; 2] =
            [Arc::new(Yielding(store.clone())), Arc::new(Yielding(store.clone()))];
        let (left, right) =
            tokio::join!(go_on(&handles[0], &setting.agent, run), go_on(&handles[1], &setting.agent, run));
        let done =
            |result: &Result<RunOutcome, RuntimeError>| matches!(result, Ok(RunOutcome::Completed { .. }));
        let lost = |result: &Result<RunOutcome, RuntimeError>| {
            matches!(result, Err(RuntimeError::Store(StoreError::Conflict { .. })))
        };
        assert!(done(&left) && lost(&right) || lost(&left) && done(&right), "{left:?} {right:?}");
        assert_eq!(setting.tool.keys().len(), 1);
        let asked = if upto == Upto::Model { 2 } else { 1 };
        assert_eq!(setting.model.asked().len(), asked);
    }
}

#[tokio::test]
async fn a_drive_says_that_it_drives_before_it_records_what_it_found_out() {
    let (store, run, setting) = (memory(), new_run(), setting(Effect::Write));
    seed(&store, run, left_by_a_dead_drive(&setting, Upto::Tool)).await;
    setting.tool.did("key");
    go_on(&store, &setting.agent, run).await.unwrap();
    assert_eq!(kinds(&store, run).await[5..7], ["drive_started", "tool_call_completed"]);
    assert_eq!(setting.tool.keys(), ["key"], "it was found out, and not done again");
}
