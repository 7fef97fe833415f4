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
    /// Compiles a schema. References to other documents are refused, and nothing is ever fetched.
    ///
    /// # Errors
    ///
    /// A line that says what is wrong with the schema.
    ///
    /// # Examples
    ///
    /// ```
    /// use relight_runtime::Schema;
    /// use serde_json::json;
    ///
    /// let schema = Schema::compile(&json!({"type": "object", "properties": {"n": {"type": "integer"}}}))?;
    /// assert_eq!(schema.check(&json!({"n": "three"})).unwrap_err().at, "/n");
    /// # Ok::<(), String>(())
    /// ```
    pub fn compile(schema: &Value) -> Result<Self, String> {
        // Said here and not only by the features of the dependency: another crate of a program may turn those on.
        match jsonschema::options().offline().build(schema) {
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

/// In words of our own, since it is recorded and sent to models.
impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.at.is_empty() { "the whole value" } else { &self.at };
        write!(f, "{at} does not fit the schema's rule {}", self.rule)
    }
}
