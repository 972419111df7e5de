//! Replaces secrets in what an external system returns.
//!
//! A system may repeat a credential in a reply, an error or a header. The redactor of a step knows the secrets that were
//! fetched for it, and replaces them as they are, percent-encoded, and in base64, also within a longer encoded text.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
use regex::{NoExpand, Regex, RegexBuilder};
use secrecy::ExposeSecret;
use serde_json::{Map, Value};

use crate::LockedSecret;

/// A shorter secret occurs in ordinary text by chance, so it is not replaced.
const SECRET_BYTES_MIN: usize = 6;

/// A shorter part of an encoded text occurs by chance.
const PATTERN_BYTES_MIN: usize = 6;

/// Replaces a secret.
pub const REDACTED: &str = "[redacted]";

/// The maximum number of regular expressions of a tenant.
const REDACTIONS_MAX: usize = 20;

/// The maximum length of a regular expression.
const REDACTION_BYTES_MAX: usize = 200;

/// The maximum memory of a compiled expression.
const COMPILED_BYTES_MAX: usize = 64 * 1024;

/// Why a tenant's regular expressions cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRedaction {
    #[error("`redact` has more than {REDACTIONS_MAX} expressions")]
    TooMany,
    #[error(
        "the expression {index} of `redact` is not a regular expression of at most {REDACTION_BYTES_MAX} bytes, or matches \
         the empty text"
    )]
    Expression {
        /// Counted from 1.
        index: usize,
    },
}

/// The regular expressions of a tenant for what is replaced. Matching takes time linear in the text.
#[derive(Debug, Clone, Default)]
pub struct RedactionPatterns(Arc<[Regex]>);

impl RedactionPatterns {
    pub fn new(expressions: &[String]) -> Result<Self, InvalidRedaction> {
        if expressions.len() > REDACTIONS_MAX {
            return Err(InvalidRedaction::TooMany);
        }
        let compiled = expressions.iter().enumerate().map(|(at, expression)| {
            let invalid = InvalidRedaction::Expression { index: at + 1 };
            let builder = RegexBuilder::new(expression).size_limit(COMPILED_BYTES_MAX).build();
            let compiled = builder.ok().filter(|_| expression.len() <= REDACTION_BYTES_MAX);
            compiled.filter(|regex| !regex.is_match("")).ok_or(invalid)
        });
        Ok(Self(compiled.collect::<Result<Vec<_>, _>>()?.into()))
    }
}

/// Replaces the secrets of one step, and what its tenant's expressions match. `Debug` output contains no secret.
#[derive(Default)]
pub struct Redactor {
    /// The secrets in each encoding, the longest first.
    patterns: Vec<String>,
    expressions: RedactionPatterns,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("patterns", &self.patterns.len()).finish_non_exhaustive()
    }
}

impl Redactor {
    pub fn new<'s>(secrets: impl IntoIterator<Item = &'s LockedSecret>) -> Self {
        let secrets = secrets.into_iter().map(ExposeSecret::expose_secret);
        let long = secrets.filter(|secret| secret.len() >= SECRET_BYTES_MIN);
        let mut patterns: Vec<String> = long.flat_map(encodings).collect();
        patterns.retain(|pattern| pattern.len() >= PATTERN_BYTES_MIN);
        Self { patterns, expressions: RedactionPatterns::default() }.sort()
    }

    /// Replaces also what these expressions match.
    #[must_use]
    pub fn with_expressions(self, expressions: RedactionPatterns) -> Self {
        Self { expressions, ..self }
    }

    /// Replaces also the secrets that `other` replaces.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.patterns.extend(other.patterns);
        self.sort()
    }

    fn sort(mut self) -> Self {
        self.patterns.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.patterns.dedup();
        self
    }

    /// The text without secrets, and the number of replacements.
    pub fn text(&self, text: &str) -> (String, u32) {
        let (mut clean, mut count) = (text.to_owned(), 0_u32);
        for pattern in &self.patterns {
            let found = clean.matches(pattern.as_str()).count();
            if found > 0 {
                clean = clean.replace(pattern.as_str(), REDACTED);
                count = count.saturating_add(u32::try_from(found).unwrap_or(u32::MAX));
            }
        }
        for expression in &*self.expressions.0 {
            let found = expression.find_iter(&clean).count();
            if found > 0 {
                clean = expression.replace_all(&clean, NoExpand(REDACTED)).into_owned();
                count = count.saturating_add(u32::try_from(found).unwrap_or(u32::MAX));
            }
        }
        (clean, count)
    }

    /// The value without secrets in its texts and names, and the number of replacements.
    pub fn value(&self, value: Value) -> (Value, u32) {
        if self.patterns.is_empty() && self.expressions.0.is_empty() {
            return (value, 0);
        }
        match value {
            Value::String(text) => {
                let (clean, count) = self.text(&text);
                (Value::String(clean), count)
            }
            Value::Array(items) => {
                let mut count = 0_u32;
                let clean = items.into_iter().map(|item| self.add(item, &mut count)).collect();
                (Value::Array(clean), count)
            }
            Value::Object(fields) => {
                let mut count = 0_u32;
                let mut clean = Map::new();
                for (name, field) in fields {
                    let (name, found) = self.text(&name);
                    count = count.saturating_add(found);
                    let field = self.add(field, &mut count);
                    clean.insert(name, field);
                }
                (Value::Object(clean), count)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => (value, 0),
        }
    }

    fn add(&self, value: Value, count: &mut u32) -> Value {
        let (clean, found) = self.value(value);
        *count = count.saturating_add(found);
        clean
    }
}

/// The secret as it is and as it may be encoded.
fn encodings(secret: &str) -> Vec<String> {
    let mut all = vec![secret.to_owned(), percent_encoded(secret, false), percent_encoded(secret, true)];
    all.push(percent_encoded(secret, false).replace("%20", "+"));
    // JSON within a text.
    let quoted = Value::from(secret).to_string();
    all.push(quoted.trim_matches('"').to_owned());
    for offset in 0..3 {
        all.extend(base64_at(secret.as_bytes(), offset));
    }
    all
}

fn percent_encoded(secret: &str, lower_case: bool) -> String {
    secret
        .bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            _ if lower_case => format!("%{byte:02x}"),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// The characters that `secret` alone determines, if it begins at this offset of a group of three bytes.
fn base64_at(secret: &[u8], offset: usize) -> [String; 2] {
    let padded: Vec<u8> = std::iter::repeat_n(0, offset).chain(secret.iter().copied()).collect();
    // A character has six bits.
    let (first, end) = ((offset * 8).div_ceil(6), padded.len() * 8 / 6);
    [BASE64_STANDARD.encode(&padded), BASE64_URL_SAFE.encode(&padded)]
        .map(|encoded| encoded.get(first..end).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn redactor(secret: &str) -> Redactor {
        Redactor::new([&LockedSecret::from(secret.to_owned())])
    }

    #[test]
    fn secret_is_replaced_in_texts_and_names() {
        let echoed =
            json!({ "you sent hunter2!": ["hunter2!", 1, { "a": "x hunter2! y hunter2!" }], "b": null });
        let (clean, count) = redactor("hunter2!").value(echoed);
        assert_eq!(
            clean,
            json!({ "you sent [redacted]": ["[redacted]", 1, { "a": "x [redacted] y [redacted]" }], "b": null })
        );
        assert_eq!(count, 4);
    }

    #[test]
    fn short_secret_is_not_replaced() {
        assert_eq!(redactor("a").text("a banana"), ("a banana".to_owned(), 0));
    }

    #[test]
    fn expressions_of_the_tenant_are_replaced() {
        let expressions =
            RedactionPatterns::new(&["PIN-[0-9]{6}".to_owned(), "(?i)iban [a-z0-9]+".to_owned()]);
        let redactor = redactor("hunter2!").with_expressions(expressions.unwrap());
        let (clean, count) = redactor.value(json!({ "PIN-123456": "IBAN DE00 and hunter2!, PIN-12345" }));
        assert_eq!(clean, json!({ "[redacted]": "[redacted] and [redacted], PIN-12345" }));
        assert_eq!(count, 3);
    }

    #[test]
    fn unusable_expression_is_refused() {
        for bad in ["(", "a*", "", &"x".repeat(201), "[a-z]{1000}{1000}"] {
            let refused = RedactionPatterns::new(&["ok".to_owned(), (*bad).to_owned()]);
            assert_eq!(refused.unwrap_err(), InvalidRedaction::Expression { index: 2 }, "{bad}");
        }
        assert_eq!(RedactionPatterns::new(&vec!["x".to_owned(); 21]).unwrap_err(), InvalidRedaction::TooMany);
    }

    #[test]
    fn debug_shows_no_secret() {
        assert!(!format!("{:?}", redactor("hunter2!")).contains("hunter2"));
    }

    proptest! {
        /// The secret may stand anywhere in an encoded text.
        #[test]
        fn encoded_secret_is_replaced(
            before in "[ -~]{0,8}", secret in "[ -~]{12,40}", after in "[ -~]{0,8}", url_safe: bool
        ) {
            let text = format!("{before}{secret}{after}");
            let engine = if url_safe { BASE64_URL_SAFE } else { BASE64_STANDARD };
            let encoded = [engine.encode(&text), percent_encoded(&text, url_safe), json!({ "t": text }).to_string()];
            for encoded in encoded {
                let (clean, count) = redactor(&secret).text(&encoded);
                prop_assert!(count > 0 && clean.contains(REDACTED), "{encoded} -> {clean}");
            }
        }
    }
}
