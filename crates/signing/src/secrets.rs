//! The valid secrets: the current one and, until its expiry, the previous one.

use domain::{Digest, Timestamp};
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

/// A shorter secret could be brute-forced from one recorded request. Slack's have 32 characters.
const SECRET_BYTES_MIN: usize = 16;

/// The secrets that authenticate a request. `Debug` output contains no secret.
#[derive(Debug, Clone)]
pub struct Secrets {
    current: SecretString,
    previous: Option<Previous>,
}

#[derive(Debug, Clone)]
struct Previous {
    secret: SecretString,
    until: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the secret is too short: use at least {SECRET_BYTES_MIN} characters")]
pub struct WeakSecret;

impl Secrets {
    pub fn new(current: SecretString) -> Result<Self, WeakSecret> {
        check_length(&current)?;
        Ok(Self { current, previous: None })
    }

    /// Adds the previous secret, which is valid until `until`.
    pub fn and_previous(mut self, secret: SecretString, until: Timestamp) -> Result<Self, WeakSecret> {
        check_length(&secret)?;
        self.previous = Some(Previous { secret, until });
        Ok(self)
    }

    /// Whether `presented` is one of the secrets. Digests are compared, so the timing reveals neither a matching prefix
    /// nor the length of the secret.
    pub fn matches(&self, presented: &str, now: Timestamp) -> bool {
        let presented = Digest::of_bytes(presented.as_bytes());
        let equals = |secret: &SecretString| {
            let secret = Digest::of_bytes(secret.expose_secret().as_bytes());
            bool::from(secret.as_bytes().ct_eq(presented.as_bytes()))
        };
        self.valid(now).any(equals)
    }

    /// The secrets that are valid at `now`.
    pub(crate) fn valid(&self, now: Timestamp) -> impl Iterator<Item = &SecretString> {
        let previous = self.previous.iter().filter(move |previous| now < previous.until);
        std::iter::once(&self.current).chain(previous.map(|previous| &previous.secret))
    }
}

fn check_length(secret: &SecretString) -> Result<(), WeakSecret> {
    if secret.expose_secret().len() < SECRET_BYTES_MIN { Err(WeakSecret) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_531_420_618_000);

    fn secrets() -> Secrets {
        let current = Secrets::new("the current secret".into()).unwrap();
        current.and_previous("the previous secret".into(), NOW).unwrap()
    }

    #[test]
    fn empty_or_short_secret_is_rejected() {
        assert_eq!(Secrets::new("".into()).unwrap_err(), WeakSecret);
        assert_eq!(secrets().and_previous("short".into(), NOW).unwrap_err(), WeakSecret);
    }

    #[test]
    fn debug_output_contains_no_secret() {
        let text = format!("{:?}", secrets());
        assert!(!text.contains("the current") && !text.contains("the previous"), "{text}");
    }

    #[test]
    fn only_the_whole_secret_matches() {
        assert!(secrets().matches("the current secret", NOW));
        for other in ["", "the current secre", "the current secret ", "The current secret"] {
            assert!(!secrets().matches(other, NOW), "{other:?}");
        }
    }

    #[test]
    fn previous_secret_does_not_match_after_its_expiry() {
        assert!(secrets().matches("the previous secret", Timestamp(NOW.0 - 1)));
        assert!(!secrets().matches("the previous secret", NOW));
    }
}
