//! The proof that a run is in the transparency log: its entry, the Merkle path to the root, and a checkpoint (a C2SP signed
//! note) with the root.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use domain::merkle::{self, Position};
use domain::{Digest, RunRecord, RunStatus, Timestamp, json};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::bundle::BundleRun;
use crate::error::VerifyError;
use crate::key::{PublicKey, SigningKey};

/// A log name is a host and a path.
pub(crate) const ORIGIN_BYTES_MAX: usize = 512;

/// The signature type Ed25519 in the key hash of a signed note.
const ED25519: u8 = 1;

/// The position of a run in a log.
#[derive(Debug, Clone, Copy)]
pub struct LogEntry<'a> {
    /// The name of the log.
    pub origin: &'a str,
    pub position: &'a Position,
}

/// The inclusion proof of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogProof {
    /// The name of the log.
    pub origin: String,
    /// The index of the run's entry, from 0.
    pub index: u64,
    /// The number of entries, including this one.
    pub size: u64,
    /// The root hash at this size.
    pub root: Digest,
    /// The sibling hashes from the entry to the root.
    pub path: Vec<Digest>,
    /// The signed note with size and root.
    pub checkpoint: String,
}

/// The content of a log entry.
#[derive(Serialize)]
struct Entry<'a> {
    tenant: &'a str,
    run: &'a str,
    events: u32,
    head: Digest,
    status: RunStatus,
    completed_at: Option<Timestamp>,
}

/// The leaf hash of a finished run.
pub fn leaf(record: &RunRecord) -> Digest {
    entry_hash(&Entry {
        tenant: record.key.tenant.as_str(),
        run: record.key.run.as_str(),
        events: record.events,
        head: record.head,
        status: record.status,
        completed_at: record.completed_at,
    })
}

fn entry_hash(entry: &Entry<'_>) -> Digest {
    merkle::leaf(&json::canonical(entry))
}

impl BundleRun {
    pub(crate) fn leaf(&self) -> Digest {
        entry_hash(&Entry {
            tenant: self.tenant.as_str(),
            run: self.run.as_str(),
            events: self.events,
            head: self.head,
            status: self.status,
            completed_at: Some(self.completed_at),
        })
    }
}

impl LogProof {
    /// The proof for `entry`, with a checkpoint signed by `key`.
    pub(crate) fn signed(entry: &LogEntry<'_>, key: &SigningKey) -> Self {
        let LogEntry { origin, position } = *entry;
        let note = note(origin, position.size, &position.root);
        let signature = [&note_key(origin, &key.public())[..], &key.sign(note.as_bytes())].concat();
        let checkpoint = format!("{note}\n{}{}\n", signature_line(origin), BASE64.encode(signature));
        Self {
            origin: origin.to_owned(),
            index: position.index,
            size: position.size,
            root: position.root,
            path: position.path.clone(),
            checkpoint,
        }
    }

    /// Checks that the checkpoint has this origin, size and root, and that `key` signed it.
    pub(crate) fn check_checkpoint(&self, key: &PublicKey) -> Result<(), VerifyError> {
        let note = note(&self.origin, self.size, &self.root);
        let signed = self.checkpoint.strip_prefix(&note).ok_or(VerifyError::Checkpoint)?;
        let line = signed.strip_prefix('\n').and_then(|line| line.strip_suffix('\n'));
        let line = line.and_then(|line| line.strip_prefix(&signature_line(&self.origin)));
        let bytes = line.and_then(|text| BASE64.decode(text).ok()).ok_or(VerifyError::Checkpoint)?;
        let signature = bytes.strip_prefix(&note_key(&self.origin, key)[..]);
        let signature: Option<[u8; 64]> = signature.and_then(|signature| signature.try_into().ok());
        let valid = signature.is_some_and(|signature| key.verifies(note.as_bytes(), &signature));
        if valid { Ok(()) } else { Err(VerifyError::Checkpoint) }
    }

    /// Checks that the entry of `run` leads to the root.
    pub(crate) fn check_inclusion(&self, run: &BundleRun) -> Result<(), VerifyError> {
        let Self { index, size, root, path, .. } = self;
        let position = Position { index: *index, size: *size, root: *root, path: path.clone() };
        if position.holds(&run.leaf()) { Ok(()) } else { Err(VerifyError::NotInLog { index: *index }) }
    }
}

/// Whether `origin` can be the name of a log. It is one word, so that it is unambiguous in a note, and so that no note
/// equals the signed bytes of an envelope, which contain spaces.
pub(crate) fn is_origin(origin: &str) -> bool {
    let fits = origin.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'+');
    fits && !origin.is_empty() && origin.len() <= ORIGIN_BYTES_MAX
}

fn note(origin: &str, size: u64, root: &Digest) -> String {
    format!("{origin}\n{size}\n{}\n", BASE64.encode(root.as_bytes()))
}

fn signature_line(origin: &str) -> String {
    format!("\u{2014} {origin} ")
}

/// The four bytes that identify the key in a note signature.
fn note_key(origin: &str, key: &PublicKey) -> [u8; 4] {
    let mut hasher = Sha256::new();
    hasher.update(origin.as_bytes());
    hasher.update([b'\n', ED25519]);
    hasher.update(key.as_bytes());
    let [a, b, c, d, ..] = <[u8; 32]>::from(hasher.finalize());
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use domain::merkle::Frontier;

    use super::*;

    fn signed_proof() -> (LogProof, PublicKey) {
        let key = SigningKey::from_seed([7; 32]);
        let position = Frontier::default().push(merkle::leaf(b"entry"));
        (LogProof::signed(&LogEntry { origin: "log.example/acme", position: &position }, &key), key.public())
    }

    #[test]
    fn checkpoint_is_a_signed_note() {
        let (log, key) = signed_proof();
        let lines: Vec<_> = log.checkpoint.split('\n').collect();
        assert_eq!(lines[..2], ["log.example/acme", "1"]);
        assert!(lines[3].is_empty() && lines[4].starts_with("\u{2014} log.example/acme "), "{lines:?}");
        assert_eq!(log.check_checkpoint(&key), Ok(()));
    }

    #[test]
    fn checkpoint_of_other_log_size_or_key_is_refused() {
        let (log, key) = signed_proof();
        let other = SigningKey::from_seed([8; 32]).public();
        assert_eq!(log.check_checkpoint(&other), Err(VerifyError::Checkpoint));
        for changed in [
            LogProof { origin: "log.example/other".to_owned(), ..log.clone() },
            LogProof { size: 2, ..log.clone() },
            LogProof { root: Digest::ZERO, ..log.clone() },
            LogProof { checkpoint: log.checkpoint.trim_end().to_owned(), ..log.clone() },
            LogProof { checkpoint: format!("{}\n", log.checkpoint), ..log.clone() },
        ] {
            assert_eq!(changed.check_checkpoint(&key), Err(VerifyError::Checkpoint), "{changed:?}");
        }
    }

    #[test]
    fn log_name_is_one_word() {
        assert!(is_origin("log.example/acme"));
        for bad in ["", "a b", "a+b", "a\nb", "ä", &"x".repeat(ORIGIN_BYTES_MAX + 1)] {
            assert!(!is_origin(bad), "{bad:?}");
        }
    }
}
