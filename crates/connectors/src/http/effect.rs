//! The declared effect of a request: `effect` and `key_retention`.
//!
//! The runtime cannot know what an endpoint does with a second request, so the author declares it. Without a
//! declaration GET and HEAD are read-only and all other methods are opaque.

use domain::effect::KEY_RETENTION_MARGIN;
use domain::{EffectClass, Failure, Millis, Reversibility};
use reqwest::Method;
use serde_json::Value;

use crate::fields::{Fields, invalid};

use super::request::Request;

pub(super) const FIELDS: &[&str] = &["effect", "key_retention"];

/// Most endpoints with idempotency keys remember them for a day.
const KEY_RETENTION_DEFAULT: Millis = Millis::hours(24);

/// Headers with a precondition that the effect itself makes false.
const PRECONDITIONS: &[&str] = &["if-match", "if-none-match", "if-unmodified-since"];

#[derive(Debug, Clone, PartialEq)]
pub(super) struct DeclaredEffect {
    pub(super) class: EffectClass,
    pub(super) key_retention: Option<Millis>,
}

impl DeclaredEffect {
    /// Takes the fields out of `fields` and checks them against `request`.
    pub(super) fn take(fields: &mut Fields, request: &Request) -> Result<Self, Failure> {
        let class = parse_class(fields.string("effect")?.as_deref(), request.is_read())?;
        if class == EffectClass::CompareAndSet {
            check_precondition(request)?;
        }
        Ok(Self { class, key_retention: parse_retention(fields.duration("key_retention")?, class)? })
    }

    /// A second PUT or DELETE can set the resource again. What another method did, only a call that the workflow declares
    /// can take back.
    pub(super) fn reversibility(&self, request: &Request, has_rollback: bool) -> Reversibility {
        if !self.class.has_effect() {
            return Reversibility::NoEffect;
        }
        if has_rollback || request.method.is_idempotent() {
            return Reversibility::Compensable;
        }
        let why = format!("a {} without a `rollback` in the workflow cannot be undone", request.method);
        Reversibility::Irreversible(why)
    }
}

/// The class that `with` declares. `None` if it depends on an expression or is invalid.
pub(super) fn declared_class(with: &Value) -> Option<EffectClass> {
    let literal = |name: &str| match with.get(name) {
        None => Some(None),
        Some(value) => value.as_str().filter(|text| !text.contains("${")).map(Some),
    };
    match literal("effect")? {
        Some(effect) if effect != "read_only" => parse_class(Some(effect), false).ok(),
        effect => parse_class(effect, matches!(literal("method")?, None | Some("GET" | "HEAD"))).ok(),
    }
}

fn parse_class(given: Option<&str>, reads: bool) -> Result<EffectClass, Failure> {
    match given {
        None | Some("read_only") if reads => Ok(EffectClass::ReadOnly),
        None | Some("opaque") => Ok(EffectClass::Opaque),
        // Policies usually allow reads, so a workflow must not declare a write as read-only.
        Some("read_only") => Err(invalid("`effect: read_only` is allowed for GET and HEAD only")),
        Some("native_key") => Ok(EffectClass::NativeKey),
        Some("compare_and_set") => Ok(EffectClass::CompareAndSet),
        Some(_) => Err(invalid("`effect` must be read_only, native_key, compare_and_set or opaque")),
    }
}

fn check_precondition(request: &Request) -> Result<(), Failure> {
    if !PRECONDITIONS.iter().any(|name| request.headers.contains_key(*name)) {
        let known = PRECONDITIONS.join("`, `");
        return Err(invalid(format!("`effect: compare_and_set` needs one of the headers `{known}`")));
    }
    // `*` matches any existing version, so it still holds after every change except a deletion.
    let any = request.headers.get("if-match").is_some_and(|tag| tag.trim() == "*");
    if any && request.method != Method::DELETE {
        return Err(invalid(
            "`if-match: *` still holds after the change; set it to the version that the request changes",
        ));
    }
    Ok(())
}

fn parse_retention(given: Option<Millis>, class: EffectClass) -> Result<Option<Millis>, Failure> {
    match (class, given) {
        (EffectClass::NativeKey, Some(given)) if given <= KEY_RETENTION_MARGIN => Err(invalid(format!(
            "`key_retention` must be longer than {KEY_RETENTION_MARGIN}, because an interrupted request is sent again \
             only if the endpoint remembers the key for that long; otherwise declare `effect: opaque`"
        ))),
        (EffectClass::NativeKey, given) => Ok(Some(given.unwrap_or(KEY_RETENTION_DEFAULT))),
        (_, Some(_)) => Err(invalid("`key_retention` requires `effect: native_key`")),
        (_, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn declared_effect(with: Value) -> Result<DeclaredEffect, String> {
        declared_request(with).map(|(effect, _)| effect)
    }

    fn declared_request(mut with: Value) -> Result<(DeclaredEffect, Request), String> {
        with["url"] = json!("http://example.com/");
        let known = [super::super::request::FIELDS, FIELDS].concat();
        let mut fields = Fields::parse(with, &known).unwrap();
        let request = Request::take(&mut fields).unwrap();
        let effect = DeclaredEffect::take(&mut fields, &request).map_err(|failure| failure.message)?;
        Ok((effect, request))
    }

    fn class_of(with: Value) -> EffectClass {
        declared_effect(with).unwrap().class
    }

    #[test]
    fn default_class_depends_on_the_method() {
        assert_eq!(class_of(json!({})), EffectClass::ReadOnly);
        assert_eq!(class_of(json!({"method": "HEAD"})), EffectClass::ReadOnly);
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            assert_eq!(class_of(json!({"method": method})), EffectClass::Opaque, "{method}");
        }
    }

    #[test]
    fn write_cannot_be_declared_read_only() {
        assert!(declared_effect(json!({"method": "POST", "effect": "read_only"})).is_err());
        assert!(declared_effect(json!({"method": "DELETE", "effect": "read_only"})).is_err());
        assert_eq!(class_of(json!({"method": "GET", "effect": "opaque"})), EffectClass::Opaque);
        assert!(declared_effect(json!({"effect": "look_up"})).is_err());
    }

    #[test]
    fn class_is_known_unless_it_needs_an_expression() {
        for (with, class) in [
            (json!({}), Some(EffectClass::ReadOnly)),
            (json!({"method": "POST", "url": "${ a }"}), Some(EffectClass::Opaque)),
            (json!({"method": "${ a }", "effect": "native_key"}), Some(EffectClass::NativeKey)),
            (json!({"method": "${ a }"}), None),
            (json!({"method": "POST", "effect": "${ a }"}), None),
            (json!({"effect": "nonsense"}), None),
        ] {
            assert_eq!(declared_class(&with), class, "{with}");
        }
    }

    #[test]
    fn key_retention_defaults_to_a_day() {
        let native = json!({"method": "POST", "effect": "native_key"});
        assert_eq!(declared_effect(native).unwrap().key_retention, Some(Millis::hours(24)));
        let short = json!({"method": "POST", "effect": "native_key", "key_retention": "1h"});
        assert_eq!(declared_effect(short).unwrap().key_retention, Some(Millis::hours(1)));
        assert!(declared_effect(json!({"method": "POST", "key_retention": "1h"})).is_err());
        let too_short = json!({"method": "POST", "effect": "native_key", "key_retention": "15m"});
        assert!(declared_effect(too_short).unwrap_err().contains("longer than 15m"));
    }

    #[test]
    fn compare_and_set_needs_a_precondition() {
        let with = |method: &str, headers: Value| {
            declared_effect(json!({"method": method, "effect": "compare_and_set", "headers": headers}))
        };
        assert!(with("PUT", json!({})).unwrap_err().contains("needs one of the headers"));
        assert!(with("PUT", json!({"If-Match": "\"v1\""})).is_ok());
        assert!(with("PUT", json!({"If-None-Match": "*"})).is_ok());
        assert!(with("PUT", json!({"If-Unmodified-Since": "Sat, 29 Feb 2020 00:00:00 GMT"})).is_ok());
        assert!(with("PUT", json!({"If-Match": "*"})).unwrap_err().contains("still holds"));
        assert!(with("DELETE", json!({"If-Match": "*"})).is_ok());
    }

    #[test]
    fn post_without_rollback_cannot_be_taken_back() {
        let reversibility = |with: Value, has_rollback| {
            let (effect, request) = declared_request(with).unwrap();
            effect.reversibility(&request, has_rollback)
        };
        assert_eq!(reversibility(json!({}), false), Reversibility::NoEffect);
        for method in ["POST", "PATCH"] {
            for effect in ["opaque", "native_key"] {
                let with = json!({"method": method, "effect": effect});
                let alone = reversibility(with.clone(), false);
                assert!(
                    matches!(alone, Reversibility::Irreversible(why) if why.starts_with("a P")),
                    "{method}"
                );
                assert_eq!(reversibility(with, true), Reversibility::Compensable, "{method}");
            }
        }
        for method in ["PUT", "DELETE"] {
            assert_eq!(
                reversibility(json!({"method": method}), false),
                Reversibility::Compensable,
                "{method}"
            );
        }
    }
}
