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

#[cfg(test)]
mod tests {
    use std::{io::ErrorKind, net::TcpListener};

    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: Value, value: Value, expected: Result<(), (&str, &str)>) {
        let found = Schema::compile(&schema).unwrap().check(&value);
        let found = found.as_ref().map_err(|misfit| (misfit.at.as_str(), misfit.rule.as_str())).copied();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_misfit_names_the_place_and_the_rule() {
        let schema = || json!({"type": "object", "properties": {"a/b": {"items": {"type": "integer"}}}});
        check(schema(), json!({"a/b": [1, 2]}), Ok(()));
        check(schema(), json!({"a/b": [1, "2"]}), Err(("/a~1b/1", "/properties/a~1b/items/type")));
        check(schema(), json!([]), Err(("", "/type")));
        let shown = Schema::compile(&schema()).unwrap().check(&json!([])).unwrap_err().to_string();
        assert_eq!(shown, "the whole value does not fit the schema's rule /type");
    }

    #[test]
    fn a_reference_to_another_document_is_refused_and_nothing_is_fetched() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        let address = server.local_addr().unwrap();
        for reference in [
            format!("http://{address}/schema.json"),
            format!("https://{address}/schema.json"),
            "file:///etc/hostname".to_owned(),
            "other.json".to_owned(),
        ] {
            for schema in [
                json!({"$ref": reference}),
                json!({"properties": {"a": {"$ref": reference}}}),
                json!({"$schema": reference, "type": "object"}),
                json!({"$dynamicRef": reference}),
            ] {
                let refused = Schema::compile(&schema).unwrap_err();
                assert!(refused.starts_with("not a JSON Schema"), "{refused}");
            }
        }
        assert_eq!(server.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "nobody has called");
    }

    #[test]
    fn a_schema_that_refers_to_itself_comes_to_an_end() {
        check(json!({"$ref": "#"}), json!({"a": [1]}), Ok(()));
        check(json!({"allOf": [{"$ref": "#"}]}), json!(1), Ok(()));
        let tree = json!({"type": "object", "additionalProperties": {"$ref": "#"}});
        let deep = (0..100).fold(json!({}), |inner, _| json!({"a": inner}));
        check(tree.clone(), deep, Ok(()));
        check(tree, json!({"a": {"b": 1}}), Err(("/a/b", "/type")));
    }

    #[test]
    fn a_pattern_that_backtracks_for_ever_gives_up() {
        let costly = format!("{}!", "a".repeat(64));
        for pattern in [r"^(a+)+$", r"^(?=(a+)+$)", r"^(a|a)*\1b"] {
            let schema = Schema::compile(&json!({"pattern": pattern})).unwrap();
            schema.check(&json!(costly)).unwrap_err();
        }
        Schema::compile(&json!({"pattern": "(((x{1,900}){1,900}){1,900})"})).unwrap_err();
        Schema::compile(&json!({"pattern": "("})).unwrap_err();
    }

    #[test]
    fn a_schema_of_any_size_is_compiled_and_one_that_is_none_is_refused() {
        let properties: serde_json::Map<String, Value> =
            (0..20_000).map(|index| (format!("field-{index}"), json!({"type": "integer"}))).collect();
        let large = json!({"type": "object", "properties": properties});
        check(large, json!({"field-19999": "x"}), Err(("/field-19999", "/properties/field-19999/type")));
        for none in [json!(null), json!("object"), json!([]), json!({"type": 7}), json!({"required": "a"})] {
            assert!(Schema::compile(&none).is_err(), "{none}");
        }
    }
}
