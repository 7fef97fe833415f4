//! Puts an agent together and refuses one that could not run.

use std::{collections::BTreeSet, sync::Arc};

use relight_core::{Digest, budget::Budget};
use relight_llm::{MessageRequest, Provider};
use serde_json::{Value, json};

use super::Agent;
use crate::{RuntimeError, Schema, Tool};

/// Puts an [`Agent`] together.
#[derive(Default)]
pub struct AgentBuilder {
    provider: Option<Arc<dyn Provider>>,
    model: Option<String>,
    max_tokens: Option<u64>,
    system: Option<String>,
    request: Option<MessageRequest>,
    tools: Vec<Arc<dyn Tool>>,
    budget: Budget,
    output_schema: Option<Value>,
}

impl AgentBuilder {
    /// What answers.
    #[must_use]
    pub fn provider(mut self, provider: Arc<dyn Provider>) -> Self {
        self.provider = Some(provider);
        self
    }

    /// The model's name, as its provider knows it.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// How many tokens one answer may have; 4,096 unless set.
    #[must_use]
    pub const fn max_tokens(mut self, max_tokens: u64) -> Self {
        self.max_tokens = Some(max_tokens);
        self
    }

    /// Who the model is and how it shall act.
    #[must_use]
    pub fn system(mut self, system: impl Into<String>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// What every request begins with, for settings that this builder has no word for (temperature, thinking);
    /// instead of [`model`](Self::model), [`max_tokens`](Self::max_tokens) and [`system`](Self::system).
    #[must_use]
    pub fn request(mut self, request: MessageRequest) -> Self {
        self.request = Some(request);
        self
    }

    /// Something that it can do.
    #[must_use]
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// What a run may spend.
    #[must_use]
    pub const fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// The answer is a JSON object that fits this schema; the provider is asked for it, and the answer is checked.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output_schema = Some(schema);
        self
    }

    /// The agent.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::InvalidAgent`], naming what is missing or wrong.
    pub fn build(self) -> Result<Agent, RuntimeError> {
        let invalid = |what: String| RuntimeError::InvalidAgent(what);
        let provider = self.provider.ok_or_else(|| invalid("it has no provider".to_owned()))?;
        let mut request = match (self.request, self.model) {
            (Some(request), None) if self.max_tokens.is_none() && self.system.is_none() => request,
            (Some(_), _) => {
                let what =
                    "it has a whole request and also a model, max_tokens or system; give one or the other";
                return Err(invalid(what.to_owned()));
            }
            (None, Some(model)) => MessageRequest::new(model, self.max_tokens.unwrap_or(4096)),
            (None, None) => return Err(invalid("it has no model".to_owned())),
        };
        if let Some(system) = self.system {
            request = request.with_system(relight_llm::ContentBlock::text(system));
        }
        request.check().map_err(|error| invalid(error.to_string()))?;
        let mut names: BTreeSet<String> = request.tools().iter().map(|tool| tool.name.clone()).collect();
        for tool in &self.tools {
            let spec = tool.spec();
            if spec.name.is_empty() {
                return Err(invalid("it has a tool without a name".to_owned()));
            }
            if !names.insert(spec.name.clone()) {
                return Err(invalid(format!("it has two tools named {}", spec.name)));
            }
            if !spec.input_schema.is_object() {
                return Err(invalid(format!("tool {}: its input schema is not a JSON object", spec.name)));
            }
            Schema::compile(&spec.input_schema)
                .map_err(|error| invalid(format!("tool {}: {error}", spec.name)))?;
            let offered = relight_llm::Tool::new(&spec.name, spec.input_schema.clone());
            request = request.push_tool(offered.with_description(&spec.description));
        }
        let output = match self.output_schema {
            None => None,
            Some(source) => {
                let compiled =
                    Schema::compile(&source).map_err(|error| invalid(format!("output schema: {error}")))?;
                request = request.with_output_schema(source);
                Some(compiled)
            }
        };
        let hash = hash(&request, &self.tools);
        Ok(Agent { provider, request, tools: self.tools, budget: self.budget, output, hash })
    }
}

impl std::fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tools: Vec<_> = self.tools.iter().map(|tool| &tool.spec().name).collect();
        f.debug_struct("AgentBuilder")
            .field("model", &self.model)
            .field("tools", &tools)
            .finish_non_exhaustive()
    }
}

/// The request that every call begins with holds prompts, tools and schemas; effects are the runtime's alone.
///
/// `loop` counts the versions of the loop itself: whatever makes it ask for something else (the texts that it sends
/// back, what it does after a stop reason) is another loop.
fn hash(request: &MessageRequest, tools: &[Arc<dyn Tool>]) -> Digest {
    let effects: Vec<_> = tools.iter().map(|tool| tool.spec().effect).collect();
    Digest::of_value(&json!({"loop": 1, "request": request.hash(), "effects": effects}))
}
