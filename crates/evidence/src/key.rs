//! Ed25519 keys in PEM files (RFC 8410).
//!
//! A private key is never printed: `Debug` shows its id, its text is a secret that is wiped on drop, and so is every
//! buffer here that contains it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use domain::Digest;
use ed25519_dalek::{Signature, Signer as _, VerifyingKey};
use secrecy::SecretString;
use secrecy::zeroize::Zeroize as _;

/// The constant DER prefix of a private key (RFC 8410).
const PRIVATE_PREFIX: [u8; 16] = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";

/// The constant DER prefix of a public key.
const PUBLIC_PREFIX: [u8; 12] = *b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";

pub struct SigningKey(ed25519_dalek::SigningKey);

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

/// Why a text is not a key. The message never contains the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// The BEGIN or END line is missing or has another label.
    #[error("not a PEM file with a {expected}")]
    Armour { expected: &'static str },
    #[error("the {expected} in this file is not an Ed25519 key")]
    Content { expected: &'static str },
    #[error("replacement {number} in this file is not signed by the key before it")]
    Replacement { number: usize },
}

impl SigningKey {
    /// The key for `seed`. The seed must come from a cryptographic random generator.
    pub fn from_seed(mut seed: [u8; 32]) -> Self {
        let key = ed25519_dalek::SigningKey::from_bytes(&seed);
        seed.zeroize();
        Self(key)
    }

    /// Encodes the key as PEM.
    pub fn to_text(&self) -> SecretString {
        let mut bytes = [0_u8; PRIVATE_PREFIX.len() + 32];
        bytes[..PRIVATE_PREFIX.len()].copy_from_slice(&PRIVATE_PREFIX);
        bytes[PRIVATE_PREFIX.len()..].copy_from_slice(self.0.as_bytes());
        let mut body = BASE64.encode(bytes);
        bytes.zeroize();
        let text = encode_pem("PRIVATE KEY", &body);
        body.zeroize();
        text.into()
    }

    /// Parses a PEM file.
    pub fn from_text(text: &str) -> Result<Self, InvalidKey> {
        decode_pem("PRIVATE KEY", PRIVATE_PREFIX, text).map(Self::from_seed)
    }

    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

impl PublicKey {
    /// Encodes the key as PEM.
    pub fn to_text(&self) -> String {
        encode_pem("PUBLIC KEY", &BASE64.encode([&PUBLIC_PREFIX[..], self.0.as_bytes()].concat()))
    }

    /// Parses a PEM file.
    pub fn from_text(text: &str) -> Result<Self, InvalidKey> {
        let bytes = decode_pem("PUBLIC KEY", PUBLIC_PREFIX, text)?;
        Self::from_bytes(&bytes).ok_or(InvalidKey::Content { expected: "PUBLIC KEY" })
    }

    pub(crate) fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        // With a weak key, one signature is valid for more than one message.
        VerifyingKey::from_bytes(bytes).ok().filter(|key| !key.is_weak()).map(Self)
    }

    /// A digest that identifies the key.
    pub fn id(&self) -> Digest {
        Digest::of_parts("countersign/key-id/v1", &[self.0.as_bytes()])
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        self.0.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }
}

pub(crate) fn encode_pem(label: &str, body: &str) -> String {
    // Full capacity up front: growing would leave a copy of the secret in freed memory.
    let mut text = String::with_capacity(body.len() + 2 * label.len() + 40);
    for part in ["-----BEGIN ", label, "-----\n", body, "\n-----END ", label, "-----\n"] {
        text.push_str(part);
    }
    text
}

/// The 32 bytes after `prefix` in the PEM body of `text`.
fn decode_pem<const N: usize>(
    label: &'static str,
    prefix: [u8; N],
    text: &str,
) -> Result<[u8; 32], InvalidKey> {
    let body = pem_body(label, text).ok_or(InvalidKey::Armour { expected: label })?;
    decode_key(prefix, body).ok_or(InvalidKey::Content { expected: label })
}

/// The base64 text of a PEM block with this label, if `text` is one.
pub(crate) fn pem_body<'t>(label: &str, text: &'t str) -> Option<&'t str> {
    let mut lines = text.trim().lines().map(str::trim_end);
    let first = lines.next()?.strip_prefix("-----BEGIN ")?.strip_suffix("-----")?;
    let body = lines.next()?;
    let last = lines.next()?.strip_prefix("-----END ")?.strip_suffix("-----")?;
    ((first, last, lines.next()) == (label, label, None)).then_some(body)
}

fn decode_key<const N: usize>(prefix: [u8; N], body: &str) -> Option<[u8; 32]> {
    let mut bytes = BASE64.decode(body).ok()?;
    let key = bytes.strip_prefix(&prefix[..]).and_then(|key| <[u8; 32]>::try_from(key).ok());
    bytes.zeroize();
    key
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public().id().short())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.id().short())
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    fn key() -> SigningKey {
        SigningKey::from_seed([7; 32])
    }

    #[test]
    fn key_survives_a_round_trip() {
        let private = key().to_text();
        assert_eq!(SigningKey::from_text(private.expose_secret()).unwrap().public(), key().public());
        assert_eq!(PublicKey::from_text(&key().public().to_text()), Ok(key().public()));
    }

    #[test]
    fn key_of_another_tool_is_read() {
        // The example of RFC 8410, section 10.
        let private = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";
        let public = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----";
        assert_eq!(SigningKey::from_text(private).unwrap().public(), PublicKey::from_text(public).unwrap());
    }

    #[test]
    fn private_key_is_not_printed() {
        let seed = BASE64.encode([7_u8; 32]);
        let printed = format!("{:?} {:?}", key(), key().to_text());
        assert!(!printed.contains(&seed[..8]) && !printed.contains("7, 7"), "{printed}");
        let text = key().to_text();
        let broken = text.expose_secret().replace("PRIVATE", "PRIMATE");
        assert!(!SigningKey::from_text(&broken).unwrap_err().to_string().contains(&seed[..8]));
    }

    #[test]
    fn invalid_keys_are_refused() {
        let public = key().public().to_text();
        let private = key().to_text();
        for bad in ["", "-----BEGIN PUBLIC KEY-----", private.expose_secret(), &public.repeat(2)] {
            assert_eq!(PublicKey::from_text(bad), Err(InvalidKey::Armour { expected: "PUBLIC KEY" }));
        }
        let weak = encode_pem("PUBLIC KEY", &BASE64.encode([&PUBLIC_PREFIX[..], &[0; 32]].concat()));
        for bad in [weak.as_str(), &public.replace("MCow", "MCox"), &public.replace('=', "")] {
            assert_eq!(PublicKey::from_text(bad), Err(InvalidKey::Content { expected: "PUBLIC KEY" }));
        }
    }
}
