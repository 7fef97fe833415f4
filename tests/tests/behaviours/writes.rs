//! Writes: done once, reconciled after a crash, and never handed to the model as failed while nobody knows.

use std::sync::Arc;

use relight_core::{Effect, Resolution, RunStatus, Seq, ToolOutcome, WaitReason};
use relight_runtime::{Agent, RunOutcome, Runtime, RuntimeError, Start, Tool};
use relight_store::{EventStore, RunQuery};
use relight_testkit::{
    Answer, Script, ScriptedServer,
    faults::{CrashPoint, CrashStore},
};
use serde_json::{Value, json};

use crate::support::{Behaviour, Ledger, begun, client, kinds, log, run_id, stores};

struct Setting {
    agent: Agent,
    server: ScriptedServer,
    runtime: Runtime,
}

/// An agent that calls `tool` once and then says how it went.
async fn setting(store: &Arc<dyn EventStore>, tool: Arc<dyn Tool>) -> Setting {
    let name = tool.spec().name.clone();
    let script = Script::new()
        .turn(Answer::tool_use("toolu_1", name, json!({"pay": 1})))
        .turn_with(|request| Answer::text(request.tool_results()[0].to_string()));
    let server = ScriptedServer::start(script).await.unwrap();
    let provider = Arc::new(client(&server.base_url()));
    let agent = Agent::builder().provider(provider).model("model").tool(tool).build().unwrap();
    Setting { agent, server, runtime: Runtime::new(store.clone()) }
}

impl Setting {
    async fn start(&self) -> Result<RunOutcome, RuntimeError> {
        self.runtime.start(&self.agent, Start::from("go").with_run_id(run_id())).await
    }

    async fn resume(&self) -> Result<RunOutcome, RuntimeError> {
        self.runtime.resume(&self.agent, run_id()).await
    }
}

fn waits_for_person(outcome: &RunOutcome) -> Seq {
    match outcome {
        RunOutcome::Waiting { reason: WaitReason::Reconciliation { intent, .. } } => *intent,
        other => panic!("it waits for a person, not {other:?}"),
    }
}

#[tokio::test]
async fn a_write_that_fails_after_its_work_is_found_out_and_not_handed_over_as_failed() {
    for store in stores() {
        let ledger = Ledger::new("pay", Effect::Write, Behaviour::FailsAfter);
        let setting = setting(&store, ledger.clone()).await;
        let outcome = setting.start().await.unwrap();
        let RunOutcome::Completed { output: Value::String(seen) } = outcome else { panic!("{outcome:?}") };
        assert!(seen.contains("entry") && !seen.contains("timed_out"), "{seen}");
        assert_eq!(ledger.keys().len(), 1);
    }
}

#[tokio::test]
async fn a_write_that_panics_and_one_that_nobody_can_look_up_wait_for_a_person() {
    for store in stores() {
        let ledger = Arc::new(Blind(Ledger::new("pay", Effect::Write, Behaviour::Panics)));
        let setting = setting(&store, ledger.clone()).await;
        let intent = waits_for_person(&setting.start().await.unwrap());
        assert_eq!(setting.server.requests().len(), 1, "the model was not told anything");
        let recorded = log(&store).await;
        assert_eq!(kinds(&recorded).last(), Some(&"suspended"));
        let listed = store.list_runs(&RunQuery::default()).await.unwrap().items.remove(0);
        assert!(
            matches!(listed.status, RunStatus::NeedsReconciliation { intent: listed, .. } if listed == intent)
        );

        assert_eq!(waits_for_person(&setting.resume().await.unwrap()), intent);
        assert_eq!(log(&store).await, recorded, "asking again changes nothing");

        let outcome = Resolution::Outcome(ToolOutcome::Returned(json!("paid, says the bank")));
        setting.runtime.resolve(run_id(), intent, outcome, "ops").await.unwrap();
        let outcome = setting.resume().await.unwrap();
        let RunOutcome::Completed { output: Value::String(seen) } = outcome else { panic!("{outcome:?}") };
        assert!(seen.contains("paid, says the bank"), "{seen}");
        assert_eq!(ledger.0.keys().len(), 1, "it ran once");
    }
}

#[tokio::test]
async fn a_write_that_a_person_says_was_not_done_runs_again_with_the_same_key_and_once_only() {
    for inner in stores() {
        let ledger = Arc::new(Blind(Ledger::new("pay", Effect::Write, Behaviour::CannotTell)));
        // The drive dies after the work, before its outcome is recorded: start, intent and answer, intent of the write.
        let store = CrashStore::new(inner.clone(), CrashPoint::Before(4));
        let crashing: Arc<dyn EventStore> = store.clone();
        let dying = setting(&crashing, ledger.clone()).await;
        assert!(store.drive(dying.start()).await.is_none());
        assert_eq!(ledger.0.keys().len(), 1);
        let setting = Setting { runtime: Runtime::new(inner.clone()), ..dying };
        let intent = waits_for_person(&setting.resume().await.unwrap());
        setting.runtime.resolve(run_id(), intent, Resolution::NotDone {}, "ops").await.unwrap();
        assert!(matches!(setting.resume().await.unwrap(), RunOutcome::Completed { .. }));
        let keys = ledger.0.keys();
        assert_eq!(keys.len(), 2, "a person's word sent it again");
        assert_eq!(keys[0], keys[1]);
    }
}

#[tokio::test]
async fn a_word_that_a_write_was_not_done_covers_one_attempt_only() {
    for inner in stores() {
        let ledger = Arc::new(Blind(Ledger::new("pay", Effect::Write, Behaviour::CannotTell)));
        let store = CrashStore::new(inner.clone(), CrashPoint::Before(4));
        let crashing: Arc<dyn EventStore> = store.clone();
        let dying = setting(&crashing, ledger.clone()).await;
        assert!(store.drive(dying.start()).await.is_none());
        let setting = Setting { runtime: Runtime::new(inner.clone()), ..dying };
        let intent = waits_for_person(&setting.resume().await.unwrap());
        setting.runtime.resolve(run_id(), intent, Resolution::NotDone {}, "ops").await.unwrap();
        // This drive notes its start, runs the write, and dies before it records the outcome.
        let again = CrashStore::new(inner.clone(), CrashPoint::Before(1));
        let runtime = Runtime::new(again.clone());
        assert!(again.drive(runtime.resume(&setting.agent, run_id())).await.is_none());
        assert_eq!(ledger.0.keys().len(), 2);
        assert_eq!(waits_for_person(&setting.resume().await.unwrap()), intent);
        assert_eq!(ledger.0.keys().len(), 2, "the third attempt waits for another word");
    }
}

#[tokio::test]
async fn a_write_whose_author_says_not_done_is_handed_to_the_model_as_failed() {
    for store in stores() {
        let ledger = Ledger::new("pay", Effect::Write, Behaviour::FailsBefore);
        let setting = setting(&store, ledger.clone()).await;
        let outcome = setting.start().await.unwrap();
        let RunOutcome::Completed { output: Value::String(seen) } = outcome else { panic!("{outcome:?}") };
        assert!(seen.contains("the ledger is closed"), "{seen}");
        assert_eq!(ledger.keys().len(), 0);
    }
}

#[tokio::test]
async fn an_input_that_does_not_fit_the_schema_reaches_the_model_and_not_the_tool() {
    for store in stores() {
        let ledger = Arc::new(Strict(Ledger::new("pay", Effect::Write, Behaviour::Reconciles)));
        let setting = setting(&store, ledger.clone()).await;
        let outcome = setting.start().await.unwrap();
        let RunOutcome::Completed { output: Value::String(seen) } = outcome else { panic!("{outcome:?}") };
        assert!(seen.contains("/pay does not fit"), "{seen}");
        assert_eq!(ledger.0.keys().len(), 0);
    }
}

#[tokio::test]
async fn only_an_open_tool_call_can_be_resolved() {
    for store in stores() {
        let ledger = Ledger::new("pay", Effect::Write, Behaviour::Reconciles);
        let setting = setting(&store, ledger).await;
        let mut ctx = begun(&store).await;
        let resolve = |seq| setting.runtime.resolve(run_id(), seq, Resolution::NotDone {}, "ops");
        let refused = resolve(Seq::FIRST).await.unwrap_err();
        assert!(matches!(refused, RuntimeError::NotOpen { .. }), "{refused:?}");
        ctx.complete("over").await.unwrap();
        let refused = resolve(Seq::FIRST).await.unwrap_err();
        assert!(matches!(refused, RuntimeError::Ended { .. }), "{refused:?}");
    }
}

#[tokio::test]
async fn a_cancelled_run_names_its_unsettled_writes_and_answers_as_cancelled() {
    for store in stores() {
        let ledger = Arc::new(Blind(Ledger::new("pay", Effect::Write, Behaviour::Panics)));
        let setting = setting(&store, ledger).await;
        let intent = waits_for_person(&setting.start().await.unwrap());
        setting.runtime.cancel(run_id(), "ops").await.unwrap();
        let log = log(&store).await;
        assert_eq!(log.last().unwrap().event, relight_core::Event::run_cancelled(vec![intent]));
        assert_eq!(setting.resume().await.unwrap(), RunOutcome::Cancelled);
        assert!(matches!(setting.runtime.cancel(run_id(), "ops").await, Err(RuntimeError::Ended { .. })));
    }
}

/// A ledger that cannot look itself up.
struct Blind(Arc<Ledger>);

#[async_trait::async_trait]
impl Tool for Blind {
    fn spec(&self) -> &relight_runtime::ToolSpec {
        self.0.spec()
    }

    async fn call(&self, call: relight_runtime::ToolCall<'_>) -> Result<Value, relight_runtime::ToolError> {
        self.0.call(call).await
    }
}

/// A ledger whose payments are texts.
struct Strict(Arc<Ledger>);

#[async_trait::async_trait]
impl Tool for Strict {
    fn spec(&self) -> &relight_runtime::ToolSpec {
        static SPEC: std::sync::OnceLock<relight_runtime::ToolSpec> = std::sync::OnceLock::new();
        SPEC.get_or_init(|| {
            let schema = json!({"type": "object", "properties": {"pay": {"type": "string"}}});
            self.0.spec().clone().with_schema(schema)
        })
    }

    async fn call(&self, call: relight_runtime::ToolCall<'_>) -> Result<Value, relight_runtime::ToolError> {
        self.0.call(call).await
    }
}
