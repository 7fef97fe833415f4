//! The agent's answer: text, or an object that fits a schema.

use relight_llm::MessageResponse;
use serde_json::Value;

use super::Agent;
use crate::{
    Schema,
    ctx::{MAX_OUTPUT_DEPTH, is_deeper},
};

/// How often the model may try again when its answer does not fit.
pub(super) const RETRIES: u32 = 2;

impl Agent {
    /// The answer, checked before it is recorded; else what is wrong with it, for people.
    pub(super) fn answer(&self, response: &MessageResponse) -> Result<Value, String> {
        match &self.output {
            None => Ok(Value::String(response.text())),
            Some(schema) => fitting(&response.text(), schema),
        }
    }

    /// What the model is told when its answer does not fit.
    ///
    /// The text is part of the next request, which must replay for years; so it holds nothing that a library has
    /// worded, nor where a validator happened to look first. Another text is another loop: see the agent's hash.
    pub(super) fn please_fit(&self) -> String {
        let schema = self.output.as_ref().map(|schema| relight_canonical::to_canonical(schema.source()));
        let schema = schema.unwrap_or_default();
        format!("The answer must be one JSON object that fits this schema, and nothing else: {schema}")
    }
}

fn fitting(text: &str, schema: &Schema) -> Result<Value, String> {
    let object = object(text).ok_or("the answer is not one JSON object")?;
    // Nothing deeper can be recorded.
    if is_deeper(&object, MAX_OUTPUT_DEPTH) {
        return Err(format!("the answer nests deeper than {MAX_OUTPUT_DEPTH} levels"));
    }
    match schema.check(&object) {
        Ok(()) => Ok(object),
        Err(misfit) => Err(format!("the answer does not fit its schema: {misfit}")),
    }
}

/// The object that a text is, or that stands in its only fenced block: models like to say something around it.
fn object(text: &str) -> Option<Value> {
    let parse = |text: &str| serde_json::from_str(text.trim()).ok().filter(Value::is_object);
    parse(text).or_else(|| {
        let (_, after) = text.split_once("```")?;
        let (block, rest) = after.split_once("```")?;
        if rest.contains("```") {
            return None;
        }
        // The fence may name a language, up to the end of its line.
        let start = block.find(['{', '\n'])?;
        parse(&block[start..])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(object(text).map(|object| object.to_string()), expected.map(str::to_owned), "{text}");
    }

    #[test]
    fn an_object_is_found_alone_or_in_the_only_fence() {
        let found = Some(r#"{"a":1}"#);
        check(r#" {"a": 1}"#, found);
        check("```json\n{\"a\": 1}\n```", found);
        check("```\n{\"a\": 1}\n```", found);
        check("```{\"a\": 1}```", found);
        check("Here you are:\r\n\r\n```JSON\r\n{\"a\": 1}\r\n```\r\nAnything else?", found);
        check(r#"{"a": "```"}"#, Some(r#"{"a":"```"}"#));
    }

    #[test]
    fn anything_else_is_no_object() {
        check("", None);
        check("[1]", None);
        check(r#"{"a": 1} {"b": 2}"#, None);
        check(r#"The answer is {"a": 1}."#, None);
        check("```json\n{\"a\": 1}\n```\nor\n```json\n{\"a\": 2}\n```", None);
        check("```json\n{\"a\": 1}", None);
        check("```\n```", None);
        check("```json\n[1]\n```", None);
    }
}
