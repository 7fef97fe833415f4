//! Code that a run executes.

use async_trait::async_trait;
use serde_json::Value;

use crate::{RunCtx, RuntimeError};

/// Code that a run executes: an [`Agent`](crate::Agent), or one's own.
///
/// The code may be run many times for one run, by many processes. Whatever it does to the world, and whatever could
/// turn out otherwise the next time, goes through `ctx`.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use async_trait::async_trait;
/// use relight_llm::{Message, MessageRequest, Provider};
/// use relight_runtime::{RunCtx, RunOutcome, Runtime, RuntimeError, Workflow};
/// use relight_store::MemoryStore;
/// use serde_json::Value;
/// # use relight_llm::{ContentBlock, Delivery, LlmError, MessageResponse, MessageStream, StopReason};
/// # struct Parrot;
/// # #[async_trait]
/// # impl Provider for Parrot {
/// #     async fn stream(&self, request: &MessageRequest) -> Result<MessageStream, LlmError> {
/// #         let said = ContentBlock::text(request.messages()[0].content().text());
/// #         let answer = MessageResponse::new("msg_1", request.model(), said, StopReason::EndTurn);
/// #         Ok(MessageStream::of_response(&answer, Delivery::default()))
/// #     }
/// # }
///
/// struct Translate<P>(P);
///
/// #[async_trait]
/// impl<P: Provider> Workflow for Translate<P> {
///     fn agent_hash(&self) -> String {
///         "translate/1".to_owned()
///     }
///     async fn run(&self, ctx: &mut RunCtx, input: Value) -> Result<Value, RuntimeError> {
///         let ask = |text: String| MessageRequest::new("a-model", 1024).push_message(Message::user(text));
///         let draft = ctx.model_call(&self.0, &ask(format!("Translate to French: {input}"))).await?;
///         let check = ctx.model_call(&self.0, &ask(format!("Improve: {}", draft.response.text()))).await?;
///         Ok(Value::String(check.response.text()))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), RuntimeError> {
/// # let model = Parrot;
/// let runtime = Runtime::new(Arc::new(MemoryStore::new()));
/// let outcome = runtime.start(&Translate(model), "good morning").await?;
/// assert!(matches!(outcome, RunOutcome::Completed { .. }));
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Workflow: Send + Sync {
    /// Identifies the code. It changes when the code asks for other things than before.
    fn agent_hash(&self) -> String;

    /// Runs from the start; what was recorded is replayed.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Failed`] ends the run as failed. Every other error ends the drive only, and the run may be
    /// resumed. Where an operation suspended the run, the drive ends so, whatever this returns.
    async fn run(&self, ctx: &mut RunCtx, input: Value) -> Result<Value, RuntimeError>;
}
