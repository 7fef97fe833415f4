//! The body of a request as the scripted model reads it, held to the rules of the Messages API.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use serde_json::Value;

/// The JSON body of a request for a message. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestBody {
    json: Arc<Value>,
}

impl RequestBody {
    /// Reads a body and refuses what the real API refuses: the error says what is wrong and where.
    pub(crate) fn parse(bytes: &[u8]) -> Result<RequestBody, String> {
        let json: Value = serde_json::from_slice(bytes)
            .map_err(|error| format!("the request body is not valid JSON: {error}"))?;
        for (field, expected, right) in [
            ("model", "a string", json["model"].is_string()),
            ("max_tokens", "a number above zero", json["max_tokens"].as_u64().is_some_and(|n| n > 0)),
            (
                "messages",
                "a list with at least one message",
                json["messages"].as_array().is_some_and(|m| !m.is_empty()),
            ),
        ] {
            if !right {
                return Err(format!("{field}: expected {expected}, found {}", json[field]));
            }
        }
        let body = RequestBody { json: Arc::new(json) };
        body.check_roles()?;
        body.check_tool_calls()?;
        Ok(body)
    }

    /// The whole body.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// The model that was asked for.
    pub fn model(&self) -> &str {
        self.json["model"].as_str().unwrap_or_default()
    }

    /// The conversation so far, oldest message first.
    pub fn messages(&self) -> &[Value] {
        self.json["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// How many answers of the model the conversation holds already.
    pub fn assistant_turns(&self) -> usize {
        self.messages().iter().filter(|message| message["role"] == "assistant").count()
    }

    /// Whether the answer is to be streamed.
    pub(crate) fn wants_stream(&self) -> bool {
        self.json["stream"] == true
    }

    /// The text of the last message, its text blocks joined by newlines.
    pub fn last_text(&self) -> String {
        let Some(message) = self.messages().last() else { return String::new() };
        match &message["content"] {
            Value::String(text) => text.clone(),
            content => {
                let texts: Vec<&str> = blocks(content).filter_map(|block| block["text"].as_str()).collect();
                texts.join("\n")
            }
        }
    }

    /// The `tool_result` blocks of the last message.
    pub fn tool_results(&self) -> Vec<&Value> {
        let Some(message) = self.messages().last() else { return Vec::new() };
        blocks(&message["content"]).filter(|block| block["type"] == "tool_result").collect()
    }

    /// The same for every request that carries the same conversation.
    pub(crate) fn conversation(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.json["messages"].hash(&mut hasher);
        hasher.finish()
    }

    fn check_roles(&self) -> Result<(), String> {
        for (index, message) in self.messages().iter().enumerate() {
            let role = message["role"].as_str().unwrap_or_default();
            if role != "user" && role != "assistant" {
                return Err(format!(
                    "messages.{index}.role: expected user or assistant, found {}",
                    message["role"]
                ));
            }
            if !message["content"].is_string() && !message["content"].is_array() {
                return Err(format!("messages.{index}.content: expected a string or a list of blocks"));
            }
        }
        if self.messages()[0]["role"] != "user" {
            return Err("messages.0.role: the first message must be the user's".to_owned());
        }
        Ok(())
    }

    /// Every call of a tool has its result in the message that follows, and every result has its call before it.
    fn check_tool_calls(&self) -> Result<(), String> {
        let mut calls = BTreeSet::new();
        for (index, message) in self.messages().iter().enumerate() {
            let results = ids(message, "tool_result", "tool_use_id");
            if let Some(id) = calls.difference(&results).next() {
                return Err(format!(
                    "messages.{index}: the call {id} of the message before has no tool_result here"
                ));
            }
            if let Some(id) = results.difference(&calls).next() {
                return Err(format!(
                    "messages.{index}: the tool_result {id} has no tool_use in the message before"
                ));
            }
            calls = ids(message, "tool_use", "id");
        }
        match calls.first() {
            Some(id) => Err(format!("messages: the call {id} of the last message has no tool_result")),
            None => Ok(()),
        }
    }
}

/// The blocks of a message's content; none for a plain string.
fn blocks(content: &Value) -> impl Iterator<Item = &Value> {
    content.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

fn ids<'a>(message: &'a Value, kind: &str, field: &str) -> BTreeSet<&'a str> {
    blocks(&message["content"])
        .filter(|block| block["type"] == kind)
        .filter_map(|block| block[field].as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(messages: Value) -> Result<RequestBody, String> {
        RequestBody::parse(
            json!({ "model": "m", "max_tokens": 1, "messages": messages }).to_string().as_bytes(),
        )
    }

    #[track_caller]
    fn check_refused(messages: Value, part: &str) {
        let error = parse(messages).unwrap_err();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn the_turn_is_the_number_of_answers_in_the_conversation() {
        let body = parse(json!([
            { "role": "user", "content": "one" },
            { "role": "assistant", "content": "two" },
            { "role": "user", "content": [{ "type": "text", "text": "three" }, { "type": "text", "text": "four" }] },
        ]))
        .unwrap();
        assert_eq!(body.assistant_turns(), 1);
        assert_eq!(body.last_text(), "three\nfour");
    }

    #[test]
    fn a_body_that_is_no_request_is_refused_by_field() {
        assert!(RequestBody::parse(b"{").unwrap_err().contains("not valid JSON"));
        assert!(RequestBody::parse(b"[]").unwrap_err().starts_with("model: expected a string"));
        assert!(
            RequestBody::parse(br#"{"model":"m","max_tokens":0}"#).unwrap_err().starts_with("max_tokens")
        );
        assert!(RequestBody::parse(br#"{"model":"m","max_tokens":1}"#).unwrap_err().starts_with("messages"));
    }

    #[test]
    fn a_conversation_that_the_api_refuses_is_refused() {
        check_refused(json!([]), "at least one message");
        check_refused(json!([{ "role": "assistant", "content": "hi" }]), "messages.0.role");
        check_refused(json!([{ "role": "system", "content": "hi" }]), "expected user or assistant");
        check_refused(json!([{ "role": "user", "content": 1 }]), "messages.0.content");
    }

    #[test]
    fn calls_and_results_must_match() {
        let user = json!({ "role": "user", "content": "go" });
        let call = json!({ "role": "assistant", "content": [{ "type": "tool_use", "id": "t1", "name": "n", "input": {} }] });
        let result = json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t1", "content": "ok" }] });

        let body = parse(json!([user, call, result])).unwrap();
        assert_eq!(body.tool_results()[0]["content"], "ok");
        check_refused(json!([user, call]), "the call t1 of the last message has no tool_result");
        check_refused(json!([user, call, user]), "messages.2: the call t1");
        check_refused(json!([result]), "messages.0: the tool_result t1");
    }

    #[test]
    fn only_the_same_conversation_has_the_same_fingerprint() {
        let one = parse(json!([{ "role": "user", "content": "one" }])).unwrap();
        let two = parse(json!([{ "role": "user", "content": "two" }])).unwrap();
        assert_eq!(one.conversation(), one.clone().conversation());
        assert_ne!(one.conversation(), two.conversation());
    }
}
