//! Tokens of an identity provider (`OpenID` Connect).
//!
//! Which algorithms count is settled in the configuration and never by a token. A token is believed when its
//! signature fits a key of the provider's set, it was issued by that provider for us, and its time has come and not
//! gone. Whatever else is wrong with it is told in the words for a key that opens nothing.

mod discovery;
mod http;
mod keys;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use domain::{Digest, Millis, PersonId, Role, Roles, TenantId, Timestamp, json};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::Value;
use url::Url;

use super::Caller;
use crate::problem::Problem;
use discovery::Discovery;
use http::Line;
use keys::{Found, KeySet};

pub(super) use discovery::Document;
pub(super) use http::Unreachable;

/// Clocks of two houses differ by this much at most.
const LEEWAY: Millis = Millis::secs(60);

/// More than any provider puts into a token.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Said of a person who cannot be named here; many providers call people by their mail addresses.
const NO_NAME: &str = "the person that its claims name cannot be one here: allowed are letters, digits, `.`, `_` and `-`, \
                       and no `@`; let `claims.person` name another claim";

/// How a token may be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signed {
    /// RSA with SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
}

impl Signed {
    fn named(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            _ => None,
        }
    }

    fn algorithm(self) -> Algorithm {
        match self {
            Self::Rs256 => Algorithm::RS256,
            Self::Es256 => Algorithm::ES256,
        }
    }

    /// Whether `key` is one for signatures of this kind.
    fn fits(self, key: &Jwk) -> bool {
        match (&key.algorithm, self) {
            (AlgorithmParameters::RSA(_), Self::Rs256) => true,
            (AlgorithmParameters::EllipticCurve(curve), Self::Es256) => curve.curve == EllipticCurve::P256,
            _ => false,
        }
    }
}

/// Who is believed, and what their tokens say where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// Who issues tokens: `iss`, to the letter.
    pub issuer: String,
    /// For whom they must be: us, among `aud`.
    pub audience: String,
    /// Where the provider's keys are, over HTTPS or on this machine; if absent, where it says itself.
    pub key_set: Option<Url>,
    /// How tokens may be signed.
    pub signed: Vec<Signed>,
    /// The claim that names the tenant.
    pub tenant_claim: String,
    /// The claim that names the person, as the tenant's directory does.
    pub person_claim: String,
    /// The claim that lists roles, as an array or separated by blanks; what is no role of ours is passed over.
    pub roles_claim: String,
}

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadSettings {
    /// Keys that anybody on the way could exchange.
    #[error("the key set is at {0}; it must be fetched over https, or from this machine")]
    Insecure(Url),
    /// What it says of itself could be exchanged on the way.
    #[error("the issuer is {0:?}; it must be an address with https, or of this machine")]
    BadIssuer(String),
    /// People would send what they log in with in the clear.
    #[error("browsers are to reach this server at {0}; it must be an address with https, or of this machine")]
    BadUrl(Url),
    /// Nothing would be believed.
    #[error("no algorithm is named; name RS256, ES256 or both")]
    NoAlgorithm,
    /// No client for HTTPS could be made.
    #[error("prepare to speak to the identity provider")]
    Client(#[source] reqwest::Error),
}

/// An identity provider whose tokens are believed.
pub struct Oidc {
    settings: OidcSettings,
    discovery: Arc<Discovery>,
    line: Line,
    keys: KeySet,
}

/// A token that is believed.
pub(super) struct Believed {
    /// Who it speaks of.
    pub(super) caller: Caller,
    /// Until when it is believed.
    pub(super) until: Timestamp,
    /// All that it says.
    pub(super) claims: Value,
}

impl Oidc {
    /// A provider as the operator describes it. Nothing is fetched yet.
    pub fn new(settings: OidcSettings) -> Result<Self, BadSettings> {
        if settings.signed.is_empty() {
            return Err(BadSettings::NoAlgorithm);
        }
        // Else somebody on the way could exchange the keys.
        if let Some(url) = settings.key_set.as_ref().filter(|url| !http_client::is_safe(url)) {
            return Err(BadSettings::Insecure(url.clone()));
        }
        let line = Line::new().map_err(BadSettings::Client)?;
        let discovery = Discovery::new(&settings.issuer, line.clone())
            .ok_or_else(|| BadSettings::BadIssuer(settings.issuer.clone()))?;
        let discovery = Arc::new(discovery);
        let keys = KeySet::new(settings.key_set.clone(), Arc::clone(&discovery), line.clone());
        Ok(Self { settings, discovery, line, keys })
    }

    /// Who shows this token at `now`.
    pub(super) async fn caller(&self, token: &str, now: Timestamp) -> Result<Caller, Problem> {
        Ok(self.believed(token, now).await?.caller)
    }

    /// What this token says at `now`, if it is believed.
    pub(super) async fn believed(&self, token: &str, now: Timestamp) -> Result<Believed, Problem> {
        let (signed, id) = self.heading(token).ok_or_else(Problem::unauthenticated)?;
        let key = match self.keys.find(&id, now).await {
            Found::Key(key) => key,
            Found::Unknown => return Err(refused("its key is none of the provider's")),
            Found::Unreachable => return Err(Problem::cannot_check()),
        };
        let claims = self.claims(token, signed, &key).map_err(refused)?;
        let until = in_time(&claims, now).map_err(refused)?;
        let caller = self.read(&claims).map_err(refused)?;
        Ok(Believed { caller, until, claims })
    }

    /// Where the provider is spoken to about what, as it says itself.
    pub(super) async fn document(&self, now: Timestamp) -> Result<Arc<Document>, Unreachable> {
        self.discovery.document(now).await
    }

    pub(super) fn line(&self) -> &Line {
        &self.line
    }

    pub(super) fn settings(&self) -> &OidcSettings {
        &self.settings
    }

    /// How the token says it is signed, if that is a way that counts, and with which key.
    fn heading(&self, token: &str) -> Option<(Signed, String)> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let heading = BASE64.decode(token.split('.').next()?).ok()?;
        let heading = json::parse(&heading).ok()?;
        // Whatever it demands to be understood is not.
        if heading.get("crit").is_some() {
            return None;
        }
        let signed = Signed::named(heading.get("alg")?.as_str()?)?;
        let id = heading.get("kid")?.as_str()?.to_owned();
        self.settings.signed.contains(&signed).then_some((signed, id))
    }

    fn claims(&self, token: &str, signed: Signed, key: &Jwk) -> Result<Value, &'static str> {
        if !signed.fits(key) {
            return Err("its key is for another algorithm");
        }
        let mut wanted = Validation::new(signed.algorithm());
        wanted.set_audience(&[&self.settings.audience]);
        wanted.set_issuer(&[&self.settings.issuer]);
        wanted.set_required_spec_claims(&["aud", "exp", "iss"]);
        // Time is told by the clock that everything else goes by.
        wanted.validate_exp = false;
        wanted.validate_nbf = false;
        let key = DecodingKey::from_jwk(key).map_err(|_| "its key cannot be used")?;
        let read = jsonwebtoken::decode::<Value>(token, &key, &wanted);
        read.map(|read| read.claims).map_err(|_| "its signature, issuer or audience is wrong")
    }

    fn read(&self, claims: &Value) -> Result<Caller, &'static str> {
        let text = |claim: &str| claims.get(claim).and_then(Value::as_str);
        let tenant = text(&self.settings.tenant_claim).ok_or("its claims name no tenant")?;
        let tenant: TenantId = tenant.parse().map_err(|_| "the tenant that its claims name cannot be one")?;
        let person = text(&self.settings.person_claim).ok_or("its claims name no person")?;
        let person: PersonId = person.parse().map_err(|_| NO_NAME)?;
        let roles = roles(claims.get(&self.settings.roles_claim).unwrap_or(&Value::Null));
        // A subject may be any text; what stands for it may stand anywhere.
        let subject = text("sub").ok_or("its claims name no subject")?;
        let digest = Digest::of_parts("countersign/oidc-subject/v1", &[&self.settings.issuer, subject]);
        let credential = format!("oidc:{}", &digest.to_string()[..32]);
        Ok(Caller { tenant, person, roles, credential })
    }
}

pub(super) fn refused(why: &'static str) -> Problem {
    tracing::warn!(why, "a token that opens nothing was shown");
    Problem::unauthenticated()
}

fn roles(claim: &Value) -> Roles {
    let named: Vec<&str> = match claim {
        Value::String(text) => text.split(' ').collect(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    named.into_iter().filter_map(|name| name.parse::<Role>().ok()).collect()
}

/// Until when it is believed, if its time has come and not gone.
fn in_time(claims: &Value, now: Timestamp) -> Result<Timestamp, &'static str> {
    let moment = |claim: &str| claims.get(claim).map(|seconds| seconds.as_f64().and_then(millis));
    let until = match moment("exp") {
        Some(Some(end)) if now < end + LEEWAY => end + LEEWAY,
        _ => return Err("its time is over, or it names no end"),
    };
    match moment("nbf") {
        None => Ok(until),
        Some(Some(begin)) if begin <= now + LEEWAY => Ok(until),
        Some(_) => Err("its time has not come"),
    }
}

/// A moment in seconds since 1970, as a token says it.
#[expect(clippy::cast_possible_truncation, reason = "what is beyond the bounds was refused")]
fn millis(seconds: f64) -> Option<Timestamp> {
    const SECONDS_MAX: f64 = 1e12;
    (0.0..SECONDS_MAX).contains(&seconds).then_some(Timestamp((seconds * 1000.0) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_no_role_of_ours_is_passed_over() {
        let wanted = Roles::from_iter([Role::Viewer, Role::Operator]);
        assert_eq!(roles(&json!(["operator", "root", "viewer", 7])), wanted);
        assert_eq!(roles(&json!("viewer operator")), wanted);
        assert_eq!(roles(&json!({ "admin": true })), Roles::default());
    }

    #[test]
    fn a_token_has_a_beginning_and_an_end() {
        let now = Timestamp(1_000_000_000);
        let at = |seconds: i64| json!({ "exp": 1_000_000 + seconds });
        assert!(in_time(&at(1), now).is_ok());
        assert!(in_time(&at(-59), now).is_ok());
        assert!(in_time(&at(-60), now).is_err());
        for claims in [json!({}), json!({ "exp": "never" }), json!({ "exp": -1 }), json!({ "exp": 1e300 })] {
            assert!(in_time(&claims, now).is_err(), "{claims}");
        }
        assert!(in_time(&json!({ "exp": 2_000_000, "nbf": 1_000_061 }), now).is_err());
        assert!(in_time(&json!({ "exp": 2_000_000, "nbf": "soon" }), now).is_err());
    }
}
