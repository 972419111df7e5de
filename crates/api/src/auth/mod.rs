//! Who asks.
//!
//! A request proves itself by one credential, shown as a bearer token: an API key, or a token of an identity
//! provider; or by a [`session`] that was begun with either. Whatever is wrong with it is told in the same words, so
//! that nobody learns which keys there are.

mod cookies;
mod key;
mod local;
pub mod login;
mod oidc;
pub mod session;

use std::sync::Arc;

use axum::http::{HeaderMap, Uri, header};
use domain::access::ShownKey;
use domain::{Channel, KeyId, PersonId, Role, Roles, TenantId};
use engine::{Engine, TenantHandle};
use store::Store;
use url::form_urlencoded;
use views::hint::Hints;

use crate::problem::Problem;
use session::{Begun, Session, Sessions};

pub(crate) use key::credential;
pub use local::COMMAND_LINE;
pub use oidc::{BadSettings, Oidc, OidcSettings, Signed};

/// Whoever passed the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Of which tenant.
    pub tenant: TenantId,
    /// Who.
    pub person: PersonId,
    /// What they may do.
    pub roles: Roles,
    /// Which credential they showed, never its secret.
    pub credential: String,
}

impl Caller {
    /// How they came, as an approval records it.
    pub fn channel(&self) -> Channel {
        if self.is_local() {
            return Channel::CommandLine;
        }
        Channel::Api { credential: self.credential.clone() }
    }

    /// Commands that they can type next.
    pub(crate) fn hints(&self) -> Hints {
        if self.is_local() { Hints::local() } else { Hints::plain() }
    }

    /// What kind of thing starts a run that they start.
    pub(crate) fn trigger_kind(&self) -> &'static str {
        if self.is_local() { "cli" } else { "api" }
    }

    fn is_local(&self) -> bool {
        self.credential == COMMAND_LINE
    }
}

/// Who may come in.
pub struct Gate<S> {
    engine: Arc<Engine<S>>,
    oidc: Option<Oidc>,
    sessions: Option<Arc<Sessions>>,
    local: Option<Caller>,
}

impl<S: Store> Gate<S> {
    /// A gate for the keys that `engine`'s store holds.
    pub fn new(engine: Arc<Engine<S>>) -> Self {
        Self { engine, oidc: None, sessions: None, local: None }
    }

    /// The same, which also believes tokens of this identity provider.
    #[must_use]
    pub fn believing(mut self, oidc: Oidc) -> Self {
        self.oidc = Some(oidc);
        self
    }

    /// The same for people at a browser, too.
    #[must_use]
    pub fn with_sessions(mut self, sessions: Arc<Sessions>) -> Self {
        self.sessions = Some(sessions);
        self
    }

    /// Who sends a request with these headers to this address.
    pub async fn enter(&self, headers: &HeaderMap, uri: &Uri) -> Result<Caller, Problem> {
        if names_a_credential(uri) {
            return Err(Problem::bad_request("a credential stands in the address, where logs keep it")
                .remedy("send it as `Authorization: Bearer …`, and take the one in the address back: it may be known"));
        }
        if let Some(local) = &self.local {
            return Ok(local.clone());
        }
        if self.sessions.is_some() && !headers.contains_key(header::AUTHORIZATION) {
            return self.onlooker(headers).await;
        }
        let shown = bearer(headers).ok_or_else(Problem::unauthenticated)?;
        match &self.oidc {
            Some(oidc) if !ShownKey::is_meant(shown) => oidc.caller(shown, self.engine.now()).await,
            _ => key::caller(&self.engine, shown).await,
        }
    }

    /// Who shows this key.
    pub async fn owner(&self, shown: &str) -> Result<(Caller, KeyId), Problem> {
        let caller = key::caller(&self.engine, shown).await?;
        let id = ShownKey::read(shown).ok_or_else(Problem::unauthenticated)?.id;
        Ok((caller, id))
    }

    /// Who sits at the browser that sends these headers.
    pub async fn visitor(&self, headers: &HeaderMap) -> Result<(Caller, Session), Problem> {
        let brought =
            self.sessions.as_ref().and_then(|sessions| sessions.brought(headers, self.engine.now()));
        let session = brought.ok_or_else(Problem::unauthenticated)?;
        let caller = match &session.begun {
            Begun::Key(key) => key::of_session(&self.engine, &session.tenant, key).await?,
            Begun::Token(word) => word.caller(&session.tenant),
        };
        Ok((caller, session))
    }

    /// Whoever brings a session instead of a credential may look: any page can make a browser send it.
    async fn onlooker(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        if !session::is_from_here(headers) {
            return Err(Problem::unauthenticated());
        }
        let (caller, _) = self.visitor(headers).await?;
        let looks = caller.roles.allow(Role::Viewer).then_some(Role::Viewer);
        Ok(Caller { roles: looks.into_iter().collect(), ..caller })
    }

    /// The handle at which `caller` stands, if they have `role`.
    pub fn handle(&self, caller: &Caller, role: Role) -> Result<TenantHandle<S>, Problem> {
        if !caller.roles.allow(role) {
            return Err(Problem::forbidden(role));
        }
        Ok(TenantHandle::open(Arc::clone(&self.engine), caller.tenant.clone(), caller.person.clone()))
    }
}

/// The one bearer token; none if there are two, because then it is left to the reader which one counts.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then_some(token.trim())
}

fn names_a_credential(uri: &Uri) -> bool {
    const NAMES: [&str; 5] = ["api_key", "apikey", "key", "token", "access_token"];
    let query = uri.query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes()).any(|(name, _)| NAMES.contains(&name.to_lowercase().as_str()))
}
