//! What a request promises about being asked again: `effect`, `idempotency_key` and `key_retention`.
//!
//! The runtime cannot see what an endpoint does with a second request, so the author says it. Where nothing
//! is said, reading methods change nothing and all others are opaque: nobody guesses.

use domain::{EffectClass, Failure, IdempotencyKey, Millis, Reversibility};
use reqwest::Method;
use serde_json::Value;

use crate::fields::{Fields, invalid};

use super::request::Request;

/// The fields that make the promise.
pub(super) const FIELDS: &[&str] = &["effect", "idempotency_key", "key_retention"];

/// What most endpoints that honour keys keep them for.
const KEY_RETENTION_DEFAULT: Millis = Millis::hours(24);

/// Headers that can hold a precondition which the effect itself makes false.
const PRECONDITIONS: &[&str] = &["if-match", "if-none-match", "if-unmodified-since"];

/// What a request promises.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Promise {
    pub(super) class: EffectClass,
    /// The author's name for the effect.
    pub(super) key: Option<IdempotencyKey>,
    pub(super) key_retention: Option<Millis>,
}

impl Promise {
    /// Takes the promise's fields out of `fields`, and holds them against `request`.
    pub(super) fn take(fields: &mut Fields, request: &Request) -> Result<Self, Failure> {
        let class = class(fields.text("effect")?.as_deref(), request.is_read())?;
        if class == EffectClass::CompareAndSet {
            check_precondition(request)?;
        }
        Ok(Self {
            class,
            key: fields.text("idempotency_key")?.map(|text| key(&text)).transpose()?,
            key_retention: retention(fields.length("key_retention")?, class)?,
        })
    }

    /// Nothing to take back, or something that only another call can make up for.
    pub(super) fn reversibility(&self) -> Reversibility {
        if self.class.has_effect() { Reversibility::Compensable } else { Reversibility::NoEffect }
    }
}

/// The class that `with` declares; none if that depends on an expression, or nothing sensible stands there.
pub(super) fn declared(with: &Value) -> Option<EffectClass> {
    let written = |name: &str| match with.get(name) {
        None => Some(None),
        Some(value) => value.as_str().filter(|text| !text.contains("${")).map(Some),
    };
    match written("effect")? {
        Some(effect) if effect != "read_only" => class(Some(effect), false).ok(),
        effect => class(effect, matches!(written("method")?, None | Some("GET" | "HEAD"))).ok(),
    }
}

fn class(given: Option<&str>, reads: bool) -> Result<EffectClass, Failure> {
    match given {
        None | Some("read_only") if reads => Ok(EffectClass::ReadOnly),
        None | Some("opaque") => Ok(EffectClass::Opaque),
        // What policy never sees must not be the author's to declare, nor a ticket's.
        Some("read_only") => {
            Err(invalid("`effect: read_only` is for GET and HEAD; any other method may change something"))
        }
        Some("native_key") => Ok(EffectClass::NativeKey),
        Some("compare_and_set") => Ok(EffectClass::CompareAndSet),
        Some(_) => Err(invalid("`effect` is none of read_only, native_key, compare_and_set, opaque")),
    }
}

fn check_precondition(request: &Request) -> Result<(), Failure> {
    if !PRECONDITIONS.iter().any(|name| request.headers.contains_key(*name)) {
        let known = PRECONDITIONS.join("`, `");
        return Err(invalid(format!("`effect: compare_and_set` needs one of the headers `{known}`")));
    }
    // It holds as long as there is anything, and so after every change but a removal.
    let any = request.headers.get("if-match").is_some_and(|tag| tag.trim() == "*");
    if any && request.method != Method::DELETE {
        return Err(invalid(
            "`if-match: *` still holds after the change; name the version that is to be changed",
        ));
    }
    Ok(())
}

fn key(text: &str) -> Result<IdempotencyKey, Failure> {
    IdempotencyKey::new(text).map_err(|error| invalid(format!("`idempotency_key`: {error}")))
}

fn retention(given: Option<Millis>, class: EffectClass) -> Result<Option<Millis>, Failure> {
    match (class, given) {
        (EffectClass::NativeKey, given) => Ok(Some(given.unwrap_or(KEY_RETENTION_DEFAULT))),
        (_, Some(_)) => Err(invalid("`key_retention` has a meaning only with `effect: native_key`")),
        (_, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeSet;

    fn promise(mut with: Value) -> Result<Promise, String> {
        with["url"] = json!("http://example.com/");
        let known = [super::super::request::FIELDS, FIELDS].concat();
        let mut fields = Fields::of(with, &known).unwrap();
        let request = Request::take(&mut fields, &BTreeSet::new()).unwrap();
        Promise::take(&mut fields, &request).map_err(|failure| failure.message)
    }

    fn class_of(with: Value) -> EffectClass {
        promise(with).unwrap().class
    }

    #[test]
    fn nobody_guesses() {
        assert_eq!(class_of(json!({})), EffectClass::ReadOnly);
        assert_eq!(class_of(json!({"method": "HEAD"})), EffectClass::ReadOnly);
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            assert_eq!(class_of(json!({"method": method})), EffectClass::Opaque, "{method}");
        }
    }

    #[test]
    fn the_author_may_promise_less_and_never_hide_a_change() {
        assert!(promise(json!({"method": "POST", "effect": "read_only"})).is_err());
        assert!(promise(json!({"method": "DELETE", "effect": "read_only"})).is_err());
        assert_eq!(class_of(json!({"method": "GET", "effect": "opaque"})), EffectClass::Opaque);
        assert!(promise(json!({"effect": "look_up"})).is_err());
    }

    #[test]
    fn a_file_declares_what_does_not_depend_on_an_expression() {
        for (with, class) in [
            (json!({}), Some(EffectClass::ReadOnly)),
            (json!({"method": "POST", "url": "${ a }"}), Some(EffectClass::Opaque)),
            (json!({"method": "${ a }", "effect": "native_key"}), Some(EffectClass::NativeKey)),
            (json!({"method": "${ a }"}), None),
            (json!({"method": "POST", "effect": "${ a }"}), None),
            (json!({"effect": "nonsense"}), None),
        ] {
            assert_eq!(declared(&with), class, "{with}");
        }
    }

    #[test]
    fn a_key_is_remembered_for_a_day_unless_the_author_knows_better() {
        let native = json!({"method": "POST", "effect": "native_key"});
        assert_eq!(promise(native).unwrap().key_retention, Some(Millis::hours(24)));
        let short = json!({"method": "POST", "effect": "native_key", "key_retention": "10m"});
        assert_eq!(promise(short).unwrap().key_retention, Some(Millis::mins(10)));
        assert!(promise(json!({"method": "POST", "key_retention": "10m"})).is_err());
    }

    #[test]
    fn compare_and_set_needs_a_precondition_that_the_effect_makes_false() {
        let with = |method: &str, headers: Value| {
            promise(json!({"method": method, "effect": "compare_and_set", "headers": headers}))
        };
        assert!(with("PUT", json!({})).unwrap_err().contains("needs one of the headers"));
        assert!(with("PUT", json!({"If-Match": "\"v1\""})).is_ok());
        assert!(with("PUT", json!({"If-None-Match": "*"})).is_ok());
        assert!(with("PUT", json!({"If-Unmodified-Since": "Sat, 29 Feb 2020 00:00:00 GMT"})).is_ok());
        assert!(with("PUT", json!({"If-Match": "*"})).unwrap_err().contains("still holds"));
        assert!(with("DELETE", json!({"If-Match": "*"})).is_ok());
    }

    #[test]
    fn what_changes_something_can_be_made_up_for() {
        assert_eq!(promise(json!({})).unwrap().reversibility(), Reversibility::NoEffect);
        assert_eq!(promise(json!({"method": "POST"})).unwrap().reversibility(), Reversibility::Compensable);
    }

    #[test]
    fn a_key_that_is_none_is_refused() {
        assert!(promise(json!({"method": "POST", "idempotency_key": "a b"})).is_err());
        assert!(promise(json!({"method": "POST", "idempotency_key": ""})).is_err());
    }
}
