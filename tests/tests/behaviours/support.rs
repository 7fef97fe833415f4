//! What the tests share: clocks, contexts, tools that count, and logs made comparable.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use relight_core::{Effect, EventEnvelope, RunId};
use relight_llm::{Client, Config, LlmError, Message, MessageRequest};
use relight_runtime::{
    ClockFn, RandomFn, Reconciled, RunCtx, RuntimeError, Tool, ToolCall, ToolError, ToolSpec,
};
use relight_store::{EventStore, MemoryStore, SqliteStore};
use serde_json::{Value, json};
use uuid::Uuid;

/// A run's id, the same in every test.
pub fn run_id() -> RunId {
    RunId::from_uuid(Uuid::from_u128(7))
}

/// A clock that stands still.
pub fn fixed_clock() -> ClockFn {
    let now = "2026-11-30T12:00:00Z".parse().unwrap();
    Arc::new(move || now)
}

/// Randomness that is always the same.
pub fn fixed_random() -> RandomFn {
    Arc::new(|| 4)
}

/// The two kinds of store that are there without a file.
pub fn stores() -> Vec<Arc<dyn EventStore>> {
    vec![Arc::new(MemoryStore::new()), Arc::new(SqliteStore::in_memory().unwrap())]
}

/// A client of the scripted server, or of any other at this address, that tries once.
pub fn client(base_url: &str) -> Client {
    Client::new(Config::new().with_base_url(base_url).with_max_retries(0)).unwrap()
}

/// A context over whatever the store holds of the run.
pub async fn context(store: &Arc<dyn EventStore>) -> RunCtx {
    RunCtx::with_hooks(store.clone(), run_id(), log(store).await, fixed_clock(), fixed_random()).unwrap()
}

/// A context that has begun.
pub async fn begun(store: &Arc<dyn EventStore>) -> RunCtx {
    let mut ctx = context(store).await;
    ctx.begin("test", &json!("input")).await.unwrap();
    ctx
}

/// The run's log, empty where there is none.
pub async fn log(store: &Arc<dyn EventStore>) -> Vec<EventEnvelope> {
    match store.head(run_id()).await.unwrap() {
        Some(_) => store.read_log(run_id()).await.unwrap(),
        None => Vec::new(),
    }
}

pub fn kinds(log: &[EventEnvelope]) -> Vec<&'static str> {
    log.iter().map(|envelope| envelope.event.kind()).collect()
}

/// A question.
pub fn question(text: &str) -> MessageRequest {
    MessageRequest::new("model", 256).push_message(Message::user(text))
}

/// A tool that keeps a ledger of what it did, by key, outside of any log.
pub struct Ledger {
    spec: ToolSpec,
    entries: Mutex<Vec<(String, Value)>>,
    behaviour: Behaviour,
}

/// How a [`Ledger`] behaves beside doing its work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// It looks itself up.
    Reconciles,
    /// It cannot.
    CannotTell,
    /// It does the work and then fails.
    FailsAfter,
    /// It fails without doing the work, and says so.
    FailsBefore,
    /// It panics after the work.
    Panics,
}

impl Ledger {
    pub fn new(name: &str, effect: Effect, behaviour: Behaviour) -> Arc<Ledger> {
        let spec = ToolSpec::new(name, "Writes an entry.", effect);
        Arc::new(Ledger { spec, entries: Mutex::default(), behaviour })
    }

    /// The keys of all that was done, in order.
    pub fn keys(&self) -> Vec<String> {
        self.entries.lock().unwrap().iter().map(|(key, _)| key.clone()).collect()
    }

    /// The inputs of all that was done, in order.
    pub fn inputs(&self) -> Vec<Value> {
        self.entries.lock().unwrap().iter().map(|(_, input)| input.clone()).collect()
    }
}

#[async_trait]
impl Tool for Ledger {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, call: ToolCall<'_>) -> Result<Value, ToolError> {
        if self.behaviour == Behaviour::FailsBefore {
            return Err(ToolError::not_done("closed", "the ledger is closed"));
        }
        self.entries.lock().unwrap().push((call.idempotency_key.to_owned(), call.input.clone()));
        match self.behaviour {
            Behaviour::FailsAfter => Err(ToolError::new("timed_out", "no answer in time")),
            Behaviour::Panics => panic!("the ledger burns"),
            _ => Ok(json!({"entry": call.input})),
        }
    }

    async fn reconcile(&self, call: ToolCall<'_>) -> Reconciled {
        if self.behaviour == Behaviour::CannotTell {
            return Reconciled::Unknown("it keeps no index".to_owned());
        }
        match self.keys().iter().any(|key| key == call.idempotency_key) {
            true => Reconciled::Done(json!({"entry": call.input})),
            false => Reconciled::NotDone,
        }
    }
}

/// The model's error inside a runtime error.
pub fn model_error(error: RuntimeError) -> LlmError {
    match error {
        RuntimeError::Model(error) => error,
        other => panic!("a model error, not {other:?}"),
    }
}
