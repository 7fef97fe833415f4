//! JSON Schema, compiled once and asked often; an answer says where a value does not fit, in words of our own.

use std::fmt;

use serde_json::Value;

/// A compiled JSON Schema.
#[derive(Debug)]
pub struct Schema {
    source: Value,
    compiled: jsonschema::Validator,
}

/// Where a value does not fit its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// A JSON pointer into the value; empty for the whole.
    pub at: String,
    /// A JSON pointer to the part of the schema that it breaks.
    pub rule: String,
}

impl Schema {
    /// Compiles a schema. References to other documents are not followed.
    ///
    /// # Errors
    ///
    /// A line that says what is wrong with the schema.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        match jsonschema::validator_for(schema) {
            Ok(compiled) => Ok(Self { source: schema.clone(), compiled }),
            Err(error) => Err(format!("not a JSON Schema: {error}")),
        }
    }

    /// The schema as it was given.
    pub const fn source(&self) -> &Value {
        &self.source
    }

    /// Checks a value.
    ///
    /// # Errors
    ///
    /// The first [`Misfit`].
    pub fn check(&self, value: &Value) -> Result<(), Misfit> {
        self.compiled.validate(value).map_err(|error| Misfit {
            at: error.instance_path().to_string(),
            rule: error.schema_path().to_string(),
        })
    }
}

/// Recorded and sent to models, so it must not change with a library's wording.
impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.at.is_empty() { "the whole value" } else { &self.at };
        write!(f, "{at} does not fit the schema's rule {}", self.rule)
    }
}
