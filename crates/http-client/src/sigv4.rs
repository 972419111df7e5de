//! AWS Signature Version 4, as a header.

use std::collections::BTreeMap;

use ring::{digest, hmac};
use secrecy::{ExposeSecret as _, SecretString};
use url::{Position, Url};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// AWS credentials. `Debug` shows only the id.
#[derive(Debug, Clone)]
pub struct AwsKeys {
    pub access_key_id: String,
    pub secret_access_key: SecretString,
    pub session_token: Option<SecretString>,
}

/// What a signature is bound to.
#[derive(Debug, Clone, Copy)]
pub struct SigningScope<'a> {
    pub region: &'a str,
    pub service: &'a str,
    /// Such as `20150830T123600Z`.
    pub time: &'a str,
}

/// The request that is signed.
#[derive(Debug, Clone, Copy)]
pub struct UnsignedRequest<'a> {
    pub method: &'a str,
    pub url: &'a Url,
    /// The headers that the signature covers, with lower-case names.
    pub headers: &'a [(&'a str, &'a str)],
    pub body: &'a [u8],
}

/// The headers to send, with lower-case names: those of the request, the time, the session token and the signature over all
/// of them. The signature covers `host` too, which the HTTP client sends.
pub fn sign(
    scope: SigningScope<'_>,
    keys: &AwsKeys,
    request: UnsignedRequest<'_>,
) -> BTreeMap<String, String> {
    let SigningScope { region, service, time } = scope;
    let date = time.get(..8).unwrap_or_default();
    let content = sha256(request.body);
    let mut signed: BTreeMap<String, String> =
        request.headers.iter().map(|(name, value)| ((*name).to_owned(), value.trim().to_owned())).collect();
    signed.insert("host".to_owned(), request.url[Position::BeforeHost..Position::AfterPort].to_owned());
    signed.insert("x-amz-date".to_owned(), time.to_owned());
    if let Some(token) = &keys.session_token {
        signed.insert("x-amz-security-token".to_owned(), token.expose_secret().to_owned());
    }
    if service == "s3" {
        signed.insert("x-amz-content-sha256".to_owned(), content.clone());
    }
    let names = signed.keys().map(String::as_str).collect::<Vec<_>>().join(";");
    let lines: String = signed.iter().flat_map(|(name, value)| [name, ":", value, "\n"]).collect();
    let (path, query) = (canonical_path(request.url, service), canonical_query(request.url));
    let canonical = format!("{}\n{path}\n{query}\n{lines}\n{names}\n{content}", request.method);
    let place = format!("{date}/{region}/{service}/aws4_request");
    let to_sign = format!("{ALGORITHM}\n{time}\n{place}\n{}", sha256(canonical.as_bytes()));
    let mut key = format!("AWS4{}", keys.secret_access_key.expose_secret()).into_bytes();
    for part in [date, region, service, "aws4_request", &to_sign] {
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

/// The path, encoded once more, as every service except S3 requires.
fn canonical_path(url: &Url, service: &str) -> String {
    if service == "s3" {
        return url.path().to_owned();
    }
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    url.path().bytes().map(encode).collect()
}

/// The parameters as they are sent, sorted.
fn canonical_query(url: &Url) -> String {
    let pairs = url.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<(&str, &str)> = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
    pairs.sort_unstable();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time of the test suite of AWS.
    const TIME: &str = "20150830T123600Z";

    fn keys(session_token: Option<&str>) -> AwsKeys {
        AwsKeys {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
            session_token: session_token.map(Into::into),
        }
    }

    fn authorization(
        service: &str,
        keys: &AwsKeys,
        (method, url): (&str, &str),
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> String {
        let url: Url = url.parse().unwrap();
        let scope = SigningScope { region: "us-east-1", service, time: TIME };
        let signed = sign(scope, keys, UnsignedRequest { method, url: &url, headers, body });
        assert!(!signed.contains_key("host"));
        signed["authorization"].clone()
    }

    /// The case `post-vanilla` of the test suite of AWS.
    #[test]
    fn signature_matches_the_test_suite_of_aws() {
        let request = ("POST", "https://example.amazonaws.com/");
        assert_eq!(
            authorization("service", &keys(None), request, &[], b""),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders=host;x-amz-date, \
             Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
        );
    }

    /// Recorded from botocore 1.43.11, with a session token and the header of Vault's AWS login.
    #[test]
    fn signature_of_caller_identity_matches_botocore() {
        let headers = [
            ("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
            ("x-vault-aws-iam-server-id", "vault.example"),
        ];
        let body = b"Action=GetCallerIdentity&Version=2011-06-15";
        let request = ("POST", "https://sts.amazonaws.com/");
        assert_eq!(
            authorization("sts", &keys(Some("SESSIONTOKEN")), request, &headers, body),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/sts/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-vault-aws-iam-server-id, \
             Signature=08b4167a2fddccfb64f8451ecf49f112c40462b5b239d6f982f9a98da20f11d0"
        );
    }

    /// Recorded from botocore.
    #[test]
    fn signature_of_path_and_query_matches_botocore() {
        for (method, url, headers, body, signature) in [
            (
                "GET",
                "https://example.amazonaws.com/a%20b/c?b=2&a=1&a=0&empty=&x=%C3%BC%2F",
                &[][..],
                &b""[..],
                "cd58175d7b670f3c619f4e9cb14716c89b061762bb84751e7a90ab4e6d4d0847",
            ),
            (
                "PUT",
                "https://example.amazonaws.com:8443/v1/items?q=a+b",
                &[("content-type", "application/json")][..],
                br#"{"a":1}"#,
                "bf7e6ac44ff9f81a4fa8d748f9d70876670a5dfc4ad2828426846b7820ce3eee",
            ),
        ] {
            let header = authorization("execute-api", &keys(None), (method, url), headers, body);
            assert!(header.ends_with(signature), "{url}: {header}");
        }
    }
}
