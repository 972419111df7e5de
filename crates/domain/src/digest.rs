//! SHA-256 digests over a domain tag and length-prefixed parts, so that different inputs never hash the same bytes.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest; as text, 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// Zero bytes: the hash before the first event of a chain.
    pub const ZERO: Self = Self([0; 32]);

    /// The plain SHA-256 of `bytes`, for content addresses that other tools can check.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of `parts` under `tag`.
    pub fn of_parts<P: AsRef<[u8]>>(tag: &str, parts: &[P]) -> Self {
        let mut hasher = Sha256::new();
        feed(&mut hasher, tag.as_bytes());
        for part in parts {
            feed(&mut hasher, part.as_ref());
        }
        Self(hasher.finalize().into())
    }

    /// The bytes of the digest.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first twelve hexadecimal digits. For display only.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

fn feed(hasher: &mut Sha256, part: &[u8]) {
    hasher.update((part.len() as u64).to_be_bytes());
    hasher.update(part);
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0_u8; 64];
        hex::encode_to_slice(self.0, &mut text).map_err(|_| fmt::Error)?;
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.short())
    }
}

/// The text is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 lower-case hex digits")]
pub struct InvalidDigest;

impl std::str::FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let mut bytes = [0_u8; 32];
        match hex::decode_to_slice(text, &mut bytes) {
            Ok(()) if !text.contains(|digit: char| digit.is_ascii_uppercase()) => Ok(Self(bytes)),
            Ok(()) | Err(_) => Err(InvalidDigest),
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;
    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        text.parse()
    }
}

impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_length_prefixed() {
        assert_ne!(Digest::of_parts("t", &["ab", "c"]), Digest::of_parts("t", &["a", "bc"]));
        assert_ne!(Digest::of_parts("t", &["a"]), Digest::of_parts("u", &["a"]));
    }

    #[test]
    fn digest_round_trips() {
        let digest = Digest::of_bytes(b"abc");
        assert_eq!(digest.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_eq!("BA".repeat(32).parse::<Digest>(), Err(InvalidDigest));
    }
}
