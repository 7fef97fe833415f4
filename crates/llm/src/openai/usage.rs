//! Usage as these APIs count it, in buckets that do not overlap.

use serde_json::{Map, Value};

use crate::messages::count;
use crate::openai::{take_object, without_nulls};
use crate::vocabulary::UsageUpdate;

/// Reads usage under either dialect's names; proxies mix them.
///
/// On this wire the input counts cached tokens in, and the output those of reasoning; ours leaves cached tokens out.
pub(crate) fn usage(mut fields: Map<String, Value>) -> UsageUpdate {
    let mut take = |names: [&str; 2]| {
        let counts = names.map(|name| fields.remove(name).as_ref().and_then(count));
        counts.into_iter().flatten().next()
    };
    let input = take(["input_tokens", "prompt_tokens"]);
    let output = take(["output_tokens", "completion_tokens"]);
    fields.remove("total_tokens");
    let details =
        [take_object(&mut fields, "input_tokens_details"), take_object(&mut fields, "prompt_tokens_details")];
    let mut details = details.into_iter().flatten().next().unwrap_or_default();
    let mut detail = |name: &str| details.remove(name).as_ref().and_then(count);
    let (read, written) = (detail("cached_tokens"), detail("cache_write_tokens"));
    let cached = read.unwrap_or(0).saturating_add(written.unwrap_or(0));
    if let Some(reasoning) = fields.remove("completion_tokens_details") {
        fields.insert("output_tokens_details".to_owned(), reasoning);
    }
    UsageUpdate {
        input_tokens: input.map(|all| all.saturating_sub(cached)),
        output_tokens: output,
        cache_read_input_tokens: read,
        cache_creation_input_tokens: written,
        extra: without_nulls(fields),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::vocabulary::Usage;

    fn read(fields: Value) -> Usage {
        let Value::Object(fields) = fields else { panic!("usage is an object") };
        let mut total = Usage::default();
        total.update(&usage(fields));
        total
    }

    #[test]
    fn cached_tokens_are_not_counted_twice() {
        let usage = read(json!({
            "input_tokens": 10, "input_tokens_details": { "cached_tokens": 4 }, "output_tokens": 3, "total_tokens": 13,
        }));
        assert_eq!(usage, Usage { cache_read_input_tokens: 4, ..Usage::new(6, 3) });
        assert_eq!(usage.total_input_tokens(), 10);

        let written = read(json!({
            "input_tokens": 10, "input_tokens_details": { "cached_tokens": 4, "cache_write_tokens": 5 },
            "output_tokens": 0,
        }));
        let buckets =
            (written.input_tokens, written.cache_read_input_tokens, written.cache_creation_input_tokens);
        assert_eq!(buckets, (1, 4, 5));
    }

    #[test]
    fn details_may_be_null_or_missing_and_names_those_of_chat() {
        let chat = json!({ "prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": { "cached_tokens": 4 } });
        assert_eq!(read(chat), Usage { cache_read_input_tokens: 4, ..Usage::new(6, 3) });
        for details in [json!(null), json!({ "cached_tokens": null }), json!({}), json!(7)] {
            let usage = json!({ "input_tokens": 10, "input_tokens_details": details, "output_tokens": 3 });
            assert_eq!(read(usage), Usage::new(10, 3));
        }
        assert_eq!(
            read(json!({ "input_tokens": 2, "input_tokens_details": { "cached_tokens": 9 } })).input_tokens,
            0
        );
    }

    #[test]
    fn reasoning_tokens_and_costs_are_kept_as_they_came() {
        let fields =
            json!({ "output_tokens": 3, "output_tokens_details": { "reasoning_tokens": 2 }, "cost": 0.5 });
        let usage = read(fields);
        assert_eq!(usage.extra["output_tokens_details"]["reasoning_tokens"], 2);
        assert_eq!(usage.extra["cost"], 0.5);
    }
}
