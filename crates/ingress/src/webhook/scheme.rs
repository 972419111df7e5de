//! The authentication schemes of webhook senders.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use domain::{Digest, Timestamp};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use signing::{Secrets, SignatureError};

use crate::response::single_header;

/// The time of the request in seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "x-countersign-timestamp";

/// The signature of the time and the body: `v0=` and 64 hex digits.
pub const SIGNATURE_HEADER: &str = "x-countersign-signature";

/// GitHub's signature of the body: `sha256=` and 64 hex digits. The older SHA-1 header is ignored.
const GITHUB_SIGNATURE_HEADER: &str = "x-hub-signature-256";

/// How a sender authenticates its requests.
#[derive(Debug, Clone)]
pub enum AuthScheme {
    /// An HMAC of the time and the body. Preferred: the other schemes do not limit when a request can be replayed.
    Hmac(Secrets),
    /// HTTP Basic; the secret is `user:password`.
    Basic(Secrets),
    /// A bearer token.
    Bearer(Secrets),
    /// An HMAC of the body, as GitHub signs it.
    GitHub(Secrets),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum AuthError {
    #[error(transparent)]
    Signature(#[from] SignatureError),
    #[error("the credential is missing or wrong")]
    Credential,
}

impl AuthScheme {
    /// Verifies `body` as received and returns a digest that identifies the authenticated request: the code of a
    /// signature that covers a time, otherwise the hash of the body. A replay of the same bytes has the same digest.
    pub(super) fn verify(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        now: Timestamp,
    ) -> Result<Digest, AuthError> {
        match self {
            Self::Hmac(secrets) => {
                let (time, signature) =
                    (single_header(headers, TIMESTAMP_HEADER), single_header(headers, SIGNATURE_HEADER));
                Ok(signing::verify(secrets, time, signature, body, now)?)
            }
            Self::GitHub(secrets) => {
                let signature = single_header(headers, GITHUB_SIGNATURE_HEADER);
                signing::verify_body(secrets, signature, body, now)?;
                Ok(Digest::of_bytes(body))
            }
            Self::Basic(secrets) => verify_credential(secrets, basic(headers).as_deref(), body, now),
            Self::Bearer(secrets) => verify_credential(secrets, credential(headers, "Bearer"), body, now),
        }
    }
}

fn verify_credential(
    secrets: &Secrets,
    credential: Option<&str>,
    body: &[u8],
    now: Timestamp,
) -> Result<Digest, AuthError> {
    match credential {
        Some(credential) if secrets.matches(credential, now) => Ok(Digest::of_bytes(body)),
        Some(_) | None => Err(AuthError::Credential),
    }
}

/// The `Authorization` header without the name of `scheme`.
fn credential<'h>(headers: &'h HeaderMap, scheme: &str) -> Option<&'h str> {
    let (named, credential) = single_header(headers, AUTHORIZATION.as_str())?.split_once(' ')?;
    named.eq_ignore_ascii_case(scheme).then_some(credential)
}

fn basic(headers: &HeaderMap) -> Option<String> {
    let bytes = BASE64_STANDARD.decode(credential(headers, "Basic")?).ok()?;
    String::from_utf8(bytes).ok()
}
