//! Budgets, failed tools and long conversations replay as they were recorded.

use std::sync::Arc;

use relight_core::{Event, Seq, WaitReason, budget::Limit, request};
use relight_llm::{Message, MessageRequest};
use relight_runtime::{Agent, Budget, RunOutcome, Runtime, Start};
use relight_testkit::{Answer, Script, ScriptedServer};
use serde::Deserialize;
use serde_json::json;

use crate::support::{Behaviour, Ledger, begun, client, kinds, log, run_id, stores};

#[tokio::test]
async fn a_run_over_its_budget_waits_until_it_is_raised_and_then_ends() {
    for (limit, budget, enough) in [
        (Limit::Steps, Budget { steps: Some(1), tokens: None }, 3),
        (Limit::Tokens, Budget { steps: None, tokens: Some(1) }, 1_000_000),
    ] {
        for store in stores() {
            let script = Script::new()
                .turn(Answer::tool_use("toolu_1", "look", json!({})))
                .turn(Answer::tool_use("toolu_2", "look", json!({})))
                .turn(Answer::text("done"));
            let server = ScriptedServer::start(script).await.unwrap();
            let look = Ledger::new("look", relight_core::Effect::Read, Behaviour::Reconciles);
            let provider = Arc::new(client(&server.base_url()));
            let agent = Agent::builder()
                .provider(provider)
                .model("model")
                .tool(look.clone())
                .budget(budget)
                .build()
                .unwrap();
            let runtime = Runtime::new(store.clone());
            let waiting = RunOutcome::Waiting { reason: WaitReason::Budget { limit } };
            assert_eq!(
                runtime.start(&agent, Start::from("go").with_run_id(run_id())).await.unwrap(),
                waiting
            );
            let suspended = log(&store).await;
            assert_eq!(runtime.resume(&agent, run_id()).await.unwrap(), waiting);
            assert_eq!(log(&store).await, suspended, "asking again changes nothing");

            runtime.raise(run_id(), limit, enough, "ops").await.unwrap();
            let done = RunOutcome::Completed { output: json!("done") };
            assert_eq!(runtime.resume(&agent, run_id()).await.unwrap(), done);
            assert_eq!(server.requests().len(), 3);
            assert_eq!(look.keys().len(), 2);
            assert_eq!(
                kinds(&log(&store).await).iter().filter(|kind| **kind == "budget_exceeded").count(),
                1
            );
        }
    }
}

#[tokio::test]
async fn a_raise_that_is_not_enough_suspends_again_and_replays() {
    for store in stores() {
        let script = Script::new()
            .turn(Answer::tool_use("toolu_1", "look", json!({})))
            .turn(Answer::tool_use("toolu_2", "look", json!({})))
            .turn(Answer::text("done"));
        let server = ScriptedServer::start(script).await.unwrap();
        let look = Ledger::new("look", relight_core::Effect::Read, Behaviour::Reconciles);
        let provider = Arc::new(client(&server.base_url()));
        let budget = Budget { steps: Some(1), tokens: None };
        let agent =
            Agent::builder().provider(provider).model("model").tool(look).budget(budget).build().unwrap();
        let runtime = Runtime::new(store.clone());
        let waiting = RunOutcome::Waiting { reason: WaitReason::Budget { limit: Limit::Steps } };
        assert_eq!(runtime.start(&agent, Start::from("go").with_run_id(run_id())).await.unwrap(), waiting);
        for to in [2, 3] {
            let waits = RunOutcome::Waiting { reason: WaitReason::Budget { limit: Limit::Steps } };
            runtime.raise(run_id(), Limit::Steps, to, "ops").await.unwrap();
            let outcome = runtime.resume(&agent, run_id()).await.unwrap();
            assert_eq!(outcome == waits, to == 2, "{outcome:?}");
        }
        assert_eq!(server.requests().len(), 3);
    }
}

#[tokio::test]
async fn a_conversation_is_recorded_once_and_each_of_its_requests_can_be_put_together_again() {
    const TURNS: usize = 12;
    for store in stores() {
        let script =
            Script::new().otherwise(|request| Answer::text(format!("answer {}", request.assistant_turns())));
        let server = ScriptedServer::start(script).await.unwrap();
        let client = client(&server.base_url());
        let system = "a system prompt that stands in every request";
        let mut request = MessageRequest::new("model", 64).with_system(system);
        let mut asked = Vec::new();
        for turn in 0..TURNS {
            // Every other turn is played by a new drive, which replays all before it.
            let mut ctx = begun(&store).await;
            let mut replayed = MessageRequest::new("model", 64).with_system(system);
            for earlier in 0..turn {
                replayed = replayed.push_message(Message::user(format!("question {earlier}")));
                let turn = ctx.model_call(&client, &replayed).await.unwrap();
                replayed = replayed.push_message(turn.response.to_message());
            }
            request = request.push_message(Message::user(format!("question {turn}")));
            asked.push(request.clone());
            let answer = ctx.model_call(&client, &request).await.unwrap();
            request = request.push_message(answer.response.to_message());
        }
        assert_eq!(server.requests().len(), TURNS);
        let log = log(&store).await;
        let text = serde_json::to_string(&log).unwrap();
        assert_eq!(text.matches(system).count(), 1, "what did not change is written once");
        for turn in 0..TURNS {
            assert_eq!(
                text.matches(&format!("\"question {turn}\"")).count(),
                1,
                "question {turn} is written once"
            );
        }
        let recorded: Vec<Seq> = log
            .iter()
            .filter(|e| matches!(e.event, Event::ModelCallRequested { .. }))
            .map(|e| e.seq)
            .collect();
        for (seq, asked) in recorded.into_iter().zip(asked) {
            let full = request::expand(&log, seq).unwrap().unwrap();
            let messages = full.messages.iter().map(|message| Message::deserialize(message).unwrap());
            let again = MessageRequest::from_parts(full.rest.into(), messages).unwrap();
            assert_eq!(again.hash(), asked.hash());
        }
    }
}
