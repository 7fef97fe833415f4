//! Durable runtime for LLM agents: a run is an event log that survives any crash.
//!
//! Every model call and every tool call of a run is written down before it starts and when it ends. Kill the process
//! at any instant and resume the run: what is recorded is replayed, and the run goes on from where its log ends.
//!
//! | to | see |
//! |---|---|
//! | say what an agent is | [`Agent`], [`Tool`], [`Budget`] |
//! | write the steps as code of your own | [`Workflow`], [`RunCtx`] |
//! | start, resume, resolve, cancel | [`Runtime`], [`RunOutcome`] |
//! | keep the logs | [`open`], [`EventStore`], [`MemoryStore`], `SqliteStore` (feature `sqlite`) |
//! | reach a model | `Client`, `Config` (feature `http`), [`Provider`] for one of your own |
//! | look into a log | [`RunState`], [`Event`], [`EventEnvelope`] |
//! | anything more | the crates themselves: [`core`], [`store`], [`llm`], [`runtime`] |
//!
//! # Examples
//!
//! An agent with a tool, on a model of one's own; with `Client` in its place it talks to a real one.
//!
//! ```
//! use std::sync::Arc;
//! use relight::llm::{ContentBlock, Delivery, LlmError, MessageRequest, MessageResponse, MessageStream, StopReason};
//! use relight::{Agent, Budget, Effect, Provider, RunOutcome, Runtime, Start, Tool, ToolCall, ToolError, ToolSpec};
//! use serde_json::{Value, json};
//!
//! struct Dice(ToolSpec);
//!
//! #[relight::async_trait]
//! impl Tool for Dice {
//!     fn spec(&self) -> &ToolSpec {
//!         &self.0
//!     }
//!     async fn call(&self, call: ToolCall<'_>) -> Result<Value, ToolError> {
//!         Ok(json!(call.input["sides"].as_u64().unwrap_or(6)))
//!     }
//! }
//!
//! /// Rolls once, then says what came.
//! struct Gambler;
//!
//! #[relight::async_trait]
//! impl Provider for Gambler {
//!     async fn stream(&self, request: &MessageRequest) -> Result<MessageStream, LlmError> {
//!         let (block, stop) = match request.messages().len() {
//!             1 => {
//!                 let input = json!({"sides": 20});
//!                 (ContentBlock::ToolUse { id: "a".into(), name: "roll".into(), input }, StopReason::ToolUse)
//!             }
//!             _ => (ContentBlock::text("A 20!"), StopReason::EndTurn),
//!         };
//!         let answer = MessageResponse::new("msg", request.model(), block, stop);
//!         Ok(MessageStream::of_response(&answer, Delivery::default()))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let agent = Agent::builder()
//!     .provider(Arc::new(Gambler))
//!     .model("gambler-1")
//!     .tool(Arc::new(Dice(ToolSpec::new("roll", "Rolls a die.", Effect::Read))))
//!     .budget(Budget { steps: Some(10), ..Budget::default() })
//!     .build()?;
//!
//! let runtime = Runtime::new(relight::open("memory:").await?); // on disk: "sqlite:relight.db"
//! let run = runtime.new_run_id();
//! let outcome = runtime.start(&agent, Start::from("Roll a d20.").with_run_id(run)).await?;
//! assert_eq!(outcome, RunOutcome::Completed { output: json!("A 20!") });
//!
//! // Whoever resumes it gets the same from the log, and nobody is asked again.
//! assert_eq!(runtime.resume(&agent, run).await?, outcome);
//! # Ok(())
//! # }
//! ```

mod open;

pub use open::open;

pub use relight_core as core;
pub use relight_llm as llm;
pub use relight_runtime as runtime;
pub use relight_store as store;

#[doc(no_inline)]
pub use relight_core::{Effect, Event, EventEnvelope, RunId, RunState, RunStatus, RunSummary, Seq};
#[cfg(feature = "http")]
#[doc(no_inline)]
pub use relight_llm::{Client, Config};
#[doc(no_inline)]
pub use relight_llm::{Message, MessageRequest, MessageResponse, Provider, StreamEvent};
#[doc(no_inline)]
pub use relight_runtime::{
    Agent, Budget, ModelTurn, Reconciled, RunCtx, RunOutcome, Runtime, RuntimeError, Start, Tool, ToolCall,
    ToolError, ToolSpec, Workflow,
};
#[cfg(feature = "sqlite")]
#[doc(no_inline)]
pub use relight_store::SqliteStore;
#[doc(no_inline)]
pub use relight_store::{EventStore, MemoryStore, StoreError, async_trait};
