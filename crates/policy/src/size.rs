//! How large a value is that rules have made.
//!
//! Values share their parts. `b := [a, a]`, `c := [b, b]` and so on takes forty lines and a few kilobytes, and is a
//! terabyte for whoever writes it out. So what rules have made is looked at first, and only as far as an answer goes.

use regorus::Value;

/// A name, a sentence and a few groups are a hundredth of this.
const BYTES_MAX: usize = 16 * 1024;

/// An answer is an object with a list in it.
const DEPTH_MAX: u32 = 8;

/// Beyond this a number is not kept exactly by whoever reads it; written out, one may have a million digits.
const NUMBER_MAX: f64 = 9_007_199_254_740_992.0;

/// Whether a value is small enough to be written out.
pub(crate) fn is_small(value: &Value) -> bool {
    Measure { left: BYTES_MAX }.takes(value, 0)
}

struct Measure {
    left: usize,
}

impl Measure {
    fn takes(&mut self, value: &Value, depth: u32) -> bool {
        let bytes = value.as_string().map_or(0, |text| text.len()).saturating_add(1);
        let Some(left) = self.left.checked_sub(bytes).filter(|_| depth <= DEPTH_MAX) else { return false };
        self.left = left;
        match value {
            Value::Null | Value::Bool(_) | Value::String(_) | Value::Undefined => true,
            Value::Number(number) => number.as_f64().is_some_and(|number| number.abs() <= NUMBER_MAX),
            Value::Array(parts) => parts.iter().all(|part| self.takes(part, depth + 1)),
            Value::Set(parts) => parts.iter().all(|part| self.takes(part, depth + 1)),
            Value::Object(parts) => {
                parts.iter().all(|(name, part)| self.takes(name, depth + 1) && self.takes(part, depth + 1))
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
    fn an_answer_is_small() {
        assert!(is_small(&value(
            r#"{"rule": "r", "says": "s", "tier": "low", "people": 1.5, "groups": ["a", "b"], "more": null}"#
        )));
    }

    #[test]
    fn what_is_large_written_out_is_seen_without_writing_it_out() {
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
        assert!(!is_small(&value(r#"{"says": 9007199254740993000}"#)));
    }
}
