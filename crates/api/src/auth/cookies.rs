//! Cookies that only this server can make. What one says stands in it, under a code; nothing is kept here.

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use domain::Millis;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretSlice};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Sha256;

/// A code has 256 bits, as hex digits.
const CODE_CHARS: usize = 64;

/// How the browser reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Through TLS, here or before here.
    Https,
    /// In the clear, which is for one's own machine.
    Loopback,
}

/// Which cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cookie {
    /// A session.
    Session,
    /// A login that is under way.
    Login,
}

impl Cookie {
    /// Browsers take a name with this prefix only from the host itself, and only through TLS.
    fn name(self, over: Over) -> &'static str {
        match (self, over) {
            (Self::Session, Over::Https) => "__Host-countersign",
            (Self::Session, Over::Loopback) => "countersign",
            (Self::Login, Over::Https) => "__Host-countersign-login",
            (Self::Login, Over::Loopback) => "countersign-login",
        }
    }

    /// A session comes only with what a page of ours asks for. Whoever logs in is led back here by a page elsewhere.
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

/// Makes cookies and reads them.
pub(super) struct Cookies {
    secret: SecretSlice<u8>,
    over: Over,
}

impl Cookies {
    pub(super) fn new(secret: [u8; 32], over: Over) -> Self {
        Self { secret: secret.to_vec().into(), over }
    }

    /// The header that gives the browser a cookie which says `what`.
    pub(super) fn give(&self, cookie: Cookie, what: &impl Serialize, lasts: Millis) -> String {
        let says = BASE64.encode(serde_json::to_vec(what).unwrap_or_default());
        let code = self.code(cookie.purpose(), &says);
        self.header(cookie, &format!("{says}.{code}"), lasts)
    }

    /// The header that takes it away again.
    pub(super) fn take(&self, cookie: Cookie) -> String {
        self.header(cookie, "", Millis(0))
    }

    /// What the cookie says that a request brings, and its text, if we made it.
    pub(super) fn brought<T: DeserializeOwned>(
        &self,
        cookie: Cookie,
        headers: &HeaderMap,
    ) -> Option<(T, String)> {
        let (says, code) = self.only(cookie, headers)?.rsplit_once('.')?;
        if !self.is_code(cookie.purpose(), says, code) {
            return None;
        }
        let what = serde_json::from_slice(&BASE64.decode(says).ok()?).ok()?;
        Some((what, says.to_owned()))
    }

    /// The one cookie of ours; none if there are two, because then somebody else may have set one.
    fn only<'h>(&self, cookie: Cookie, headers: &'h HeaderMap) -> Option<&'h str> {
        let ours = cookie.name(self.over);
        let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut values = pairs.filter(|(name, _)| *name == ours).map(|(_, value)| value);
        match (values.next(), values.next()) {
            (Some(value), None) => Some(value),
            _ => None,
        }
    }

    fn header(&self, cookie: Cookie, value: &str, lasts: Millis) -> String {
        let (name, site, seconds) = (cookie.name(self.over), cookie.same_site(), lasts.0 / 1_000);
        let secure = match self.over {
            Over::Https => "; Secure",
            Over::Loopback => "",
        };
        format!("{name}={value}; Max-Age={seconds}; Path=/; HttpOnly; SameSite={site}{secure}")
    }

    /// A code over `text` that only this server can make, and only for this purpose.
    #[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
    pub(super) fn code(&self, purpose: &str, text: &str) -> String {
        let mut mac: Hmac<Sha256> =
            Hmac::new_from_slice(self.secret.expose_secret()).expect("any length will do");
        mac.update(b"countersign/v1/");
        mac.update(purpose.as_bytes());
        // No purpose holds it, so no two of these read the same.
        mac.update(b"\0");
        mac.update(text.as_bytes());
        let bytes = mac.finalize().into_bytes();
        bytes
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .filter_map(|half| char::from_digit(half.into(), 16))
            .collect()
    }

    fn is_code(&self, purpose: &str, text: &str, code: &str) -> bool {
        use subtle::ConstantTimeEq as _;
        code.len() == CODE_CHARS && self.code(purpose, text).as_bytes().ct_eq(code.as_bytes()).into()
    }
}
