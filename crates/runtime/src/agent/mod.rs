//! An agent: a model, its tools and its limits, driven in a loop until the model has answered.

mod answer;
mod builder;
mod turn;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use relight_core::{Digest, budget::Budget};
use relight_llm::{Message, MessageRequest, Provider};
use serde_json::Value;

use crate::{RunCtx, RuntimeError, Schema, Tool, runtime::Workflow};

pub use builder::AgentBuilder;

/// A model with tools, asked again and again until it has answered.
///
/// The loop is ordinary code on [`RunCtx`]: a user could have written it. The calls of one turn run one after
/// another, in the order in which the model asks for them.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use relight_llm::Provider;
/// use relight_runtime::{Agent, Budget, RunOutcome, Runtime, RuntimeError};
/// # use relight_llm::MessageRequest;
/// # use relight_llm::{ContentBlock, Delivery, LlmError, MessageResponse, MessageStream, StopReason};
/// # struct Parrot;
/// # #[async_trait::async_trait]
/// # impl Provider for Parrot {
/// #     async fn stream(&self, request: &MessageRequest) -> Result<MessageStream, LlmError> {
/// #         let said = ContentBlock::text(request.messages()[0].content().text());
/// #         let answer = MessageResponse::new("msg_1", request.model(), said, StopReason::EndTurn);
/// #         Ok(MessageStream::of_response(&answer, Delivery::default()))
/// #     }
/// # }
///
/// async fn run(runtime: &Runtime, model: Arc<dyn Provider>) -> Result<(), RuntimeError> {
///     let agent = Agent::builder()
///         .provider(model)
///         .model("a-model")
///         .system("You are terse.")
///         .budget(Budget { steps: Some(20), ..Budget::default() })
///         .build()?;
///     if let RunOutcome::Completed { output } = runtime.start(&agent, "why is the sky blue?").await? {
///         println!("{output}");
///     }
///     Ok(())
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), RuntimeError> {
/// #     run(&Runtime::new(Arc::new(relight_store::MemoryStore::new())), Arc::new(Parrot)).await
/// # }
/// ```
pub struct Agent {
    provider: Arc<dyn Provider>,
    /// What every request of a run begins with.
    request: MessageRequest,
    tools: Vec<Arc<dyn Tool>>,
    budget: Budget,
    output: Option<Schema>,
    hash: Digest,
}

impl Agent {
    /// An agent without anything yet; it needs at least a provider and a model.
    pub fn builder() -> AgentBuilder {
        AgentBuilder::default()
    }

    /// What identifies the agent's code: model, prompts, tools and schemas. Limits and the provider's address are no
    /// part of it, so they may change between drives.
    pub const fn hash(&self) -> Digest {
        self.hash
    }

    /// Its limits.
    pub const fn budget(&self) -> &Budget {
        &self.budget
    }

    fn tool(&self, name: &str) -> Option<&dyn Tool> {
        self.tools.iter().find(|tool| tool.spec().name == name).map(AsRef::as_ref)
    }
}

#[async_trait]
impl Workflow for Agent {
    fn agent_hash(&self) -> String {
        self.hash.to_string()
    }

    async fn run(&self, ctx: &mut RunCtx, input: Value) -> Result<Value, RuntimeError> {
        let mut request = self.request.clone().push_message(Message::user(prompt(&input)));
        let (mut misfits, mut pauses) = (0, 0);
        loop {
            ctx.check_budget(&self.budget).await?;
            let response = ctx.model_call_observed(self.provider.as_ref(), &request).await?.response;
            request = request.push_message(response.to_message());
            let next = turn::next(&response);
            pauses = if next == turn::Next::GoOn { pauses + 1 } else { 0 };
            match next {
                turn::Next::GoOn if pauses > MAX_PAUSES => {
                    let message = format!("the model paused {pauses} times in a row and came to no end");
                    return Err(RuntimeError::failed("paused_too_often", message));
                }
                turn::Next::GoOn => {}
                turn::Next::GiveUp { code, message } => return Err(RuntimeError::failed(code, message)),
                turn::Next::CallTools => {
                    let results = turn::call_tools(self, ctx, &response).await?;
                    request = request.push_message(Message::user_blocks(results));
                }
                turn::Next::Answered => match self.answer(&response) {
                    Ok(answer) => return Ok(answer),
                    Err(misfit) => {
                        misfits += 1;
                        if misfits > answer::RETRIES {
                            return Err(RuntimeError::failed("invalid_output", misfit));
                        }
                        request = request.push_message(Message::user(self.please_fit()));
                    }
                },
            }
        }
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<_> = self.tools.iter().map(|tool| &tool.spec().name).collect();
        f.debug_struct("Agent")
            .field("model", &self.request.model())
            .field("tools", &tools)
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

/// The first message: a text as it is, anything else as JSON in its one form, so that a replay asks the same.
fn prompt(input: &Value) -> String {
    match input {
        Value::String(text) => text.clone(),
        other => relight_canonical::to_canonical(other),
    }
}

/// How often in a row a paused turn is sent back: each time costs a model call, and no budget need be set.
const MAX_PAUSES: u32 = 32;
