//! Laws of the canonical form, tried on random JSON.

use proptest::prelude::*;
use relight_canonical::{Digest, to_canonical, to_value};
use serde_json::Value;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("finite", |double| double.is_finite().then(|| Value::from(double))),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Writes `value` with its keys in reverse and each number that a double holds exactly in another spelling.
fn respell(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[ {} ]", items.iter().map(respell).collect::<Vec<_>>().join(" , "))
        }
        Value::Object(fields) => {
            let fields: Vec<_> = fields
                .iter()
                .rev()
                .map(|(name, value)| format!("{} : {}", Value::from(name.as_str()), respell(value)))
                .collect();
            format!("{{\n{}\n}}", fields.join(",\n"))
        }
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) if integer.unsigned_abs() <= 1 << 53 => format!("{integer}.0"),
            (None, Some(double)) if !number.is_u64() => format!("{double:E}"),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

proptest! {
    #[test]
    fn key_order_and_number_spelling_never_change_a_hash(value in any_json()) {
        let respelled: Value = serde_json::from_str(&respell(&value)).unwrap();
        prop_assert_eq!(to_canonical(&value), to_canonical(&respelled));
        prop_assert_eq!(Digest::of_value(&value), Digest::of_value(&respelled));
    }

    #[test]
    fn the_canonical_text_reads_back_as_the_same_value(value in any_json()) {
        let text = to_canonical(&value);
        let read: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(to_canonical(&read), text);
    }

    #[test]
    fn every_finite_double_keeps_its_value(double in any::<f64>().prop_filter("finite", |double| double.is_finite())) {
        let read: f64 = serde_json::from_str(&to_canonical(&Value::from(double))).unwrap();
        prop_assert_eq!(read, double);
    }

    #[test]
    fn integers_up_to_two_to_the_53rd_hash_like_the_same_double(integer in -(1_i64 << 53)..=1 << 53) {
        #[expect(clippy::cast_precision_loss, reason = "exact in this range")]
        let double = integer as f64;
        prop_assert_eq!(Digest::of_value(&Value::from(integer)), Digest::of_value(&Value::from(double)));
    }

    #[test]
    fn the_strict_conversion_changes_nothing_that_json_can_hold(value in any_json()) {
        prop_assert_eq!(to_value(&value).unwrap(), value);
    }
}
