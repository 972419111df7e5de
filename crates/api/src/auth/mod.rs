//! Authentication.
//!
//! A request has one bearer credential, an API key or a token of an identity provider, or a [`session`] that was started
//! with either. Every invalid credential gets the same response, so that the response does not reveal which keys exist.

mod cookies;
mod key;
pub mod login;
mod oidc;
pub mod session;

use std::sync::Arc;

use axum::http::{HeaderMap, Uri, header};
use domain::access::{PresentedKey, is_oidc_credential};
use domain::tenant::Person;
use domain::{Cause, Channel, Initiator, KeyId, PersonId, Role, Roles, Tenant, TenantId};
use engine::{Engine, TenantHandle};
use store::Store;
use url::form_urlencoded;
use views::hint::CommandHints;

use crate::problem::ApiError;
use session::{Session, SessionOrigin, Sessions};

pub(crate) use key::credential;
pub use oidc::{InvalidOidcSettings, Oidc, OidcSettings, TokenAlgorithm};

/// The credential of a user who opens the store directly. A user who can open the file of the store can read and write
/// all of it, so an API key would add no protection.
pub const COMMAND_LINE: &str = "command-line";

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub tenant: TenantId,
    pub person: PersonId,
    pub roles: Roles,
    /// The name of the credential, never its secret.
    pub credential: String,
    /// Set if the directory of the tenant does not list the caller, who may then only read.
    pub unlisted: bool,
}

impl Caller {
    /// The channel that an approval records.
    pub fn channel(&self) -> Channel {
        if self.is_local() {
            return Channel::CommandLine;
        }
        Channel::Api { credential: self.credential.clone() }
    }

    pub(crate) fn hints(&self) -> CommandHints {
        if self.is_local() { CommandHints::local() } else { CommandHints::plain() }
    }

    pub(crate) fn trigger_kind(&self) -> &'static str {
        if self.is_local() { "cli" } else { "api" }
    }

    /// A user of the machine with the store.
    pub fn local(tenant: TenantId, person: PersonId) -> Self {
        let roles = [Role::Admin].into_iter().collect();
        Self { tenant, person, roles, credential: COMMAND_LINE.to_owned(), unlisted: false }
    }

    /// The caller with the viewer role at most.
    fn into_viewer(self) -> Self {
        let viewer = self.roles.allow(Role::Viewer).then_some(Role::Viewer);
        Self { roles: viewer.into_iter().collect(), ..self }
    }

    /// Whether a tenant with this directory lists the caller. A user of the machine with the store needs no entry.
    pub(crate) fn is_listed_in(&self, tenant: &Tenant) -> bool {
        self.is_local() || tenant.lists(&self.person, &self.credential)
    }

    /// The answer to a request that needs `role`, which the caller does not have.
    pub fn lacks(&self, role: Role) -> ApiError {
        match (self.unlisted, is_oidc_credential(&self.credential)) {
            (false, _) => ApiError::forbidden(role),
            (true, true) => ApiError::forbidden_to_unlisted(
                "the tenant's `people` have no entry with the subject of the token, so the token may only read",
                "ask an admin of the tenant to add `oidc: ISSUER#SUB`, from the claims `iss` and `sub`, to your entry",
            ),
            (true, false) => ApiError::forbidden_to_unlisted(
                "the user of the API key is not in the tenant's `people`, so the key may only read",
                "ask an admin of the tenant to add the user to `people`",
            ),
        }
    }

    fn is_local(&self) -> bool {
        self.credential == COMMAND_LINE
    }
}

/// Authenticates requests.
pub struct Authenticator<S> {
    engine: Arc<Engine<S>>,
    oidc: Option<Oidc>,
    sessions: Option<Arc<Sessions>>,
    local: Option<Caller>,
}

impl<S: Store> Authenticator<S> {
    /// Accepts the API keys in the store of `engine`.
    pub fn new(engine: Arc<Engine<S>>) -> Self {
        Self { engine, oidc: None, sessions: None, local: None }
    }

    /// Authenticates every request as `caller`. Must not be served over a network.
    pub fn local(engine: Arc<Engine<S>>, caller: Caller) -> Self {
        Self { local: Some(caller), ..Self::new(engine) }
    }

    /// Also accepts tokens of this identity provider.
    #[must_use]
    pub fn with_oidc(mut self, oidc: Oidc) -> Self {
        self.oidc = Some(oidc);
        self
    }

    /// Also accepts browser sessions.
    #[must_use]
    pub fn with_sessions(mut self, sessions: Arc<Sessions>) -> Self {
        self.sessions = Some(sessions);
        self
    }

    /// The caller of a request with these headers and this address.
    pub async fn authenticate(&self, headers: &HeaderMap, uri: &Uri) -> Result<Caller, ApiError> {
        if has_credential(uri) {
            return Err(ApiError::bad_request("the URL contains a credential, which logs can store")
                .remedy("send it as `Authorization: Bearer …`, and revoke the credential in the URL"));
        }
        if let Some(local) = &self.local {
            return Ok(local.clone());
        }
        if self.sessions.is_some() && !headers.contains_key(header::AUTHORIZATION) {
            return self.session_viewer(headers).await;
        }
        let token = bearer(headers).ok_or_else(ApiError::unauthenticated)?;
        match &self.oidc {
            Some(oidc) if !PresentedKey::has_prefix(token) => {
                self.resolve_in_directory(oidc.caller(token, self.engine.now()).await?).await
            }
            _ => self.resolve_in_directory(key::caller(&self.engine, token).await?).await,
        }
    }

    /// The caller with this API key.
    pub async fn key_caller(&self, shown: &str) -> Result<(Caller, KeyId), ApiError> {
        let caller = key::caller(&self.engine, shown).await?;
        let id = PresentedKey::parse(shown).ok_or_else(ApiError::unauthenticated)?.id;
        Ok((caller, id))
    }

    /// The caller of the session in these headers.
    pub async fn session_caller(&self, headers: &HeaderMap) -> Result<(Caller, Session), ApiError> {
        let session = self.sessions.as_ref().and_then(|sessions| sessions.read(headers, self.engine.now()));
        let session = session.ok_or_else(ApiError::unauthenticated)?;
        let caller = match &session.origin {
            SessionOrigin::Key(key) => key::session_caller(&self.engine, &session.tenant, key).await?,
            SessionOrigin::Token(claims) => claims.caller(&session.tenant),
        };
        Ok((self.resolve_in_directory(caller).await?, session))
    }

    /// The caller as the tenant's directory lists them: a token acts under the name that the directory has for its
    /// subject. A caller without an entry may only read: they could have an entry under another name, and approve under
    /// it what they start here. A token with a name that the directory assigns to another subject is refused: the
    /// provider may let users change the claim with the name.
    async fn resolve_in_directory(&self, caller: Caller) -> Result<Caller, ApiError> {
        let tenant = self.engine.governance().tenant(&caller.tenant).await?;
        if let Some(person) = tenant.token_person(&caller.credential) {
            return Ok(Caller { person: person.clone(), ..caller });
        }
        if caller.is_listed_in(&tenant) {
            return Ok(caller);
        }
        let is_of_another = |person: &Person| is_oidc_credential(&caller.credential) && person.oidc.is_some();
        if tenant.people.get(&caller.person).is_some_and(is_of_another) {
            return Err(oidc::reject_token("the directory assigns the name to another subject"));
        }
        Ok(Caller { unlisted: true, ..caller.into_viewer() })
    }

    /// A session on the API may only read, because any page can make a browser send the cookie.
    async fn session_viewer(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        if !session::is_same_origin(headers) {
            return Err(ApiError::unauthenticated());
        }
        let (caller, _) = self.session_caller(headers).await?;
        Ok(caller.into_viewer())
    }

    /// The tenant handle of `caller`, if the caller has `role`.
    pub fn handle(&self, caller: &Caller, role: Role) -> Result<TenantHandle<S>, ApiError> {
        if !caller.roles.allow(role) {
            return Err(caller.lacks(role));
        }
        let by = Initiator::new(Cause::User, caller.person.as_str());
        Ok(self.engine.tenant_handle(&caller.tenant, &by).with_credential(&caller.credential))
    }
}

/// The bearer token; none if the request has two, because it would be ambiguous.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then_some(token.trim())
}

fn has_credential(uri: &Uri) -> bool {
    const NAMES: [&str; 5] = ["api_key", "apikey", "key", "token", "access_token"];
    let query = uri.query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes()).any(|(name, _)| NAMES.contains(&name.to_lowercase().as_str()))
}
