//! Who asks.
//!
//! A request proves itself by one credential, shown as a bearer token: an API key, or a token of an identity
//! provider. Whatever is wrong with it is told in the same words, so that nobody learns which keys there are.

mod key;
mod local;
mod oidc;

use std::sync::Arc;

use axum::http::{HeaderMap, Uri, header};
use domain::access::ShownKey;
use domain::{Channel, PersonId, Role, Roles, TenantId};
use engine::{Desk, Engine};
use store::Store;
use url::form_urlencoded;

use crate::problem::Problem;

pub(crate) use key::credential;
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
        if self.credential == local::CREDENTIAL {
            return Channel::CommandLine;
        }
        Channel::Api { credential: self.credential.clone() }
    }
}

/// Who may come in.
pub struct Gate<S> {
    engine: Arc<Engine<S>>,
    oidc: Option<Oidc>,
    local: Option<Caller>,
}

impl<S: Store> Gate<S> {
    /// A gate for the keys that `engine`'s store holds.
    pub fn new(engine: Arc<Engine<S>>) -> Self {
        Self { engine, oidc: None, local: None }
    }

    /// The same, which also believes tokens of this identity provider.
    #[must_use]
    pub fn believing(mut self, oidc: Oidc) -> Self {
        self.oidc = Some(oidc);
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
        let shown = bearer(headers).ok_or_else(Problem::unauthenticated)?;
        match &self.oidc {
            Some(oidc) if !ShownKey::is_meant(shown) => oidc.caller(shown, self.engine.now()).await,
            _ => key::caller(&self.engine, shown).await,
        }
    }

    /// The desk at which `caller` stands, if they have `role`.
    pub fn desk(&self, caller: &Caller, role: Role) -> Result<Desk<S>, Problem> {
        if !caller.roles.allow(role) {
            return Err(Problem::forbidden(role));
        }
        Ok(Desk::open(Arc::clone(&self.engine), caller.tenant.clone(), caller.person.clone()))
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
