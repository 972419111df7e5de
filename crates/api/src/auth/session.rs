//! Browser sessions.
//!
//! A session is a signed cookie with its origin and its expiry. The server stores no sessions. A process remembers the
//! sessions that were ended on it until they would have expired. The API key of a session is looked up at every
//! request, so revoking the key ends its sessions immediately on every server. A session from an identity provider is
//! valid as long as its token.
//!
//! The browser sends the cookie without the involvement of the page, so a session proves less than a key. On the API it
//! allows reading only. The console requires the token of the session for every change.

use std::collections::BTreeMap;
use std::fmt;

use axum::http::{HeaderMap, HeaderValue};
use domain::{KeyId, Millis, PersonId, Roles, TenantId, Timestamp};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::Caller;
pub use super::cookies::CookieSecurity;
use super::cookies::{Cookie, Cookies};

/// A working day.
pub const SESSION_MAX: Millis = Millis::hours(12);

/// The maximum number of remembered ended sessions, about 2 MB. The ones that expire soonest are dropped first.
const ENDED_MAX: usize = 10_000;

/// Creates and reads sessions.
pub struct Sessions {
    cookies: Cookies,
    /// The ended sessions by token, with their expiry.
    ended: Mutex<BTreeMap<String, Timestamp>>,
}

/// The credential that started a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionOrigin {
    Key(KeyId),
    /// The claims of an identity provider.
    Token(IdClaims),
}

/// The claims of an identity provider about a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdClaims {
    pub person: PersonId,
    pub roles: Roles,
    /// Identifies the user at the provider.
    pub credential: String,
    /// The expiry of the token.
    pub until: Timestamp,
}

impl IdClaims {
    pub(super) fn caller(&self, tenant: &TenantId) -> Caller {
        let Self { person, roles, credential, .. } = self.clone();
        Caller { tenant: tenant.clone(), person, roles, credential, unlisted: false }
    }
}

/// The content of the session cookie.
#[derive(Serialize, Deserialize)]
struct SessionCookie {
    tenant: TenantId,
    origin: SessionOrigin,
    until: Timestamp,
    /// Makes the cookie unique.
    random: String,
}

/// A valid session. The store decides whether its API key is still valid.
#[derive(Clone, PartialEq, Eq)]
pub struct Session {
    /// Of which tenant.
    pub tenant: TenantId,
    pub origin: SessionOrigin,
    pub expires_at: Timestamp,
    /// The token that a form must contain.
    pub token: String,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("tenant", &self.tenant)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Compares the token of the session in constant time.
    pub fn is_token(&self, token: &str) -> bool {
        use subtle::ConstantTimeEq as _;
        self.token.as_bytes().ct_eq(token.as_bytes()).into()
    }
}

impl Sessions {
    /// `secret` must be random, and the same on every server behind one address.
    pub fn new(secret: [u8; 32], security: CookieSecurity) -> Self {
        Self { cookies: Cookies::new(secret, security), ended: Mutex::default() }
    }

    /// Starts a session. Returns the `Set-Cookie` header. `random` makes the cookie unique.
    pub fn start(
        &self,
        tenant: &TenantId,
        origin: SessionOrigin,
        now: Timestamp,
        random: [u8; 16],
    ) -> String {
        let until = match &origin {
            SessionOrigin::Key(_) => now + SESSION_MAX,
            SessionOrigin::Token(claims) => (now + SESSION_MAX).min(claims.until),
        };
        let random = format!("{:032x}", u128::from_be_bytes(random));
        let content = SessionCookie { tenant: tenant.clone(), origin, until, random };
        self.cookies.set(Cookie::Session, &content, until - now)
    }

    /// Ends a session, so that copies of its cookie are rejected. Returns the `Set-Cookie` header that deletes it.
    pub fn end(&self, session: &Session, now: Timestamp) -> String {
        let mut ended = self.ended.lock();
        ended.retain(|_, until| now < *until);
        ended.insert(session.token.clone(), session.expires_at);
        if ended.len() > ENDED_MAX {
            let soonest = ended.iter().min_by_key(|(_, until)| **until).map(|(token, _)| token.clone());
            if let Some(token) = soonest {
                ended.remove(&token);
            }
        }
        self.cookies.delete(Cookie::Session)
    }

    /// The session of a request.
    pub fn read(&self, headers: &HeaderMap, now: Timestamp) -> Option<Session> {
        let (content, text) = self.cookies.read::<SessionCookie>(Cookie::Session, headers)?;
        let SessionCookie { tenant, origin, until: expires_at, .. } = content;
        let session = Session { tenant, origin, expires_at, token: self.cookies.code("form", &text) };
        (now < session.expires_at && !self.ended.lock().contains_key(&session.token)).then_some(session)
    }

    pub(super) fn cookies(&self) -> &Cookies {
        &self.cookies
    }
}

/// Whether a page of this server sends the request, according to the browser. Without these headers, the user entered
/// the address, or the client is no browser.
pub fn is_same_origin(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default());
    let site_is_ours = matches!(text("sec-fetch-site"), None | Some("same-origin" | "none"));
    let origin_is_ours = match text("origin") {
        None => true,
        // A page without a referrer sends `null`; `Sec-Fetch-Site` decides then.
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
    use domain::Role;

    const NOON: Timestamp = Timestamp(1_750_000_000_000);

    fn sessions(secret: u8, security: CookieSecurity) -> Sessions {
        Sessions::new([secret; 32], security)
    }

    fn cookie(sessions: &Sessions, tenant: &str) -> String {
        cookie_of(sessions, tenant, key())
    }

    fn cookie_of(sessions: &Sessions, tenant: &str, origin: SessionOrigin) -> String {
        let set = sessions.start(&tenant.parse().unwrap(), origin, NOON, [7; 16]);
        set.split(';').next().unwrap().to_owned()
    }

    fn key() -> SessionOrigin {
        SessionOrigin::Key("00ff".parse().unwrap())
    }

    fn claims(until: Timestamp) -> SessionOrigin {
        let roles = [Role::Viewer, Role::Approver].into_iter().collect();
        SessionOrigin::Token(IdClaims {
            person: "a.b_c".parse().unwrap(),
            roles,
            credential: "oidc:00".to_owned(),
            until,
        })
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn read(sessions: &Sessions, cookie: &str, now: Timestamp) -> Option<Session> {
        sessions.read(&headers(&[("cookie", cookie)]), now)
    }

    #[test]
    fn session_is_valid_until_it_expires() {
        for security in [CookieSecurity::Https, CookieSecurity::Loopback] {
            let sessions = sessions(1, security);
            for tenant in ["acme", "acme.east.1", "a_b-c"] {
                let cookie = cookie(&sessions, tenant);
                let session = read(&sessions, &format!("a=b; {cookie}"), NOON).unwrap();
                assert_eq!((session.tenant.as_str(), session.origin), (tenant, key()));
                assert!(read(&sessions, &cookie, NOON + SESSION_MAX).is_none());
            }
        }
    }

    #[test]
    fn token_session_ends_with_its_token() {
        let sessions = sessions(1, CookieSecurity::Https);
        let soon = NOON + Millis::mins(5);
        for (until, ends) in [(soon, soon), (NOON + Millis::hours(100), NOON + SESSION_MAX)] {
            let cookie = cookie_of(&sessions, "acme", claims(until));
            let session = read(&sessions, &cookie, Timestamp(ends.0 - 1)).unwrap();
            assert_eq!((session.origin, session.expires_at), (claims(until), ends));
            assert!(read(&sessions, &cookie, ends).is_none());
        }
    }

    #[test]
    fn altered_cookie_is_no_session() {
        let sessions = sessions(1, CookieSecurity::Https);
        let cookie = cookie(&sessions, "acme");
        let value = cookie.find('=').unwrap() + 1;
        for at in value..cookie.len() {
            let swapped = if &cookie[at..=at] == "1" { "2" } else { "1" };
            let changed = format!("{}{swapped}{}", &cookie[..at], &cookie[at + 1..]);
            assert!(read(&sessions, &changed, NOON).is_none(), "{changed}");
        }
    }

    #[test]
    fn foreign_or_duplicate_cookie_is_no_session() {
        let ours = sessions(1, CookieSecurity::Https);
        let cookie = cookie(&ours, "acme");
        assert!(read(&sessions(2, CookieSecurity::Https), &cookie, NOON).is_none());
        assert!(read(&ours, &format!("{cookie}; {cookie}"), NOON).is_none());
    }

    #[test]
    fn form_token_belongs_to_one_session() {
        let sessions = sessions(1, CookieSecurity::Https);
        let [one, other] =
            ["acme", "umbrella"].map(|tenant| read(&sessions, &cookie(&sessions, tenant), NOON).unwrap());
        assert!(one.is_token(&one.token) && !one.is_token(&other.token) && !one.is_token(""));
        assert!(!cookie(&sessions, "acme").contains(&one.token));
    }

    #[test]
    fn cookie_is_bound_to_the_host_and_http_only() {
        let end = |sessions: &Sessions| {
            let session = read(sessions, &cookie(sessions, "acme"), NOON).unwrap();
            sessions.end(&session, NOON)
        };
        let https = sessions(1, CookieSecurity::Https);
        for set in [end(&https), https.start(&"t".parse().unwrap(), key(), NOON, [0; 16])] {
            assert!(set.starts_with("__Host-countersign="), "{set}");
            for attribute in ["; Path=/", "; HttpOnly", "; SameSite=Strict", "; Secure"] {
                assert!(set.contains(attribute), "{set}");
            }
        }
        let loopback = end(&sessions(1, CookieSecurity::Loopback));
        assert!(loopback.starts_with("countersign=") && !loopback.contains("Secure"), "{loopback}");
    }

    #[test]
    fn ended_session_is_rejected() {
        let sessions = sessions(1, CookieSecurity::Https);
        let [ended, other] = ["acme", "umbrella"].map(|tenant| cookie(&sessions, tenant));
        let session = read(&sessions, &ended, NOON).unwrap();
        for _ in 0..2 {
            sessions.end(&session, NOON);
            assert!(read(&sessions, &ended, NOON).is_none());
            assert!(read(&sessions, &other, NOON).is_some());
        }
    }

    #[test]
    fn ended_sessions_are_bounded() {
        let sessions = sessions(1, CookieSecurity::Https);
        let session = read(&sessions, &cookie(&sessions, "acme"), NOON).unwrap();
        // The token of each session is its lifetime in minutes.
        let lasts = |mins: u64| (mins.to_string(), NOON + Millis::mins(mins));
        let most = u64::try_from(ENDED_MAX).unwrap();
        sessions.ended.lock().extend((1..=most).map(lasts));
        let one_more = |mins: u64, now: Timestamp| {
            let (token, expires_at) = lasts(mins);
            sessions.end(&Session { expires_at, token, ..session.clone() }, now)
        };
        let remembers = |mins: u64| sessions.ended.lock().contains_key(&mins.to_string());
        one_more(most + 1, NOON);
        assert_eq!(sessions.ended.lock().len(), ENDED_MAX);
        assert!(!remembers(1) && remembers(2), "the session that expires soonest is dropped first");
        one_more(most + 2, NOON + Millis::mins(5_000));
        assert!(!remembers(5_000) && remembers(5_001) && remembers(most + 2));
    }

    #[test]
    fn only_pages_of_this_server_are_same_origin() {
        let here = |pairs: &[(&'static str, &str)]| {
            is_same_origin(&headers(&[&[("host", "a.example:7420")], pairs].concat()))
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
    fn debug_output_hides_the_token() {
        let sessions = sessions(1, CookieSecurity::Https);
        let session = read(&sessions, &cookie(&sessions, "acme"), NOON).unwrap();
        assert!(!format!("{session:?}").contains(&session.token));
    }
}
