//! The public keys of one signer.
//!
//! A key file starts with a public key. To replace the key, the signer signs the new key with the old one and appends
//! this replacement to the file. A reader who trusts any key in the file can verify the bundles of all later keys, and
//! the bundles of replaced keys stay verifiable.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use domain::Digest;

use crate::envelope;
use crate::key::{InvalidKey, PublicKey, SigningKey, encode_pem, pem_body};

/// The label of a replacement in a key file.
const REPLACEMENT: &str = "COUNTERSIGN KEY REPLACEMENT";

/// The start of the message that the old key signs. No envelope and no checkpoint of a log starts like this.
const CONTEXT: &[u8] = b"countersign-key-replacement-v1\0";

/// The maximum number of replacements in a file.
const REPLACEMENTS_MAX: usize = 99;

/// The keys of a signer, oldest first. Each key after the first one is signed by the key before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedKeys {
    first: PublicKey,
    replacements: Vec<Replacement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Replacement {
    key: PublicKey,
    /// The signature of the key before it.
    signature: [u8; 64],
}

/// Why a key cannot be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotReplaced {
    #[error("the private key belongs to {given}, but the current public key is {current}")]
    NotCurrent { given: Digest, current: Digest },
    #[error("the file has key {0} already; use a new key")]
    Known(Digest),
    #[error("the file has {REPLACEMENTS_MAX} replacements, which is the maximum; start a new file")]
    TooMany,
}

impl From<PublicKey> for TrustedKeys {
    fn from(first: PublicKey) -> Self {
        Self { first, replacements: Vec::new() }
    }
}

impl TrustedKeys {
    /// Parses a key file: a public key in PEM, and its replacements.
    pub fn from_text(text: &str) -> Result<Self, InvalidKey> {
        let mut blocks = blocks(text).into_iter();
        let mut keys = Self::from(PublicKey::from_text(&blocks.next().unwrap_or_default())?);
        for (number, block) in (1..).zip(blocks) {
            let invalid = InvalidKey::Replacement { number };
            let replacement = Replacement::from_text(&block).ok_or(invalid)?;
            let message = message(keys.current(), &replacement.key);
            if keys.contains(&replacement.key) || !keys.current().verifies(&message, &replacement.signature) {
                return Err(invalid);
            }
            keys.replacements.push(replacement);
        }
        Ok(keys)
    }

    /// The text of the key file.
    pub fn to_text(&self) -> String {
        let replacements = self.replacements.iter().map(Replacement::to_text);
        [self.first.to_text()].into_iter().chain(replacements).collect()
    }

    /// All keys, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &PublicKey> {
        [&self.first].into_iter().chain(self.replacements.iter().map(|replacement| &replacement.key))
    }

    /// The newest key.
    pub fn current(&self) -> &PublicKey {
        self.replacements.last().map_or(&self.first, |replacement| &replacement.key)
    }

    fn contains(&self, key: &PublicKey) -> bool {
        self.iter().any(|known| known == key)
    }

    /// The key to verify a bundle with: the one that the bundle names, or the newest one if the bundle names none of these.
    pub fn signer_of(&self, bundle: &[u8]) -> &PublicKey {
        let named = envelope::signer_id(bundle);
        self.iter().find(|key| Some(key.id()) == named).unwrap_or_else(|| self.current())
    }

    /// Replaces the current key, which signs the new one.
    pub fn replace(&self, current: &SigningKey, new: PublicKey) -> Result<Self, NotReplaced> {
        if current.public() != *self.current() {
            let (given, current) = (current.public().id(), self.current().id());
            return Err(NotReplaced::NotCurrent { given, current });
        }
        if self.contains(&new) {
            return Err(NotReplaced::Known(new.id()));
        }
        if self.replacements.len() >= REPLACEMENTS_MAX {
            return Err(NotReplaced::TooMany);
        }
        let signature = current.sign(&message(self.current(), &new));
        let mut keys = self.clone();
        keys.replacements.push(Replacement { key: new, signature });
        Ok(keys)
    }

    /// These keys, and those of `other` that replaced the newest of these. `other` need not be trusted: each of its
    /// replacements is signed by the key before it.
    #[must_use]
    pub fn extended_by(&self, other: &Self) -> Self {
        let mut keys = self.clone();
        let later = other.iter().position(|key| key == self.current());
        let later = later.and_then(|position| other.replacements.get(position..)).unwrap_or_default();
        let new = later.iter().filter(|replacement| !self.contains(&replacement.key));
        keys.replacements.extend(new.cloned());
        keys
    }
}

impl Replacement {
    fn from_text(block: &str) -> Option<Self> {
        let bytes = BASE64.decode(pem_body(REPLACEMENT, block)?).ok()?;
        let (key, signature) = bytes.split_at_checked(32)?;
        let key = PublicKey::from_bytes(key.try_into().ok()?)?;
        Some(Self { key, signature: signature.try_into().ok()? })
    }

    fn to_text(&self) -> String {
        encode_pem(REPLACEMENT, &BASE64.encode([&self.key.as_bytes()[..], &self.signature].concat()))
    }
}

fn message(old: &PublicKey, new: &PublicKey) -> Vec<u8> {
    [CONTEXT, old.as_bytes(), new.as_bytes()].concat()
}

/// The PEM blocks of a text. Text after the last block is a block of its own, so that it is refused.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in text.trim().lines() {
        let ends = line.starts_with("-----END ");
        if let Some(block) = blocks.last_mut() {
            block.push_str(line);
            block.push('\n');
        }
        if ends {
            blocks.push(String::new());
        }
    }
    blocks.retain(|block| !block.trim().is_empty());
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> SigningKey {
        SigningKey::from_seed([number; 32])
    }

    /// The file of a signer with these keys.
    fn keys(numbers: &[u8]) -> TrustedKeys {
        let mut keys = TrustedKeys::from(key(numbers[0]).public());
        for pair in numbers.windows(2) {
            keys = keys.replace(&key(pair[0]), key(pair[1]).public()).unwrap();
        }
        keys
    }

    fn numbers(keys: &TrustedKeys) -> Vec<u8> {
        keys.iter().map(|known| (1..9).find(|number| key(*number).public() == *known).unwrap()).collect()
    }

    #[test]
    fn file_has_every_key_in_order() {
        let all = keys(&[1, 2, 3]);
        assert_eq!(TrustedKeys::from_text(&all.to_text()), Ok(all.clone()));
        assert_eq!((numbers(&all), *all.current() == key(3).public()), (vec![1, 2, 3], true));
        assert_eq!(keys(&[1]).to_text(), key(1).public().to_text(), "a file with one key is plain PEM");
    }

    #[test]
    fn bundle_is_verified_with_the_key_that_it_names() {
        let all = keys(&[1, 2, 3]);
        for number in [1, 2, 3] {
            assert_eq!(
                *all.signer_of(&envelope::sign(envelope::BUNDLE, b"payload", &key(number))),
                key(number).public()
            );
        }
        for other in [&envelope::sign(envelope::BUNDLE, b"payload", &key(4))[..], b"no bundle"] {
            assert_eq!(*all.signer_of(other), key(3).public());
        }
    }

    #[test]
    fn replacement_needs_the_signature_of_the_key_before_it() {
        let all = keys(&[1, 2, 3]).to_text();
        for (number, _) in all.match_indices(|letter: char| letter.is_ascii_alphanumeric()) {
            let mut altered = all.clone();
            let other = if altered.as_bytes()[number] == b'A' { "B" } else { "A" };
            altered.replace_range(number..=number, other);
            assert!(TrustedKeys::from_text(&altered).is_err(), "{altered}");
        }
        let blocks = blocks(&all);
        let file = |order: &[usize]| order.iter().map(|number| blocks[*number].as_str()).collect::<String>();
        for order in [&[0, 2][..], &[0, 2, 1], &[0, 1, 1], &[0, 1, 2, 2], &[1, 2], &[0, 0], &[]] {
            assert!(TrustedKeys::from_text(&file(order)).is_err(), "{order:?}");
        }
        assert!(TrustedKeys::from_text(&format!("{all}more")).is_err());
    }

    #[test]
    fn only_the_current_key_is_replaced_by_a_new_one() {
        let all = keys(&[1, 2]);
        let (given, current) = (key(1).public().id(), key(2).public().id());
        assert_eq!(all.replace(&key(1), key(3).public()), Err(NotReplaced::NotCurrent { given, current }));
        assert_eq!(all.replace(&key(2), key(1).public()), Err(NotReplaced::Known(given)));
        assert_eq!(keys(&[1, 2]).replace(&key(2), key(3).public()), Ok(keys(&[1, 2, 3])));
    }

    #[test]
    fn reader_accepts_replacements_of_a_trusted_key_only() {
        let newest = keys(&[1, 2, 3]);
        assert_eq!(numbers(&keys(&[1]).extended_by(&newest)), [1, 2, 3]);
        assert_eq!(numbers(&keys(&[2]).extended_by(&newest)), [2, 3]);
        assert_eq!(numbers(&newest.extended_by(&keys(&[1, 2]))), [1, 2, 3]);
        for other in [keys(&[4, 5]), keys(&[4])] {
            assert_eq!(keys(&[1]).extended_by(&other), keys(&[1]));
        }
    }
}
