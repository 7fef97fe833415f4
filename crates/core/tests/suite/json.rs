//! Random JSON: every kind of number, and shapes that look like the log's own.

use proptest::prelude::*;
use serde_json::{Map, Number, Value, json};

/// JSON of any shape, a few levels deep.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        2 => Just(Value::Null),
        2 => any::<bool>().prop_map(Value::from),
        4 => any_number().prop_map(Value::Number),
        4 => any_text().prop_map(Value::from),
        2 => lookalike(),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any_text(), inner), 0..4)
                .prop_map(|fields| Value::Object(Map::from_iter(fields))),
        ]
    })
}

/// Every finite double, -0.0 among them, and every integer of 64 bits.
pub(crate) fn any_number() -> impl Strategy<Value = Number> {
    prop_oneof![
        any::<u64>().prop_map(Number::from),
        any::<i64>().prop_map(Number::from),
        // By its bits, so that each exponent is as likely as any other.
        any::<u64>().prop_filter_map("finite", |bits| Number::from_f64(f64::from_bits(bits))),
        prop_oneof![Just(-0.0), Just(0.0), Just(f64::MIN_POSITIVE), Just(5e-324), Just(f64::MAX), Just(1e16)]
            .prop_filter_map("finite", Number::from_f64),
        prop_oneof![Just(u64::MAX), Just(1 << 53), Just((1 << 53) + 1)].prop_map(Number::from),
        Just(Number::from(i64::MIN)),
    ]
}

pub(crate) fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z]{0,6}",
        1 => any::<String>(),
        1 => Just("\u{0}\"\\\n\u{2028}😀".to_owned()),
    ]
}

/// Values that have the shape of something in the log.
fn lookalike() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!({"returned": null}),
        json!({"failed": {"code": "timed_out", "message": "no"}}),
        json!({"outcome": {"returned": 1}}),
        json!({"not_done": {}}),
        json!({"kind": "run_completed", "payload": {"output": 1}}),
        json!({"for": "budget", "limit": "steps"}),
        json!({"answer": 3}),
        json!({"message": null}),
        json!({"intent": 1, "by": "x"}),
    ])
}

/// The same value with its keys the other way round and each number up to 2^53 spelled in another way.
pub(crate) fn respelled(value: &Value) -> Value {
    serde_json::from_str(&respell(value)).unwrap()
}

fn respell(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[ {} ]", items.iter().map(respell).collect::<Vec<_>>().join(" , ")),
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
            (None, Some(double)) if !number.is_u64() && double.fract() == 0.0 && double.abs() < 1e15 => {
                format!("{double:.0}")
            }
            (None, Some(double)) if !number.is_u64() => format!("{double:E}"),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}
