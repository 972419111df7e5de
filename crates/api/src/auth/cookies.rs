//! Cookies that this server signs. A cookie contains its data; the server stores nothing.

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use domain::Millis;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretSlice};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Sha256;

/// A signature has 256 bits, as hex digits.
const CODE_CHARS: usize = 64;

/// Whether cookies are marked as secure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CookieSecurity {
    /// Browsers reach the server over TLS, directly or through a proxy.
    Https,
    /// Browsers reach the server without TLS, on the same machine.
    Loopback,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cookie {
    Session,
    /// A login in progress.
    Login,
}

impl Cookie {
    /// Browsers accept a name with the `__Host-` prefix only from the host itself, and only over TLS.
    fn name(self, security: CookieSecurity) -> &'static str {
        match (self, security) {
            (Self::Session, CookieSecurity::Https) => "__Host-countersign",
            (Self::Session, CookieSecurity::Loopback) => "countersign",
            (Self::Login, CookieSecurity::Https) => "__Host-countersign-login",
            (Self::Login, CookieSecurity::Loopback) => "countersign-login",
        }
    }

    /// A session cookie is sent only with requests from our pages. A login returns from a page of the provider.
    fn same_site(self) -> &'static str {
        match self {
            Self::Session => "Strict",
            Self::Login => "Lax",
        }
    }

    fn purpose(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Login => "login",
        }
    }
}

/// Signs and verifies cookies.
pub(super) struct Cookies {
    secret: SecretSlice<u8>,
    security: CookieSecurity,
}

impl Cookies {
    pub(super) fn new(secret: [u8; 32], security: CookieSecurity) -> Self {
        Self { secret: secret.to_vec().into(), security }
    }

    /// The `Set-Cookie` header for a cookie with `content`.
    pub(super) fn set(&self, cookie: Cookie, content: &impl Serialize, max_age: Millis) -> String {
        let text = BASE64.encode(serde_json::to_vec(content).unwrap_or_default());
        let code = self.code(cookie.purpose(), &text);
        self.header(cookie, &format!("{text}.{code}"), max_age)
    }

    /// The `Set-Cookie` header that deletes the cookie.
    pub(super) fn delete(&self, cookie: Cookie) -> String {
        self.header(cookie, "", Millis(0))
    }

    /// The content of the cookie of a request, and its text; none if the signature is not ours.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        cookie: Cookie,
        headers: &HeaderMap,
    ) -> Option<(T, String)> {
        let (text, code) = self.single(cookie, headers)?.rsplit_once('.')?;
        if !self.is_code(cookie.purpose(), text, code) {
            return None;
        }
        let content = serde_json::from_slice(&BASE64.decode(text).ok()?).ok()?;
        Some((content, text.to_owned()))
    }

    /// The value of the cookie; none if the request has two, because another site may have set one of them.
    fn single<'h>(&self, cookie: Cookie, headers: &'h HeaderMap) -> Option<&'h str> {
        let ours = cookie.name(self.security);
        let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut values = pairs.filter(|(name, _)| *name == ours).map(|(_, value)| value);
        match (values.next(), values.next()) {
            (Some(value), None) => Some(value),
            _ => None,
        }
    }

    fn header(&self, cookie: Cookie, value: &str, max_age: Millis) -> String {
        let (name, site, seconds) = (cookie.name(self.security), cookie.same_site(), max_age.0 / 1_000);
        let secure = match self.security {
            CookieSecurity::Https => "; Secure",
            CookieSecurity::Loopback => "",
        };
        format!("{name}={value}; Max-Age={seconds}; Path=/; HttpOnly; SameSite={site}{secure}")
    }

    /// The HMAC of `text` for this purpose.
    #[expect(clippy::expect_used, reason = "HMAC accepts a key of any length")]
    pub(super) fn code(&self, purpose: &str, text: &str) -> String {
        let mut mac: Hmac<Sha256> =
            Hmac::new_from_slice(self.secret.expose_secret()).expect("HMAC accepts a key of any length");
        mac.update(b"countersign/v1/");
        mac.update(purpose.as_bytes());
        // No purpose contains a NUL, so the parts cannot be confused.
        mac.update(b"\0");
        mac.update(text.as_bytes());
        hex::encode(mac.finalize().into_bytes())
    }

    fn is_code(&self, purpose: &str, text: &str, code: &str) -> bool {
        use subtle::ConstantTimeEq as _;
        code.len() == CODE_CHARS && self.code(purpose, text).as_bytes().ct_eq(code.as_bytes()).into()
    }
}
