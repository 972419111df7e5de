//! Checks AWS Signature Version 4, as AWS does for a POST to `/`.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

/// A signed request. Names of headers are in lower case.
pub(crate) struct Signed<'a> {
    pub(crate) headers: &'a BTreeMap<String, String>,
    pub(crate) host: &'a str,
    pub(crate) body: &'a [u8],
}

impl Signed<'_> {
    /// The access key id and the names of the signed headers, if the signature is the one of `secret_of` this key.
    pub(crate) fn verify(&self, secret_of: impl Fn(&str) -> Option<String>) -> Option<(String, Vec<String>)> {
        let authorization = self.headers.get("authorization")?.strip_prefix("AWS4-HMAC-SHA256 ")?;
        let part = |name: &str| {
            let mut parts = authorization.split(", ");
            parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
        };
        let (credential, names, given) = (part("Credential")?, part("SignedHeaders")?, part("Signature")?);
        let (key_id, scope) = credential.split_once('/')?;
        let names: Vec<String> = names.split(';').map(str::to_owned).collect();
        let signature = self.signature(&secret_of(key_id)?, scope, &names)?;
        (signature == given).then(|| (key_id.to_owned(), names))
    }

    fn signature(&self, secret: &str, scope: &str, names: &[String]) -> Option<String> {
        let line = |name: &String| {
            let value = if name == "host" { self.host } else { self.headers.get(name)? };
            Some(format!("{name}:{value}\n"))
        };
        let lines: String = names.iter().map(line).collect::<Option<_>>()?;
        let body = hex::encode(Sha256::digest(self.body));
        let canonical = format!("POST\n/\n\n{lines}\n{}\n{body}", names.join(";"));
        let time = self.headers.get("x-amz-date")?;
        let hash = hex::encode(Sha256::digest(canonical.as_bytes()));
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{hash}");
        let start = format!("AWS4{secret}").into_bytes();
        let key = scope.split('/').fold(start, |key, part| hmac(&key, part));
        Some(hex::encode(hmac(&key, &text)))
    }
}

#[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC accepts any key length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}
