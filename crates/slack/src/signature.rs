//! Whether a request comes from Slack.
//!
//! Slack signs the time and the raw body of every request, as [`signing::verify`] checks it. A recorded
//! request stays valid for five minutes. A caller that wants each request once keeps its [`replay_key`]; one
//! that does not loses nothing, because the answer to an approval is idempotent: the same person saying the
//! same again changes nothing, and a decided approval is not decided twice.

use domain::{Digest, Timestamp};

pub use signing::{Secrets, SignatureFault, WeakSecret};

/// The header with the time, in seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "x-slack-request-timestamp";

/// The header with the signature, `v0=` and 64 hex digits.
pub const SIGNATURE_HEADER: &str = "x-slack-signature";

/// Whether `body`, as it came, was signed under one of `secrets` within five minutes of `now`.
pub fn verify(
    secrets: &Secrets,
    timestamp_header: Option<&str>,
    signature_header: Option<&str>,
    body: &[u8],
    now: Timestamp,
) -> Result<(), SignatureFault> {
    signing::verify(secrets, timestamp_header, signature_header, body, now).map(drop)
}

/// Names one signed request, for a caller that takes each only once. Only one spelling of a signature is
/// ever accepted, so that a request cannot come again under another name.
pub fn replay_key(body: &[u8], signature: &str) -> Digest {
    Digest::of_parts("countersign/slack-replay/v1", &[signature.as_bytes(), body])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_has_the_same_key_and_nothing_else_does() {
        assert_eq!(replay_key(b"body", "v0=ab"), replay_key(b"body", "v0=ab"));
        assert_ne!(replay_key(b"body", "v0=ab"), replay_key(b"other", "v0=ab"));
    }
}
