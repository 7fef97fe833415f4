//! What a new run is given.

use std::collections::BTreeMap;

use relight_core::RunId;
use serde_json::Value;

/// What a new run is given.
///
/// # Examples
///
/// Whatever is JSON is the input of a run; the rest is added.
///
/// ```
/// use relight_runtime::Start;
///
/// let start = Start::from("why is the sky blue?").with_label("team", "weather");
/// assert_eq!(start.labels["team"], "weather");
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Start {
    /// Its id; drawn where there is none.
    pub run: Option<RunId>,
    /// Its input.
    pub input: Value,
    /// For searching in lists.
    pub labels: BTreeMap<String, String>,
}

impl<T: Into<Value>> From<T> for Start {
    fn from(input: T) -> Self {
        Self { input: input.into(), ..Self::default() }
    }
}

impl Start {
    /// The same with an id that was drawn before, by [`Runtime::new_run_id`](crate::Runtime::new_run_id).
    #[must_use]
    pub const fn with_run_id(mut self, run: RunId) -> Self {
        self.run = Some(run);
        self
    }

    /// The same with one more label.
    #[must_use]
    pub fn with_label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }
}
