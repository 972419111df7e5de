//! `v0=`: an HMAC of the time and the body, as Slack signs and as our documentation asks of other senders.
//!
//! A recorded request stays valid for five minutes. A caller that must accept a request once stores the returned code.

use domain::{Digest, Timestamp};
use hmac::{Hmac, Mac as _};
use secrecy::SecretString;
use sha2::Sha256;

use crate::{Secrets, SignatureError, mac, parse_signature};

const PREFIX: &str = "v0=";

/// Slack's recommendation: long enough for a slow network, too short to replay requests from a stolen log.
const WINDOW_MS: i128 = 300_000;

/// Verifies that the raw `body` was signed with one of `secrets` within five minutes of `now`; returns the code of the
/// signature.
pub fn verify(
    secrets: &Secrets,
    timestamp_header: Option<&str>,
    signature_header: Option<&str>,
    body: &[u8],
    now: Timestamp,
) -> Result<Digest, SignatureError> {
    let timestamp = timestamp_header.ok_or(SignatureError::TimestampMissing)?;
    let code = parse_signature(signature_header, PREFIX)?;
    check_window(timestamp, now)?;
    let verifies = |secret| timed_mac(secret, timestamp, body).verify_slice(code.as_bytes()).is_ok();
    if secrets.valid(now).any(verifies) { Ok(code) } else { Err(SignatureError::Forged) }
}

/// The signature header that [`verify`] accepts with this `timestamp` in seconds.
pub fn sign(secret: &SecretString, timestamp: &str, body: &[u8]) -> String {
    let code: [u8; 32] = timed_mac(secret, timestamp, body).finalize().into_bytes().into();
    format!("{PREFIX}{}", Digest::from(code))
}

fn timed_mac(secret: &SecretString, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
    mac(secret, &[b"v0:", timestamp.as_bytes(), b":", body])
}

fn check_window(timestamp: &str, now: Timestamp) -> Result<(), SignatureError> {
    if timestamp.is_empty() || !timestamp.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(SignatureError::TimestampInvalid);
    }
    let secs: i64 = timestamp.parse().map_err(|_| SignatureError::TimestampInvalid)?;
    // Two 64-bit numbers cannot overflow 128 bits.
    let skew = (i128::from(now.0) - i128::from(secs) * 1_000).abs();
    if skew <= WINDOW_MS { Ok(()) } else { Err(SignatureError::TimestampOutsideWindow) }
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

    fn verify_example(
        timestamp: Option<&str>,
        signature: Option<&str>,
        now: Timestamp,
    ) -> Result<(), SignatureError> {
        verify(&secrets(), timestamp, signature, BODY, now).map(drop)
    }

    #[test]
    fn accepts_slacks_documented_example() {
        assert_eq!(verify_example(Some(SECS), Some(SIGNATURE), NOW), Ok(()));
        assert_eq!(sign(&SECRET.into(), SECS, BODY), SIGNATURE);
    }

    #[test]
    fn missing_headers_are_rejected() {
        assert_eq!(verify_example(None, Some(SIGNATURE), NOW), Err(SignatureError::TimestampMissing));
        assert_eq!(verify_example(Some(SECS), None, NOW), Err(SignatureError::SignatureMissing));
        assert_eq!(verify_example(Some(SECS), Some(""), NOW), Err(SignatureError::SignatureMissing));
    }

    #[test]
    fn only_version_zero_is_accepted() {
        for other in [SIGNATURE.replace("v0=", "v1="), SIGNATURE.replace("v0=", ""), "v0".to_owned()] {
            assert_eq!(
                verify_example(Some(SECS), Some(&other), NOW),
                Err(SignatureError::VersionUnknown),
                "{other}"
            );
        }
    }

    #[test]
    fn signature_must_be_64_lower_case_hex_digits() {
        let nonhex = SIGNATURE.replace("a2114", "g2114");
        for bad in [&SIGNATURE[..66], &nonhex, "v0=", &SIGNATURE.to_uppercase().replace("V0", "v0")] {
            let error = verify_example(Some(SECS), Some(bad), NOW);
            assert_eq!(error, Err(SignatureError::SignatureMalformed), "{bad}");
        }
        let longer = format!("{SIGNATURE}0");
        assert_eq!(verify_example(Some(SECS), Some(&longer), NOW), Err(SignatureError::SignatureMalformed));
    }

    #[test]
    fn timestamp_may_differ_by_five_minutes_at_most() {
        for (secs, expected) in [
            (300, Ok(())),
            (-300, Ok(())),
            (301, Err(SignatureError::TimestampOutsideWindow)),
            (-301, Err(SignatureError::TimestampOutsideWindow)),
        ] {
            let now = Timestamp(NOW.0 + secs * 1_000);
            assert_eq!(verify_example(Some(SECS), Some(SIGNATURE), now), expected, "{secs}");
        }
    }

    #[test]
    fn overflowing_timestamp_is_rejected() {
        for secs in ["9223372036854775808", "99999999999999999999999", "-1", "+1531420618", "1e9", "", " 1"] {
            assert_eq!(
                verify_example(Some(secs), Some(SIGNATURE), NOW),
                Err(SignatureError::TimestampInvalid),
                "{secs}"
            );
        }
        for now in [Timestamp(i64::MIN), Timestamp(i64::MAX), NOW] {
            let far = verify_example(Some("9223372036854775807"), Some(SIGNATURE), now);
            assert_eq!(far, Err(SignatureError::TimestampOutsideWindow));
        }
    }

    #[test]
    fn other_body_time_or_secret_is_forged() {
        let body = [BODY, b" "].concat();
        let forged = Err(SignatureError::Forged);
        assert_eq!(verify(&secrets(), Some(SECS), Some(SIGNATURE), &body, NOW).map(drop), forged);
        assert_eq!(verify_example(Some("1531420619"), Some(SIGNATURE), NOW), forged);
        let other = Secrets::new("another secret altogether".into()).unwrap();
        assert_eq!(verify(&other, Some(SECS), Some(SIGNATURE), BODY, NOW).map(drop), forged);
    }

    #[test]
    fn previous_secret_is_valid_until_its_expiry() {
        let rotated = |until| {
            let current = Secrets::new("another secret altogether".into()).unwrap();
            current.and_previous(SECRET.into(), until).unwrap()
        };
        let verify_with =
            |secrets: &Secrets| verify(secrets, Some(SECS), Some(SIGNATURE), BODY, NOW).map(drop);
        assert_eq!(verify_with(&rotated(Timestamp(NOW.0 + 1))), Ok(()));
        assert_eq!(verify_with(&rotated(NOW)), Err(SignatureError::Forged));
    }
}
