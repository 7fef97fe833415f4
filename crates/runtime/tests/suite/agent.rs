//! The agent loop: what goes back to the model, and what each kind of answer leads to.

use std::sync::Arc;

use relight_core::{Effect, Event, Resolution, ToolOutcome, WaitReason};
use relight_llm::{ContentBlock, MessageRequest, MessageResponse, Provider};
use relight_runtime::{Agent, AgentBuilder, RunOutcome, Runtime, RuntimeError, ToolSpec};
use relight_store::EventStore;
use serde_json::{Value, json};

use crate::support::{
    Acts, Finds, Ledger, Model, answer, answers_in, call, calls, go_on, kinds, log, memory, new_run, says,
    start, until,
};

fn builder(model: &Arc<Model>) -> AgentBuilder {
    let provider: Arc<dyn Provider> = model.clone();
    Agent::builder().provider(provider).model("model")
}

async fn run(agent: &Agent) -> RunOutcome {
    start(&memory(), agent, new_run()).await.unwrap()
}

fn failed_with(outcome: RunOutcome) -> String {
    match outcome {
        RunOutcome::Failed { code, .. } => code,
        other => panic!("it should fail, not {other:?}"),
    }
}

/// The last message of a request, as it is recorded.
fn last(request: &MessageRequest) -> Value {
    serde_json::to_value(request.messages().last().unwrap()).unwrap()["content"].clone()
}

#[tokio::test]
async fn a_turn_that_pauses_for_ever_comes_to_an_end_without_a_budget() {
    let model = Model::new(|request| {
        assert!(answers_in(request) < 200, "it goes on for ever");
        Ok(answer("pause_turn", ContentBlock::text("searching")))
    });
    assert_eq!(failed_with(run(&builder(&model).build().unwrap()).await), "paused_too_often");
    assert_eq!(model.asked().len(), 33);
}

#[tokio::test]
async fn pauses_are_counted_in_a_row() {
    let look = Ledger::new("look", Effect::Read, Finds::Nothing);
    let model = Model::new(|request| match answers_in(request) {
        100 => Ok(says("done")),
        turn if turn % 25 == 0 => Ok(calls([call("a", "look", json!({}))])),
        _ => Ok(answer("pause_turn", ContentBlock::text("searching"))),
    });
    let outcome = run(&builder(&model).tool(look).build().unwrap()).await;
    assert_eq!(outcome, RunOutcome::Completed { output: json!("done") });
}

#[tokio::test]
async fn two_calls_with_one_id_are_not_made() {
    let pay = Ledger::new("pay", Effect::Write, Finds::Certainly);
    let twice = calls([call("a", "pay", json!({"n": 1})), call("a", "pay", json!({"n": 1}))]);
    let model = Model::turns([twice]);
    assert_eq!(
        failed_with(run(&builder(&model).tool(pay.clone()).build().unwrap()).await),
        "ambiguous_tool_calls"
    );
    assert!(pay.keys().is_empty());
}

#[tokio::test]
async fn of_several_calls_one_that_waits_holds_back_the_later_ones_and_the_earlier_replay() {
    let (store, run) = (memory(), new_run());
    let tools = ["first", "second", "third"].map(|name| Ledger::new(name, Effect::Write, Finds::Nothing));
    tools[1].acts(Acts::WorksAndFails);
    let turn =
        calls([call("a", "first", json!({})), call("b", "second", json!({})), call("c", "third", json!({}))]);
    let model = Model::turns([turn, says("done")]);
    let agent =
        tools.iter().fold(builder(&model), |builder, tool| builder.tool(tool.clone())).build().unwrap();
    for _ in 0..2 {
        let waiting = go_on(&store, &agent, run).await.unwrap();
        let RunOutcome::Waiting { reason: WaitReason::Reconciliation { .. } } = waiting else {
            panic!("{waiting:?}")
        };
        assert_eq!(tools.each_ref().map(|tool| tool.keys().len()), [1, 1, 0]);
    }
    let open = log(&store, run).await.iter().rfind(|e| e.event.kind() == "tool_call_requested").unwrap().seq;
    let outcome = Resolution::Outcome(ToolOutcome::Returned(json!("paid, says the bank")));
    Runtime::new(store.clone()).resolve(run, open, outcome, "ada").await.unwrap();
    assert_eq!(go_on(&store, &agent, run).await.unwrap(), RunOutcome::Completed { output: json!("done") });
    assert_eq!(tools.each_ref().map(|tool| tool.keys().len()), [1, 1, 1]);
    let results = last(&model.asked()[1]);
    let ids: Vec<_> = results.as_array().unwrap().iter().map(|result| &result["tool_use_id"]).collect();
    assert_eq!(ids, ["a", "b", "c"], "one result for each call");
    assert_eq!(results[1]["content"][0]["text"], "paid, says the bank");
}

#[tokio::test]
async fn what_the_model_said_goes_back_unchanged_with_thoughts_signatures_and_blocks_of_its_server() {
    let blocks = json!([
        {"type": "thinking", "thinking": "", "signature": "c2lnbmVk"},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"novel": null}]},
        {"type": "text", "text": "I look.", "citations": [{"cited_text": "x"}]},
        {"type": "tool_use", "id": "a", "name": "look", "input": {"big": 18446744073709551615_u64, "small": 1e-7}},
    ]);
    let content: relight_llm::Content = serde_json::from_value(blocks.clone()).unwrap();
    let model = Model::turns([answer("tool_use", content), says("done")]);
    let look = Ledger::new("look", Effect::Read, Finds::Nothing);
    run(&builder(&model).tool(look).build().unwrap()).await;
    let second = &model.asked()[1];
    let said = serde_json::to_value(&second.messages()[1]).unwrap();
    assert_eq!(said, json!({"role": "assistant", "content": blocks}));
    assert_eq!(second.messages().len(), 3);
}

/// Each text that goes back to a model, to the letter: a run that was begun by an older version asks the same.
#[tokio::test]
async fn what_goes_back_to_the_model_is_spelled_as_ever() {
    let asked = [
        call("a", "look", json!({"at": 1})),
        call("b", "nothing", json!({})),
        ContentBlock::InvalidToolUse { id: "c".into(), name: "look".into(), raw: "{\"at\"".into() },
        call("d", "strict", json!({"n": "three"})),
        call("e", "closed", json!({})),
        call("f", "says", json!({})),
    ];
    let model = Model::turns([calls(asked), says("three"), says("{\"sum\": 3}")]);
    let look = Ledger::new("look", Effect::Read, Finds::Nothing)
        .acts(Acts::Returns(json!({"z": 1.0, "a": [1e21, -0.0, 0.1, u64::MAX], "ü": "\u{7}\n"})));
    let strict = Strict::new();
    let closed = Ledger::new("closed", Effect::Write, Finds::Nothing).acts(Acts::Refuses);
    let says_text =
        Ledger::new("says", Effect::Read, Finds::Nothing).acts(Acts::Returns(json!("plain {text}")));
    let schema = json!({"type": "object", "required": ["sum"], "properties": {"sum": {"type": "number"}}});
    let agent = builder(&model)
        .tool(look)
        .tool(strict)
        .tool(closed)
        .tool(says_text)
        .output_schema(schema)
        .build()
        .unwrap();
    let runtime = Runtime::new(memory());
    let outcome = runtime.start(&agent, json!({"z": 1.0, "a": [1e21, 2.50]})).await.unwrap();
    assert_eq!(outcome, RunOutcome::Completed { output: json!({"sum": 3}) });

    let requests = model.asked();
    assert_eq!(last(&requests[0])[0]["text"], r#"{"a":[1e+21,2.5],"z":1}"#);
    let results = last(&requests[1]);
    let result = |index: usize| {
        (results[index]["content"][0]["text"].as_str().unwrap(), results[index]["is_error"] == true)
    };
    assert_eq!(result(0), (r#"{"a":[1e+21,0,0.1,18446744073709551615],"z":1,"ü":"\u0007\n"}"#, false));
    assert_eq!(result(1), ("there is no tool nothing (unknown_tool)", true));
    assert_eq!(
        result(2),
        ("the arguments for look are not a JSON object; the tool was not called (invalid_input)", true)
    );
    assert!(result(3).0.starts_with("the input was refused: /n does not fit"), "{:?}", result(3));
    assert_eq!(result(4), ("the ledger is closed (closed)", true));
    assert_eq!(result(5), ("plain {text}", false));
    assert_eq!(
        last(&requests[2])[0]["text"],
        "The answer must be one JSON object that fits this schema, and nothing else: \
         {\"properties\":{\"sum\":{\"type\":\"number\"}},\"required\":[\"sum\"],\"type\":\"object\"}"
    );
}

/// A tool whose input is held to a schema.
struct Strict(ToolSpec);

impl Strict {
    fn new() -> Arc<Strict> {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        Arc::new(Strict(ToolSpec::new("strict", "Counts.", Effect::Read).with_schema(schema)))
    }
}

#[async_trait::async_trait]
impl relight_runtime::Tool for Strict {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, call: relight_runtime::ToolCall<'_>) -> Result<Value, relight_runtime::ToolError> {
        Ok(call.input.clone())
    }
}

#[tokio::test]
async fn an_answer_with_a_schema_may_call_tools_first_and_stand_in_a_fence() {
    let schema = json!({"type": "object", "required": ["sum"]});
    let look = || Ledger::new("look", Effect::Read, Finds::Nothing);
    let fenced = says("Here it is:\n```json\n{\"sum\": 3}\n```");
    let model = Model::turns([calls([call("a", "look", json!({}))]), fenced]);
    let agent = builder(&model).tool(look()).output_schema(schema.clone()).build().unwrap();
    assert_eq!(run(&agent).await, RunOutcome::Completed { output: json!({"sum": 3}) });

    // An empty answer and one that no log can hold are asked for again.
    let deep = format!("{{\"sum\": {}{}}}", "[".repeat(119), "]".repeat(119));
    let model = Model::turns([answer("end_turn", vec![]), says(&deep), says("{\"sum\": 4}")]);
    let agent = builder(&model).tool(look()).output_schema(schema).build().unwrap();
    assert_eq!(run(&agent).await, RunOutcome::Completed { output: json!({"sum": 4}) });
}

#[tokio::test]
async fn an_answer_without_content_is_an_empty_text() {
    let model = Model::turns([answer("end_turn", vec![])]);
    assert_eq!(run(&builder(&model).build().unwrap()).await, RunOutcome::Completed { output: json!("") });
}

#[tokio::test]
async fn results_that_make_a_message_too_large_for_an_event_leave_the_run_alive() {
    let (store, run) = (memory(), new_run());
    let model = Model::turns([calls(["a", "b"].map(|id| call(id, "look", json!({})))), says("done")]);
    let look =
        Ledger::new("look", Effect::Read, Finds::Nothing).acts(Acts::Returns(json!("x".repeat(5 << 20))));
    let agent = builder(&model).tool(look).build().unwrap();
    let done = RunOutcome::Completed { output: json!("done") };
    assert_eq!(start(&store, &agent, run).await.unwrap(), done);
    let results = last(&model.asked()[1]);
    let told: Vec<bool> =
        results.as_array().unwrap().iter().map(|result| result["is_error"] == true).collect();
    assert_eq!(told, [false, true]);
}

#[test]
fn an_agent_that_could_not_run_is_refused_by_name() {
    let model = || Model::turns([]);
    let named = |name: &str| Ledger::new(name, Effect::Read, Finds::Nothing);
    let schema_of =
        |schema: Value| Arc::new(Strict(ToolSpec::new("odd", "Odd.", Effect::Read).with_schema(schema)));
    let request = || MessageRequest::new("model", 64);
    let with_request = || Agent::builder().provider(model() as Arc<dyn Provider>).request(request());
    let hosted = request().push_tool(relight_llm::Tool::hosted("web_search_1", "search"));
    for (builder, named) in [
        (Agent::builder().model("model"), "no provider"),
        (Agent::builder().provider(model()), "no model"),
        (with_request().model("model"), "a whole request and also"),
        (with_request().max_tokens(5), "a whole request and also"),
        (with_request().system("terse"), "a whole request and also"),
        (Agent::builder().provider(model()).request(request().with_temperature(f64::NAN)), "temperature"),
        (builder(&model()).tool(named("twice")).tool(named("twice")), "two tools named twice"),
        (Agent::builder().provider(model()).request(hosted).tool(named("search")), "two tools named search"),
        (builder(&model()).tool(named("")), "a tool without a name"),
        (builder(&model()).tool(schema_of(json!(true))), "tool odd: its input schema is not a JSON object"),
        (builder(&model()).tool(schema_of(json!({"type": "novel"}))), "tool odd: not a JSON Schema"),
        (builder(&model()).output_schema(json!({"$ref": "https://example.com/s.json"})), "output schema"),
    ] {
        let refused = builder.build().unwrap_err();
        assert!(matches!(refused, RuntimeError::InvalidAgent(_)), "{refused:?}");
        assert!(refused.to_string().contains(named), "{refused}");
    }
    with_request().build().unwrap();
}

#[tokio::test]
async fn an_agent_that_lost_a_tool_diverges_and_the_old_one_goes_on() {
    let (store, run) = (memory(), new_run());
    let pay = Ledger::new("pay", Effect::Write, Finds::Certainly).acts(Acts::HangsOnce);
    let model = Model::turns([calls([call("a", "pay", json!({}))]), says("done")]);
    let old = builder(&model).tool(pay.clone()).build().unwrap();
    tokio::select! {
        ended = start(&store, &old, run) => panic!("it hangs, but ended: {ended:?}"),
        () = until(async || !pay.keys().is_empty()) => {}
    }
    let before = log(&store, run).await;
    let declared_otherwise =
        builder(&model).tool(Ledger::new("pay", Effect::Read, Finds::Certainly)).build().unwrap();
    for new in [builder(&model).build().unwrap(), declared_otherwise] {
        let diverged = go_on(&store, &new, run).await.unwrap_err();
        let RuntimeError::Diverged(divergence) = &diverged else { panic!("{diverged:?}") };
        assert_eq!(divergence.difference().unwrap().path, "/agent_hash");
        assert_eq!(log(&store, run).await, before);
    }
    assert_eq!(go_on(&store, &old, run).await.unwrap(), RunOutcome::Completed { output: json!("done") });
    assert_eq!(pay.keys().len(), 1);
}

#[tokio::test]
async fn a_long_run_replays_in_one_pass() {
    // Enough for anything quadratic to be felt, and few enough to be quick where nothing is.
    const TURNS: usize = 1_000;
    let (store, run) = (memory(), new_run());
    let turn = |request: &MessageRequest| -> MessageResponse {
        match answers_in(request) {
            TURNS => says("done"),
            turn => calls([call(&format!("call-{turn}"), "look", json!({"turn": turn}))]),
        }
    };
    let model = Model::new(move |request| Ok(turn(request)));
    let agent = builder(&model).tool(Ledger::new("look", Effect::Read, Finds::Nothing)).build().unwrap();
    let store_for_half: Arc<dyn EventStore> = store.clone();
    start(&store_for_half, &agent, run).await.unwrap();
    let recorded = log(&store, run).await;
    assert_eq!(recorded.len(), 2 + 4 * TURNS + 3);
    // The same code over the log as it was before its end.
    let cut = memory();
    let events: Vec<Event> = recorded.iter().map(|envelope| envelope.event.clone()).collect();
    crate::support::seed(&cut, run, events[..events.len() - 1].to_vec()).await;
    let asked = model.asked().len();
    assert_eq!(go_on(&cut, &agent, run).await.unwrap(), RunOutcome::Completed { output: json!("done") });
    assert_eq!(model.asked().len(), asked);
    assert_eq!(kinds(&cut, run).await.len(), recorded.len() + 1, "the end, and who drove it there");
}
