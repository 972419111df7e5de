//! Sessions: people at a browser.
//!
//! A session is a cookie that names an API key and until when it counts, under a code that only this server can
//! make. Nothing is kept of it. The key is looked up at every request, so one that is taken back ends its sessions
//! at once.
//!
//! A cookie is sent by the browser, not by the page, so it proves less than a key. On the API it lets whoever
//! brings it look, and no more; what the console lets people do takes the session's token as well.

use std::fmt;

use axum::http::{HeaderMap, HeaderValue, header};
use domain::{KeyId, Millis, TenantId, Timestamp};
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretSlice};
use sha2::Sha256;

/// A working day with its overtime.
pub const LASTS: Millis = Millis::hours(12);

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

/// Makes sessions and reads them.
pub struct Sessions {
    secret: SecretSlice<u8>,
    over: Over,
}

/// A session that is genuine and not over. Whether its key still opens anything is for the store to say.
#[derive(Clone, PartialEq, Eq)]
pub struct Session {
    /// Of which tenant.
    pub tenant: TenantId,
    /// With which key it was begun.
    pub key: KeyId,
    /// Until when it counts.
    pub expires_at: Timestamp,
    /// What a form must bring to be believed.
    pub token: String,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("tenant", &self.tenant)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Whether `token` is this session's. How long it takes tells nothing about it.
    pub fn is_token(&self, token: &str) -> bool {
        use subtle::ConstantTimeEq as _;
        self.token.as_bytes().ct_eq(token.as_bytes()).into()
    }
}

impl Sessions {
    /// Sessions under `secret`, which comes from a good source of chance and is the same on every server that people
    /// may be led to.
    pub fn new(secret: [u8; 32], over: Over) -> Self {
        Self { secret: secret.to_vec().into(), over }
    }

    /// The cookie of a session that begins at `now`; `chance` tells it from every other.
    pub fn begin(&self, tenant: &TenantId, key: &KeyId, now: Timestamp, chance: [u8; 16]) -> String {
        let until = (now + LASTS).0;
        let names = format!("{tenant}.{key}.{until}.{:032x}", u128::from_be_bytes(chance));
        let code = self.code("session", &names);
        format!("{}={names}.{code}; Max-Age={}{}", self.name(), LASTS.0 / 1_000, self.attributes())
    }

    /// The cookie that takes a session's place when it ends.
    pub fn end(&self) -> String {
        format!("{}=; Max-Age=0{}", self.name(), self.attributes())
    }

    /// The session that a request brings.
    pub fn brought(&self, headers: &HeaderMap, now: Timestamp) -> Option<Session> {
        let cookie = self.cookie(headers)?;
        let (names, code) = cookie.rsplit_once('.')?;
        // From the right: a tenant's name may hold the character that joins the parts, the others do not.
        let (rest, _chance) = names.rsplit_once('.')?;
        let (rest, until) = rest.rsplit_once('.')?;
        let (tenant, key) = rest.rsplit_once('.')?;
        if !self.is_code("session", names, code) {
            return None;
        }
        let expires_at = Timestamp(until.parse().ok()?);
        let token = self.code("form", names);
        let session = Session { tenant: tenant.parse().ok()?, key: key.parse().ok()?, expires_at, token };
        (now < session.expires_at).then_some(session)
    }

    /// The one cookie of ours; none if there are two, because then somebody else may have set one.
    fn cookie<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut ours = pairs.filter(|(name, _)| *name == self.name()).map(|(_, value)| value);
        match (ours.next(), ours.next()) {
            (Some(value), None) => Some(value),
            _ => None,
        }
    }

    /// Browsers take a name with this prefix only from the host itself, and only through TLS.
    fn name(&self) -> &'static str {
        match self.over {
            Over::Https => "__Host-countersign",
            Over::Loopback => "countersign",
        }
    }

    fn attributes(&self) -> &'static str {
        match self.over {
            Over::Https => "; Path=/; HttpOnly; SameSite=Strict; Secure",
            Over::Loopback => "; Path=/; HttpOnly; SameSite=Strict",
        }
    }

    #[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
    fn mac(&self, purpose: &str, names: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(self.secret.expose_secret()).expect("any length will do");
        mac.update(b"countersign/v1/");
        mac.update(purpose.as_bytes());
        // No name holds it, so no two of these read the same.
        mac.update(b"\0");
        mac.update(names.as_bytes());
        mac
    }

    fn code(&self, purpose: &str, names: &str) -> String {
        let bytes = self.mac(purpose, names).finalize().into_bytes();
        bytes
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .filter_map(|half| char::from_digit(half.into(), 16))
            .collect()
    }

    fn is_code(&self, purpose: &str, names: &str, code: &str) -> bool {
        use subtle::ConstantTimeEq as _;
        code.len() == CODE_CHARS && self.code(purpose, names).as_bytes().ct_eq(code.as_bytes()).into()
    }
}

/// Whether the browser says that a page of this very server sends the request. A browser that says nothing about
/// it was sent by the person alone, or is no browser.
pub fn is_from_here(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default());
    let site_is_ours = matches!(text("sec-fetch-site"), None | Some("same-origin" | "none"));
    let origin_is_ours = match text("origin") {
        None => true,
        // What a page that sends no referrer says of itself; the site has told the rest.
        Some("null") => text("sec-fetch-site") == Some("same-origin"),
        Some(origin) => {
            let host = origin.split_once("://").map(|(_, host)| host);
            host.is_some() && host == text("host")
        }
    };
    site_is_ours && origin_is_ours
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp(1_750_000_000_000);

    fn sessions(secret: u8, over: Over) -> Sessions {
        Sessions::new([secret; 32], over)
    }

    fn cookie(sessions: &Sessions, tenant: &str) -> String {
        let set = sessions.begin(&tenant.parse().unwrap(), &"00ff".parse().unwrap(), NOON, [7; 16]);
        set.split(';').next().unwrap().to_owned()
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn brought(sessions: &Sessions, cookie: &str, now: Timestamp) -> Option<Session> {
        sessions.brought(&headers(&[("cookie", cookie)]), now)
    }

    #[test]
    fn a_session_is_read_as_it_was_begun_until_its_time_is_up() {
        for over in [Over::Https, Over::Loopback] {
            let sessions = sessions(1, over);
            for tenant in ["acme", "acme.east.1", "a_b-c"] {
                let cookie = cookie(&sessions, tenant);
                let session = brought(&sessions, &format!("a=b; {cookie}"), NOON).unwrap();
                assert_eq!((session.tenant.as_str(), session.key.as_str()), (tenant, "00ff"));
                assert!(brought(&sessions, &cookie, NOON + LASTS).is_none());
            }
        }
    }

    #[test]
    fn a_cookie_with_any_character_changed_is_no_session() {
        let sessions = sessions(1, Over::Https);
        let cookie = cookie(&sessions, "acme");
        let value = cookie.find('=').unwrap() + 1;
        for at in value..cookie.len() {
            let swapped = if &cookie[at..=at] == "1" { "2" } else { "1" };
            let changed = format!("{}{swapped}{}", &cookie[..at], &cookie[at + 1..]);
            assert!(brought(&sessions, &changed, NOON).is_none(), "{changed}");
        }
    }

    #[test]
    fn a_session_of_another_server_or_two_at_once_are_none() {
        let ours = sessions(1, Over::Https);
        let cookie = cookie(&ours, "acme");
        assert!(brought(&sessions(2, Over::Https), &cookie, NOON).is_none());
        assert!(brought(&ours, &format!("{cookie}; {cookie}"), NOON).is_none());
    }

    #[test]
    fn a_token_belongs_to_one_session_and_opens_none() {
        let sessions = sessions(1, Over::Https);
        let [one, other] =
            ["acme", "umbrella"].map(|tenant| brought(&sessions, &cookie(&sessions, tenant), NOON).unwrap());
        assert!(one.is_token(&one.token) && !one.is_token(&other.token) && !one.is_token(""));
        assert!(!cookie(&sessions, "acme").contains(&one.token));
    }

    #[test]
    fn the_cookie_is_for_this_host_alone_and_no_script_sees_it() {
        let https = sessions(1, Over::Https);
        for set in [https.end(), https.begin(&"t".parse().unwrap(), &"0".parse().unwrap(), NOON, [0; 16])] {
            assert!(set.starts_with("__Host-countersign="), "{set}");
            for attribute in ["; Path=/", "; HttpOnly", "; SameSite=Strict", "; Secure"] {
                assert!(set.contains(attribute), "{set}");
            }
        }
        let loopback = sessions(1, Over::Loopback).end();
        assert!(loopback.starts_with("countersign=") && !loopback.contains("Secure"), "{loopback}");
    }

    #[test]
    fn only_a_page_of_this_server_is_from_here() {
        let here = |pairs: &[(&'static str, &str)]| {
            is_from_here(&headers(&[&[("host", "a.example:7420")], pairs].concat()))
        };
        assert!(here(&[]));
        assert!(here(&[("origin", "https://a.example:7420")]));
        assert!(here(&[("origin", "null"), ("sec-fetch-site", "same-origin")]));
        for (name, value) in [
            ("origin", "https://a.example"),
            ("origin", "https://b.example:7420"),
            ("origin", "null"),
            ("origin", ""),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert!(!here(&[(name, value)]), "{name}: {value}");
        }
    }

    #[test]
    fn the_secret_and_the_token_stand_in_no_text_about_a_session() {
        let sessions = sessions(1, Over::Https);
        let session = brought(&sessions, &cookie(&sessions, "acme"), NOON).unwrap();
        assert!(!format!("{session:?}").contains(&session.token));
    }
}
