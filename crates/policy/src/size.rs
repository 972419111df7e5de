//! The size of a value that rules return.
//!
//! Values share their parts. `b := [a, a]`, `c := [b, b]` and so on takes forty lines and a few kilobytes in memory, and
//! a terabyte when serialized. So the size is measured before a value is serialized, and measuring stops at the limit.

use regorus::Value;

/// About a hundred times a name, a sentence and a few groups.
const BYTES_MAX: usize = 16 * 1024;

/// A member is an object that contains a list.
const DEPTH_MAX: u32 = 8;

/// Larger numbers are not exact in JSON readers that use floating point. A number may also have a million digits when
/// serialized.
const NUMBER_MAX: f64 = 9_007_199_254_740_992.0;

/// Whether a value is small enough to be serialized.
pub(crate) fn is_small(value: &Value) -> bool {
    SizeBudget { left: BYTES_MAX }.fits(value, 0)
}

struct SizeBudget {
    left: usize,
}

impl SizeBudget {
    fn fits(&mut self, value: &Value, depth: u32) -> bool {
        let bytes = value.as_string().map_or(0, |text| text.len()).saturating_add(1);
        let Some(left) = self.left.checked_sub(bytes).filter(|_| depth <= DEPTH_MAX) else { return false };
        self.left = left;
        match value {
            Value::Null | Value::Bool(_) | Value::String(_) | Value::Undefined => true,
            Value::Number(number) => number.as_f64().is_some_and(|number| number.abs() <= NUMBER_MAX),
            Value::Array(parts) => parts.iter().all(|part| self.fits(part, depth + 1)),
            Value::Set(parts) => parts.iter().all(|part| self.fits(part, depth + 1)),
            Value::Object(parts) => {
                parts.iter().all(|(name, part)| self.fits(name, depth + 1) && self.fits(part, depth + 1))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Value {
        Value::from_json_str(json).unwrap()
    }

    #[test]
    fn member_is_small() {
        assert!(is_small(&value(
            r#"{"rule": "r", "message": "s", "tier": "low", "people": 1.5, "groups": ["a", "b"], "more": null}"#
        )));
    }

    #[test]
    fn large_values_are_detected_without_serializing() {
        let mut shared = Value::from(1);
        for _ in 0..DEPTH_MAX {
            shared = Value::from(vec![shared; 100]);
        }
        assert!(!is_small(&shared), "a quadrillion ones");
        let text = format!("\"{}\"", "x".repeat(BYTES_MAX));
        assert!(!is_small(&value(&text)));
        let deep = format!("{}1{}", "[".repeat(99), "]".repeat(99));
        assert!(!is_small(&value(&deep)));
        assert!(!is_small(&value(&"9".repeat(300))));
        assert!(!is_small(&value(r#"{"message": 9007199254740993000}"#)));
    }
}
