//! Whether a request comes from Slack.
//!
//! Slack signs the time and the raw body of every request (`v0`, HMAC-SHA256). The bytes are checked before
//! anybody reads them, in constant time, within five minutes of our clock, under the current secret or, until
//! an agreed day, the previous one.
//!
//! A recorded request stays valid for those five minutes. A caller that wants each request once keeps its
//! [`replay_key`]; one that does not loses nothing, because the answer to an approval is idempotent: the same
//! person saying the same again changes nothing, and a decided approval is not decided twice.

use domain::{Digest, Timestamp};
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;

/// The header with the time, in seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "x-slack-request-timestamp";

/// The header with the signature, `v0=` and 64 hex digits.
pub const SIGNATURE_HEADER: &str = "x-slack-signature";

/// What Slack recommends: enough for a slow network, too short for a stolen log.
const WINDOW_MS: i128 = 300_000;

/// A shorter secret could be guessed from one recorded request. Slack's have 32 characters.
const SECRET_BYTES_MIN: usize = 16;

/// The secrets that Slack may sign with. `Debug` shows none of them.
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

    /// The secrets that count at `now`.
    fn live(&self, now: Timestamp) -> impl Iterator<Item = &SecretString> {
        let previous = self.previous.iter().filter(move |previous| now < previous.until);
        std::iter::once(&self.current).chain(previous.map(|previous| &previous.secret))
    }
}

fn strong(secret: &SecretString) -> Result<(), WeakSecret> {
    if secret.expose_secret().len() < SECRET_BYTES_MIN { Err(WeakSecret) } else { Ok(()) }
}

/// Why a request is not taken for Slack's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureFault {
    /// There is no time.
    #[error("the request says no time")]
    TimestampMissing,
    /// The time is no whole number of seconds.
    #[error("the request's time is no whole number of seconds")]
    TimestampInvalid,
    /// The time is too far from ours, on either side.
    #[error("the request's time is more than five minutes from ours")]
    TimestampOutsideWindow,
    /// There is no signature.
    #[error("the request is not signed")]
    SignatureMissing,
    /// The signature has another version than `v0`.
    #[error("the signature's version is not v0")]
    VersionUnknown,
    /// The signature is not 64 lower-case hex digits.
    #[error("the signature is not 64 lower-case hex digits")]
    SignatureMalformed,
    /// The signature belongs to other bytes, another time or another secret.
    #[error("the signature does not fit the request")]
    Forged,
}

/// Whether `body`, as it came, was signed under one of `secrets` within five minutes of `now`.
pub fn verify(
    secrets: &Secrets,
    timestamp_header: Option<&str>,
    signature_header: Option<&str>,
    body: &[u8],
    now: Timestamp,
) -> Result<(), SignatureFault> {
    let timestamp = timestamp_header.ok_or(SignatureFault::TimestampMissing)?;
    let signature = mac_of(signature_header.ok_or(SignatureFault::SignatureMissing)?)?;
    within_window(timestamp, now)?;
    let fits = |secret| signed(secret, timestamp, body).verify_slice(signature.as_bytes()).is_ok();
    if secrets.live(now).any(fits) { Ok(()) } else { Err(SignatureFault::Forged) }
}

/// Names one signed request, for a caller that takes each only once. Only one spelling of a signature is
/// ever accepted, so that a request cannot come again under another name.
pub fn replay_key(body: &[u8], signature: &str) -> Digest {
    Digest::of_parts("countersign/slack-replay/v1", &[signature.as_bytes(), body])
}

/// The signature's bytes, of checked length.
fn mac_of(header: &str) -> Result<Digest, SignatureFault> {
    if header.is_empty() {
        return Err(SignatureFault::SignatureMissing);
    }
    let hex = header.strip_prefix("v0=").ok_or(SignatureFault::VersionUnknown)?;
    hex.parse().map_err(|_| SignatureFault::SignatureMalformed)
}

fn within_window(timestamp: &str, now: Timestamp) -> Result<(), SignatureFault> {
    if timestamp.is_empty() || !timestamp.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(SignatureFault::TimestampInvalid);
    }
    let secs: i64 = timestamp.parse().map_err(|_| SignatureFault::TimestampInvalid)?;
    // No two numbers of 64 bits overflow 128.
    let apart = (i128::from(now.0) - i128::from(secs) * 1_000).abs();
    if apart <= WINDOW_MS { Ok(()) } else { Err(SignatureFault::TimestampOutsideWindow) }
}

#[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
fn signed(secret: &SecretString, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes()).expect("any length will do");
    for part in [b"v0:".as_slice(), timestamp.as_bytes(), b":", body] {
        mac.update(part);
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example in Slack's documentation of signed requests.
    const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
    const SECS: &str = "1531420618";
    const BODY: &[u8] = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    const SIGNATURE: &str = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
    const NOW: Timestamp = Timestamp(1_531_420_618_000);

    fn secrets() -> Secrets {
        Secrets::new(SECRET.into()).unwrap()
    }

    fn checked(
        timestamp: Option<&str>,
        signature: Option<&str>,
        now: Timestamp,
    ) -> Result<(), SignatureFault> {
        verify(&secrets(), timestamp, signature, BODY, now)
    }

    #[test]
    fn the_example_that_slack_documents_is_accepted() {
        assert_eq!(checked(Some(SECS), Some(SIGNATURE), NOW), Ok(()));
    }

    #[test]
    fn a_request_without_its_headers_is_refused() {
        assert_eq!(checked(None, Some(SIGNATURE), NOW), Err(SignatureFault::TimestampMissing));
        assert_eq!(checked(Some(SECS), None, NOW), Err(SignatureFault::SignatureMissing));
        assert_eq!(checked(Some(SECS), Some(""), NOW), Err(SignatureFault::SignatureMissing));
    }

    #[test]
    fn only_version_zero_counts() {
        for other in [SIGNATURE.replace("v0=", "v1="), SIGNATURE.replace("v0=", ""), "v0".to_owned()] {
            assert_eq!(
                checked(Some(SECS), Some(&other), NOW),
                Err(SignatureFault::VersionUnknown),
                "{other}"
            );
        }
    }

    #[test]
    fn a_signature_is_sixty_four_lower_case_hex_digits() {
        let nonhex = SIGNATURE.replace("a2114", "g2114");
        for bad in [&SIGNATURE[..66], &nonhex, "v0=", &SIGNATURE.to_uppercase().replace("V0", "v0")] {
            let fault = checked(Some(SECS), Some(bad), NOW);
            assert_eq!(fault, Err(SignatureFault::SignatureMalformed), "{bad}");
        }
        let longer = format!("{SIGNATURE}0");
        assert_eq!(checked(Some(SECS), Some(&longer), NOW), Err(SignatureFault::SignatureMalformed));
    }

    #[test]
    fn five_minutes_are_enough_and_a_second_more_is_too_much() {
        for (secs, expected) in [
            (300, Ok(())),
            (-300, Ok(())),
            (301, Err(SignatureFault::TimestampOutsideWindow)),
            (-301, Err(SignatureFault::TimestampOutsideWindow)),
        ] {
            let now = Timestamp(NOW.0 + secs * 1_000);
            assert_eq!(checked(Some(SECS), Some(SIGNATURE), now), expected, "{secs}");
        }
    }

    #[test]
    fn a_time_that_overflows_is_refused() {
        for secs in ["9223372036854775808", "99999999999999999999999", "-1", "+1531420618", "1e9", "", " 1"] {
            assert_eq!(
                checked(Some(secs), Some(SIGNATURE), NOW),
                Err(SignatureFault::TimestampInvalid),
                "{secs}"
            );
        }
        for now in [Timestamp(i64::MIN), Timestamp(i64::MAX), NOW] {
            let far = checked(Some("9223372036854775807"), Some(SIGNATURE), now);
            assert_eq!(far, Err(SignatureFault::TimestampOutsideWindow));
        }
    }

    #[test]
    fn another_body_another_time_or_another_secret_is_forged() {
        let body = [BODY, b" "].concat();
        let forged = Err(SignatureFault::Forged);
        assert_eq!(verify(&secrets(), Some(SECS), Some(SIGNATURE), &body, NOW), forged);
        assert_eq!(checked(Some("1531420619"), Some(SIGNATURE), NOW), forged);
        let other = Secrets::new("another secret altogether".into()).unwrap();
        assert_eq!(verify(&other, Some(SECS), Some(SIGNATURE), BODY, NOW), forged);
    }

    #[test]
    fn the_previous_secret_counts_until_its_day() {
        let rotated = |until| {
            let current = Secrets::new("another secret altogether".into()).unwrap();
            current.and_previous(SECRET.into(), until).unwrap()
        };
        let checked = |secrets: &Secrets| verify(secrets, Some(SECS), Some(SIGNATURE), BODY, NOW);
        assert_eq!(checked(&rotated(Timestamp(NOW.0 + 1))), Ok(()));
        assert_eq!(checked(&rotated(NOW)), Err(SignatureFault::Forged));
    }

    #[test]
    fn no_secret_is_no_secret() {
        assert_eq!(Secrets::new("".into()).unwrap_err(), WeakSecret);
        assert_eq!(secrets().and_previous("short".into(), NOW).unwrap_err(), WeakSecret);
    }

    #[test]
    fn debug_shows_no_secret() {
        let shown = format!("{:?}", secrets().and_previous("the previous secret".into(), NOW).unwrap());
        assert!(!shown.contains(SECRET) && !shown.contains("the previous"), "{shown}");
    }

    #[test]
    fn a_replay_has_the_same_key_and_nothing_else_does() {
        assert_eq!(replay_key(BODY, SIGNATURE), replay_key(BODY, SIGNATURE));
        assert_ne!(replay_key(BODY, SIGNATURE), replay_key(b"other", SIGNATURE));
    }
}
