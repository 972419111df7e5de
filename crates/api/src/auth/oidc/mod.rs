//! Tokens of an identity provider (`OpenID` Connect).
//!
//! The configuration lists the accepted algorithms; a token cannot choose another. A token is accepted if its signature
//! matches a key of the provider, the provider issued it for us, and it is neither expired nor too early. Every other
//! token gets the same response as an invalid API key.

mod discovery;
mod http;
mod keys;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use domain::access::oidc_credential;
use domain::{Millis, PersonId, Role, Roles, TenantId, Timestamp, json};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::Value;
use url::Url;

use super::Caller;
use crate::problem::ApiError;
use discovery::Discovery;
use http::ProviderClient;
use keys::{KeyLookup, KeySet};

pub(super) use discovery::Document;
pub(super) use http::ProviderError;

/// The maximum clock difference between the provider and this server.
const LEEWAY: Millis = Millis::secs(60);

/// Larger than the tokens of any provider.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// For a person claim that is not a valid name; many providers use mail addresses.
const NO_NAME: &str = "the person claim is not a valid name: allowed are letters, digits, `.`, `_` and `-`, but not \
                       `@`; set `claims.person` to another claim";

/// A signature algorithm of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenAlgorithm {
    /// RSA with SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
}

impl TokenAlgorithm {
    fn from_name(name: &str) -> Option<Self> {
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

    /// Whether `key` is for this algorithm.
    fn fits(self, key: &Jwk) -> bool {
        match (&key.algorithm, self) {
            (AlgorithmParameters::RSA(_), Self::Rs256) => true,
            (AlgorithmParameters::EllipticCurve(curve), Self::Es256) => curve.curve == EllipticCurve::P256,
            _ => false,
        }
    }
}

/// The identity provider and the claims of its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// The exact value of `iss`.
    pub issuer: String,
    /// Must be among `aud`.
    pub audience: String,
    /// The address of the key set, over HTTPS or on this machine. By default from the discovery document.
    pub jwks_url: Option<Url>,
    /// The accepted algorithms.
    pub signed: Vec<TokenAlgorithm>,
    pub tenant_claim: String,
    /// The claim with the name of the user in the directory of the tenant.
    pub person_claim: String,
    /// The claim with the roles, as an array or separated by spaces. Unknown roles are ignored.
    pub roles_claim: String,
}

/// Why the settings are invalid.
#[derive(Debug, thiserror::Error)]
pub enum InvalidOidcSettings {
    /// An attacker on the network could replace the keys.
    #[error("key set {0}: the address must use https, or be on this machine")]
    Insecure(Url),
    /// An attacker on the network could replace the discovery document.
    #[error("issuer {0:?}: it must be an https URL, or a URL on this machine")]
    BadIssuer(String),
    /// Users would log in over an unencrypted connection.
    #[error("public URL {0}: it must be an https URL, or a URL on this machine")]
    BadUrl(Url),
    #[error("no algorithm is configured; configure RS256, ES256 or both")]
    NoAlgorithm,
    #[error("create the HTTPS client for the identity provider")]
    Client(#[source] reqwest::Error),
}

/// An identity provider.
pub struct Oidc {
    settings: OidcSettings,
    discovery: Arc<Discovery>,
    client: ProviderClient,
    keys: KeySet,
}

/// A verified token.
pub(super) struct VerifiedToken {
    pub(super) caller: Caller,
    /// The expiry, with the leeway.
    pub(super) until: Timestamp,
    pub(super) claims: Value,
}

impl Oidc {
    /// Fetches nothing yet.
    pub fn new(settings: OidcSettings) -> Result<Self, InvalidOidcSettings> {
        if settings.signed.is_empty() {
            return Err(InvalidOidcSettings::NoAlgorithm);
        }
        // Otherwise an attacker on the network could replace the keys.
        if let Some(url) = settings.jwks_url.as_ref().filter(|url| !http_client::is_safe(url)) {
            return Err(InvalidOidcSettings::Insecure(url.clone()));
        }
        let client = ProviderClient::new().map_err(InvalidOidcSettings::Client)?;
        let discovery = Discovery::new(&settings.issuer, client.clone())
            .ok_or_else(|| InvalidOidcSettings::BadIssuer(settings.issuer.clone()))?;
        let discovery = Arc::new(discovery);
        let keys = KeySet::new(settings.jwks_url.clone(), Arc::clone(&discovery), client.clone());
        Ok(Self { settings, discovery, client, keys })
    }

    /// The caller with this token.
    pub(super) async fn caller(&self, token: &str, now: Timestamp) -> Result<Caller, ApiError> {
        Ok(self.verify(token, now).await?.caller)
    }

    pub(super) async fn verify(&self, token: &str, now: Timestamp) -> Result<VerifiedToken, ApiError> {
        let (signed, id) = self.header(token).ok_or_else(ApiError::unauthenticated)?;
        let key = match self.keys.find(&id, now).await {
            KeyLookup::Key(key) => key,
            KeyLookup::Unknown => return Err(reject_token("the provider has no such key")),
            KeyLookup::Unreachable => return Err(ApiError::cannot_check()),
        };
        let claims = self.claims(token, signed, &key).map_err(reject_token)?;
        let until = expiry(&claims, now).map_err(reject_token)?;
        let caller = self.read(&claims).map_err(reject_token)?;
        Ok(VerifiedToken { caller, until, claims })
    }

    /// The discovery document.
    pub(super) async fn document(&self, now: Timestamp) -> Result<Arc<Document>, ProviderError> {
        self.discovery.document(now).await
    }

    pub(super) fn client(&self) -> &ProviderClient {
        &self.client
    }

    pub(super) fn settings(&self) -> &OidcSettings {
        &self.settings
    }

    /// The algorithm and the key id of the token, if the algorithm is accepted.
    fn header(&self, token: &str) -> Option<(TokenAlgorithm, String)> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let header = BASE64.decode(token.split('.').next()?).ok()?;
        let header = json::parse(&header).ok()?;
        // No critical extension is supported.
        if header.get("crit").is_some() {
            return None;
        }
        let signed = TokenAlgorithm::from_name(header.get("alg")?.as_str()?)?;
        let id = header.get("kid")?.as_str()?.to_owned();
        self.settings.signed.contains(&signed).then_some((signed, id))
    }

    fn claims(&self, token: &str, signed: TokenAlgorithm, key: &Jwk) -> Result<Value, &'static str> {
        if !signed.fits(key) {
            return Err("the key is for another algorithm");
        }
        let mut validation = Validation::new(signed.algorithm());
        validation.set_audience(&[&self.settings.audience]);
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_required_spec_claims(&["aud", "exp", "iss"]);
        // The clock of the engine decides about times, in `expiry`.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        let key = DecodingKey::from_jwk(key).map_err(|_| "the key cannot be used")?;
        let read = jsonwebtoken::decode::<Value>(token, &key, &validation);
        read.map(|read| read.claims).map_err(|_| "the signature, issuer or audience is wrong")
    }

    fn read(&self, claims: &Value) -> Result<Caller, &'static str> {
        let text = |claim: &str| claims.get(claim).and_then(Value::as_str);
        let tenant = text(&self.settings.tenant_claim).ok_or("the tenant claim is missing")?;
        let tenant: TenantId = tenant.parse().map_err(|_| "the tenant claim is not a valid tenant id")?;
        let name = text(&self.settings.person_claim).ok_or("the person claim is missing")?;
        let roles = roles(claims.get(&self.settings.roles_claim).unwrap_or(&Value::Null));
        // A subject can be any text, so its digest is used.
        let subject = text("sub").ok_or("the `sub` claim is missing")?;
        let credential = oidc_credential(&self.settings.issuer, subject);
        let person = match name.parse() {
            Ok(person) => person,
            // Users with this claim are named by the tenant's directory. One who is not is named by the credential.
            Err(_) if self.settings.person_claim == "sub" => fallback_person(&credential)?,
            Err(_) => return Err(NO_NAME),
        };
        Ok(Caller { tenant, person, roles, credential, unlisted: false })
    }
}

fn fallback_person(credential: &str) -> Result<PersonId, &'static str> {
    credential.replace(':', "-").parse().map_err(|_| NO_NAME)
}

pub(super) fn reject_token(why: &'static str) -> ApiError {
    tracing::warn!(event = "token_rejected", reason = why, "token rejected");
    ApiError::unauthenticated()
}

fn roles(claim: &Value) -> Roles {
    let named: Vec<&str> = match claim {
        Value::String(text) => text.split(' ').collect(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    named.into_iter().filter_map(|name| name.parse::<Role>().ok()).collect()
}

/// The expiry with the leeway, if the token is valid now.
fn expiry(claims: &Value, now: Timestamp) -> Result<Timestamp, &'static str> {
    let timestamp = |claim: &str| claims.get(claim).map(|seconds| seconds.as_f64().and_then(millis));
    let until = match timestamp("exp") {
        Some(Some(end)) if now < end + LEEWAY => end + LEEWAY,
        _ => return Err("the token has expired, or has no expiry"),
    };
    match timestamp("nbf") {
        None => Ok(until),
        Some(Some(begin)) if begin <= now + LEEWAY => Ok(until),
        Some(_) => Err("the token is not valid yet"),
    }
}

/// A timestamp of a token, in seconds since 1970.
#[expect(clippy::cast_possible_truncation, reason = "values out of bounds are rejected")]
fn millis(seconds: f64) -> Option<Timestamp> {
    const SECONDS_MAX: f64 = 1e12;
    (0.0..SECONDS_MAX).contains(&seconds).then_some(Timestamp((seconds * 1000.0) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_roles_are_ignored() {
        let validation = Roles::from_iter([Role::Viewer, Role::Operator]);
        assert_eq!(roles(&json!(["operator", "root", "viewer", 7])), validation);
        assert_eq!(roles(&json!("viewer operator")), validation);
        assert_eq!(roles(&json!({ "admin": true })), Roles::default());
    }

    #[test]
    fn token_validity_has_start_and_end() {
        let now = Timestamp(1_000_000_000);
        let at = |seconds: i64| json!({ "exp": 1_000_000 + seconds });
        assert!(expiry(&at(1), now).is_ok());
        assert!(expiry(&at(-59), now).is_ok());
        assert!(expiry(&at(-60), now).is_err());
        for claims in [json!({}), json!({ "exp": "never" }), json!({ "exp": -1 }), json!({ "exp": 1e300 })] {
            assert!(expiry(&claims, now).is_err(), "{claims}");
        }
        assert!(expiry(&json!({ "exp": 2_000_000, "nbf": 1_000_061 }), now).is_err());
        assert!(expiry(&json!({ "exp": 2_000_000, "nbf": "soon" }), now).is_err());
    }
}
