//! What the tests share: a model that answers from a function, tools that keep a ledger, and runs to their end.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use relight_core::{Effect, EventEnvelope, Resolution, RunId, Seq, ToolOutcome, WaitReason};
use relight_llm::{
    Content, ContentBlock, Delivery, ErrorKind, LlmError, Message, MessageRequest, MessageResponse,
    MessageStream, Provider, Role, StopReason, Usage,
};
use relight_runtime::{
    Reconciled, RunCtx, RunOutcome, Runtime, RuntimeError, Start, Tool, ToolCall, ToolError, ToolSpec,
    Workflow, system_clock, system_random,
};
use relight_store::{EventStore, MemoryStore};
use serde_json::{Value, json};
use uuid::Uuid;

/// An id that no other test of this process uses: drives of one run see each other.
pub fn new_run() -> RunId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    RunId::from_uuid(Uuid::from_u128(NEXT.fetch_add(1, Ordering::Relaxed).into()))
}

pub fn memory() -> Arc<dyn EventStore> {
    Arc::new(MemoryStore::new())
}

type Answers = Box<dyn Fn(&MessageRequest) -> Result<MessageResponse, LlmError> + Send + Sync>;

/// A model that answers from a function, and remembers what it was asked.
pub struct Model {
    answers: Answers,
    asked: Mutex<Vec<MessageRequest>>,
}

impl Model {
    pub fn new(
        answers: impl Fn(&MessageRequest) -> Result<MessageResponse, LlmError> + Send + Sync + 'static,
    ) -> Arc<Model> {
        Arc::new(Model { answers: Box::new(answers), asked: Mutex::default() })
    }

    /// A model whose nth answer in a conversation is the nth of these.
    pub fn turns(turns: impl IntoIterator<Item = MessageResponse>) -> Arc<Model> {
        let turns: Vec<_> = turns.into_iter().collect();
        Model::new(move |request| Ok(turns[answers_in(request)].clone()))
    }

    pub fn asked(&self) -> Vec<MessageRequest> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Provider for Model {
    async fn stream(&self, request: &MessageRequest) -> Result<MessageStream, LlmError> {
        tokio::task::yield_now().await;
        self.asked.lock().unwrap().push(request.clone());
        let answer = (self.answers)(request)?;
        tokio::task::yield_now().await;
        Ok(MessageStream::of_response(&answer, Delivery::default()))
    }
}

/// How many answers a conversation holds.
pub fn answers_in(request: &MessageRequest) -> usize {
    request.messages().iter().filter(|message| message.role() == Role::Assistant).count()
}

pub fn says(text: &str) -> MessageResponse {
    answer("end_turn", ContentBlock::text(text))
}

pub fn calls(calls: impl IntoIterator<Item = ContentBlock>) -> MessageResponse {
    answer("tool_use", Content::from_iter(calls))
}

pub fn answer(stop: &str, content: impl Into<Content>) -> MessageResponse {
    MessageResponse::new("msg", "model", content, StopReason::from(stop.to_owned()))
        .with_usage(Usage::new(10, 5))
}

pub fn call(id: &str, name: &str, input: Value) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: name.into(), input }
}

pub fn overloaded() -> LlmError {
    LlmError::new(ErrorKind::Overloaded, "busy").with_status(529)
}

pub fn question(model: &str) -> MessageRequest {
    MessageRequest::new(model, 64).push_message(Message::user("hello"))
}

/// A tool that keeps a ledger of what it did, by key, outside of any log.
pub struct Ledger {
    spec: ToolSpec,
    done: Mutex<Vec<(String, Value)>>,
    acts: Mutex<Acts>,
    finds: Finds,
}

/// What a call of a [`Ledger`] does.
#[derive(Debug, Clone)]
pub enum Acts {
    /// Its work.
    Works,
    /// Its work, and then it fails.
    WorksAndFails,
    /// Nothing, and it fails without saying so.
    Fails,
    /// Nothing, and it says so.
    Refuses,
    /// Its work, and then it panics.
    WorksAndPanics,
    /// Nothing: it panics before it even gives a future back.
    PanicsAtOnce,
    /// Its work, and then it never returns.
    Hangs,
    /// Its work, and then it never returns, but works from then on.
    HangsOnce,
    /// Its work, and it returns this.
    Returns(Value),
    /// Nothing, and it fails with these words.
    FailsWith(String),
}

/// What a [`Ledger`] says when it is asked whether something was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finds {
    /// The truth, and it refuses a late attempt.
    Certainly,
    /// The truth so far.
    SoFar,
    /// Nothing.
    Nothing,
    /// It panics before it even gives a future back.
    Panics,
}

impl Ledger {
    pub fn new(name: &str, effect: Effect, finds: Finds) -> Arc<Ledger> {
        let spec = ToolSpec::new(name, "Writes an entry.", effect);
        Arc::new(Ledger { spec, done: Mutex::default(), acts: Mutex::new(Acts::Works), finds })
    }

    pub fn acts(self: &Arc<Ledger>, acts: Acts) -> Arc<Ledger> {
        *self.acts.lock().unwrap() = acts;
        self.clone()
    }

    /// The keys of all that was done, in order.
    pub fn keys(&self) -> Vec<String> {
        self.done.lock().unwrap().iter().map(|(key, _)| key.clone()).collect()
    }

    pub fn has(&self, key: &str) -> bool {
        self.done.lock().unwrap().iter().any(|(done, _)| done == key)
    }

    /// Enters what an earlier process did.
    pub fn did(&self, key: &str) {
        self.work(key, &json!({}));
    }

    fn work(&self, key: &str, input: &Value) {
        self.done.lock().unwrap().push((key.to_owned(), input.clone()));
    }

    async fn act(&self, acts: Acts, call: ToolCall<'_>) -> Result<Value, ToolError> {
        tokio::task::yield_now().await;
        let work = || self.work(call.idempotency_key, call.input);
        let receipt = json!({"entry": call.input});
        let returned = match acts {
            Acts::Works => {
                work();
                Ok(receipt)
            }
            Acts::WorksAndFails => {
                work();
                Err(ToolError::new("timed_out", "no answer in time"))
            }
            Acts::Fails => Err(ToolError::new("timed_out", "no answer in time")),
            Acts::FailsWith(words) => Err(ToolError::not_done("words", words)),
            Acts::Refuses => Err(ToolError::not_done("closed", "the ledger is closed")),
            Acts::WorksAndPanics => {
                work();
                panic!("the ledger burns")
            }
            Acts::Hangs | Acts::HangsOnce => {
                work();
                std::future::pending().await
            }
            Acts::Returns(value) => {
                work();
                Ok(value)
            }
            Acts::PanicsAtOnce => unreachable!("it has panicked"),
        };
        tokio::task::yield_now().await;
        returned
    }
}

/// Written out, and not by the macro, since a tool may do things before it gives its future back.
impl Tool for Ledger {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'life0, 'life1, 'async_trait>(
        &'life0 self,
        call: ToolCall<'life1>,
    ) -> futures::future::BoxFuture<'async_trait, Result<Value, ToolError>>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        Self: 'async_trait,
    {
        let acts = self.acts.lock().unwrap().clone();
        match acts {
            Acts::PanicsAtOnce => panic!("the ledger was never opened"),
            Acts::HangsOnce => *self.acts.lock().unwrap() = Acts::Works,
            _ => {}
        }
        Box::pin(self.act(acts, call))
    }

    fn reconcile<'life0, 'life1, 'async_trait>(
        &'life0 self,
        call: ToolCall<'life1>,
    ) -> futures::future::BoxFuture<'async_trait, Reconciled>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        Self: 'async_trait,
    {
        let done = self.has(call.idempotency_key);
        let found = match self.finds {
            Finds::Nothing => Reconciled::Unknown("it keeps no index".to_owned()),
            Finds::Panics => panic!("the index burns"),
            Finds::Certainly | Finds::SoFar if done => Reconciled::Done(json!({"entry": call.input})),
            Finds::Certainly => Reconciled::NotDone,
            Finds::SoFar => Reconciled::NotDoneYet,
        };
        Box::pin(async move {
            tokio::task::yield_now().await;
            found
        })
    }
}

/// A store that gives way before and after each of its calls, so that a drive can be dropped there.
pub struct Yielding(pub Arc<dyn EventStore>);

#[async_trait]
impl EventStore for Yielding {
    async fn append(
        &self,
        append: relight_store::Append,
    ) -> Result<relight_store::Head, relight_store::StoreError> {
        tokio::task::yield_now().await;
        let answer = self.0.append(append).await;
        tokio::task::yield_now().await;
        answer
    }

    async fn load(
        &self,
        run: RunId,
        range: relight_store::SeqRange,
    ) -> Result<Vec<relight_store::Record>, relight_store::StoreError> {
        tokio::task::yield_now().await;
        self.0.load(run, range).await
    }

    async fn head(&self, run: RunId) -> Result<Option<relight_store::Head>, relight_store::StoreError> {
        tokio::task::yield_now().await;
        self.0.head(run).await
    }

    async fn list_runs(
        &self,
        query: &relight_store::RunQuery,
    ) -> Result<relight_store::Page<relight_store::RunSummary>, relight_store::StoreError> {
        self.0.list_runs(query).await
    }
}

/// Waits until something is seen, and not for ever.
pub async fn until(seen: impl AsyncFn() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !seen().await {
        assert!(std::time::Instant::now() < deadline, "it was never seen");
        tokio::task::yield_now().await;
    }
}

/// The run's log, empty where there is none.
pub async fn log(store: &Arc<dyn EventStore>, run: RunId) -> Vec<EventEnvelope> {
    match store.head(run).await.unwrap() {
        Some(_) => store.read_log(run).await.unwrap(),
        None => Vec::new(),
    }
}

pub async fn kinds(store: &Arc<dyn EventStore>, run: RunId) -> Vec<&'static str> {
    log(store, run).await.iter().map(|envelope| envelope.event.kind()).collect()
}

/// A bare context that has begun.
pub async fn begun(store: &Arc<dyn EventStore>, run: RunId) -> RunCtx {
    let log = log(store, run).await;
    let mut ctx = RunCtx::with_hooks(store.clone(), run, log, system_clock(), system_random()).unwrap();
    ctx.begin("test", &json!("input")).await.unwrap();
    ctx
}

pub async fn start(
    store: &Arc<dyn EventStore>,
    workflow: &dyn Workflow,
    run: RunId,
) -> Result<RunOutcome, RuntimeError> {
    Runtime::new(store.clone()).start(workflow, Start::from("go").with_run_id(run)).await
}

/// Starts the run where its log is empty, and resumes it otherwise.
pub async fn go_on(
    store: &Arc<dyn EventStore>,
    workflow: &dyn Workflow,
    run: RunId,
) -> Result<RunOutcome, RuntimeError> {
    match store.head(run).await.unwrap() {
        None => start(store, workflow, run).await,
        Some(_) => Runtime::new(store.clone()).resume(workflow, run).await,
    }
}

/// Drives a run to its end; a person looks into the ledger where the run waits for one.
pub async fn to_its_end(
    store: &Arc<dyn EventStore>,
    workflow: &dyn Workflow,
    run: RunId,
    ledger: &Ledger,
) -> RunOutcome {
    for _ in 0..8 {
        match go_on(store, workflow, run).await.unwrap() {
            RunOutcome::Waiting { reason: WaitReason::Reconciliation { intent, .. } } => {
                let input = input_of(&log(store, run).await, intent);
                let resolution = match ledger.has(&input.1) {
                    true => Resolution::Outcome(ToolOutcome::Returned(json!({"entry": input.0}))),
                    false => Resolution::NotDone {},
                };
                Runtime::new(store.clone()).resolve(run, intent, resolution, "ada").await.unwrap();
            }
            ended => return ended,
        }
    }
    panic!("it comes to no end: {:?}", kinds(store, run).await)
}

/// Input and key of a recorded call.
pub fn input_of(log: &[EventEnvelope], intent: Seq) -> (Value, String) {
    let found = log.iter().find(|envelope| envelope.seq == intent).unwrap();
    match &found.event {
        relight_core::Event::ToolCallRequested { input, idempotency_key, .. } => {
            (input.clone(), idempotency_key.clone().unwrap())
        }
        other => panic!("a call of a tool, not {other:?}"),
    }
}

/// Puts a log into a store, as drives of other processes or versions may have left it.
pub async fn seed(store: &Arc<dyn EventStore>, run: RunId, events: Vec<relight_core::Event>) {
    let mut link = relight_core::chain::GENESIS;
    let mut log = Vec::new();
    let mut records = Vec::new();
    for (number, event) in (1..).zip(events) {
        let envelope = EventEnvelope {
            run_id: run,
            seq: Seq::new(number).unwrap(),
            schema_version: relight_core::SCHEMA_VERSION,
            recorded_at: "2026-11-30T12:00:00Z".parse().unwrap(),
            lane: relight_core::Lane::ROOT,
            event,
        };
        let record = relight_core::Record::seal(link, &envelope).unwrap();
        link = record.link;
        records.push(record);
        log.push(envelope);
    }
    let append = relight_store::Append {
        run,
        expect: relight_store::Expect::NewRun,
        epoch: None,
        batch: relight_store::BatchId::random(),
        records,
        summary: relight_core::RunState::fold(&log).unwrap().summary().unwrap(),
    };
    store.append(append).await.unwrap();
}
