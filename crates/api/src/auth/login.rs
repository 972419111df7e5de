//! Logging in with an identity provider: the authorization code flow of `OpenID` Connect, with PKCE.
//!
//! Whoever wants in is sent to the provider with a *state*, which also stands in a cookie of their browser, and comes
//! back with a code that is good for one token. The code is exchanged over our own line, so what the browser brings
//! back proves nothing by itself. What the exchange and the token must prove, the verifier and the nonce, follows
//! from the state and our secret, and stands in no cookie and no memory.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use axum::http::{HeaderMap, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use domain::{Millis, TenantId, Timestamp};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use url::{Url, form_urlencoded};

use super::cookies::{Cookie, Cookies};
use super::oidc::{BadSettings, Believed, Document, Oidc, OidcSettings, Unreachable, refused};
use super::session::{Sessions, Word};
use crate::problem::Problem;

/// Where the provider leads people back to.
pub const CALLBACK: &str = "/login/oidc/callback";

/// Long enough to find a second factor.
const UNDER_WAY: Millis = Millis::mins(10);

/// More logins than this within ten minutes, and the oldest are forgotten; the provider takes no code twice either.
const USED_MAX: usize = 10_000;

/// A cookie has at most four kilobytes; an address of ours has some hundred bytes.
const NEXT_BYTES_MAX: usize = 1024;

/// What a provider says is wrong fits into a sentence or two.
const SAID_CHARS_MAX: usize = 300;

/// How people log in.
pub struct LoginSettings {
    /// The provider. Its tokens are for us as it knows us: `audience` is our client id.
    pub oidc: OidcSettings,
    /// What people call it.
    pub name: String,
    /// What we prove ourselves to it with, if it gave us something.
    pub client_secret: Option<SecretString>,
    /// Where browsers reach this server.
    pub url: Url,
    /// What is asked for beside `openid`.
    pub scopes: Vec<String>,
}

/// Logs people in.
pub struct Login {
    oidc: Oidc,
    name: String,
    client_secret: Option<SecretString>,
    back: String,
    scopes: String,
    used: Mutex<VecDeque<(String, Timestamp)>>,
}

/// A login that has begun.
pub struct Started {
    /// Where the browser is sent.
    pub to: Url,
    /// What it is given to come back with.
    pub cookie: String,
}

/// What the browser brings back from the provider.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Returned {
    code: String,
    state: String,
    iss: Option<String>,
    error: Option<String>,
    error_description: String,
}

/// Somebody who has logged in.
pub struct Entered {
    /// Of which tenant.
    pub tenant: TenantId,
    /// Who, and what they may do.
    pub word: Word,
    /// Where they wanted to go.
    pub next: String,
}

/// What the cookie of a login says.
#[derive(Serialize, Deserialize)]
struct UnderWay {
    state: String,
    next: String,
    until: Timestamp,
}

impl Login {
    /// Logging in as the operator describes it. Nothing is fetched yet.
    pub fn new(settings: LoginSettings) -> Result<Self, BadSettings> {
        let LoginSettings { oidc, name, client_secret, url, scopes } = settings;
        if !http_client::is_safe(&url) {
            return Err(BadSettings::BadUrl(url));
        }
        let scopes: Vec<&str> = std::iter::once("openid").chain(scopes.iter().map(String::as_str)).collect();
        Ok(Self {
            oidc: Oidc::new(oidc)?,
            name,
            client_secret,
            back: format!("{}{CALLBACK}", url.as_str().trim_end_matches('/')),
            scopes: scopes.join(" "),
            used: Mutex::default(),
        })
    }

    /// What people call the provider.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Begins a login for whoever wants to go to `next`; `chance` tells it from every other.
    pub async fn start(
        &self,
        sessions: &Sessions,
        next: &str,
        now: Timestamp,
        chance: [u8; 32],
    ) -> Result<Started, Problem> {
        let document = self.oidc.document(now).await.map_err(|error| self.unreachable(&error))?;
        let cookies = sessions.cookies();
        let state = URL_SAFE_NO_PAD.encode(chance);
        let mut to = document.authorization.clone();
        to.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", self.client_id())
            .append_pair("redirect_uri", &self.back)
            .append_pair("scope", &self.scopes)
            .append_pair("state", &state)
            .append_pair("nonce", &nonce(cookies, &state))
            .append_pair("code_challenge", &challenge(&verifier(cookies, &state)))
            .append_pair("code_challenge_method", "S256");
        // A browser throws a cookie away that is too large.
        let next = if next.len() > NEXT_BYTES_MAX { "/" } else { next };
        let says = UnderWay { state, next: next.to_owned(), until: now + UNDER_WAY };
        Ok(Started { to, cookie: cookies.give(Cookie::Login, &says, UNDER_WAY) })
    }

    /// Takes away what the browser was given to come back with.
    pub fn forget(sessions: &Sessions) -> String {
        sessions.cookies().take(Cookie::Login)
    }

    /// Who comes back from the provider with `returned`, in a browser that sends these headers.
    pub async fn finish(
        &self,
        sessions: &Sessions,
        headers: &HeaderMap,
        returned: &Returned,
        now: Timestamp,
    ) -> Result<Entered, Problem> {
        let cookies = sessions.cookies();
        let under_way = self.own(cookies, headers, returned, now).ok_or_else(stale)?;
        if let Some(error) = &returned.error {
            return Err(self.said(error, &returned.error_description));
        }
        let document = self.oidc.document(now).await.map_err(|error| self.unreachable(&error))?;
        let verifier = verifier(cookies, &under_way.state);
        let token = self.exchange(&document, &returned.code, &verifier).await?;
        let believed = self.oidc.believed(&token, now).await.map_err(|problem| self.disbelieved(&problem))?;
        let nonce = nonce(cookies, &under_way.state);
        is_meant(&believed.claims, &nonce, self.client_id())
            .map_err(|why| self.disbelieved(&refused(why)))?;
        self.entered(believed, under_way.next)
    }

    /// The login that this browser began, if that is what it comes back from, for the first time and in time.
    fn own(
        &self,
        cookies: &Cookies,
        headers: &HeaderMap,
        returned: &Returned,
        now: Timestamp,
    ) -> Option<UnderWay> {
        let (under_way, _) = cookies.brought::<UnderWay>(Cookie::Login, headers)?;
        let same: bool = under_way.state.as_bytes().ct_eq(returned.state.as_bytes()).into();
        let ours = returned.iss.as_deref().is_none_or(|iss| iss == self.oidc.settings().issuer);
        (same && ours && now < under_way.until && self.is_first(&under_way, now)).then_some(under_way)
    }

    /// Whether nobody came back from this login before.
    fn is_first(&self, under_way: &UnderWay, now: Timestamp) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|(_, until)| now < *until);
        if used.iter().any(|(state, _)| *state == under_way.state) {
            return false;
        }
        if used.len() >= USED_MAX {
            used.pop_front();
        }
        used.push_back((under_way.state.clone(), under_way.until));
        true
    }

    /// The token that the provider gives for `code`.
    async fn exchange(&self, document: &Document, code: &str, verifier: &str) -> Result<String, Problem> {
        let (form, basic) = self.asking(document, code, verifier);
        let asked = self.oidc.line().post(document.token.clone(), form, basic).await;
        let (status, said) = asked.map_err(|error| self.unreachable(&error))?;
        let text = |name: &str| said.get(name).and_then(Value::as_str);
        match text("id_token") {
            Some(token) if status.is_success() => Ok(token.to_owned()),
            _ => {
                let error = text("error").unwrap_or("it gives no token");
                tracing::warn!(%status, error, "the identity provider does not take a code");
                Err(self.said(error, text("error_description").unwrap_or_default()))
            }
        }
    }

    /// The form that asks for a token, and the header that proves us, where one does.
    fn asking(&self, document: &Document, code: &str, verifier: &str) -> (String, Option<String>) {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", &self.back)
            .append_pair("code_verifier", verifier);
        let id = self.client_id();
        let header = match &self.client_secret {
            Some(secret) if !document.takes_the_secret_in_the_form => Some(basic(id, secret)),
            secret => {
                form.append_pair("client_id", id);
                if let Some(secret) = secret {
                    form.append_pair("client_secret", secret.expose_secret());
                }
                None
            }
        };
        (form.finish(), header)
    }

    fn entered(&self, believed: Believed, next: String) -> Result<Entered, Problem> {
        let Believed { caller, until, .. } = believed;
        if caller.roles == domain::Roles::default() {
            let detail = format!("{} gives {} no role in tenant {}", self.name, caller.person, caller.tenant);
            return Err(Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail)
                .remedy("ask whoever gives roles there, or log in with an API key"));
        }
        let super::Caller { tenant, person, roles, credential } = caller;
        Ok(Entered { tenant, word: Word { person, roles, credential, until }, next })
    }

    fn client_id(&self) -> &str {
        &self.oidc.settings().audience
    }

    fn unreachable(&self, error: &Unreachable) -> Problem {
        tracing::error!(error = %engine::told(error), "nobody can log in with the identity provider");
        let detail = format!("{} does not answer now", self.name);
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", detail)
            .remedy("try again in a moment, or log in with an API key")
    }

    /// What the provider says is wrong, in its own words.
    fn said(&self, error: &str, description: &str) -> Problem {
        let said = if description.is_empty() { error.to_owned() } else { format!("{error}: {description}") };
        let said: String = said.chars().take(SAID_CHARS_MAX).collect();
        let detail = format!("{} says {said}", self.name);
        Problem::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", detail)
            .remedy("log in again; if it says the same, ask whoever looks after it")
    }

    /// Why is in the log: whoever made up a token is not told what was wrong with it.
    fn disbelieved(&self, problem: &Problem) -> Problem {
        if problem.status == StatusCode::SERVICE_UNAVAILABLE.as_u16() {
            return problem.clone();
        }
        let detail = format!("what {} says of you is not believed here", self.name);
        Problem::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", detail)
            .remedy("log in again; if that is no better, ask whoever runs this server: its log says why")
    }
}

/// Whether a token was made for this login and for us alone.
fn is_meant(claims: &Value, nonce: &str, client_id: &str) -> Result<(), &'static str> {
    let text = |claim: &str| claims.get(claim).and_then(Value::as_str);
    if text("nonce") != Some(nonce) {
        return Err("it was made for another login");
    }
    let many = claims.get("aud").and_then(Value::as_array).is_some_and(|aud| aud.len() > 1);
    match claims.get("azp") {
        None if many => Err("it is for others as well, and does not say who asked for it"),
        Some(_) if text("azp") != Some(client_id) => Err("somebody else asked for it"),
        _ => Ok(()),
    }
}

fn stale() -> Problem {
    let detail = "this login was not begun in this browser, or has ended already";
    Problem::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", detail).remedy("log in again")
}

fn nonce(cookies: &Cookies, state: &str) -> String {
    cookies.code("login-nonce", state)
}

/// What PKCE proves: whoever exchanges the code is whoever asked for it.
fn verifier(cookies: &Cookies, state: &str) -> String {
    cookies.code("login-verifier", state)
}

fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}

/// Both parts are written as a form writes them (RFC 6749, 2.3.1).
fn basic(id: &str, secret: &SecretString) -> String {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(id), encoded(secret.expose_secret()));
    format!("Basic {}", STANDARD.encode(pair))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_challenge_is_made_as_the_standard_makes_it() {
        // RFC 7636, appendix B.
        assert_eq!(
            challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
    }

    #[test]
    fn a_token_for_several_says_that_it_was_made_for_us() {
        let meant = |claims: Value| is_meant(&claims, "n", "us").is_ok();
        assert!(meant(json!({ "nonce": "n", "aud": "us" })));
        assert!(meant(json!({ "nonce": "n", "aud": ["us"] })));
        assert!(meant(json!({ "nonce": "n", "aud": ["us", "them"], "azp": "us" })));
        assert!(!meant(json!({ "nonce": "n", "aud": ["us", "them"] })));
        assert!(!meant(json!({ "nonce": "n", "aud": "us", "azp": "them" })));
        assert!(!meant(json!({ "nonce": "n", "aud": "us", "azp": 7 })));
        assert!(!meant(json!({ "nonce": "m", "aud": "us" })));
        assert!(!meant(json!({ "aud": "us" })));
    }

    #[test]
    fn a_secret_with_any_character_goes_into_the_header_whole() {
        let header = basic("a:b", &"c&d=é ".to_owned().into());
        let pair = STANDARD.decode(header.strip_prefix("Basic ").unwrap()).unwrap();
        assert_eq!(pair, b"a%3Ab:c%26d%3D%C3%A9+");
    }
}
