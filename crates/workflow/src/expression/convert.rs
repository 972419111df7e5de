//! Converts between JSON and CEL.
//!
//! Integers stay integers and strings stay strings in both directions. CEL values without a JSON equivalent (bytes, types,
//! infinity, numeric keys) are errors.

use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use cel::common::value::Val;
use domain::json::DEPTH_MAX;
use serde_json::{Map, Number, Value};

use super::Meter;
use super::error::ExpressionEvalError;

/// The maximum size of a result, counting 16 bytes per value plus its text. The parameters of a step are reviewed and
/// hashed for approval; larger data is passed between tools by reference.
pub const RESULT_BYTES_MAX: u64 = 1024 * 1024;

/// The size of a value without its text: about the memory of a boxed number.
const VALUE_BYTES: u64 = 16;

/// Converts `value` to CEL. Strings are borrowed.
pub(super) fn from_json(value: &Value) -> Box<dyn Val + '_> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(flag) => Box::new(CelBool::from(*flag)),
        Value::Number(number) => from_number(number),
        Value::String(text) => Box::new(CelString::from(text.as_str())),
        Value::Array(items) => Box::new(CelList::from(items.iter().map(from_json).collect::<Vec<_>>())),
        Value::Object(fields) => Box::new(from_object(fields)),
    }
}

fn from_number(number: &Number) -> Box<dyn Val> {
    match (number.as_i64(), number.as_u64()) {
        (Some(integer), _) => Box::new(CelInt::from(integer)),
        (None, Some(integer)) => Box::new(CelUInt::from(integer)),
        (None, None) => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
    }
}

#[expect(clippy::disallowed_types, reason = "CEL maps use it; loops iterate over `@items`, which sorts")]
fn from_object(fields: &Map<String, Value>) -> CelMap<'_> {
    let entries: std::collections::HashMap<CelMapKey<'_>, Box<dyn Val + '_>> =
        fields.iter().map(|(name, field)| (CelMapKey::from(name.as_str()), from_json(field))).collect();
    CelMap::from(entries)
}

/// Converts `value` to JSON of at most [`RESULT_BYTES_MAX`], and charges its size to `meter`.
pub(super) fn to_json(value: &dyn Val, meter: &Meter) -> Result<Value, ExpressionEvalError> {
    let bytes = size(value);
    if !meter.spend(bytes) {
        return Err(ExpressionEvalError::TooMuchWork);
    }
    if bytes > RESULT_BYTES_MAX {
        return Err(ExpressionEvalError::TooLarge);
    }
    json_of(value, 0)
}

fn json_of(value: &dyn Val, depth: usize) -> Result<Value, ExpressionEvalError> {
    // The JSON check reports the excessive depth; this stops the recursion.
    if depth > DEPTH_MAX + 1 {
        return Ok(Value::Null);
    }
    if let Some(list) = value.downcast_ref::<CelList<'_>>() {
        let items = list.inner().iter().map(|item| json_of(item.as_ref(), depth + 1));
        return items.collect::<Result<_, _>>().map(Value::Array);
    }
    if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
        return json_object(map, depth);
    }
    json_scalar(value)
}

fn json_object(map: &CelMap<'_>, depth: usize) -> Result<Value, ExpressionEvalError> {
    let mut object = Map::new();
    for (key, value) in map.inner() {
        let CelMapKey::String(name) = key else { return Err(ExpressionEvalError::KeyNotText) };
        object.insert(name.inner().to_owned(), json_of(value.as_ref(), depth + 1)?);
    }
    Ok(Value::Object(object))
}

fn json_scalar(value: &dyn Val) -> Result<Value, ExpressionEvalError> {
    if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        Ok(Value::String(text.inner().to_owned()))
    } else if let Some(integer) = value.downcast_ref::<CelInt>() {
        Ok((*integer.inner()).into())
    } else if let Some(integer) = value.downcast_ref::<CelUInt>() {
        Ok((*integer.inner()).into())
    } else if let Some(number) = value.downcast_ref::<CelDouble>() {
        Number::from_f64(*number.inner()).map(Value::Number).ok_or(ExpressionEvalError::NotFinite)
    } else if let Some(flag) = value.downcast_ref::<CelBool>() {
        Ok(Value::Bool(*flag.inner()))
    } else if value.downcast_ref::<CelNull>().is_some() {
        Ok(Value::Null)
    } else {
        Err(ExpressionEvalError::NotJson { kind: value.get_type().name().to_owned() })
    }
}

/// The approximate size of `value` in bytes.
pub(super) fn size(value: &dyn Val) -> u64 {
    let inside = if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        text.inner().len() as u64
    } else if let Some(bytes) = value.downcast_ref::<CelBytes<'_>>() {
        bytes.inner().len() as u64
    } else if let Some(list) = value.downcast_ref::<CelList<'_>>() {
        list.inner().iter().map(|item| size(item.as_ref())).sum()
    } else if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
        map.inner().iter().map(|(key, value)| size(key.inner()) + size(value.as_ref())).sum()
    } else {
        0
    };
    VALUE_BYTES + inside
}

/// The size of `value` as a CEL value.
pub(super) fn json_size(value: &Value) -> u64 {
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(json_size).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| VALUE_BYTES + name.len() as u64 + json_size(field)).sum()
        }
    };
    VALUE_BYTES + inside
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_survives_a_round_trip() {
        let value =
            json!({"a": [1, -2, 1.5, "é", null, true], "b": {}, "c": {"d": [[]]}, "e": (1_u64 << 53) - 1});
        assert_eq!(to_json(from_json(&value).as_ref(), &Meter::default()), Ok(value.clone()));
        assert_eq!(size(from_json(&value).as_ref()), json_size(&value));
    }

    #[test]
    fn number_types_are_preserved() {
        for value in [json!(1), json!(1.0), json!(-1), json!(0.5), json!(u64::MAX)] {
            let back = to_json(from_json(&value).as_ref(), &Meter::default()).unwrap();
            assert_eq!(back.to_string(), value.to_string());
        }
    }

    #[test]
    fn values_without_json_equivalent_are_errors() {
        let refused = |value: &dyn Val| to_json(value, &Meter::default()).unwrap_err();
        assert_eq!(refused(&CelDouble::from(f64::NAN)), ExpressionEvalError::NotFinite);
        assert_eq!(refused(&CelDouble::from(f64::INFINITY)), ExpressionEvalError::NotFinite);
        assert_eq!(
            refused(&CelBytes::from(vec![1])),
            ExpressionEvalError::NotJson { kind: "bytes".to_owned() }
        );
    }

    #[test]
    fn result_size_is_bounded() {
        let large = json!("x".repeat(usize::try_from(RESULT_BYTES_MAX).unwrap()));
        assert_eq!(
            to_json(from_json(&large).as_ref(), &Meter::default()),
            Err(ExpressionEvalError::TooLarge)
        );
    }
}
