//! How long a run of 1,000 recorded model calls takes to replay, beside reading the same rows and parsing them once.
//!
//! `cargo bench -p relight-runtime --bench replay`

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use relight_core::RunId;
use relight_llm::{
    ContentBlock, Delivery, LlmError, Message, MessageRequest, MessageResponse, MessageStream, Provider,
    StopReason,
};
use relight_runtime::{RunCtx, system_clock, system_random};
use relight_store::{EventStore, SqliteStore};
use relight_testkit::paired::{Paired, timed};
use sha2::{Digest, Sha256};
use sqlx::{Connection, Row, SqliteConnection};
use tokio::runtime::Runtime;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let fixed = Bench::record(&runtime, Transcript::Fixed);
    let growing = Bench::record(&runtime, Transcript::Growing);

    let replay = Paired::measure(PAIRS, || fixed.replay(&runtime), || fixed.read_rows(&runtime));
    println!("replaying {CALLS} calls against reading, hashing and parsing their rows: {replay}");
    let replay = Paired::measure(PAIRS, || growing.replay(&runtime), || growing.read_rows(&runtime));
    println!("the same with a transcript that grows by 1 KiB a call:                  {replay}");
    let growth = Paired::measure(PAIRS, || growing.replay(&runtime), || fixed.replay(&runtime));
    println!("a growing transcript against a fixed one:                               {growth}");
}

const CALLS: usize = 1000;
const PAIRS: usize = 25;

/// What the code sends with each call.
#[derive(Clone, Copy)]
enum Transcript {
    /// One message of 1 KiB.
    Fixed,
    /// All that was said before, and 1 KiB more.
    Growing,
}

struct Bench {
    folder: tempfile::TempDir,
    store: Arc<dyn EventStore>,
    run: RunId,
    transcript: Transcript,
}

impl Bench {
    fn record(runtime: &Runtime, transcript: Transcript) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bench.db");
        let store: Arc<dyn EventStore> =
            Arc::new(runtime.block_on(SqliteStore::open(&path)).expect("a store"));
        let bench = Self { folder, store, run: RunId::from_uuid(uuid::Uuid::from_u128(1)), transcript };
        runtime.block_on(bench.drive(&Echo));
        bench
    }

    fn replay(&self, runtime: &Runtime) -> Duration {
        timed(|| runtime.block_on(self.drive(&Nobody)))
    }

    async fn drive(&self, provider: &dyn Provider) {
        let log = match self.store.head(self.run).await.expect("a head") {
            Some(_) => self.store.read_log(self.run).await.expect("a log"),
            None => Vec::new(),
        };
        let mut ctx = RunCtx::with_hooks(self.store.clone(), self.run, log, system_clock(), system_random())
            .expect("a context");
        ctx.begin("bench/1", "input").await.expect("a beginning");
        let mut request = MessageRequest::new("model", 256);
        for call in 0..CALLS {
            if matches!(self.transcript, Transcript::Fixed) {
                request = MessageRequest::new("model", 256);
            }
            request = request.push_message(Message::user(words(call)));
            let turn = ctx.model_call(provider, &request).await.expect("an answer");
            request = request.push_message(turn.response.to_message());
        }
    }

    /// What a reader cannot avoid: every row once, its digest, its JSON.
    fn read_rows(&self, runtime: &Runtime) -> Duration {
        let url = format!("sqlite://{}", self.folder.path().join("bench.db").display());
        runtime.block_on(async {
            let mut connection = SqliteConnection::connect(&url).await.expect("a connection");
            let started = std::time::Instant::now();
            let rows = sqlx::query("SELECT bytes FROM events ORDER BY seq")
                .fetch_all(&mut connection)
                .await
                .expect("rows");
            for row in &rows {
                let bytes: &[u8] = row.get(0);
                std::hint::black_box(Sha256::digest(bytes));
                std::hint::black_box(serde_json::from_slice::<serde_json::Value>(bytes).expect("JSON"));
            }
            started.elapsed()
        })
    }
}

/// 1 KiB that is different for each call.
fn words(call: usize) -> String {
    format!("{call:08} ").repeat(114)
}

/// Answers with 1 KiB.
struct Echo;

#[async_trait]
impl Provider for Echo {
    async fn stream(&self, request: &MessageRequest) -> Result<MessageStream, LlmError> {
        let text = ContentBlock::text(words(request.messages().len()));
        let answer = MessageResponse::new("msg", "model", text, StopReason::EndTurn);
        Ok(MessageStream::of_response(&answer, Delivery::default()))
    }
}

/// Must not be asked.
struct Nobody;

#[async_trait]
impl Provider for Nobody {
    async fn stream(&self, _: &MessageRequest) -> Result<MessageStream, LlmError> {
        panic!("replay asks nobody")
    }
}
