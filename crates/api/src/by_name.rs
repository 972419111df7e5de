//! Deserializes JSON objects by field name only.
//!
//! Derived implementations also accept an array in place of an object, with the fields by position. The `OpenAPI`
//! document has objects only, so arrays are rejected here, at every depth.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Value};

pub(crate) fn read<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    T::deserialize(ByName(value))
}

struct ByName(Value);

impl IntoDeserializer<'_, Error> for ByName {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for ByName {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Array(values) => {
                let mut values = SeqDeserializer::new(values.into_iter().map(Self));
                let read = visitor.visit_seq(&mut values)?;
                values.end().map(|()| read)
            }
            Value::Object(fields) => {
                let mut fields =
                    MapDeserializer::new(fields.into_iter().map(|(name, value)| (name, Self(value))));
                let read = visitor.visit_map(&mut fields)?;
                fields.end().map(|()| read)
            }
            plain => plain.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Value::Array(_) => Err(Error::invalid_type(Unexpected::Other("a list"), &"an object")),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[serde(default)]
        limit: Option<u32>,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        #[default]
        Small,
        Of(u8),
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Outer {
        inner: Inner,
        perhaps: Option<Inner>,
        each: BTreeMap<String, Inner>,
        list: Vec<u8>,
        kind: Kind,
        any: Value,
    }

    #[test]
    fn named_fields_are_read() {
        let any = json!({ "as": ["it", 1.5, null, { "is": true }] });
        let value = json!({
            "inner": { "limit": 3 }, "perhaps": null, "each": { "a": { "limit": null } }, "list": [1, 2],
            "kind": { "of": 7 }, "any": any,
        });
        let each = BTreeMap::from([("a".to_owned(), Inner { limit: None })]);
        let expected = Outer {
            inner: Inner { limit: Some(3) },
            perhaps: None,
            each,
            list: vec![1, 2],
            kind: Kind::Of(7),
            any,
        };
        assert_eq!(read::<Outer>(value).unwrap(), expected);
        assert_eq!(read::<Outer>(json!({})).unwrap(), Outer::default());
        assert_eq!(read::<Outer>(json!({ "kind": "small" })).unwrap(), Outer::default());
    }

    #[test]
    fn array_is_rejected_at_any_depth() {
        let lists =
            [json!([]), json!({ "inner": [3] }), json!({ "perhaps": [] }), json!({ "each": { "a": [] } })];
        for list in lists {
            let error = read::<Outer>(list.clone()).unwrap_err().to_string();
            assert!(error.contains("a list, expected an object"), "{list}: {error}");
        }
    }

    #[test]
    fn wrong_type_is_rejected() {
        for bad in [json!(null), json!("text"), json!({ "inner": { "limt": 3 } }), json!({ "list": [300] })] {
            assert!(read::<Outer>(bad.clone()).is_err(), "{bad}");
        }
    }
}
