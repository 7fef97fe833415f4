//! JSON Schemas as these APIs accept them.

use serde_json::{Map, Value};

/// Whether a server can be asked to hold the model to a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// It can.
    Possible,
    /// It would refuse the request: some object leaves fields open or optional, or the schema is too large.
    Impossible,
}

/// The schema with what these APIs insist on, and without what they refuse: an object names its properties, if only
/// none, and a pattern looks neither ahead nor behind. Whoever gave the schema checks what comes against all of it.
pub(crate) fn accepted(schema: &Value) -> Value {
    let mut schema = schema.clone();
    accept(&mut schema);
    schema
}

fn accept(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    if is_object(fields) && !fields.contains_key("properties") && !fields.contains_key("$ref") {
        fields.insert("properties".to_owned(), Value::Object(Map::new()));
    }
    let looks_around =
        |pattern: &str| ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|sign| pattern.contains(sign));
    if fields.get("pattern").and_then(Value::as_str).is_some_and(looks_around) {
        fields.remove("pattern");
    }
    for_each_below(fields, &mut accept);
}

/// Whether a schema is one that a server can be asked to keep strictly.
pub(crate) fn strictness(schema: &Value) -> Strictness {
    let mut properties = 0;
    if is_closed(schema, 1, &mut properties) { Strictness::Possible } else { Strictness::Impossible }
}

fn is_closed(schema: &Value, depth: usize, properties: &mut usize) -> bool {
    let Value::Object(fields) = schema else { return schema.is_boolean() };
    if depth > DEEPEST {
        return false;
    }
    if is_object(fields) {
        let named = fields.get("properties").and_then(Value::as_object);
        let required = fields.get("required").and_then(Value::as_array);
        let is_required = |name: &String| required.is_some_and(|list| list.iter().any(|entry| entry == name));
        *properties += named.map_or(0, Map::len);
        let closed = fields.get("additionalProperties") == Some(&Value::Bool(false));
        if !closed
            || *properties > MOST_PROPERTIES
            || !named.is_none_or(|named| named.keys().all(is_required))
        {
            return false;
        }
    }
    let mut fields = fields.clone();
    let mut all = true;
    for_each_below(&mut fields, &mut |schema| all = all && is_closed(schema, depth + 1, properties));
    all
}

fn is_object(fields: &Map<String, Value>) -> bool {
    match fields.get("type") {
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        _ => false,
    }
}

/// The schemas within a schema. Values that are data (`enum`, `const`, `default`, `examples`) are none.
fn for_each_below(fields: &mut Map<String, Value>, visit: &mut dyn FnMut(&mut Value)) {
    for (name, value) in fields.iter_mut() {
        match (name.as_str(), value) {
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
                Value::Object(named),
            ) => {
                named.values_mut().for_each(&mut *visit);
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems" | "items", Value::Array(list)) => {
                list.iter_mut().for_each(&mut *visit);
            }
            (
                "items"
                | "additionalProperties"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contains"
                | "propertyNames",
                schema @ Value::Object(_),
            ) => visit(schema),
            _ => {}
        }
    }
}

/// How deep objects may nest in a strict schema, and how many properties it may have in all.
const DEEPEST: usize = 10;
const MOST_PROPERTIES: usize = 5_000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_names_its_properties_if_only_none() {
        let given = json!({ "type": "object", "additionalProperties": { "type": "object" } });
        let sent = json!({ "type": "object", "properties": {},
                           "additionalProperties": { "type": "object", "properties": {} } });
        assert_eq!(accepted(&given), sent);
        let data =
            json!({ "type": "string", "default": { "type": "object" }, "enum": [{ "type": "object" }] });
        assert_eq!(accepted(&data), data, "data is left as it is");
    }

    #[test]
    fn a_pattern_that_looks_around_is_left_out() {
        let given = json!({ "type": "object", "properties": {
            "a": { "type": "string", "pattern": "^(?!x)y$" }, "b": { "type": "string", "pattern": "^y$" },
            "pattern": { "type": "string", "pattern": "(?<=x)y" },
        }});
        let sent = json!({ "type": "object", "properties": {
            "a": { "type": "string" }, "b": { "type": "string", "pattern": "^y$" }, "pattern": { "type": "string" },
        }});
        assert_eq!(accepted(&given), sent);
    }

    fn closed(properties: Value) -> Value {
        let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    }

    #[test]
    fn a_schema_that_leaves_nothing_open_can_be_kept_strictly() {
        let inner = closed(json!({ "n": { "type": ["integer", "null"] } }));
        assert_eq!(strictness(&closed(json!({ "inner": inner }))), Strictness::Possible);
        let open = [
            json!({ "type": "object", "properties": {} }),
            json!({ "type": "object", "properties": { "a": {} }, "additionalProperties": false }),
            closed(json!({ "inner": { "type": "array", "items": { "type": "object" } } })),
        ];
        for schema in open {
            assert_eq!(strictness(&schema), Strictness::Impossible, "{schema}");
        }
    }

    #[test]
    fn a_schema_that_is_too_deep_or_too_large_cannot() {
        let nested =
            |levels| (1..levels).fold(json!({ "type": "string" }), |below, _| closed(json!({ "a": below })));
        assert_eq!(strictness(&nested(10)), Strictness::Possible);
        assert_eq!(strictness(&nested(11)), Strictness::Impossible);
        let wide = |count| {
            let properties = (0..count).map(|n| (n.to_string(), json!({ "type": "string" }))).collect();
            closed(Value::Object(properties))
        };
        assert_eq!(strictness(&wide(5_000)), Strictness::Possible);
        assert_eq!(strictness(&wide(5_001)), Strictness::Impossible);
    }
}
