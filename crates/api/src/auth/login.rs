//! Login with an identity provider: the authorization code flow of `OpenID` Connect, with PKCE.
//!
//! The browser is redirected to the provider with a *state*, which is also in a cookie, and returns with a code for one
//! token. The server exchanges the code itself, so the parameters of the callback prove nothing. The verifier and the
//! nonce are derived from the state and the secret of the server, and are stored nowhere.

use std::collections::VecDeque;

use axum::http::{HeaderMap, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use domain::{Millis, TenantId, Timestamp};
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use url::{Url, form_urlencoded};

use super::cookies::{Cookie, Cookies};
use super::oidc::{
    Document, InvalidOidcSettings, Oidc, OidcSettings, ProviderError, VerifiedToken, reject_token,
};
use super::session::{IdClaims, Sessions};
use crate::problem::ApiError;

/// The path of the redirect URI.
pub const CALLBACK: &str = "/login/oidc/callback";

/// Long enough for a second factor.
const LOGIN_MAX: Millis = Millis::mins(10);

/// The maximum number of remembered states. The provider also rejects a code that was used before.
const USED_MAX: usize = 10_000;

/// A cookie has at most 4 KiB; a path of ours has a few hundred bytes.
const NEXT_BYTES_MAX: usize = 1024;

/// The maximum length of an error text of the provider.
const ERROR_CHARS_MAX: usize = 300;

/// The settings of the login.
pub struct LoginSettings {
    /// The provider. `audience` is our client id.
    pub oidc: OidcSettings,
    /// The display name of the provider.
    pub name: String,
    /// The client secret, if the provider issued one.
    pub client_secret: Option<SecretString>,
    /// The public URL of this server.
    pub url: Url,
    /// The scopes besides `openid`.
    pub scopes: Vec<String>,
}

/// Logs users in with an identity provider.
pub struct Login {
    oidc: Oidc,
    name: String,
    client_secret: Option<SecretString>,
    redirect_uri: String,
    scopes: String,
    used: Mutex<VecDeque<(String, Timestamp)>>,
}

/// A started login.
pub struct LoginStart {
    /// The URL to redirect the browser to.
    pub to: Url,
    /// The `Set-Cookie` header.
    pub cookie: String,
}

/// The query of the callback.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct CallbackQuery {
    code: String,
    state: String,
    iss: Option<String>,
    error: Option<String>,
    error_description: String,
}

/// A completed login.
pub struct LoggedIn {
    pub tenant: TenantId,
    pub claims: IdClaims,
    /// The path to redirect to.
    pub next: String,
}

/// The content of the login cookie.
#[derive(Serialize, Deserialize)]
struct PendingLogin {
    state: String,
    next: String,
    until: Timestamp,
}

impl Login {
    /// Fetches nothing yet.
    pub fn new(settings: LoginSettings) -> Result<Self, InvalidOidcSettings> {
        let LoginSettings { oidc, name, client_secret, url, scopes } = settings;
        if !http_client::is_safe(&url) {
            return Err(InvalidOidcSettings::BadUrl(url));
        }
        let scopes: Vec<&str> = std::iter::once("openid").chain(scopes.iter().map(String::as_str)).collect();
        Ok(Self {
            oidc: Oidc::new(oidc)?,
            name,
            client_secret,
            redirect_uri: format!("{}{CALLBACK}", url.as_str().trim_end_matches('/')),
            scopes: scopes.join(" "),
            used: Mutex::default(),
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts a login that ends at the path `next`. `random` makes the state unique.
    pub async fn start(
        &self,
        sessions: &Sessions,
        next: &str,
        now: Timestamp,
        random: [u8; 32],
    ) -> Result<LoginStart, ApiError> {
        let document = self.oidc.document(now).await.map_err(|error| self.unreachable(&error))?;
        let cookies = sessions.cookies();
        let state = URL_SAFE_NO_PAD.encode(random);
        let mut to = document.authorization.clone();
        to.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", self.client_id())
            .append_pair("redirect_uri", &self.redirect_uri)
            .append_pair("scope", &self.scopes)
            .append_pair("state", &state)
            .append_pair("nonce", &nonce(cookies, &state))
            .append_pair("code_challenge", &challenge(&verifier(cookies, &state)))
            .append_pair("code_challenge_method", "S256");
        // Browsers drop cookies that are too large.
        let next = if next.len() > NEXT_BYTES_MAX { "/" } else { next };
        let pending = PendingLogin { state, next: next.to_owned(), until: now + LOGIN_MAX };
        Ok(LoginStart { to, cookie: cookies.set(Cookie::Login, &pending, LOGIN_MAX) })
    }

    /// The `Set-Cookie` header that deletes the login cookie.
    pub fn forget(sessions: &Sessions) -> String {
        sessions.cookies().delete(Cookie::Login)
    }

    /// Completes the login of the browser with these headers.
    pub async fn finish(
        &self,
        sessions: &Sessions,
        headers: &HeaderMap,
        returned: &CallbackQuery,
        now: Timestamp,
    ) -> Result<LoggedIn, ApiError> {
        let cookies = sessions.cookies();
        let pending = self.pending(cookies, headers, returned, now).ok_or_else(stale_login)?;
        if let Some(error) = &returned.error {
            return Err(self.provider_error(error, &returned.error_description));
        }
        let document = self.oidc.document(now).await.map_err(|error| self.unreachable(&error))?;
        let verifier = verifier(cookies, &pending.state);
        let token = self.exchange(&document, &returned.code, &verifier).await?;
        let token = self.oidc.verify(&token, now).await.map_err(|error| self.rejected(&error))?;
        let nonce = nonce(cookies, &pending.state);
        check_claims(&token.claims, &nonce, self.client_id())
            .map_err(|why| self.rejected(&reject_token(why)))?;
        self.logged_in(token, pending.next)
    }

    /// The pending login of this browser, if the callback belongs to it, is the first one, and is in time.
    fn pending(
        &self,
        cookies: &Cookies,
        headers: &HeaderMap,
        returned: &CallbackQuery,
        now: Timestamp,
    ) -> Option<PendingLogin> {
        let (pending, _) = cookies.read::<PendingLogin>(Cookie::Login, headers)?;
        let same: bool = pending.state.as_bytes().ct_eq(returned.state.as_bytes()).into();
        let ours = returned.iss.as_deref().is_none_or(|iss| iss == self.oidc.settings().issuer);
        (same && ours && now < pending.until && self.is_first(&pending, now)).then_some(pending)
    }

    /// Whether this is the first callback of the login.
    fn is_first(&self, pending: &PendingLogin, now: Timestamp) -> bool {
        let mut used = self.used.lock();
        used.retain(|(_, until)| now < *until);
        if used.iter().any(|(state, _)| *state == pending.state) {
            return false;
        }
        if used.len() >= USED_MAX {
            used.pop_front();
        }
        used.push_back((pending.state.clone(), pending.until));
        true
    }

    /// Exchanges `code` for a token.
    async fn exchange(&self, document: &Document, code: &str, verifier: &str) -> Result<String, ApiError> {
        let (form, basic) = self.token_request(document, code, verifier);
        let response = self.oidc.client().post(document.token.clone(), form, basic).await;
        let (status, body) = response.map_err(|error| self.unreachable(&error))?;
        let text = |name: &str| body.get(name).and_then(Value::as_str);
        match text("id_token") {
            Some(token) if status.is_success() => Ok(token.to_owned()),
            _ => {
                let error = text("error").unwrap_or("the response has no token");
                tracing::warn!(event = "login_code_rejected", %status, error, "identity provider rejected the code");
                Err(self.provider_error(error, text("error_description").unwrap_or_default()))
            }
        }
    }

    /// The form of the token request, and its `Authorization` header, if there is one.
    fn token_request(&self, document: &Document, code: &str, verifier: &str) -> (String, Option<String>) {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", &self.redirect_uri)
            .append_pair("code_verifier", verifier);
        let id = self.client_id();
        let header = match &self.client_secret {
            Some(secret) if !document.secret_in_form => Some(basic_auth(id, secret)),
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

    fn logged_in(&self, token: VerifiedToken, next: String) -> Result<LoggedIn, ApiError> {
        let VerifiedToken { caller, until, .. } = token;
        if caller.roles == domain::Roles::default() {
            let detail = format!("{} gives {} no role in tenant {}", self.name, caller.person, caller.tenant);
            return Err(ApiError::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail).remedy(
                "ask an administrator of the identity provider for a role, or log in with an API key",
            ));
        }
        let super::Caller { tenant, person, roles, credential, .. } = caller;
        Ok(LoggedIn { tenant, claims: IdClaims { person, roles, credential, until }, next })
    }

    fn client_id(&self) -> &str {
        &self.oidc.settings().audience
    }

    fn unreachable(&self, error: &ProviderError) -> ApiError {
        tracing::error!(event = "login_unavailable", error = %engine::error_chain(error), "identity provider unreachable");
        let detail = format!("{} does not respond", self.name);
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", detail)
            .remedy("try again later, or log in with an API key")
    }

    /// The error text of the provider.
    fn provider_error(&self, error: &str, description: &str) -> ApiError {
        let text = if description.is_empty() { error.to_owned() } else { format!("{error}: {description}") };
        let text: String = text.chars().take(ERROR_CHARS_MAX).collect();
        let detail = format!("{} returned an error: {text}", self.name);
        ApiError::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", detail)
            .remedy("log in again; if the error persists, ask an administrator of the identity provider")
    }

    /// The reason is only in the log, so that a forger does not learn it.
    fn rejected(&self, error: &ApiError) -> ApiError {
        if error.status == StatusCode::SERVICE_UNAVAILABLE.as_u16() {
            return error.clone();
        }
        let detail = format!("the token of {} was rejected", self.name);
        ApiError::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", detail).remedy(
            "log in again; if the error persists, ask the operator of the server: the log has the reason",
        )
    }
}

/// Checks that the token was issued for this login and for our client.
fn check_claims(claims: &Value, nonce: &str, client_id: &str) -> Result<(), &'static str> {
    let text = |claim: &str| claims.get(claim).and_then(Value::as_str);
    if text("nonce") != Some(nonce) {
        return Err("the token was issued for another login");
    }
    let many = claims.get("aud").and_then(Value::as_array).is_some_and(|aud| aud.len() > 1);
    match claims.get("azp") {
        None if many => Err("the token has several audiences and no `azp`"),
        Some(_) if text("azp") != Some(client_id) => Err("the token was issued to another client"),
        _ => Ok(()),
    }
}

fn stale_login() -> ApiError {
    let detail = "the login was not started in this browser, or it has expired";
    ApiError::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", detail).remedy("log in again")
}

fn nonce(cookies: &Cookies, state: &str) -> String {
    cookies.code("login-nonce", state)
}

/// The PKCE verifier, which proves that the same client requested and exchanges the code.
fn verifier(cookies: &Cookies, state: &str) -> String {
    cookies.code("login-verifier", state)
}

fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}

/// Both parts are form-encoded (RFC 6749, 2.3.1).
fn basic_auth(id: &str, secret: &SecretString) -> String {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(id), encoded(secret.expose_secret()));
    format!("Basic {}", STANDARD.encode(pair))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn challenge_matches_rfc_7636() {
        // RFC 7636, appendix B.
        assert_eq!(
            challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
    }

    #[test]
    fn token_with_several_audiences_needs_azp() {
        let accepted = |claims: Value| check_claims(&claims, "n", "us").is_ok();
        assert!(accepted(json!({ "nonce": "n", "aud": "us" })));
        assert!(accepted(json!({ "nonce": "n", "aud": ["us"] })));
        assert!(accepted(json!({ "nonce": "n", "aud": ["us", "them"], "azp": "us" })));
        assert!(!accepted(json!({ "nonce": "n", "aud": ["us", "them"] })));
        assert!(!accepted(json!({ "nonce": "n", "aud": "us", "azp": "them" })));
        assert!(!accepted(json!({ "nonce": "n", "aud": "us", "azp": 7 })));
        assert!(!accepted(json!({ "nonce": "m", "aud": "us" })));
        assert!(!accepted(json!({ "aud": "us" })));
    }

    #[test]
    fn basic_header_encodes_any_character() {
        let header = basic_auth("a:b", &"c&d=é ".to_owned().into());
        let pair = STANDARD.decode(header.strip_prefix("Basic ").unwrap()).unwrap();
        assert_eq!(pair, b"a%3Ab:c%26d%3D%C3%A9+");
    }
}
