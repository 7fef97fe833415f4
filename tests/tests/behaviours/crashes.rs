//! An agent killed at every event boundary, and while each of its effects runs, ends as an undisturbed one does.

use std::{
    future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use relight_core::Effect;
use relight_runtime::{
    Agent, Reconciled, RunOutcome, Runtime, RuntimeError, Start, Tool, ToolCall, ToolError, ToolSpec,
};
use relight_store::EventStore;
use relight_testkit::{
    Answer, Block, Script, ScriptedServer,
    faults::{CrashPoint, CrashStore},
    undisturbed,
};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::{Behaviour, Ledger, client, log, run_id, stores};

/// A tool that stops the drive before or after its work, once.
struct Deadly {
    inner: Arc<Ledger>,
    calls: AtomicUsize,
    dies: Option<Dies>,
    died: watch::Sender<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dies {
    BeforeItsWork,
    AfterItsWork,
}

impl Deadly {
    fn new(inner: Arc<Ledger>, dies: Option<Dies>) -> Arc<Deadly> {
        Arc::new(Deadly { inner, calls: AtomicUsize::new(0), dies, died: watch::Sender::new(false) })
    }

    async fn die<T>(&self) -> T {
        self.died.send_replace(true);
        future::pending().await
    }

    async fn dead(&self) {
        let mut died = self.died.subscribe();
        let _ = died.wait_for(|died| *died).await;
    }
}

#[async_trait]
impl Tool for Deadly {
    fn spec(&self) -> &ToolSpec {
        self.inner.spec()
    }

    async fn call(&self, call: ToolCall<'_>) -> Result<Value, ToolError> {
        let first = self.calls.fetch_add(1, Ordering::SeqCst) == 0;
        match self.dies.filter(|_| first) {
            Some(Dies::BeforeItsWork) => self.die().await,
            Some(Dies::AfterItsWork) => {
                self.inner.call(call).await?;
                self.die().await
            }
            None => self.inner.call(call).await,
        }
    }

    async fn reconcile(&self, call: ToolCall<'_>) -> Reconciled {
        self.inner.reconcile(call).await
    }
}

/// Reads, then pays and notes in one turn, then answers.
fn script() -> Script {
    Script::new()
        .turn(Answer::tool_use("toolu_1", "look", json!({"at": "balance"})))
        .turn(Answer::blocks([
            Block::text("Paying."),
            Block::tool_use("toolu_2", "pay", json!({"amount": 12.5})),
            Block::tool_use("toolu_3", "note", json!({"text": "paid"})),
        ]))
        .turn(Answer::text("All is paid."))
}

struct Tools {
    look: Arc<Ledger>,
    pay: Arc<Ledger>,
    note: Arc<Ledger>,
}

impl Tools {
    fn new() -> Tools {
        Tools {
            look: Ledger::new("look", Effect::Read, Behaviour::Reconciles),
            pay: Ledger::new("pay", Effect::Write, Behaviour::Reconciles),
            note: Ledger::new("note", Effect::Idempotent, Behaviour::Reconciles),
        }
    }

    fn assert_each_write_was_done_once(&self, context: &str) {
        assert_eq!(self.pay.inputs(), [json!({"amount": 12.5})], "{context}");
        let notes = self.note.keys();
        assert!(!notes.is_empty() && notes.iter().all(|key| *key == notes[0]), "{context}: {notes:?}");
    }
}

fn agent(server: &ScriptedServer, tools: [Arc<dyn Tool>; 3]) -> Agent {
    let provider = Arc::new(client(&server.base_url()));
    let builder = Agent::builder().provider(provider).model("model").system("Pay what is due.");
    tools.into_iter().fold(builder, |builder, tool| builder.tool(tool)).build().unwrap()
}

async fn start(store: &Arc<dyn EventStore>, agent: &Agent) -> Result<RunOutcome, RuntimeError> {
    Runtime::new(store.clone()).start(agent, Start::from("go").with_run_id(run_id())).await
}

/// Starts the run where the crash came before its first event, and resumes it otherwise.
async fn go_on(store: &Arc<dyn EventStore>, agent: &Agent) -> RunOutcome {
    match store.head(run_id()).await.unwrap() {
        None => start(store, agent).await.unwrap(),
        Some(_) => Runtime::new(store.clone()).resume(agent, run_id()).await.unwrap(),
    }
}

fn completed() -> RunOutcome {
    RunOutcome::Completed { output: json!("All is paid.") }
}

#[tokio::test]
async fn killed_before_and_after_each_append_it_ends_as_undisturbed() {
    for kind in 0..stores().len() {
        let server = ScriptedServer::start(script()).await.unwrap();
        let tools = Tools::new();
        let agent_of =
            |tools: &Tools| agent(&server, [tools.look.clone(), tools.pay.clone(), tools.note.clone()]);
        let counting = CrashStore::counting(stores().remove(kind));
        let store: Arc<dyn EventStore> = counting.clone();
        assert_eq!(start(&store, &agent_of(&tools)).await.unwrap(), completed());
        let expected = undisturbed(&log(&store).await);
        assert!(counting.appends() >= 9, "{}", counting.appends());

        for point in CrashPoint::all(counting.appends()) {
            let inner = stores().remove(kind);
            let tools = Tools::new();
            let agent = agent_of(&tools);
            let crashing = CrashStore::new(inner.clone(), point);
            let store: Arc<dyn EventStore> = crashing.clone();
            assert!(crashing.drive(start(&store, &agent)).await.is_none(), "{point}");
            assert_eq!(go_on(&inner, &agent).await, completed(), "{point}");
            assert_eq!(undisturbed(&log(&inner).await), expected, "{point}");
            tools.assert_each_write_was_done_once(&point.to_string());
        }
    }
}

#[tokio::test]
async fn killed_at_every_append_of_every_drive_it_still_gets_to_its_end() {
    for inner in stores() {
        let server = ScriptedServer::start(script()).await.unwrap();
        let tools = Tools::new();
        let agent = agent(&server, [tools.look.clone(), tools.pay.clone(), tools.note.clone()]);
        // Each drive lives for two appends; the second of them is never answered.
        for drive in 0..32 {
            let crashing = CrashStore::new(inner.clone(), CrashPoint::After(1));
            let store: Arc<dyn EventStore> = crashing.clone();
            if let Some(outcome) = crashing.drive(go_on(&store, &agent)).await {
                assert_eq!(outcome, completed());
                tools.assert_each_write_was_done_once("at the end");
                return;
            }
            assert!(drive < 31, "it makes no progress");
        }
    }
}

#[tokio::test]
async fn killed_while_each_effect_runs_it_ends_as_undisturbed() {
    for kind in 0..stores().len() {
        let server = ScriptedServer::start(script()).await.unwrap();
        let tools = Tools::new();
        let store = stores().remove(kind);
        let calm = agent(&server, [tools.look.clone(), tools.pay.clone(), tools.note.clone()]);
        start(&store, &calm).await.unwrap();
        let expected = undisturbed(&log(&store).await);
        for victim in 0..3 {
            for dies in [Dies::BeforeItsWork, Dies::AfterItsWork] {
                let tools = Tools::new();
                let of = |index: usize, ledger: &Arc<Ledger>| {
                    Deadly::new(ledger.clone(), (index == victim).then_some(dies))
                };
                let deadly = [of(0, &tools.look), of(1, &tools.pay), of(2, &tools.note)];
                let agent = agent(&server, deadly.clone().map(|tool| tool as Arc<dyn Tool>));
                let store = stores().remove(kind);
                tokio::select! {
                    ended = start(&store, &agent) => panic!("it ended: {ended:?}"),
                    () = deadly[victim].dead() => {}
                }
                assert_eq!(go_on(&store, &agent).await, completed());
                assert_eq!(undisturbed(&log(&store).await), expected);
                tools.assert_each_write_was_done_once("killed in an effect");
            }
        }
    }
}

#[tokio::test]
async fn killed_in_mid_stream_of_each_answer_it_ends_as_undisturbed() {
    for store in stores() {
        for turn in 0..3 {
            let stalls = |index: usize, answer: Answer| {
                let first = if index == turn {
                    answer.clone().stall(relight_testkit::At::Events(3))
                } else {
                    answer.clone()
                };
                [first, answer]
            };
            let pay = Answer::blocks([
                Block::text("Paying."),
                Block::tool_use("toolu_2", "pay", json!({"amount": 12.5})),
                Block::tool_use("toolu_3", "note", json!({"text": "paid"})),
            ]);
            let script = Script::new()
                .attempts(stalls(0, Answer::tool_use("toolu_1", "look", json!({"at": "balance"}))))
                .attempts(stalls(1, pay))
                .attempts(stalls(2, Answer::text("All is paid.")));
            let server = ScriptedServer::start(script).await.unwrap();
            let tools = Tools::new();
            let agent = agent(&server, [tools.look.clone(), tools.pay.clone(), tools.note.clone()]);
            let runtime = Runtime::new(store.clone());
            let run = runtime.new_run_id();
            tokio::select! {
                ended = runtime.start(&agent, Start::from("go").with_run_id(run)) => panic!("it ended: {ended:?}"),
                () = server.wait_for(|seen| seen.last().is_some_and(|last| last.turn == turn && last.events_sent == 3)) => {}
            }
            assert_eq!(runtime.resume(&agent, run).await.unwrap(), completed());
            assert_eq!(server.requests().len(), 4, "three answers, one of them asked for twice");
            tools.assert_each_write_was_done_once("killed in mid stream");
        }
    }
}
