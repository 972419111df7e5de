//! Whether a request comes from whom it says.
//!
//! Whoever sends us something shares a secret with us. The best of them sign the time and the raw body
//! ([`verify`]; Slack does, and so does everybody who does as we ask); GitHub signs the body alone
//! ([`verify_body`]); some can only show the secret itself ([`Secrets::is_shown`]). Whichever it is, the bytes
//! are checked before anybody reads them, in constant time, under the current secret or, until an agreed day,
//! the previous one.

mod body;
mod fault;
mod secrets;
mod timed;

pub use body::{sign_body, verify_body};
pub use fault::SignatureFault;
pub use secrets::{Secrets, WeakSecret};
pub use timed::{sign, verify};

use domain::Digest;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;

/// The code over `parts`, one after the other.
#[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
fn mac(secret: &SecretString, parts: &[&[u8]]) -> Hmac<Sha256> {
    let key = secret.expose_secret().as_bytes();
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length will do");
    for part in parts {
        mac.update(part);
    }
    mac
}

/// What a header says after `prefix`: a code of checked length, in the one spelling that is accepted.
fn code_of(header: Option<&str>, prefix: &'static str) -> Result<Digest, SignatureFault> {
    let header = header.filter(|header| !header.is_empty()).ok_or(SignatureFault::SignatureMissing)?;
    let hex = header.strip_prefix(prefix).ok_or(SignatureFault::VersionUnknown)?;
    hex.parse().map_err(|_| SignatureFault::SignatureMalformed)
}
