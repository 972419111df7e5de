//! The signed form that Slack sends for a button press, a shortcut or a submitted modal.

use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use sha2::Sha256;

/// Slack gives an app three seconds.
const DELIVERY_MAX: Duration = Duration::from_secs(3);

/// A button press.
#[derive(Debug, Clone, Copy)]
pub struct ButtonPress<'a> {
    /// The message, as `channel/ts`.
    pub place: &'a str,
    pub action_id: &'a str,
    pub user: &'a str,
    pub team: &'a str,
    /// Unix time in seconds.
    pub at_secs: i64,
}

/// The use of a shortcut.
#[derive(Debug, Clone, Copy)]
pub struct ShortcutUse<'a> {
    pub callback_id: &'a str,
    /// The message, as `channel/ts`, for a message shortcut.
    pub place: Option<&'a str>,
    pub user: &'a str,
    pub team: &'a str,
    /// Unix time in seconds.
    pub at_secs: i64,
}

/// A submitted modal.
#[derive(Debug, Clone, Copy)]
pub struct Submission<'a> {
    pub view: &'a str,
    pub user: &'a str,
    pub team: &'a str,
    /// The value of every text field.
    pub text: &'a str,
    /// The selected option; `None` selects the first.
    pub choice: Option<&'a str>,
    /// Unix time in seconds.
    pub at_secs: i64,
}

/// A request from Slack to the app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callback {
    /// `x-slack-request-timestamp`.
    pub timestamp: String,
    /// `x-slack-signature`.
    pub signature: String,
    /// The form.
    pub body: Vec<u8>,
}

impl Callback {
    /// Signs `payload` as Slack does. Use it to forge payloads in tests.
    pub fn signed(payload: &Value, secret: &str, at_secs: i64) -> Self {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        let body = form.append_pair("payload", &payload.to_string()).finish().into_bytes();
        Self { timestamp: at_secs.to_string(), signature: signature(secret, at_secs, &body), body }
    }

    pub fn payload(&self) -> Value {
        let mut fields = url::form_urlencoded::parse(&self.body);
        let payload = fields.find(|(name, _)| name == "payload");
        payload.and_then(|(_, json)| serde_json::from_str(&json).ok()).unwrap_or_default()
    }
}

pub(super) fn user(id: &str, team: &str) -> Value {
    json!({ "id": id, "username": id.to_lowercase(), "name": id.to_lowercase(), "team_id": team })
}

#[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
fn signature(secret: &str, at_secs: i64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC accepts any key length");
    mac.update(format!("v0:{at_secs}:").as_bytes());
    mac.update(body);
    format!("v0={}", hex::encode(mac.finalize().into_bytes()))
}

#[derive(Debug)]
pub struct NotDelivered(reqwest::Error);

impl std::fmt::Display for NotDelivered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the callback could not be delivered")
    }
}

impl std::error::Error for NotDelivered {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// Posts `callback` to `url` and returns the status.
pub async fn deliver(callback: Callback, url: &str) -> Result<u16, NotDelivered> {
    let request = client().map_err(NotDelivered)?.post(url);
    let request = request
        .header("content-type", "application/x-www-form-urlencoded")
        .header("x-slack-request-timestamp", callback.timestamp)
        .header("x-slack-signature", callback.signature);
    let response = request.body(callback.body).send().await.map_err(NotDelivered)?;
    Ok(response.status().as_u16())
}

/// A client without root certificates: a fake calls back over plain HTTP on this machine.
#[expect(clippy::expect_used, reason = "ring has suites for both versions of TLS that are asked for")]
pub(super) fn client() -> reqwest::Result<reqwest::Client> {
    let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports TLS 1.2 and 1.3")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder().no_proxy().timeout(DELIVERY_MAX).tls_backend_preconfigured(tls).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_matches_slacks_documentation() {
        let body = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        assert_eq!(
            signature("8f742231b10e8888abcd99yyyzzz85a5", 1_531_420_618, body),
            "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
        );
    }

    #[test]
    fn payload_round_trips() {
        let payload = json!({ "text": "a & b = ü" });
        assert_eq!(Callback::signed(&payload, "secret", 0).payload(), payload);
    }
}
