//! AWS Signature Version 4 for the one form of request that this crate sends: a POST to `/` without a query.

use std::collections::BTreeMap;

use domain::Timestamp;
use ring::{digest, hmac};
use secrecy::ExposeSecret as _;

use crate::AwsKeys;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// What a signature is bound to.
pub(crate) struct Scope<'a> {
    pub(crate) region: &'a str,
    pub(crate) service: &'a str,
    pub(crate) at: Timestamp,
}

/// The headers to send, with lower-case names: `headers`, the time, the session token and the signature over all of
/// them. The signature covers `host` too, which the HTTP client sends.
pub(crate) fn sign(
    scope: &Scope<'_>,
    keys: &AwsKeys,
    host: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> BTreeMap<String, String> {
    // `20150830T123600Z`
    let time = scope.at.to_string().replace(['-', ':'], "");
    let date = time.get(..8).unwrap_or_default();
    let mut signed: BTreeMap<String, String> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), value.trim().to_owned())).collect();
    signed.insert("host".to_owned(), host.to_owned());
    signed.insert("x-amz-date".to_owned(), time.clone());
    if let Some(token) = &keys.session_token {
        signed.insert("x-amz-security-token".to_owned(), token.expose_secret().to_owned());
    }
    let names = signed.keys().map(String::as_str).collect::<Vec<_>>().join(";");
    let lines: String = signed.iter().flat_map(|(name, value)| [name, ":", value, "\n"]).collect();
    let canonical = format!("POST\n/\n\n{lines}\n{names}\n{}", sha256(body));
    let place = format!("{date}/{}/{}/aws4_request", scope.region, scope.service);
    let to_sign = format!("{ALGORITHM}\n{time}\n{place}\n{}", sha256(canonical.as_bytes()));
    let mut key = format!("AWS4{}", keys.secret_access_key.expose_secret()).into_bytes();
    for part in [date, scope.region, scope.service, "aws4_request", &to_sign] {
        key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), part.as_bytes()).as_ref().to_vec();
    }
    let signature = hex::encode(&key);
    let authorization = format!(
        "{ALGORITHM} Credential={}/{place}, SignedHeaders={names}, Signature={signature}",
        keys.access_key_id
    );
    signed.remove("host");
    signed.insert("authorization".to_owned(), authorization);
    signed
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2015-08-30T12:36:00Z, the time of the test suite of AWS.
    const AT: Timestamp = Timestamp(1_440_938_160_000);

    fn keys(session_token: Option<&str>) -> AwsKeys {
        AwsKeys {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
            session_token: session_token.map(Into::into),
        }
    }

    /// The case `post-vanilla` of the test suite of AWS.
    #[test]
    fn signature_matches_the_test_suite_of_aws() {
        let scope = Scope { region: "us-east-1", service: "service", at: AT };
        let signed = sign(&scope, &keys(None), "example.amazonaws.com", &[], b"");
        assert_eq!(
            signed["authorization"],
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders=host;x-amz-date, \
             Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
        );
    }

    /// Recorded from botocore 1.43.11, with a session token and the header of Vault's AWS login.
    #[test]
    fn signature_of_caller_identity_matches_botocore() {
        let scope = Scope { region: "us-east-1", service: "sts", at: AT };
        let headers = [
            ("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
            ("x-vault-aws-iam-server-id", "vault.example"),
        ];
        let body = b"Action=GetCallerIdentity&Version=2011-06-15";
        let signed = sign(&scope, &keys(Some("SESSIONTOKEN")), "sts.amazonaws.com", &headers, body);
        assert_eq!(
            signed["authorization"],
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/sts/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-vault-aws-iam-server-id, \
             Signature=08b4167a2fddccfb64f8451ecf49f112c40462b5b239d6f982f9a98da20f11d0"
        );
        assert_eq!(signed["x-amz-date"], "20150830T123600Z");
        assert!(!signed.contains_key("host"));
    }
}
