//! The secrets that count now: the current one, and for a while the one before it.

use domain::{Digest, Timestamp};
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

/// A shorter secret could be guessed from one recorded request. Slack's have 32 characters.
const SECRET_BYTES_MIN: usize = 16;

/// The secrets that a request may be proved with. `Debug` shows none of them.
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

/// The secret is too short to prove anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a signing secret has at least {SECRET_BYTES_MIN} characters")]
pub struct WeakSecret;

impl Secrets {
    /// One secret, the current one.
    pub fn new(current: SecretString) -> Result<Self, WeakSecret> {
        strong(&current)?;
        Ok(Self { current, previous: None })
    }

    /// The same, and the secret before it, which counts until `until`.
    pub fn and_previous(mut self, secret: SecretString, until: Timestamp) -> Result<Self, WeakSecret> {
        strong(&secret)?;
        self.previous = Some(Previous { secret, until });
        Ok(self)
    }

    /// Whether `shown` is one of the secrets itself. Says nothing about how much of it fits, nor how long
    /// the secret is: what is compared are digests.
    pub fn is_shown(&self, shown: &str, now: Timestamp) -> bool {
        let shown = Digest::of_bytes(shown.as_bytes());
        let fits = |secret: &SecretString| {
            let secret = Digest::of_bytes(secret.expose_secret().as_bytes());
            bool::from(secret.as_bytes().ct_eq(shown.as_bytes()))
        };
        self.live(now).any(fits)
    }

    /// The secrets that count at `now`.
    pub(crate) fn live(&self, now: Timestamp) -> impl Iterator<Item = &SecretString> {
        let previous = self.previous.iter().filter(move |previous| now < previous.until);
        std::iter::once(&self.current).chain(previous.map(|previous| &previous.secret))
    }
}

fn strong(secret: &SecretString) -> Result<(), WeakSecret> {
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
    fn no_secret_is_no_secret() {
        assert_eq!(Secrets::new("".into()).unwrap_err(), WeakSecret);
        assert_eq!(secrets().and_previous("short".into(), NOW).unwrap_err(), WeakSecret);
    }

    #[test]
    fn debug_shows_no_secret() {
        let shown = format!("{:?}", secrets());
        assert!(!shown.contains("the current") && !shown.contains("the previous"), "{shown}");
    }

    #[test]
    fn a_secret_that_is_shown_is_the_whole_secret_and_nothing_else() {
        assert!(secrets().is_shown("the current secret", NOW));
        for other in ["", "the current secre", "the current secret ", "The current secret"] {
            assert!(!secrets().is_shown(other, NOW), "{other:?}");
        }
    }

    #[test]
    fn the_previous_secret_is_shown_in_vain_after_its_day() {
        assert!(secrets().is_shown("the previous secret", Timestamp(NOW.0 - 1)));
        assert!(!secrets().is_shown("the previous secret", NOW));
    }
}
