//! `sha256=`: a signature over the body alone, as GitHub makes it.
//!
//! It says nothing about when: whoever recorded such a request can send it again, so a caller keeps the code
//! that is given back and takes it once.

use domain::{Digest, Timestamp};
use hmac::Mac as _;
use secrecy::SecretString;

use crate::{Secrets, SignatureFault, code_of, mac};

const PREFIX: &str = "sha256=";

/// Whether `body`, as it came, was signed under one of `secrets`; gives back the code that proves it.
pub fn verify_body(
    secrets: &Secrets,
    signature_header: Option<&str>,
    body: &[u8],
    now: Timestamp,
) -> Result<Digest, SignatureFault> {
    let code = code_of(signature_header, PREFIX)?;
    let fits = |secret| mac(secret, &[body]).verify_slice(code.as_bytes()).is_ok();
    if secrets.live(now).any(fits) { Ok(code) } else { Err(SignatureFault::Forged) }
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
    fn the_example_that_github_documents_is_accepted() {
        let secrets = Secrets::new(SECRET.into()).unwrap();
        assert!(verify_body(&secrets, Some(SIGNATURE), BODY, NOW).is_ok());
        assert_eq!(sign_body(&SECRET.into(), BODY), SIGNATURE);
    }

    #[test]
    fn nothing_else_is() {
        let secrets = Secrets::new(SECRET.into()).unwrap();
        let checked = |signature: Option<&str>, body: &[u8]| verify_body(&secrets, signature, body, NOW);
        assert_eq!(checked(None, BODY), Err(SignatureFault::SignatureMissing));
        assert_eq!(checked(Some("sha1=7571"), BODY), Err(SignatureFault::VersionUnknown));
        assert_eq!(checked(Some(&SIGNATURE[..70]), BODY), Err(SignatureFault::SignatureMalformed));
        assert_eq!(checked(Some(SIGNATURE), b"Hello, World"), Err(SignatureFault::Forged));
    }
}
