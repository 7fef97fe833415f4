//! What a call cost, in tokens.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{is_default, null_as_default, without_own};

/// Tokens that a call used, in buckets that do not overlap.
///
/// # Examples
///
/// ```
/// use relight_llm::Usage;
///
/// let usage = Usage { cache_read_input_tokens: 2400, ..Usage::new(50, 7) };
/// assert_eq!(usage.total_input_tokens(), 2450);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that were neither read from nor written to a cache.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub input_tokens: u64,
    /// Tokens of the answer, thinking included.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub output_tokens: u64,
    /// Input tokens read from the server's cache.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub cache_read_input_tokens: u64,
    /// Input tokens written to the server's cache.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub cache_creation_input_tokens: u64,
    /// What else the server says of the cost, as it came. A field with the name of one above is not recorded.
    #[serde(flatten, serialize_with = "further")]
    pub extra: Map<String, Value>,
}

impl Usage {
    /// Usage without a cache.
    pub fn new(input_tokens: u64, output_tokens: u64) -> Usage {
        Usage { input_tokens, output_tokens, ..Usage::default() }
    }

    /// All input tokens, cached or not.
    pub fn total_input_tokens(&self) -> u64 {
        let cached = self.cache_read_input_tokens.saturating_add(self.cache_creation_input_tokens);
        self.input_tokens.saturating_add(cached)
    }

    /// Takes over what an update states; counts in updates are totals, never summands.
    pub fn update(&mut self, update: &UsageUpdate) {
        overwrite(&mut self.input_tokens, update.input_tokens);
        overwrite(&mut self.output_tokens, update.output_tokens);
        overwrite(&mut self.cache_read_input_tokens, update.cache_read_input_tokens);
        overwrite(&mut self.cache_creation_input_tokens, update.cache_creation_input_tokens);
        let further = |(name, value): &(&String, &Value)| !value.is_null() && !OWN.contains(&name.as_str());
        for (name, value) in update.extra.iter().filter(further) {
            self.extra.insert(name.clone(), value.clone());
        }
    }
}

fn further<S: Serializer>(extra: &Map<String, Value>, serializer: S) -> Result<S::Ok, S::Error> {
    without_own(extra, &OWN, serializer)
}

fn overwrite(count: &mut u64, stated: Option<u64>) {
    if let Some(stated) = stated {
        *count = stated;
    }
}

/// What an event of a stream states about the cost so far; what it does not state stays as it was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageUpdate {
    /// See [`Usage::input_tokens`].
    pub input_tokens: Option<u64>,
    /// See [`Usage::output_tokens`].
    pub output_tokens: Option<u64>,
    /// See [`Usage::cache_read_input_tokens`].
    pub cache_read_input_tokens: Option<u64>,
    /// See [`Usage::cache_creation_input_tokens`].
    pub cache_creation_input_tokens: Option<u64>,
    /// See [`Usage::extra`]; a field replaces the whole field of that name.
    pub extra: Map<String, Value>,
}

impl From<Usage> for UsageUpdate {
    fn from(usage: Usage) -> UsageUpdate {
        UsageUpdate {
            input_tokens: Some(usage.input_tokens),
            output_tokens: Some(usage.output_tokens),
            cache_read_input_tokens: Some(usage.cache_read_input_tokens),
            cache_creation_input_tokens: Some(usage.cache_creation_input_tokens),
            extra: usage.extra,
        }
    }
}

const OWN: [&str; 4] =
    ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_update_overwrites_what_it_states_and_keeps_the_rest() {
        let mut usage = Usage { cache_read_input_tokens: 2400, ..Usage::new(50, 1) };
        usage.update(&UsageUpdate { output_tokens: Some(7), ..UsageUpdate::default() });
        assert_eq!(usage, Usage { cache_read_input_tokens: 2400, ..Usage::new(50, 7) });
    }

    #[test]
    fn zero_and_null_are_recorded_like_nothing() {
        assert_eq!(serde_json::to_value(Usage::default()).unwrap(), json!({}));
        let read: Usage =
            serde_json::from_value(json!({ "input_tokens": null, "output_tokens": 3 })).unwrap();
        assert_eq!(read, Usage::new(0, 3));
    }

    #[test]
    fn further_fields_are_recorded_as_they_came() {
        let form = json!({ "input_tokens": 1, "server_tool_use": { "web_search_requests": 2 } });
        let usage: Usage = serde_json::from_value(form.clone()).unwrap();
        assert_eq!(usage.extra["server_tool_use"]["web_search_requests"], 2);
        assert_eq!(serde_json::to_value(usage).unwrap(), form);
    }
}
