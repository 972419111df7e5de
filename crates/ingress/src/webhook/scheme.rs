//! How a sender proves itself.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use domain::{Digest, Timestamp};
use signing::{Secrets, SignatureFault};

use crate::http::Headers;

/// The header with the time, in seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "x-countersign-timestamp";

/// The header with the signature over the time and the body: `v0=` and 64 hex digits.
pub const SIGNATURE_HEADER: &str = "x-countersign-signature";

/// The header with GitHub's signature over the body: `sha256=` and 64 hex digits. The older one, with SHA-1, is
/// not looked at.
const GITHUB_SIGNATURE_HEADER: &str = "x-hub-signature-256";

/// How a sender proves itself.
#[derive(Debug, Clone)]
pub enum Proof {
    /// By a signature over the time and the body. The best there is, and what we ask for.
    Signed(Secrets),
    /// By showing `user:password`.
    Basic(Secrets),
    /// By showing a token.
    Bearer(Secrets),
    /// By a signature over the body, as GitHub makes it.
    GitHub(Secrets),
}

/// Why a sender is not proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unproved {
    #[error(transparent)]
    Signature(#[from] SignatureFault),
    #[error("the credential is missing or wrong")]
    Credential,
}

impl Proof {
    /// What stands for the proof, if `body` as it came is proved. It is the same for the same bytes sent again:
    /// the code of a signature that names a time, and otherwise the bytes themselves.
    pub(super) fn verify(
        &self,
        headers: &Headers<'_>,
        body: &[u8],
        now: Timestamp,
    ) -> Result<Digest, Unproved> {
        match self {
            Self::Signed(secrets) => {
                let (time, signature) = (headers.only(TIMESTAMP_HEADER), headers.only(SIGNATURE_HEADER));
                Ok(signing::verify(secrets, time, signature, body, now)?)
            }
            Self::GitHub(secrets) => {
                let signature = headers.only(GITHUB_SIGNATURE_HEADER);
                signing::verify_body(secrets, signature, body, now)?;
                Ok(Digest::of_bytes(body))
            }
            Self::Basic(secrets) => shown(secrets, basic(headers).as_deref(), body, now),
            Self::Bearer(secrets) => shown(secrets, credential(headers, "Bearer"), body, now),
        }
    }
}

fn shown(
    secrets: &Secrets,
    credential: Option<&str>,
    body: &[u8],
    now: Timestamp,
) -> Result<Digest, Unproved> {
    match credential {
        Some(credential) if secrets.is_shown(credential, now) => Ok(Digest::of_bytes(body)),
        Some(_) | None => Err(Unproved::Credential),
    }
}

/// What follows the name of the scheme.
fn credential<'a>(headers: &Headers<'a>, scheme: &str) -> Option<&'a str> {
    let (named, credential) = headers.only("authorization")?.split_once(' ')?;
    named.eq_ignore_ascii_case(scheme).then_some(credential)
}

fn basic(headers: &Headers<'_>) -> Option<String> {
    let bytes = BASE64_STANDARD.decode(credential(headers, "Basic")?).ok()?;
    String::from_utf8(bytes).ok()
}
