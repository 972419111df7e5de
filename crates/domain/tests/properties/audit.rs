//! Properties of audit chains: every change is detected, and the report names the first broken place.

use domain::audit::{AdminChange, AuditEntry};
use domain::audit_chain::{AuditChainError, AuditHead, AuditRecord, verify};
use domain::{Cause, Digest, Initiator, TenantId, Timestamp};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::cases;

/// A chain and its head.
#[derive(Debug, Clone)]
struct Chain {
    tenant: Option<TenantId>,
    records: Vec<AuditRecord>,
    head: AuditHead,
}

impl Chain {
    fn of(tenant: Option<TenantId>, changes: &[(i64, AdminChange)]) -> Self {
        let mut chain = Self { tenant, records: Vec::new(), head: AuditHead::default() };
        for (at, change) in changes {
            let by = Initiator::new(Cause::User, "ada").with("credential", "key:00ff");
            let (tenant, change) = (chain.tenant.clone(), change.clone());
            chain.append(&AuditEntry { tenant, at: Timestamp(*at), by, change });
        }
        chain
    }

    fn append(&mut self, entry: &AuditEntry) {
        let record = self.head.append(entry);
        self.head = record.head();
        self.records.push(record);
    }

    fn verify(&self) -> Result<(), AuditChainError> {
        verify(self.tenant.as_ref(), &self.records, &self.head)
    }
}

fn any_change() -> impl Strategy<Value = AdminChange> {
    let reason = "[a-z \"\\\\\u{e4}]{0,8}";
    prop_oneof![
        Just(AdminChange::DispatchStarted),
        (reason, any::<bool>())
            .prop_map(|(reason, backout)| AdminChange::DispatchStopped { reason, backout }),
        any::<u32>().prop_map(|limit| AdminChange::DeadLettersRedriven { limit }),
        any::<[u8; 32]>()
            .prop_map(|hash| AdminChange::PolicyApplied { before: None, after: Digest::from(hash) }),
    ]
}

fn any_chain() -> impl Strategy<Value = Chain> {
    let tenant = prop_oneof![Just(None), Just(Some(TenantId::new("acme").unwrap()))];
    let changes = prop::collection::vec((0..1_i64 << 40, any_change()), 1..8);
    (tenant, changes).prop_map(|(tenant, changes)| Chain::of(tenant, &changes))
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn honest_chain_verifies(chain in any_chain()) {
        prop_assert_eq!(chain.verify(), Ok(()));
    }

    #[test]
    fn deleted_entry_is_named(mut chain in any_chain(), at in any::<Index>()) {
        let at = at.index(chain.records.len());
        let deleted = chain.records.remove(at).sequence;
        let expected = match chain.records.get(at) {
            Some(_) => AuditChainError::Missing { sequence: deleted, found: deleted + 1 },
            None => AuditChainError::Truncated { last: deleted - 1, head: deleted },
        };
        prop_assert_eq!(chain.verify(), Err(expected));
    }

    #[test]
    fn truncated_log_is_detected(mut chain in any_chain(), kept in any::<Index>()) {
        let kept = kept.index(chain.records.len());
        chain.records.truncate(kept);
        let expected = AuditChainError::Truncated { last: kept as u64, head: chain.head.sequence };
        prop_assert_eq!(chain.verify(), Err(expected));
    }

    #[test]
    fn reordered_entries_are_named(mut chain in any_chain(), a in any::<Index>(), b in any::<Index>()) {
        let (a, b) = (a.index(chain.records.len()), b.index(chain.records.len()));
        let (first, second) = (a.min(b), a.max(b));
        chain.records.swap(first, second);
        let (sequence, found) = (first as u64 + 1, second as u64 + 1);
        let expected = if first == second { Ok(()) } else { Err(AuditChainError::Reordered { sequence, found }) };
        prop_assert_eq!(chain.verify(), expected);
    }

    #[test]
    fn duplicated_entry_is_detected(mut chain in any_chain(), at in any::<Index>()) {
        let at = at.index(chain.records.len());
        chain.records.insert(at, chain.records[at].clone());
        prop_assert_eq!(chain.verify(), Err(AuditChainError::Forked { sequence: at as u64 + 1 }));
    }

    /// The bytes of the whole log, as a file has them.
    #[test]
    fn changed_byte_is_detected(chain in any_chain(), at in any::<Index>(), byte in any::<u8>()) {
        let text = serde_json::to_vec(&chain.records).unwrap();
        let mut changed = text.clone();
        let at = at.index(changed.len());
        changed[at] = byte;
        prop_assume!(changed != text);
        // A byte that makes the file unreadable is detected as well.
        if let Ok(records) = serde_json::from_slice::<Vec<AuditRecord>>(&changed) {
            prop_assert!(Chain { records, ..chain }.verify().is_err(), "{}", String::from_utf8_lossy(&changed));
        }
    }

    #[test]
    fn altered_entry_is_named(mut chain in any_chain(), at in any::<Index>()) {
        let at = at.index(chain.records.len());
        chain.records[at].entry["by"]["id"] = "eve".into();
        prop_assert_eq!(chain.verify(), Err(AuditChainError::Altered { sequence: at as u64 + 1 }));
    }

    /// The writer of the store can compute hashes too, so a rewritten end has valid hashes and another head.
    #[test]
    fn rewritten_end_does_not_fit_the_head(mut chain in any_chain(), from in any::<Index>(), change in any_change()) {
        let head = chain.head;
        let from = from.index(chain.records.len());
        let rest: Vec<AuditEntry> =
            chain.records.drain(from..).map(|record| record.entry().unwrap()).collect();
        chain.head = chain.records.last().map(AuditRecord::head).unwrap_or_default();
        chain.append(&AuditEntry { at: Timestamp(-1), change, ..rest[0].clone() });
        rest[1..].iter().for_each(|entry| chain.append(entry));
        prop_assert_eq!(chain.verify(), Ok(()));
        let sequence = head.sequence;
        prop_assert_eq!(Chain { head, ..chain }.verify(), Err(AuditChainError::OtherHead { sequence }));
    }

    #[test]
    fn forked_log_is_detected(mut chain in any_chain(), at in any::<Index>(), change in any_change()) {
        let at = at.index(chain.records.len());
        let before = at.checked_sub(1).map(|before| chain.records[before].head()).unwrap_or_default();
        let other = AuditEntry { at: Timestamp(-1), change, ..chain.records[at].entry().unwrap() };
        chain.records.insert(at + 1, before.append(&other));
        let sequence = at as u64 + 1;
        prop_assert_eq!(chain.verify(), Err(AuditChainError::Forked { sequence }));
        // The other entry instead of the first one: the next entry does not follow it, or the head does not name it.
        chain.records.remove(at);
        let expected = match chain.records.get(at + 1) {
            Some(next) => AuditChainError::Forked { sequence: next.sequence },
            None => AuditChainError::OtherHead { sequence },
        };
        prop_assert_eq!(chain.verify(), Err(expected));
    }

    #[test]
    fn chain_of_another_tenant_is_rejected(chain in any_chain()) {
        let tenant = Some(TenantId::new("umbrella").unwrap());
        prop_assert_eq!(Chain { tenant, ..chain }.verify(), Err(AuditChainError::Altered { sequence: 1 }));
    }
}

#[test]
fn empty_log_verifies_only_with_an_empty_head() {
    let empty = Chain::of(None, &[]);
    assert_eq!(empty.verify(), Ok(()));
    let head = AuditHead { sequence: 1, hash: Digest::ZERO };
    assert_eq!(Chain { head, ..empty }.verify(), Err(AuditChainError::Truncated { last: 0, head: 1 }));
}

#[test]
fn old_head_is_detected() {
    let changes = [(1, AdminChange::DispatchStarted), (2, AdminChange::DispatchStarted)];
    let mut chain = Chain::of(None, &changes);
    chain.head = chain.records[0].head();
    assert_eq!(chain.verify(), Err(AuditChainError::OldHead { last: 2, head: 1 }));
}
