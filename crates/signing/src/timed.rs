//! `v0=`: a signature over the time and the body, as Slack makes it and as we ask of everybody else.
//!
//! A recorded request stays valid for the five minutes within which its time is believed, so a caller for whom
//! twice is not the same as once keeps the code that is given back.

use domain::{Digest, Timestamp};
use hmac::{Hmac, Mac as _};
use secrecy::SecretString;
use sha2::Sha256;

use crate::{Secrets, SignatureFault, code_of, mac};

const PREFIX: &str = "v0=";

/// What Slack recommends: enough for a slow network, too short for a stolen log.
const WINDOW_MS: i128 = 300_000;

/// Whether `body`, as it came, was signed under one of `secrets` within five minutes of `now`; gives back the
/// code that proves it.
pub fn verify(
    secrets: &Secrets,
    timestamp_header: Option<&str>,
    signature_header: Option<&str>,
    body: &[u8],
    now: Timestamp,
) -> Result<Digest, SignatureFault> {
    let timestamp = timestamp_header.ok_or(SignatureFault::TimestampMissing)?;
    let code = code_of(signature_header, PREFIX)?;
    within_window(timestamp, now)?;
    let fits = |secret| signed(secret, timestamp, body).verify_slice(code.as_bytes()).is_ok();
    if secrets.live(now).any(fits) { Ok(code) } else { Err(SignatureFault::Forged) }
}

/// The header that [`verify`] accepts beside a `timestamp` of seconds.
pub fn sign(secret: &SecretString, timestamp: &str, body: &[u8]) -> String {
    let code: [u8; 32] = signed(secret, timestamp, body).finalize().into_bytes().into();
    format!("{PREFIX}{}", Digest::from(code))
}

fn signed(secret: &SecretString, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
    mac(secret, &[b"v0:", timestamp.as_bytes(), b":", body])
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
        verify(&secrets(), timestamp, signature, BODY, now).map(drop)
    }

    #[test]
    fn the_example_that_slack_documents_is_accepted() {
        assert_eq!(checked(Some(SECS), Some(SIGNATURE), NOW), Ok(()));
        assert_eq!(sign(&SECRET.into(), SECS, BODY), SIGNATURE);
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
        assert_eq!(verify(&secrets(), Some(SECS), Some(SIGNATURE), &body, NOW).map(drop), forged);
        assert_eq!(checked(Some("1531420619"), Some(SIGNATURE), NOW), forged);
        let other = Secrets::new("another secret altogether".into()).unwrap();
        assert_eq!(verify(&other, Some(SECS), Some(SIGNATURE), BODY, NOW).map(drop), forged);
    }

    #[test]
    fn the_previous_secret_counts_until_its_day() {
        let rotated = |until| {
            let current = Secrets::new("another secret altogether".into()).unwrap();
            current.and_previous(SECRET.into(), until).unwrap()
        };
        let checked = |secrets: &Secrets| verify(secrets, Some(SECS), Some(SIGNATURE), BODY, NOW).map(drop);
        assert_eq!(checked(&rotated(Timestamp(NOW.0 + 1))), Ok(()));
        assert_eq!(checked(&rotated(NOW)), Err(SignatureFault::Forged));
    }
}
