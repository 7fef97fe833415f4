//! Turns a Rust value into JSON, and refuses what JSON cannot hold instead of changing it.

use std::fmt;

use serde::ser::{self, Serialize};
use serde_json::{Map, Number, Value};

/// Converts like [`serde_json::to_value`], except that NaN and the infinities are refused wherever they stand
/// (`serde_json` turns them into `null`, and what was recorded would not be what was meant).
///
/// # Errors
///
/// [`NotJson`], with the place of the first number, key or value that JSON cannot hold: NaN, an infinity, an integer
/// beyond 64 bits, a map key that is not text, or whatever a `Serialize` implementation refuses by itself.
///
/// # Examples
///
/// ```
/// use std::collections::BTreeMap;
///
/// let prices = BTreeMap::from([("apples", vec![0.5, f64::NAN])]);
/// let error = relight_canonical::to_value(&prices).unwrap_err();
/// assert_eq!(error.path(), "/apples/1");
/// assert_eq!(error.to_string(), "the value at \"/apples/1\" cannot be written as JSON: NaN is not a JSON number");
/// ```
pub fn to_value<T: Serialize + ?Sized>(value: &T) -> Result<Value, NotJson> {
    value.serialize(Strict)
}

/// Why a value cannot be written as JSON, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotJson {
    /// The innermost segment first, as they are met on the way out.
    segments: Vec<String>,
    reason: String,
}

impl NotJson {
    /// The place of the offending value as a JSON pointer (RFC 6901); empty for the value itself.
    pub fn path(&self) -> String {
        let escaped = self.segments.iter().rev().map(|segment| segment.replace('~', "~0").replace('/', "~1"));
        escaped.flat_map(|segment| ["/".to_owned(), segment]).collect()
    }

    fn new(reason: String) -> NotJson {
        NotJson { segments: Vec::new(), reason }
    }

    fn below(mut self, segment: impl ToString) -> NotJson {
        self.segments.push(segment.to_string());
        self
    }
}

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path().as_str() {
            "" => write!(f, "the value cannot be written as JSON: {}", self.reason),
            path => write!(f, "the value at {path:?} cannot be written as JSON: {}", self.reason),
        }
    }
}

impl std::error::Error for NotJson {}

impl ser::Error for NotJson {
    fn custom<T: fmt::Display>(reason: T) -> NotJson {
        NotJson::new(reason.to_string())
    }
}

/// The serializer; it holds nothing, since a path is put together only when an error passes.
struct Strict;

impl ser::Serializer for Strict {
    type Ok = Value;
    type Error = NotJson;
    type SerializeSeq = Items;
    type SerializeTuple = Items;
    type SerializeTupleStruct = Items;
    type SerializeTupleVariant = Items;
    type SerializeMap = Fields;
    type SerializeStruct = Fields;
    type SerializeStructVariant = Fields;

    fn serialize_bool(self, value: bool) -> Result<Value, NotJson> {
        Ok(Value::Bool(value))
    }

    fn serialize_i8(self, value: i8) -> Result<Value, NotJson> {
        Ok(Value::from(value))
    }

    fn serialize_i16(self, value: i16) -> Result<Value, NotJson> {
        Ok(Value::from(value))
    }

    fn serialize_i32(self, value: i32) -> Result<Value, NotJson> {
        Ok(Value::from(value))
    }

    fn serialize_i64(self, value: i64) -> Result<Value, NotJson> {
        Ok(Value::from(value))
    }

    fn serialize_i128(self, value: i128) -> Result<Value, NotJson> {
        match (u64::try_from(value), i64::try_from(value)) {
            (Ok(value), _) => Ok(Value::from(value)),
            (_, Ok(value)) => Ok(Value::from(value)),
            _ => Err(out_of_range(value)),
        }
    }

    fn serialize_u8(self, value: u8) -> Result<Value, NotJson> {
        Ok(Value::from(value))
    }

    fn serialize_u16(self, value: u16) -> Result<Value, NotJson> {
        Ok(Value::from(value))
    }

    fn serialize_u32(self, value: u32) -> Result<Value, NotJson> {
        Ok(Value::from(value))
    }

    fn serialize_u64(self, value: u64) -> Result<Value, NotJson> {
        Ok(Value::from(value))
    }

    fn serialize_u128(self, value: u128) -> Result<Value, NotJson> {
        u64::try_from(value).map(Value::from).map_err(|_| out_of_range(value))
    }

    fn serialize_f32(self, value: f32) -> Result<Value, NotJson> {
        self.serialize_f64(f64::from(value))
    }

    fn serialize_f64(self, value: f64) -> Result<Value, NotJson> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| NotJson::new(format!("{value} is not a JSON number")))
    }

    fn serialize_char(self, value: char) -> Result<Value, NotJson> {
        Ok(Value::String(value.into()))
    }

    fn serialize_str(self, value: &str) -> Result<Value, NotJson> {
        Ok(Value::String(value.to_owned()))
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<Value, NotJson> {
        Ok(Value::from(value))
    }

    fn serialize_none(self) -> Result<Value, NotJson> {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, NotJson> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Value, NotJson> {
        Ok(Value::Null)
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<Value, NotJson> {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<Value, NotJson> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<Value, NotJson> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Value, NotJson> {
        let value = value.serialize(Strict).map_err(|error| error.below(variant))?;
        Ok(tagged(variant, value))
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Items, NotJson> {
        // The length is only a hint, and a wrong one must not reserve memory for it.
        Ok(Items { variant: None, items: Vec::with_capacity(length.unwrap_or(0).min(1024)) })
    }

    fn serialize_tuple(self, length: usize) -> Result<Items, NotJson> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_struct(self, _name: &'static str, length: usize) -> Result<Items, NotJson> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Items, NotJson> {
        let items = self.serialize_seq(Some(length))?;
        Ok(Items { variant: Some(variant), ..items })
    }

    fn serialize_map(self, _length: Option<usize>) -> Result<Fields, NotJson> {
        Ok(Fields::new(Shape::Object))
    }

    fn serialize_struct(self, name: &'static str, _length: usize) -> Result<Fields, NotJson> {
        Ok(Fields::new(if JSON_TEXT.contains(&name) { Shape::JsonText } else { Shape::Object }))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<Fields, NotJson> {
        Ok(Fields::new(Shape::Variant(variant)))
    }
}

/// An array in the making; of an enum's variant, if it has a name.
struct Items {
    variant: Option<&'static str>,
    items: Vec<Value>,
}

impl Items {
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotJson> {
        let value = value.serialize(Strict).map_err(|error| {
            let error = error.below(self.items.len());
            self.variant.iter().fold(error, |error, variant| error.below(variant))
        })?;
        self.items.push(value);
        Ok(())
    }

    fn finish(self) -> Value {
        let array = Value::Array(self.items);
        match self.variant {
            Some(variant) => tagged(variant, array),
            None => array,
        }
    }
}

impl ser::SerializeSeq for Items {
    type Ok = Value;
    type Error = NotJson;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotJson> {
        self.push(value)
    }

    fn end(self) -> Result<Value, NotJson> {
        Ok(self.finish())
    }
}

impl ser::SerializeTuple for Items {
    type Ok = Value;
    type Error = NotJson;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotJson> {
        self.push(value)
    }

    fn end(self) -> Result<Value, NotJson> {
        Ok(self.finish())
    }
}

impl ser::SerializeTupleStruct for Items {
    type Ok = Value;
    type Error = NotJson;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotJson> {
        self.push(value)
    }

    fn end(self) -> Result<Value, NotJson> {
        Ok(self.finish())
    }
}

impl ser::SerializeTupleVariant for Items {
    type Ok = Value;
    type Error = NotJson;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotJson> {
        self.push(value)
    }

    fn end(self) -> Result<Value, NotJson> {
        Ok(self.finish())
    }
}

/// An object in the making.
struct Fields {
    shape: Shape,
    fields: Map<String, Value>,
    key: Option<String>,
}

/// What an object in the making will be.
#[derive(Clone, Copy)]
enum Shape {
    Object,
    Variant(&'static str),
    /// A value that carries its own JSON as text in its only field.
    JsonText,
}

impl Fields {
    fn new(shape: Shape) -> Fields {
        Fields { shape, fields: Map::new(), key: None }
    }

    fn insert<T: Serialize + ?Sized>(&mut self, name: String, value: &T) -> Result<(), NotJson> {
        let value = value.serialize(Strict).map_err(|error| match self.shape {
            Shape::Variant(variant) => error.below(&name).below(variant),
            Shape::Object | Shape::JsonText => error.below(&name),
        })?;
        self.fields.insert(name, value);
        Ok(())
    }

    fn finish(self) -> Result<Value, NotJson> {
        match self.shape {
            Shape::Object => Ok(Value::Object(self.fields)),
            Shape::Variant(variant) => Ok(tagged(variant, Value::Object(self.fields))),
            Shape::JsonText => {
                let text = self.fields.values().next().and_then(Value::as_str).unwrap_or_default();
                serde_json::from_str(text).map_err(|error| NotJson::new(error.to_string()))
            }
        }
    }
}

impl ser::SerializeMap for Fields {
    type Ok = Value;
    type Error = NotJson;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), NotJson> {
        self.key = Some(match key.serialize(Strict)? {
            Value::String(text) => text,
            Value::Bool(truth) => truth.to_string(),
            Value::Number(number) => number.to_string(),
            _ => return Err(NotJson::new("a map key must be text, a number or a truth value".to_owned())),
        });
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotJson> {
        let key = self.key.take().expect("serde writes a key before its value");
        self.insert(key, value)
    }

    fn end(self) -> Result<Value, NotJson> {
        self.finish()
    }
}

impl ser::SerializeStruct for Fields {
    type Ok = Value;
    type Error = NotJson;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), NotJson> {
        self.insert(name.to_owned(), value)
    }

    fn end(self) -> Result<Value, NotJson> {
        self.finish()
    }
}

impl ser::SerializeStructVariant for Fields {
    type Ok = Value;
    type Error = NotJson;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), NotJson> {
        self.insert(name.to_owned(), value)
    }

    fn end(self) -> Result<Value, NotJson> {
        self.finish()
    }
}

fn tagged(variant: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(variant.to_owned(), value)]))
}

fn out_of_range(value: impl fmt::Display) -> NotJson {
    NotJson::new(format!("{value} is beyond 64 bits"))
}

/// As what `serde_json` serializes numbers of any precision (its feature `arbitrary_precision`, which any crate of a
/// program switches on for all) and raw JSON (`raw_value`). Taken for plain structs, they would be recorded as objects.
const JSON_TEXT: [&str; 2] = ["$serde_json::private::Number", "$serde_json::private::RawValue"];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(serde::Serialize)]
    enum Shape {
        Unit,
        Newtype(f64),
        Tuple(u8, f32),
        Struct { side: f64 },
    }

    fn check_refused<T: Serialize>(value: T, path: &str, reason: &str) {
        let error = to_value(&value).unwrap_err();
        assert_eq!(error.path(), path);
        assert!(error.to_string().contains(reason), "{error}");
    }

    #[test]
    fn a_number_that_json_lacks_is_refused_with_its_path() {
        check_refused(f64::NAN, "", "NaN");
        check_refused(vec![1.0, f64::INFINITY], "/1", "inf");
        check_refused((0, f32::NEG_INFINITY), "/1", "-inf");
        check_refused(BTreeMap::from([("a/b~c", Some(f64::NAN))]), "/a~1b~0c", "NaN");
        check_refused(Shape::Newtype(f64::NAN), "/Newtype", "NaN");
        check_refused(Shape::Tuple(1, f32::NAN), "/Tuple/1", "NaN");
        check_refused(vec![Shape::Struct { side: f64::NAN }], "/0/Struct/side", "NaN");
        check_refused(vec![u128::MAX], "/0", "beyond 64 bits");
        check_refused(i128::MIN, "", "beyond 64 bits");
    }

    #[test]
    fn a_key_that_is_not_text_is_refused() {
        check_refused(BTreeMap::from([(vec![1], 1)]), "", "map key");
    }

    #[test]
    fn numbers_and_json_that_come_as_text_become_what_they_mean() {
        use serde::ser::{SerializeStruct, Serializer};

        struct AsText(&'static str, &'static str);
        impl Serialize for AsText {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut fields = serializer.serialize_struct(self.0, 1)?;
                fields.serialize_field(self.0, self.1)?;
                fields.end()
            }
        }

        let [number, raw] = JSON_TEXT;
        assert_eq!(to_value(&[AsText(number, "1.5")]).unwrap(), serde_json::json!([1.5]));
        let meant = serde_json::json!({ "a": [null] });
        assert_eq!(to_value(&AsText(raw, r#"{ "a": [null] }"#)).unwrap(), meant);
        check_refused([AsText(number, "1e999")], "/0", "out of range");
    }

    #[test]
    fn everything_else_becomes_what_serde_json_makes_of_it() {
        fn check(value: impl Serialize) {
            assert_eq!(to_value(&value).unwrap(), serde_json::to_value(&value).unwrap());
        }
        check((true, 'x', "text", 1_i8, -1_i16, u64::MAX, i64::MIN, 0.1_f32, f64::MIN_POSITIVE));
        check((u128::from(u64::MAX), i128::from(i64::MIN), i128::from(u64::MAX)));
        check((None::<u8>, Some(1), (), [0_u8; 3]));
        check(BTreeMap::from([(1, "int"), (2, "keys")]));
        check(BTreeMap::from([(true, "bool"), (false, "keys")]));
        check(vec![Shape::Unit, Shape::Newtype(1.5), Shape::Tuple(1, 0.5), Shape::Struct { side: -0.0 }]);
        check(serde_json::json!({ "nested": [{ "value": null }], "float": 1e300 }));
    }
}
