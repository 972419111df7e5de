//! Sessions: people at a browser.
//!
//! A session is a cookie that names what it was begun with and until when it counts, under a code that only this
//! server can make. Nothing is kept of it while it lasts. One that somebody ends is remembered until it would have
//! ended anyway, by this process alone. An API key is looked up at every request, so one that is taken back ends its
//! sessions at once, everywhere. What an identity provider said of somebody counts as long as its token would.
//!
//! A cookie is sent by the browser, not by the page, so it proves less than a key. On the API it lets whoever
//! brings it look, and no more; what the console lets people do takes the session's token as well.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::http::{HeaderMap, HeaderValue};
use domain::{KeyId, Millis, PersonId, Roles, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use super::Caller;
pub use super::cookies::Over;
use super::cookies::{Cookie, Cookies};

/// A working day with its overtime.
pub const LASTS: Millis = Millis::hours(12);

/// More sessions than this ended within half a day, and those that would end soonest are forgotten; together they take
/// a megabyte or two.
const ENDED_MAX: usize = 10_000;

/// Makes sessions and reads them.
pub struct Sessions {
    cookies: Cookies,
    /// Those that somebody ended, by their tokens, and until when they would have counted.
    ended: Mutex<BTreeMap<String, Timestamp>>,
}

/// What a session was begun with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Begun {
    /// This API key.
    Key(KeyId),
    /// The word of an identity provider.
    Token(Word),
}

/// What an identity provider said of somebody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    /// Who they are.
    pub person: PersonId,
    /// What they may do.
    pub roles: Roles,
    /// What stands for them at the provider.
    pub credential: String,
    /// Until when the word counts.
    pub until: Timestamp,
}

impl Word {
    pub(super) fn caller(&self, tenant: &TenantId) -> Caller {
        let Self { person, roles, credential, .. } = self.clone();
        Caller { tenant: tenant.clone(), person, roles, credential }
    }
}

/// What the cookie of a session says.
#[derive(Serialize, Deserialize)]
struct Says {
    tenant: TenantId,
    begun: Begun,
    until: Timestamp,
    /// Tells it from every other.
    chance: String,
}

/// A session that is genuine and not over. Whether its key still opens anything is for the store to say.
#[derive(Clone, PartialEq, Eq)]
pub struct Session {
    /// Of which tenant.
    pub tenant: TenantId,
    /// With what it was begun.
    pub begun: Begun,
    /// Until when it counts.
    pub expires_at: Timestamp,
    /// What a form must bring to be believed.
    pub token: String,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("tenant", &self.tenant)
            .field("begun", &self.begun)
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
        Self { cookies: Cookies::new(secret, over), ended: Mutex::default() }
    }

    /// The cookie of a session that begins at `now`; `chance` tells it from every other.
    pub fn begin(&self, tenant: &TenantId, begun: Begun, now: Timestamp, chance: [u8; 16]) -> String {
        let until = match &begun {
            Begun::Key(_) => now + LASTS,
            Begun::Token(word) => (now + LASTS).min(word.until),
        };
        let chance = format!("{:032x}", u128::from_be_bytes(chance));
        let says = Says { tenant: tenant.clone(), begun, until, chance };
        self.cookies.give(Cookie::Session, &says, until - now)
    }

    /// Ends a session: whoever has a copy of its cookie is not let in with that any more. The cookie that takes its
    /// place.
    pub fn end(&self, session: &Session, now: Timestamp) -> String {
        let mut ended = self.ended();
        ended.retain(|_, until| now < *until);
        ended.insert(session.token.clone(), session.expires_at);
        if ended.len() > ENDED_MAX {
            let soonest = ended.iter().min_by_key(|(_, until)| **until).map(|(token, _)| token.clone());
            if let Some(token) = soonest {
                ended.remove(&token);
            }
        }
        self.cookies.take(Cookie::Session)
    }

    /// The session that a request brings.
    pub fn brought(&self, headers: &HeaderMap, now: Timestamp) -> Option<Session> {
        let (says, text) = self.cookies.brought::<Says>(Cookie::Session, headers)?;
        let Says { tenant, begun, until: expires_at, .. } = says;
        let session = Session { tenant, begun, expires_at, token: self.cookies.code("form", &text) };
        (now < session.expires_at && !self.ended().contains_key(&session.token)).then_some(session)
    }

    fn ended(&self) -> MutexGuard<'_, BTreeMap<String, Timestamp>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn cookies(&self) -> &Cookies {
        &self.cookies
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
    use domain::Role;

    const NOON: Timestamp = Timestamp(1_750_000_000_000);

    fn sessions(secret: u8, over: Over) -> Sessions {
        Sessions::new([secret; 32], over)
    }

    fn cookie(sessions: &Sessions, tenant: &str) -> String {
        begun(sessions, tenant, key())
    }

    fn begun(sessions: &Sessions, tenant: &str, begun: Begun) -> String {
        let set = sessions.begin(&tenant.parse().unwrap(), begun, NOON, [7; 16]);
        set.split(';').next().unwrap().to_owned()
    }

    fn key() -> Begun {
        Begun::Key("00ff".parse().unwrap())
    }

    fn word(until: Timestamp) -> Begun {
        let roles = [Role::Viewer, Role::Approver].into_iter().collect();
        Begun::Token(Word {
            person: "a.b_c".parse().unwrap(),
            roles,
            credential: "oidc:00".to_owned(),
            until,
        })
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
                assert_eq!((session.tenant.as_str(), session.begun), (tenant, key()));
                assert!(brought(&sessions, &cookie, NOON + LASTS).is_none());
            }
        }
    }

    #[test]
    fn the_word_of_a_provider_counts_no_longer_than_its_token_and_no_longer_than_a_day() {
        let sessions = sessions(1, Over::Https);
        let soon = NOON + Millis::mins(5);
        for (until, ends) in [(soon, soon), (NOON + Millis::hours(100), NOON + LASTS)] {
            let cookie = begun(&sessions, "acme", word(until));
            let session = brought(&sessions, &cookie, Timestamp(ends.0 - 1)).unwrap();
            assert_eq!((session.begun, session.expires_at), (word(until), ends));
            assert!(brought(&sessions, &cookie, ends).is_none());
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
        let end = |sessions: &Sessions| {
            let session = brought(sessions, &cookie(sessions, "acme"), NOON).unwrap();
            sessions.end(&session, NOON)
        };
        let https = sessions(1, Over::Https);
        for set in [end(&https), https.begin(&"t".parse().unwrap(), key(), NOON, [0; 16])] {
            assert!(set.starts_with("__Host-countersign="), "{set}");
            for attribute in ["; Path=/", "; HttpOnly", "; SameSite=Strict", "; Secure"] {
                assert!(set.contains(attribute), "{set}");
            }
        }
        let loopback = end(&sessions(1, Over::Loopback));
        assert!(loopback.starts_with("countersign=") && !loopback.contains("Secure"), "{loopback}");
    }

    #[test]
    fn a_session_that_was_ended_is_none_any_more_and_others_go_on() {
        let sessions = sessions(1, Over::Https);
        let [ended, other] = ["acme", "umbrella"].map(|tenant| cookie(&sessions, tenant));
        let session = brought(&sessions, &ended, NOON).unwrap();
        for _ in 0..2 {
            sessions.end(&session, NOON);
            assert!(brought(&sessions, &ended, NOON).is_none());
            assert!(brought(&sessions, &other, NOON).is_some());
        }
    }

    #[test]
    fn what_would_have_ended_by_now_is_forgotten_and_never_more_than_so_many_are_remembered() {
        let sessions = sessions(1, Over::Https);
        let session = brought(&sessions, &cookie(&sessions, "acme"), NOON).unwrap();
        // Each is called by how many minutes it would have lasted.
        let lasts = |mins: u64| (mins.to_string(), NOON + Millis::mins(mins));
        let most = u64::try_from(ENDED_MAX).unwrap();
        sessions.ended().extend((1..=most).map(lasts));
        let one_more = |mins: u64, now: Timestamp| {
            let (token, expires_at) = lasts(mins);
            sessions.end(&Session { expires_at, token, ..session.clone() }, now)
        };
        let remembers = |mins: u64| sessions.ended().contains_key(&mins.to_string());
        one_more(most + 1, NOON);
        assert_eq!(sessions.ended().len(), ENDED_MAX);
        assert!(!remembers(1) && remembers(2), "the one that would end soonest is forgotten first");
        one_more(most + 2, NOON + Millis::mins(5_000));
        assert!(!remembers(5_000) && remembers(5_001) && remembers(most + 2));
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
