//! Verifies that a request comes from Slack.
//!
//! Slack signs the time and the raw body of every request; [`signing::verify`] checks the signature. A recorded request
//! stays valid for five minutes. A caller can store the [`replay_key`] to reject a replay. A replayed decision is harmless:
//! the same decision by the same user changes nothing, and a decided approval is not decided again.

use domain::{Digest, Timestamp};

pub use signing::{Secrets, SignatureError, WeakSecret};

/// The header with the Unix time in seconds.
pub const TIMESTAMP_HEADER: &str = "x-slack-request-timestamp";

/// The header with the signature, `v0=` and 64 hex digits.
pub const SIGNATURE_HEADER: &str = "x-slack-signature";

/// Checks that the raw `body` was signed with one of `secrets` within five minutes of `now`.
pub fn verify(
    secrets: &Secrets,
    timestamp_header: Option<&str>,
    signature_header: Option<&str>,
    body: &[u8],
    now: Timestamp,
) -> Result<(), SignatureError> {
    signing::verify(secrets, timestamp_header, signature_header, body, now).map(drop)
}

/// Identifies one signed request. Only one spelling of a signature is valid, so a replay has the same key.
pub fn replay_key(body: &[u8], signature: &str) -> Digest {
    Digest::of_parts("countersign/slack-replay/v1", &[signature.as_bytes(), body])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replay_key_identifies_the_request() {
        assert_eq!(replay_key(b"body", "v0=ab"), replay_key(b"body", "v0=ab"));
        assert_ne!(replay_key(b"body", "v0=ab"), replay_key(b"other", "v0=ab"));
    }
}
