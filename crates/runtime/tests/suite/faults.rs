//! A store that fails stops the drive and nothing else.

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use relight_core::{Effect, RunId, Seq};
use relight_llm::Provider;
use relight_runtime::{Agent, RunCtx, RunOutcome, RuntimeError, Workflow};
use relight_store::{EventStore, Expect, StoreError};
use relight_testkit::{
    faults::{CrashPoint, CrashStore, FailingStore, Fault, StoreCall},
    undisturbed,
};
use serde_json::{Value, json};

use crate::support::{
    Finds, Ledger, Model, begun, call, calls, go_on, log, memory, new_run, overloaded, question, says, start,
    to_its_end,
};

/// An agent that reads, then pays and notes in one turn, then answers.
pub struct Clerk {
    pub agent: Agent,
    pub pay: Arc<Ledger>,
    pub note: Arc<Ledger>,
}

impl Clerk {
    pub fn new(finds: Finds) -> Clerk {
        let look = Ledger::new("look", Effect::Read, finds);
        let pay = Ledger::new("pay", Effect::Write, finds);
        let note = Ledger::new("note", Effect::Idempotent, finds);
        let model = Model::turns([
            calls([call("a", "look", json!({"at": "balance"}))]),
            calls([call("b", "pay", json!({"amount": 12.5})), call("c", "note", json!({"text": "paid"}))]),
            says("All is paid."),
        ]);
        let builder = Agent::builder().provider(model).model("model").system("Pay what is due.");
        let agent = builder.tool(look).tool(pay.clone()).tool(note.clone()).build().unwrap();
        Clerk { agent, pay, note }
    }

    pub fn assert_each_write_was_done_once(&self, context: &str) {
        assert_eq!(self.pay.keys().len(), 1, "{context}");
        let notes = self.note.keys();
        assert!(!notes.is_empty() && notes.iter().all(|key| *key == notes[0]), "{context}: {notes:?}");
    }
}

/// A workflow whose first model is always busy, so that it goes on with another, and then bakes.
pub struct Cook {
    pub model: Arc<Model>,
    pub oven: Arc<Ledger>,
}

impl Cook {
    pub fn new() -> Cook {
        let model = Model::new(|request| match request.model() {
            "busy" => Err(overloaded()),
            _ => Ok(says("bread")),
        });
        Cook { model, oven: Ledger::new("oven", Effect::Write, Finds::Certainly) }
    }
}

#[async_trait]
impl Workflow for Cook {
    fn agent_hash(&self) -> String {
        "cook/1".to_owned()
    }

    async fn run(&self, ctx: &mut RunCtx, _: Value) -> Result<Value, RuntimeError> {
        let model: &dyn Provider = self.model.as_ref();
        let turn = match ctx.model_call(model, &question("busy")).await {
            Err(RuntimeError::Model(_)) => ctx.model_call(model, &question("free")).await?,
            other => other?,
        };
        ctx.tool_call(self.oven.as_ref(), json!({"bake": turn.response.text()})).await?;
        Ok(turn.response.text().into())
    }
}

fn errors(run: RunId) -> Vec<StoreError> {
    let (path, why) = (PathBuf::from("relight.db"), "the disk is full".to_owned());
    vec![
        StoreError::Conflict { run, expected: Expect::Head(Seq::FIRST), actual: Some(Seq::FIRST.next()) },
        StoreError::Full { path, why },
        StoreError::TooLarge { run, limit: "event_bytes", size: 2, max: 1 },
        StoreError::backend(std::io::Error::other("the server went away")),
    ]
}

#[tokio::test]
async fn whatever_append_of_an_agent_fails_it_can_be_resumed_and_writes_once() {
    let (run, counting) = (new_run(), FailingStore::counting(memory()));
    let store: Arc<dyn EventStore> = counting.clone();
    start(&store, &Clerk::new(Finds::Certainly).agent, run).await.unwrap();
    let expected = undisturbed(&log(&store, run).await);
    for error in errors(run) {
        for fault in Fault::all(StoreCall::Append, counting.calls(StoreCall::Append)) {
            let (inner, clerk) = (memory(), Clerk::new(Finds::Certainly));
            let store: Arc<dyn EventStore> = FailingStore::new(inner.clone(), fault, error.clone());
            let failed = start(&store, &clerk.agent, run).await;
            assert!(matches!(failed, Err(RuntimeError::Store(_))), "{fault}: {failed:?}");
            let outcome = go_on(&inner, &clerk.agent, run).await.unwrap();
            assert_eq!(outcome, RunOutcome::Completed { output: json!("All is paid.") }, "{fault}");
            assert_eq!(undisturbed(&log(&inner, run).await), expected, "{fault}");
            clerk.assert_each_write_was_done_once(&fault.to_string());
        }
    }
}

#[tokio::test]
async fn whatever_call_fails_while_a_crashed_agent_is_resumed_it_can_be_resumed_again() {
    let run = new_run();
    let counting = CrashStore::counting(memory());
    let store: Arc<dyn EventStore> = counting.clone();
    start(&store, &Clerk::new(Finds::Certainly).agent, run).await.unwrap();
    for point in (1..counting.appends()).map(CrashPoint::Before) {
        // What the crash leaves, and what resuming it asks of the store.
        let crashed = || async {
            let (inner, clerk) = (memory(), Clerk::new(Finds::Nothing));
            let crashing = CrashStore::new(inner.clone(), point);
            let store: Arc<dyn EventStore> = crashing.clone();
            assert!(crashing.drive(start(&store, &clerk.agent, run)).await.is_none());
            (inner, clerk)
        };
        let (inner, clerk) = crashed().await;
        let counting = FailingStore::counting(inner);
        let store: Arc<dyn EventStore> = counting.clone();
        to_its_end(&store, &clerk.agent, run, &clerk.pay).await;
        for call in [StoreCall::Append, StoreCall::Head, StoreCall::Load] {
            for fault in Fault::all(call, counting.calls(call)) {
                let (inner, clerk) = crashed().await;
                let error = StoreError::backend(std::io::Error::other("the server went away"));
                let failing: Arc<dyn EventStore> = FailingStore::new(inner.clone(), fault, error);
                let tried = relight_runtime::Runtime::new(failing).resume(&clerk.agent, run).await;
                if let Err(error) = tried {
                    assert!(matches!(error, RuntimeError::Store(_)), "{point}, {fault}: {error:?}");
                }
                to_its_end(&inner, &clerk.agent, run, &clerk.pay).await;
                clerk.assert_each_write_was_done_once(&format!("{point}, {fault}"));
            }
        }
    }
}

#[tokio::test]
async fn whatever_append_of_a_fallback_fails_it_can_be_resumed_and_writes_once() {
    let (run, counting) = (new_run(), FailingStore::counting(memory()));
    let store: Arc<dyn EventStore> = counting.clone();
    start(&store, &Cook::new(), run).await.unwrap();
    let expected = undisturbed(&log(&store, run).await);
    for error in errors(run) {
        for fault in Fault::all(StoreCall::Append, counting.calls(StoreCall::Append)) {
            let (inner, cook) = (memory(), Cook::new());
            let store: Arc<dyn EventStore> = FailingStore::new(inner.clone(), fault, error.clone());
            start(&store, &cook, run).await.unwrap_err();
            assert_eq!(
                go_on(&inner, &cook, run).await.unwrap(),
                RunOutcome::Completed { output: json!("bread") }
            );
            assert_eq!(undisturbed(&log(&inner, run).await), expected, "{fault}");
            assert_eq!(cook.oven.keys().len(), 1, "{fault}");
        }
    }
}

/// Every operation of a context, each time with the first append that it makes failing.
#[tokio::test]
async fn a_context_refuses_to_go_on_after_its_store_has_failed_and_says_why() {
    let (model, tool) = (Model::turns([says("hi")]), Ledger::new("pay", Effect::Write, Finds::Certainly));
    for operation in 0..5 {
        let (inner, run) = (memory(), new_run());
        let error = StoreError::backend(std::io::Error::other("the server went away"));
        let store: Arc<dyn EventStore> =
            FailingStore::new(inner.clone(), Fault::Instead(StoreCall::Append, 1), error);
        let mut ctx = begun(&store, run).await;
        let budget = relight_runtime::Budget { steps: Some(0), tokens: None };
        let failed = match operation {
            0 => ctx.model_call(model.as_ref(), &question("m")).await.map(drop),
            1 => ctx.tool_call(tool.as_ref(), json!({})).await.map(drop),
            2 => ctx.check_budget(&budget).await,
            3 => ctx.complete("done").await,
            _ => ctx.fail("code", "message").await,
        };
        assert!(matches!(failed, Err(RuntimeError::Store(_))), "{operation}: {failed:?}");
        for refused in [
            ctx.model_call(model.as_ref(), &question("m")).await.map(drop),
            ctx.tool_call(tool.as_ref(), json!({})).await.map(drop),
            ctx.check_budget(&budget).await,
            ctx.complete("done").await,
            ctx.fail("code", "message").await,
        ] {
            let refused = refused.unwrap_err();
            assert!(matches!(refused, RuntimeError::Stopped { .. }), "{refused:?}");
            assert!(refused.to_string().contains("the server went away"), "{refused}");
        }
        assert_eq!(log(&inner, run).await.len(), 1);
        assert!(model.asked().is_empty() && tool.keys().is_empty(), "nothing is done after a lost intent");
        // A new one goes on.
        begun(&inner, run).await.complete("done").await.unwrap();
    }
}

#[tokio::test]
async fn an_append_that_was_done_though_its_answer_was_lost_is_gone_on_from_in_the_same_process() {
    let run = new_run();
    for number in 0..3 {
        let inner = memory();
        let error = StoreError::backend(std::io::Error::other("the answer was lost"));
        let store: Arc<dyn EventStore> =
            FailingStore::new(inner.clone(), Fault::After(StoreCall::Append, number), error);
        let model = Model::turns([says("hi")]);
        let tried = async {
            let mut ctx = RunCtx::with_hooks(
                store.clone(),
                run,
                vec![],
                relight_runtime::system_clock(),
                relight_runtime::system_random(),
            )?;
            ctx.begin("test", &json!("input")).await?;
            ctx.model_call(model.as_ref(), &question("m")).await
        };
        assert!(matches!(tried.await, Err(RuntimeError::Store(_))));
        let turn = begun(&inner, run).await.model_call(model.as_ref(), &question("m")).await.unwrap();
        assert_eq!(turn.response.text(), "hi");
        assert_eq!(model.asked().len(), 1, "asked once, whatever answer of the store was lost");
        assert_eq!(log(&inner, run).await.len(), 3);
    }
}
