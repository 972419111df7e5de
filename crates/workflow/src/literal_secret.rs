//! Credentials that a workflow contains as text.
//!
//! A workflow is stored, shown and signed, and its actions are shown to approvers. So a credential belongs into a
//! connection, which names it by a reference. Texts are recognized by their form, or by the name of their field. What has
//! neither passes: this finds mistakes, and is no protection against an author who hides a credential.

use std::sync::LazyLock;

use domain::SecretRef;
use regex::RegexSet;

use crate::yaml::{Node, YamlValue};

/// Names of fields and headers whose literal values are credentials, in lower case and with hyphens.
const NAMES: [&str; 26] = [
    "access-token",
    "api-key",
    "api-token",
    "apikey",
    "auth-token",
    "authorization",
    "bearer-token",
    "client-secret",
    "cookie",
    "ocp-apim-subscription-key",
    "passphrase",
    "passwd",
    "password",
    "private-key",
    "private-token",
    "proxy-authorization",
    "refresh-token",
    "secret",
    "secret-access-key",
    "secret-key",
    "x-access-token",
    "x-amz-security-token",
    "x-api-key",
    "x-auth-token",
    "x-functions-key",
    "x-vault-token",
];

/// Forms that credentials have.
const FORMS: [&str; 12] = [
    // The values of an `Authorization` header. Ordinary words after `bearer` and `basic` have no digit and no padding.
    r"(?i)\bbearer\s+[a-z._~+/-]*[0-9][a-z0-9._~+/-]{7,}",
    r"(?i)\bbasic\s+(?:[a-z+/]*[0-9][a-z0-9+/]{7,}|[a-z0-9+/]{10,}=)",
    // AWS, GitHub, GitLab, Google, Slack, Stripe and Vault.
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\bgh[opusr]_[A-Za-z0-9]{36,}|\bgithub_pat_[A-Za-z0-9_]{22,}",
    r"\bglpat-[A-Za-z0-9_-]{20,}",
    r"\bAIza[A-Za-z0-9_-]{35}",
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bxapp-[A-Za-z0-9-]{10,}",
    r"\b[sr]k_live_[A-Za-z0-9]{16,}",
    r"\bhv[sbr]\.[A-Za-z0-9_-]{20,}",
    // A JSON Web Token, a private key in PEM, and the password in a URL.
    r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    r"(?i)\b[a-z][a-z0-9+.-]*://[^/\s:@?#]*:[^/\s@?#$]+@",
];

/// A parameter in the query of a URL, with a literal value.
const PARAMETER: &str = r"(?i)[?&](?:api[_-]?key|access[_-]?token|auth[_-]?token|client[_-]?secret|password|passwd|secret|sig|signature|x-amz-signature|x-goog-signature)=[^&\s#$]{4,}";

static PATTERNS: LazyLock<Option<RegexSet>> =
    LazyLock::new(|| RegexSet::new(FORMS.iter().chain([&PARAMETER])).ok());

/// The first text in `with` that is a credential.
pub(crate) fn find(with: &Node) -> Option<&Node> {
    find_in(with, false)
}

/// `is_named` tells that the value belongs to a field whose literal values are credentials.
fn find_in(node: &Node, is_named: bool) -> Option<&Node> {
    match &node.value {
        YamlValue::Text(text) => is_credential(text, is_named).then_some(node),
        YamlValue::List(items) => items.iter().find_map(|item| find_in(item, is_named)),
        YamlValue::Map(fields) => fields.iter().find_map(|(key, value)| {
            let is_named = matches!(&key.value, YamlValue::Text(name) if is_credential_name(name));
            find_in(value, is_named)
        }),
        YamlValue::Null | YamlValue::Bool(_) | YamlValue::Number(_) => None,
    }
}

fn is_credential_name(name: &str) -> bool {
    NAMES.contains(&name.to_ascii_lowercase().replace('_', "-").as_str())
}

fn is_credential(text: &str, is_named: bool) -> bool {
    // A reference is resolved only in a connection: here it would be sent as it is.
    let is_value = !text.trim().is_empty() && !text.contains("${");
    (is_named && is_value)
        || SecretRef::new(text).is_ok()
        || PATTERNS.as_ref().is_none_or(|patterns| patterns.is_match(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_valid() {
        assert!(PATTERNS.is_some());
    }

    #[test]
    fn credential_is_recognized_by_its_form() {
        for text in [
            "Bearer 0123456789abcdef",
            "Basic c3ZjOmh1bnRlcjI=",
            "key AKIAIOSFODNN7EXAMPLE",
            "ghp_0123456789abcdef0123456789abcdef0123",
            "xoxb-123456789012-abcdef",
            "hvs.CAESIJ0123456789abcdef",
            "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl",
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
            "https://svc:hunter2@deploy.example.com/",
            "https://deploy.example.com/?api_key=hunter2",
            "https://deploy.example.com/?a=b&Access-Token=hunter2",
            "vault://kv/acme/servicenow#password",
            "env://SERVICENOW_PASSWORD",
        ] {
            assert!(is_credential(text, false), "{text}");
        }
    }

    #[test]
    fn ordinary_text_is_no_credential() {
        for text in [
            "The bearer responsibilities of the on-call",
            "Basic configuration is applied",
            "https://deploy.example.com/v1?page=2&sort=key",
            "https://deploy.example.com:8443/v1",
            "https://deploy.example.com/?api_key=${ trigger.key }",
            "user@example.com",
            "ssh://git@github.com/acme/app",
            "12:30 to ops@example.com",
            "Rotate the password of the service account.",
            "",
        ] {
            assert!(!is_credential(text, false), "{text}");
        }
    }

    #[test]
    fn literal_of_a_named_field_is_a_credential() {
        for name in ["password", "X-Api-Key", "client_secret", "AUTHORIZATION"] {
            assert!(is_credential_name(name), "{name}");
        }
        for name in ["passwords", "token_url", "state", "secret_name", "key"] {
            assert!(!is_credential_name(name), "{name}");
        }
        assert!(is_credential("hunter2", true));
        assert!(!is_credential("", true) && !is_credential("${ steps.login.output.token }", true));
    }
}
