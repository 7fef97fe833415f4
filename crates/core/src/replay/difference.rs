//! Where two JSON values first differ, with numbers compared by what they are worth.

use serde_json::{Number, Value};

/// The first place where two values differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// A JSON pointer (RFC 6901); empty for the whole value.
    pub path: String,
    /// What stands there on the left; `None` where nothing does.
    pub left: Option<Value>,
    /// What stands there on the right; `None` where nothing does.
    pub right: Option<Value>,
}

/// Finds the first difference, in key order; `None` where both mean the same.
///
/// Key order and the spelling of numbers make no difference.
///
/// # Examples
///
/// ```
/// use relight_core::replay::first_difference;
/// use serde_json::json;
/// assert_eq!(first_difference(&json!({"a": 1, "b": 2.0}), &json!({"b": 2, "a": 1.0})), None);
/// let difference = first_difference(&json!({"a": [1, 2]}), &json!({"a": [1, 3]}));
/// assert_eq!(difference.map(|d| d.path), Some("/a/1".to_owned()));
/// ```
pub fn first_difference(left: &Value, right: &Value) -> Option<Difference> {
    let mut path = String::new();
    let (left, right) = descend(left, right, &mut path)?;
    Some(Difference { path, left: left.cloned(), right: right.cloned() })
}

/// Whether two values mean the same; the usual answer, that they are equal, costs no allocation.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    left == right || first_difference(left, right).is_none()
}

type Pair<'a> = (Option<&'a Value>, Option<&'a Value>);

fn descend<'a>(left: &'a Value, right: &'a Value, path: &mut String) -> Option<Pair<'a>> {
    match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            keys.into_iter().find_map(|key| step(a.get(key), b.get(key), &escape(key), path))
        }
        (Value::Array(a), Value::Array(b)) => {
            (0..a.len().max(b.len())).find_map(|i| step(a.get(i), b.get(i), &i.to_string(), path))
        }
        (Value::Number(a), Value::Number(b)) if same_number(a, b) => None,
        _ if left == right => None,
        _ => Some((Some(left), Some(right))),
    }
}

fn step<'a>(
    left: Option<&'a Value>,
    right: Option<&'a Value>,
    token: &str,
    path: &mut String,
) -> Option<Pair<'a>> {
    let length = path.len();
    path.push('/');
    path.push_str(token);
    let found = match (left, right) {
        (Some(left), Some(right)) => descend(left, right, path),
        (None, None) => None,
        missing => Some(missing),
    };
    if found.is_none() {
        path.truncate(length);
    }
    found
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Equal in worth: `1` and `1.0` are, and so are integers only where every digit agrees.
fn same_number(a: &Number, b: &Number) -> bool {
    if a == b {
        return true;
    }
    // An integer beyond 2^53 may round to a float that it is not equal to; the canonical form tells them apart.
    relight_canonical::to_canonical(&Value::Number(a.clone()))
        == relight_canonical::to_canonical(&Value::Number(b.clone()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(left: Value, right: Value, path: &str, at: (Option<Value>, Option<Value>)) {
        let found = first_difference(&left, &right).unwrap();
        assert_eq!((found.path.as_str(), (found.left, found.right)), (path, at));
        assert!(!same(&left, &right));
    }

    #[test]
    fn the_first_difference_is_found_in_key_order() {
        check(json!(1), json!("1"), "", (Some(json!(1)), Some(json!("1"))));
        check(json!({"b": 1, "a": 2}), json!({"b": 3, "a": 4}), "/a", (Some(json!(2)), Some(json!(4))));
        check(
            json!({"a": {"b": [0, 1]}}),
            json!({"a": {"b": [0, 2]}}),
            "/a/b/1",
            (Some(json!(1)), Some(json!(2))),
        );
        check(json!({"a": []}), json!({"a": {}}), "/a", (Some(json!([])), Some(json!({}))));
    }

    #[test]
    fn what_one_side_lacks_is_nothing_and_not_null() {
        check(json!({"a": null}), json!({}), "/a", (Some(Value::Null), None));
        check(json!([1]), json!([1, null]), "/1", (None, Some(Value::Null)));
        check(json!({"a": 1}), json!({"b": 1}), "/a", (Some(json!(1)), None));
    }

    #[test]
    fn a_key_is_written_into_the_path_as_a_json_pointer_writes_it() {
        check(json!({"a/b~c": 1}), json!({"a/b~c": 2}), "/a~1b~0c", (Some(json!(1)), Some(json!(2))));
    }

    #[test]
    fn numbers_are_compared_by_what_they_are_worth() {
        for (left, right) in
            [(json!(1), json!(1.0)), (json!(0), json!(-0.0)), (json!(1_u64 << 53), json!(9007199254740992.0))]
        {
            assert!(same(&json!([left]), &json!([right])), "{left} {right}");
        }
        // A double cannot hold these; two ids must not become one.
        for (left, right) in [
            (json!((1_u64 << 53) + 1), json!(9007199254740992.0)),
            (json!(u64::MAX), json!(18446744073709551615.0)),
            (json!(u64::MAX), json!(u64::MAX - 1)),
            (json!(i64::MIN), json!(i64::MIN + 1)),
            (json!(0.1), json!(0.1 + f64::EPSILON)),
        ] {
            assert!(!same(&json!([left]), &json!([right])), "{left} {right}");
        }
    }
}
