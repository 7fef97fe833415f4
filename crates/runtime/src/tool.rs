//! What a tool is: JSON in, JSON out, with a declared effect that decides what a crash in the middle of it means.

use std::fmt;

use async_trait::async_trait;
use relight_core::{Effect, RunId, Seq, ToolFailure};
use serde_json::Value;

/// Something an agent can do.
///
/// # Examples
///
/// ```
/// use relight_core::Effect;
/// use relight_runtime::{Tool, ToolCall, ToolError, ToolSpec};
/// use serde_json::{Value, json};
///
/// struct Add(ToolSpec);
///
/// #[async_trait::async_trait]
/// impl Tool for Add {
///     fn spec(&self) -> &ToolSpec {
///         &self.0
///     }
///     async fn call(&self, call: ToolCall<'_>) -> Result<Value, ToolError> {
///         let number = |key: &str| call.input[key].as_f64().ok_or_else(|| ToolError::new("no_number", key));
///         Ok(json!(number("a")? + number("b")?))
///     }
/// }
///
/// let add = Add(ToolSpec::new("add", "Adds two numbers.", Effect::Read).with_schema(json!({
///     "type": "object",
///     "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
///     "required": ["a", "b"],
/// })));
/// assert_eq!(add.spec().name, "add");
/// # futures::executor::block_on(async {
/// let (input, run) = (json!({"a": 1, "b": 2}), "0190f5d2-7c1a-7b6e-8f00-3c1d2e4f5a6b".parse().unwrap());
/// let sum = add.call(ToolCall::new(&input, "key", run, relight_core::Seq::FIRST)).await?;
/// assert_eq!(sum, json!(3.0));
/// # Ok::<(), ToolError>(())
/// # }).unwrap();
/// ```
#[async_trait]
pub trait Tool: Send + Sync {
    /// Name, schema and effect. Always the same for one tool.
    fn spec(&self) -> &ToolSpec;

    /// Does it. The input fits the schema.
    ///
    /// # Errors
    ///
    /// [`ToolError`]. For an [`Effect::Write`] an error leaves the outcome unknown, unless it says
    /// [`ToolError::not_done`]; it is reconciled then, never handed to the model as a failure to be tried again.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when the drive ends. What it started must end with it.
    async fn call(&self, call: ToolCall<'_>) -> Result<Value, ToolError>;

    /// Finds out whether an earlier [`call`](Tool::call) with this key happened. Asked for an [`Effect::Write`] only.
    /// It must have no effect of its own and may be asked any number of times.
    async fn reconcile(&self, call: ToolCall<'_>) -> Reconciled {
        let _ = call;
        Reconciled::Unknown("the tool cannot look it up".to_owned())
    }
}

/// What a model and the runtime need to know of a tool.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolSpec {
    /// The name by which the model calls it.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its input, an object.
    pub input_schema: Value,
    /// What it does to the world.
    pub effect: Effect,
}

impl ToolSpec {
    /// A tool that takes any object.
    pub fn new(name: impl Into<String>, description: impl Into<String>, effect: Effect) -> Self {
        let input_schema = serde_json::json!({"type": "object", "properties": {}});
        Self { name: name.into(), description: description.into(), input_schema, effect }
    }

    /// The same tool with a JSON Schema for its input.
    #[must_use]
    pub fn with_schema(mut self, schema: Value) -> Self {
        self.input_schema = schema;
        self
    }
}

/// One call of a tool.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ToolCall<'a> {
    /// What it is given.
    pub input: &'a Value,
    /// The same on every attempt of this call, different for every other call of any run.
    pub idempotency_key: &'a str,
    /// The run that calls.
    pub run: RunId,
    /// The call's intent in the log.
    pub intent: Seq,
}

impl<'a> ToolCall<'a> {
    /// A call, as the runtime makes it; for tests of tools.
    pub const fn new(input: &'a Value, idempotency_key: &'a str, run: RunId, intent: Seq) -> Self {
        Self { input, idempotency_key, run, intent }
    }
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq)]
pub enum Reconciled {
    /// It happened and returned this.
    Done(Value),
    /// It did not happen and cannot any more: the target refuses a late attempt with the same key, or the tool made
    /// sure that the earlier attempt is dead.
    NotDone,
    /// It did not happen so far. Counts as not done where the process that tried is known to be dead; else nobody can
    /// tell.
    NotDoneYet,
    /// Nobody can tell, for this reason.
    Unknown(String),
}

/// Why a tool failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    failure: ToolFailure,
    certainty: Certainty,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Certainty {
    Unknown,
    NotDone,
}

impl ToolError {
    /// An error after which nobody can tell whether a write happened.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        let failure = ToolFailure { code: code.into(), message: message.into() };
        Self { failure, certainty: Certainty::Unknown }
    }

    /// An error after which it is certain that nothing was done, and nothing will be.
    pub fn not_done(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { certainty: Certainty::NotDone, ..Self::new(code, message) }
    }

    /// Whether it is certain that nothing was done.
    pub fn is_not_done(&self) -> bool {
        self.certainty == Certainty::NotDone
    }

    /// Code and message.
    pub const fn failure(&self) -> &ToolFailure {
        &self.failure
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure.fmt(f)
    }
}

impl std::error::Error for ToolError {}
