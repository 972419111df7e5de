//! The exported audit log of a tenant: the whole chain of administrative changes, and its head, in one signed file.
//!
//! [`sign_audit()`] signs a chain only if it verifies. [`verify_audit()`] needs only the file and a public key. The file
//! pins the log: a log that was rewritten later does not continue the chain in the file.

use domain::audit_chain::{self, AuditChainError, AuditHead, AuditRecord};
use domain::json;
use domain::{Digest, TenantId};
use serde::{Deserialize, Serialize};

use crate::envelope::{self, PayloadKind};
use crate::error::VerifyError;
use crate::key::{PublicKey, SigningKey};

/// The format of the document.
const FORMAT: &str = "countersign/audit-log/v1";

/// The payload type of an exported audit log.
pub const AUDIT_PAYLOAD_TYPE: &str = "application/vnd.countersign.audit-log.v1+json";

/// A hundred thousand entries of half a kilobyte: administrators make a few changes a day.
pub const AUDIT_BYTES_MAX: usize = 64 * 1024 * 1024;

const AUDIT_LOG: PayloadKind = PayloadKind { payload_type: AUDIT_PAYLOAD_TYPE, bytes_max: AUDIT_BYTES_MAX };

/// The audit log of a tenant, or of the changes for all tenants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditExport {
    format: String,
    /// The tenant; `None` for the changes for all tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    pub head: AuditHead,
    /// Every entry, oldest first.
    pub entries: Vec<AuditRecord>,
}

/// Why a log cannot be exported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditExportError {
    #[error("the audit log does not verify: {0}")]
    Chain(#[from] AuditChainError),
    #[error("the audit log contains a value that cannot be serialized: {0}")]
    Value(String),
    #[error("the file has {bytes} bytes; at most {AUDIT_BYTES_MAX} are allowed")]
    TooLarge { bytes: usize },
}

/// Why a log does not continue an exported one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotContinued {
    #[error("the file is of another log")]
    OtherLog,
    #[error("the log ends before entry {sequence}, with which the file ends")]
    Shorter { sequence: u64 },
    #[error("entry {sequence} was rewritten: the file has hash {exported}, and the log has hash {found}")]
    Rewritten { sequence: u64, exported: Digest, found: Digest },
}

impl AuditExport {
    /// The whole log of `tenant`.
    pub fn new(tenant: Option<TenantId>, entries: Vec<AuditRecord>, head: AuditHead) -> Self {
        Self { format: FORMAT.to_owned(), tenant, head, entries }
    }

    fn verify_chain(&self) -> Result<(), AuditChainError> {
        audit_chain::verify(self.tenant.as_ref(), &self.entries, &self.head)
    }

    /// Checks that this log, which is verified, continues the log in `earlier`.
    pub fn continues(&self, earlier: &Self) -> Result<(), NotContinued> {
        let AuditHead { sequence, hash: exported } = earlier.head;
        if self.tenant != earlier.tenant {
            return Err(NotContinued::OtherLog);
        }
        match self.entries.iter().find(|record| record.sequence == sequence) {
            _ if sequence == 0 => Ok(()),
            None => Err(NotContinued::Shorter { sequence }),
            Some(record) if record.hash == exported => Ok(()),
            Some(record) => Err(NotContinued::Rewritten { sequence, exported, found: record.hash }),
        }
    }
}

/// Signs a log with `key`. The same log gives the same bytes.
pub fn sign_audit(log: &AuditExport, key: &SigningKey) -> Result<Vec<u8>, AuditExportError> {
    log.verify_chain()?;
    let value = serde_json::to_value(log).map_err(|error| AuditExportError::Value(error.to_string()))?;
    json::check(&value).map_err(|error| AuditExportError::Value(error.to_string()))?;
    let bytes = envelope::sign(AUDIT_LOG, &json::canonical(&value), key);
    if bytes.len() > AUDIT_BYTES_MAX {
        return Err(AuditExportError::TooLarge { bytes: bytes.len() });
    }
    Ok(bytes)
}

/// Verifies an exported log, signed by `key`: the signature, the form of the document, and the chain up to the head.
pub fn verify_audit(bytes: &[u8], key: &PublicKey) -> Result<AuditExport, VerifyError> {
    let payload = envelope::open(AUDIT_LOG, bytes, key)?;
    let log: AuditExport =
        serde_json::from_slice(&payload).map_err(|error| VerifyError::Document { why: error.to_string() })?;
    if log.format != FORMAT {
        return Err(VerifyError::Format { found: log.format });
    }
    if json::canonical(&log) != payload {
        return Err(VerifyError::NotCanonical { what: "payload" });
    }
    log.verify_chain()?;
    Ok(log)
}

#[cfg(test)]
mod tests {
    use domain::audit::{AdminChange, AuditEntry};
    use domain::{Cause, Initiator, Timestamp};

    use super::*;

    fn key() -> SigningKey {
        SigningKey::from_seed([7; 32])
    }

    fn log(tenant: &str, times: impl IntoIterator<Item = i64>) -> AuditExport {
        let tenant: TenantId = tenant.parse().unwrap();
        let mut log = AuditExport::new(Some(tenant.clone()), Vec::new(), AuditHead::default());
        for at in times {
            let by = Initiator::new(Cause::User, "ada");
            let change = AdminChange::DispatchStarted;
            let record =
                log.head.append(&AuditEntry { tenant: Some(tenant.clone()), at: Timestamp(at), by, change });
            log.head = record.head();
            log.entries.push(record);
        }
        log
    }

    #[test]
    fn exported_log_verifies_with_its_key() {
        let log = log("acme", 1..=3);
        let bytes = sign_audit(&log, &key()).unwrap();
        assert_eq!(verify_audit(&bytes, &key().public()), Ok(log));
        let other = SigningKey::from_seed([8; 32]).public();
        assert!(matches!(verify_audit(&bytes, &other), Err(VerifyError::WrongKey { .. })));
        assert!(crate::verify(&bytes, &key().public()).is_err(), "it is not a bundle");
    }

    #[test]
    fn every_changed_byte_is_detected() {
        let bytes = sign_audit(&log("acme", 1..=2), &key()).unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(verify_audit(&changed, &key().public()).is_err(), "byte {at}");
            assert!(verify_audit(&bytes[..at], &key().public()).is_err(), "{at} bytes");
        }
    }

    /// The holder of the key can sign any document, but a broken chain does not verify.
    #[test]
    fn signed_but_broken_chain_is_refused() {
        let honest = log("acme", 1..=3);
        let mut truncated = honest.clone();
        truncated.entries.pop();
        let mut deleted = honest.clone();
        deleted.entries.remove(1);
        let renamed = AuditExport { tenant: Some("umbrella".parse().unwrap()), ..honest };
        for (log, error) in [
            (truncated, AuditChainError::Truncated { last: 2, head: 3 }),
            (deleted, AuditChainError::Missing { sequence: 2, found: 3 }),
            (renamed, AuditChainError::Altered { sequence: 1 }),
        ] {
            assert_eq!(sign_audit(&log, &key()), Err(AuditExportError::Chain(error.clone())));
            let bytes = envelope::sign(AUDIT_LOG, &json::canonical(&log), &key());
            assert_eq!(verify_audit(&bytes, &key().public()), Err(VerifyError::AuditChain(error)));
        }
    }

    #[test]
    fn rewritten_log_does_not_continue_the_export() {
        let exported = log("acme", 1..=2);
        let sequence = 2;
        assert_eq!(log("acme", 1..=3).continues(&exported), Ok(()));
        assert_eq!(log("acme", 1..=1).continues(&exported), Err(NotContinued::Shorter { sequence }));
        assert_eq!(log("umbrella", 1..=3).continues(&exported), Err(NotContinued::OtherLog));
        let rewritten = log("acme", [1, 7, 8]);
        let (exported_hash, found) = (exported.head.hash, rewritten.entries[1].hash);
        assert_eq!(
            rewritten.continues(&exported),
            Err(NotContinued::Rewritten { sequence, exported: exported_hash, found })
        );
    }
}
