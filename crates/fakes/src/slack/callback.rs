//! What Slack sends when somebody presses a button or uses a shortcut: a form, signed as it stands.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use sha2::Sha256;

/// Slack gives an app three seconds.
const DELIVERY_MAX: Duration = Duration::from_secs(3);

/// Somebody presses a button.
#[derive(Debug, Clone, Copy)]
pub struct Press<'a> {
    /// Of the message there.
    pub place: &'a str,
    /// Which button.
    pub action_id: &'a str,
    /// Who.
    pub user: &'a str,
    /// Of which workspace.
    pub team: &'a str,
    /// When, in seconds since 1970.
    pub at_secs: i64,
}

/// Somebody uses a shortcut.
#[derive(Debug, Clone, Copy)]
pub struct Use<'a> {
    /// Which one.
    pub callback_id: &'a str,
    /// On the message there, if on one.
    pub place: Option<&'a str>,
    /// Who.
    pub user: &'a str,
    /// Of which workspace.
    pub team: &'a str,
    /// When, in seconds since 1970.
    pub at_secs: i64,
}

/// Somebody sends a window off.
#[derive(Debug, Clone, Copy)]
pub struct Submission<'a> {
    /// Which window.
    pub view: &'a str,
    /// Who.
    pub user: &'a str,
    /// Of which workspace.
    pub team: &'a str,
    /// What they typed.
    pub text: &'a str,
    /// What they chose; the first there is, if nothing.
    pub choice: Option<&'a str>,
    /// When, in seconds since 1970.
    pub at_secs: i64,
}

/// A request that Slack would send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callback {
    /// `x-slack-request-timestamp`.
    pub timestamp: String,
    /// `x-slack-signature`.
    pub signature: String,
    /// A form.
    pub body: Vec<u8>,
}

impl Callback {
    /// `payload` as Slack would send it at `at_secs` under `secret`. A test that wants to lie starts here.
    pub fn signed(payload: &Value, secret: &str, at_secs: i64) -> Self {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        let body = form.append_pair("payload", &payload.to_string()).finish().into_bytes();
        Self { timestamp: at_secs.to_string(), signature: signature(secret, at_secs, &body), body }
    }

    /// The payload again.
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
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length will do");
    mac.update(format!("v0:{at_secs}:").as_bytes());
    mac.update(body);
    let mut text = "v0=".to_owned();
    for byte in mac.finalize().into_bytes() {
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}

/// Nobody answered at the callback URL.
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

/// Posts `callback` to `url`; the status of the reply.
pub async fn deliver(callback: Callback, url: &str) -> Result<u16, NotDelivered> {
    let request = client().map_err(NotDelivered)?.post(url);
    let request = request
        .header("content-type", "application/x-www-form-urlencoded")
        .header("x-slack-request-timestamp", callback.timestamp)
        .header("x-slack-signature", callback.signature);
    let response = request.body(callback.body).send().await.map_err(NotDelivered)?;
    Ok(response.status().as_u16())
}

/// A client that trusts nobody: a simulation calls back over plain http, on this machine.
#[expect(clippy::expect_used, reason = "ring has suites for both versions of TLS that are asked for")]
pub(super) fn client() -> reqwest::Result<reqwest::Client> {
    let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring knows TLS 1.2 and 1.3")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder().no_proxy().timeout(DELIVERY_MAX).tls_backend_preconfigured(tls).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_is_signed_as_slack_documents_it() {
        let body = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        assert_eq!(
            signature("8f742231b10e8888abcd99yyyzzz85a5", 1_531_420_618, body),
            "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
        );
    }

    #[test]
    fn a_payload_reads_back() {
        let payload = json!({ "text": "a & b = ü" });
        assert_eq!(Callback::signed(&payload, "secret", 0).payload(), payload);
    }
}
