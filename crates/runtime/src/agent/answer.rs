//! The agent's answer: text, or an object that fits a schema.

use relight_llm::MessageResponse;
use serde_json::Value;

use super::Agent;

/// How often the model may try again when its answer does not fit.
pub(super) const RETRIES: u32 = 2;

impl Agent {
    /// The answer, checked before it is recorded; else what to tell the model.
    pub(super) fn answer(&self, response: &MessageResponse) -> Result<Value, String> {
        let text = response.text();
        let Some(schema) = &self.output else { return Ok(Value::String(text)) };
        let value: Value = match serde_json::from_str(text.trim()) {
            Ok(value @ Value::Object(_)) => value,
            // The parser's own words are left out: they go to the model, whose request must replay for years.
            _ => return Err("The answer must be one JSON object and nothing else.".to_owned()),
        };
        match schema.check(&value) {
            Ok(()) => Ok(value),
            Err(misfit) => Err(format!("The answer does not fit its schema: {misfit}.")),
        }
    }
}
