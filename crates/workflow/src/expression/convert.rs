//! Between JSON and CEL.
//!
//! Integers stay integers and texts stay texts in both directions. What CEL knows and JSON does not (bytes,
//! types, infinity, keys that are numbers) is an error on the way out, never a guess.

use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use cel::common::value::Val;
use domain::json::DEPTH_MAX;
use serde_json::{Map, Number, Value};

use super::Meter;
use super::fault::EvaluationFault;

/// The most one expression may give, with 16 bytes for each value beside its text. A step's fields are read
/// by people and hashed for approval; what is larger is passed between tools by reference.
pub const RESULT_BYTES_MAX: u64 = 1024 * 1024;

/// What a value weighs beside its text: about the memory of a boxed number, and the work of touching it.
const VALUE_WEIGHT: u64 = 16;

/// `value` for CEL; texts are lent.
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

#[expect(
    clippy::disallowed_types,
    reason = "CEL's maps are made of one; loops go through `@items`, which sorts"
)]
fn from_object(fields: &Map<String, Value>) -> CelMap<'_> {
    let entries: std::collections::HashMap<CelMapKey<'_>, Box<dyn Val + '_>> =
        fields.iter().map(|(name, field)| (CelMapKey::from(name.as_str()), from_json(field))).collect();
    CelMap::from(entries)
}

/// `value` as JSON, of at most [`RESULT_BYTES_MAX`]; its size is paid for from `meter`.
pub(super) fn to_json(value: &dyn Val, meter: &Meter) -> Result<Value, EvaluationFault> {
    let weight = weight(value);
    if !meter.spend(weight) {
        return Err(EvaluationFault::TooMuchWork);
    }
    if weight > RESULT_BYTES_MAX {
        return Err(EvaluationFault::TooLarge);
    }
    json_of(value, 0)
}

fn json_of(value: &dyn Val, depth: usize) -> Result<Value, EvaluationFault> {
    // The rules of JSON refuse what is deeper in words of their own; this keeps us from going there.
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

fn json_object(map: &CelMap<'_>, depth: usize) -> Result<Value, EvaluationFault> {
    let mut object = Map::new();
    for (key, value) in map.inner() {
        let CelMapKey::String(name) = key else { return Err(EvaluationFault::KeyNotText) };
        object.insert(name.inner().to_owned(), json_of(value.as_ref(), depth + 1)?);
    }
    Ok(Value::Object(object))
}

fn json_scalar(value: &dyn Val) -> Result<Value, EvaluationFault> {
    if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        Ok(Value::String(text.inner().to_owned()))
    } else if let Some(integer) = value.downcast_ref::<CelInt>() {
        Ok((*integer.inner()).into())
    } else if let Some(integer) = value.downcast_ref::<CelUInt>() {
        Ok((*integer.inner()).into())
    } else if let Some(number) = value.downcast_ref::<CelDouble>() {
        Number::from_f64(*number.inner()).map(Value::Number).ok_or(EvaluationFault::NotFinite)
    } else if let Some(flag) = value.downcast_ref::<CelBool>() {
        Ok(Value::Bool(*flag.inner()))
    } else if value.downcast_ref::<CelNull>().is_some() {
        Ok(Value::Null)
    } else {
        Err(EvaluationFault::NotJson { kind: value.get_type().name().to_owned() })
    }
}

/// What `value` weighs, in about bytes.
pub(super) fn weight(value: &dyn Val) -> u64 {
    let inside = if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        text.inner().len() as u64
    } else if let Some(bytes) = value.downcast_ref::<CelBytes<'_>>() {
        bytes.inner().len() as u64
    } else if let Some(list) = value.downcast_ref::<CelList<'_>>() {
        list.inner().iter().map(|item| weight(item.as_ref())).sum()
    } else if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
        map.inner().iter().map(|(key, value)| weight(key.inner()) + weight(value.as_ref())).sum()
    } else {
        0
    };
    VALUE_WEIGHT + inside
}

/// What `value` weighs once it is a CEL value.
pub(super) fn weight_of_json(value: &Value) -> u64 {
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(weight_of_json).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| VALUE_WEIGHT + name.len() as u64 + weight_of_json(field)).sum()
        }
    };
    VALUE_WEIGHT + inside
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_goes_to_cel_and_back_unchanged() {
        let value =
            json!({"a": [1, -2, 1.5, "é", null, true], "b": {}, "c": {"d": [[]]}, "e": (1_u64 << 53) - 1});
        assert_eq!(to_json(from_json(&value).as_ref(), &Meter::default()), Ok(value.clone()));
        assert_eq!(weight(from_json(&value).as_ref()), weight_of_json(&value));
    }

    #[test]
    fn integers_stay_integers_and_fractions_fractions() {
        for value in [json!(1), json!(1.0), json!(-1), json!(0.5), json!(u64::MAX)] {
            let back = to_json(from_json(&value).as_ref(), &Meter::default()).unwrap();
            assert_eq!(back.to_string(), value.to_string());
        }
    }

    #[test]
    fn what_json_does_not_know_is_an_error() {
        let refused = |value: &dyn Val| to_json(value, &Meter::default()).unwrap_err();
        assert_eq!(refused(&CelDouble::from(f64::NAN)), EvaluationFault::NotFinite);
        assert_eq!(refused(&CelDouble::from(f64::INFINITY)), EvaluationFault::NotFinite);
        assert_eq!(refused(&CelBytes::from(vec![1])), EvaluationFault::NotJson { kind: "bytes".to_owned() });
    }

    #[test]
    fn a_result_is_bounded() {
        let large = json!("x".repeat(usize::try_from(RESULT_BYTES_MAX).unwrap()));
        assert_eq!(to_json(from_json(&large).as_ref(), &Meter::default()), Err(EvaluationFault::TooLarge));
    }
}
