//! Authenticates requests with a shared secret.
//!
//! Slack, and senders that follow our documentation, sign the time and the raw body ([`verify`]). GitHub signs the body
//! alone ([`verify_body`]). Some senders can only present the secret itself ([`Secrets::matches`]). All are verified
//! before the body is parsed, in constant time, with the current secret or, until its expiry, the previous one.

mod body;
mod secrets;
mod timed;

pub use body::{sign_body, verify_body};
pub use secrets::{Secrets, WeakSecret};
pub use timed::{sign, verify};

use domain::Digest;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;

/// Why a signature is rejected. The texts contain nothing of the request or of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("the request has no timestamp")]
    TimestampMissing,
    #[error("the timestamp is not a whole number of seconds")]
    TimestampInvalid,
    #[error("the timestamp differs from the server's time by more than five minutes")]
    TimestampOutsideWindow,
    #[error("the request is not signed")]
    SignatureMissing,
    #[error("the version of the signature is not supported")]
    VersionUnknown,
    #[error("the signature is not 64 lower-case hex digits")]
    SignatureMalformed,
    /// Signed for another body, another time or with another secret.
    #[error("the signature does not match the request")]
    Forged,
}

/// The HMAC of the concatenated `parts`.
#[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
fn mac(secret: &SecretString, parts: &[&[u8]]) -> Hmac<Sha256> {
    let key = secret.expose_secret().as_bytes();
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC accepts any key length");
    for part in parts {
        mac.update(part);
    }
    mac
}

/// The code after `prefix` in a header: 64 lower-case hex digits.
fn parse_signature(header: Option<&str>, prefix: &'static str) -> Result<Digest, SignatureError> {
    let header = header.filter(|header| !header.is_empty()).ok_or(SignatureError::SignatureMissing)?;
    let hex = header.strip_prefix(prefix).ok_or(SignatureError::VersionUnknown)?;
    hex.parse().map_err(|_| SignatureError::SignatureMalformed)
}
