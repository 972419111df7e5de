//! `sha256=`: an HMAC of the body alone, as GitHub signs.
//!
//! The signature covers no time, so a recorded request stays valid. A caller stores the returned code and accepts it once.

use domain::{Digest, Timestamp};
use hmac::Mac as _;
use secrecy::SecretString;

use crate::{Secrets, SignatureError, mac, parse_signature};

const PREFIX: &str = "sha256=";

/// Verifies that the raw `body` was signed with one of `secrets`; returns the code of the signature.
pub fn verify_body(
    secrets: &Secrets,
    signature_header: Option<&str>,
    body: &[u8],
    now: Timestamp,
) -> Result<Digest, SignatureError> {
    let code = parse_signature(signature_header, PREFIX)?;
    let verifies = |secret| mac(secret, &[body]).verify_slice(code.as_bytes()).is_ok();
    if secrets.valid(now).any(verifies) { Ok(code) } else { Err(SignatureError::Forged) }
}

/// The header that [`verify_body`] accepts.
pub fn sign_body(secret: &SecretString, body: &[u8]) -> String {
    let code: [u8; 32] = mac(secret, &[body]).finalize().into_bytes().into();
    format!("{PREFIX}{}", Digest::from(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example in GitHub's documentation of webhook deliveries.
    const SECRET: &str = "It's a Secret to Everybody";
    const BODY: &[u8] = b"Hello, World!";
    const SIGNATURE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    const NOW: Timestamp = Timestamp(0);

    #[test]
    fn accepts_githubs_documented_example() {
        let secrets = Secrets::new(SECRET.into()).unwrap();
        assert!(verify_body(&secrets, Some(SIGNATURE), BODY, NOW).is_ok());
        assert_eq!(sign_body(&SECRET.into(), BODY), SIGNATURE);
    }

    #[test]
    fn rejects_every_other_signature() {
        let secrets = Secrets::new(SECRET.into()).unwrap();
        let checked = |signature: Option<&str>, body: &[u8]| verify_body(&secrets, signature, body, NOW);
        assert_eq!(checked(None, BODY), Err(SignatureError::SignatureMissing));
        assert_eq!(checked(Some("sha1=7571"), BODY), Err(SignatureError::VersionUnknown));
        assert_eq!(checked(Some(&SIGNATURE[..70]), BODY), Err(SignatureError::SignatureMalformed));
        assert_eq!(checked(Some(SIGNATURE), b"Hello, World"), Err(SignatureError::Forged));
    }
}
