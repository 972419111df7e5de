//! The primary keys of the table.
//!
//! Every partition key of tenant data starts with the tenant (`#fleet` and `#workers` belong to no tenant), so that an
//! IAM policy can limit a role to one tenant (`dynamodb:LeadingKeys`). The parts are ids, digests and idempotency keys,
//! none of which contains the separator `#`, and numbers of fixed width. Keys are therefore unique, and their text order
//! is the intended order.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::{
    ApprovalId, ConcurrencyKey, Digest, IdempotencyKey, RunId, RunKey, SignalId, StepSeq, TenantId,
    Timestamp, Version,
};

use crate::ledger::Waiter;

use super::item::Item;

/// The name of the partition key.
pub(super) const PK: &str = "pk";
/// The name of the sort key.
pub(super) const SK: &str = "sk";

/// The prefix of the sort keys of waiters. They sort after the holder of their key.
const WAITER: &str = "waiter#";
/// The prefix of the sort keys of events.
const EVENT: &str = "event#";
/// The prefix of the sort keys of finished steps.
pub(super) const STEP: &str = "step#";

/// The prefix of the partitions of the due index that hold unfinished runs, pending inbox entries, and finished runs
/// until they have evidence or the sweep moves them.
pub(super) const RUN_PARTITION: &str = "run";
/// The prefix of the partitions of the due index that hold finished runs whose evidence is late.
pub(super) const EVIDENCE_PARTITION: &str = "evidence";
/// The prefix of the partition of the due index that holds outbox messages.
pub(super) const OUTBOX_PARTITION: &str = "outbox";
/// The prefix of the partitions of the index of open approval requests that hold paused runs.
pub(super) const PAUSED_PARTITION: &str = "paused";

/// The number of partitions for unfinished runs of all tenants. One partition takes a thousand writes a second, and
/// every run writes two entries. Every sweep reads all partitions, so more of them would cost more in an idle
/// installation. Outbox messages are rare and share one partition.
pub(super) const DUE_PARTITIONS: u8 = 24;

/// The number of partitions for finished runs whose evidence is late. While no evidence can be stored, each run that ends
/// takes about four writes of such an entry: its move, a request for its evidence (which deletes an entry and writes
/// another), and its removal. One partition is then full at 250 ended runs a second.
pub(super) const EVIDENCE_PARTITIONS: u8 = 4;

/// The number of partitions for paused runs of all tenants. An outage may pause the runs of all tenants at once, and a
/// pause and its resume are one write each: one partition is full at 500 runs a second, and delays every commit that
/// pauses a run. Only the list of tenants reads these partitions, so they cost nothing in an idle installation.
pub(super) const PAUSED_PARTITIONS: u8 = 8;

/// The primary key of an item.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) pk: String,
    pub(super) sk: String,
}

impl Key {
    fn of_run(run: &RunKey, sk: impl Into<String>) -> Self {
        Self { pk: format!("{}#run#{}", run.tenant, run.run), sk: sk.into() }
    }

    /// The record of a run.
    pub(super) fn run(run: &RunKey) -> Self {
        Self::of_run(run, "run")
    }

    /// An event that does not finish a step.
    pub(super) fn event(run: &RunKey, n: u32) -> Self {
        Self::of_run(run, format!("{EVENT}{n:010}"))
    }

    /// A finished step or its rollback, and the event that records it.
    pub(super) fn step(run: &RunKey, seq: StepSeq, rollback: bool) -> Self {
        Self::of_run(run, format!("{STEP}{:05}#{}", seq.0, u8::from(rollback)))
    }

    /// A signal that was delivered to a run.
    pub(super) fn signal(run: &RunKey, id: &SignalId) -> Self {
        Self::of_run(run, format!("signal#{id}"))
    }

    /// The `number`th message of the commit that made `version` of a run.
    pub(super) fn outbox(run: &RunKey, version: Version, number: usize) -> Self {
        Self::of_run(run, format!("outbox#{:020}#{number:03}", version.0))
    }

    /// The entry of a run in the transparency log.
    pub(super) fn log_entry(run: &RunKey) -> Self {
        Self::of_run(run, "log")
    }

    /// The head of a tenant's transparency log.
    pub(super) fn log_head(tenant: &TenantId) -> Self {
        Self { pk: format!("{tenant}#log"), sk: "log_head".to_owned() }
    }

    pub(super) fn plan(tenant: &TenantId, hash: &Digest) -> Self {
        Self { pk: format!("{tenant}#plan#{hash}"), sk: "plan".to_owned() }
    }

    pub(super) fn policy(tenant: &TenantId, hash: &Digest) -> Self {
        Self { pk: format!("{tenant}#policy#{hash}"), sk: "policy".to_owned() }
    }

    /// A receipt. The primary key makes it unique.
    pub(super) fn receipt(tenant: &TenantId, key: &IdempotencyKey) -> Self {
        Self { pk: format!("{tenant}#receipt#{key}"), sk: "receipt".to_owned() }
    }

    /// An approval request.
    pub(super) fn approval(tenant: &TenantId, id: &ApprovalId) -> Self {
        Self { pk: format!("{tenant}#approval#{id}"), sk: "approval".to_owned() }
    }

    /// The card (Slack message) of an approval request.
    pub(super) fn card(tenant: &TenantId, id: &ApprovalId) -> Self {
        Self { pk: format!("{tenant}#approval#{id}"), sk: "card".to_owned() }
    }

    /// The page of the on-call about an approval request.
    pub(super) fn page(tenant: &TenantId, id: &ApprovalId) -> Self {
        Self { pk: format!("{tenant}#approval#{id}"), sk: "page".to_owned() }
    }

    /// A receipt that a receipt of another run replaced, stored with the run that wrote it.
    pub(super) fn displaced(run: &RunKey, key: &IdempotencyKey) -> Self {
        Self::of_run(run, format!("displaced#{key}"))
    }

    /// An inbox entry, under the run that it may start.
    pub(super) fn entry(run: &RunKey) -> Self {
        Self { pk: format!("{}#entry#{}", run.tenant, run.run), sk: "entry".to_owned() }
    }

    /// The authentication proof of an inbox entry.
    pub(super) fn proof(tenant: &TenantId, proof: &Digest) -> Self {
        Self { pk: format!("{tenant}#proof#{proof}"), sk: "proof".to_owned() }
    }

    /// The dedupe key of an inbox entry.
    pub(super) fn dedupe_key(tenant: &TenantId, dedupe_key: &Digest) -> Self {
        Self { pk: format!("{tenant}#dedupe_key#{dedupe_key}"), sk: "dedupe_key".to_owned() }
    }

    /// The holder of a concurrency key.
    pub(super) fn concurrency_key(tenant: &TenantId, concurrency_key: &ConcurrencyKey) -> Self {
        Self { pk: format!("{tenant}#concurrency_key#{concurrency_key}"), sk: "concurrency_key".to_owned() }
    }

    /// An item of the wait queue for a concurrency key, next to the holder.
    pub(super) fn waiter(tenant: &TenantId, concurrency_key: &ConcurrencyKey, waiter: &Waiter) -> Self {
        let sk = format!("{WAITER}{:020}#{}", waiter.since.0, waiter.run);
        Self { sk, ..Self::concurrency_key(tenant, concurrency_key) }
    }

    /// The end of the wait queue of a concurrency key.
    pub(super) fn last_waiter(tenant: &TenantId, concurrency_key: &ConcurrencyKey) -> Self {
        Self { sk: format!("{WAITER}~"), ..Self::concurrency_key(tenant, concurrency_key) }
    }

    /// The run and the time of a waiter; `None` for other items.
    pub(super) fn parse_waiter(&self) -> Option<(RunId, Timestamp)> {
        let (since, run) = self.sk.strip_prefix(WAITER)?.split_once('#')?;
        Some((run.parse().ok()?, Timestamp(since.parse().ok()?)))
    }

    /// The current version of a workflow.
    pub(super) fn workflow(tenant: &TenantId, name: &str) -> Self {
        Self { pk: format!("{tenant}#workflows"), sk: format!("workflow#{name}") }
    }

    /// An applied version of a workflow.
    pub(super) fn version(tenant: &TenantId, name: &str, version: u32) -> Self {
        Self { pk: format!("{tenant}#workflows"), sk: format!("version#{name}#{version:010}") }
    }

    /// The fleet settings. Their partition key starts with `#`: they belong to no tenant, because no tenant id is
    /// empty.
    pub(super) fn fleet() -> Self {
        Self { pk: "#fleet".to_owned(), sk: "fleet".to_owned() }
    }

    /// A worker record. It belongs to no tenant either.
    pub(super) fn worker(name: &str) -> Self {
        Self { pk: "#workers".to_owned(), sk: format!("worker#{name}") }
    }

    /// An API key.
    pub(super) fn api_key(tenant: &TenantId, id: &str) -> Self {
        Self { pk: format!("{tenant}#keys"), sk: format!("key#{id}") }
    }

    /// An item of the audit log of a tenant, or of the changes for all tenants.
    fn of_audit(tenant: Option<&TenantId>, sk: String) -> Self {
        let pk = tenant.map_or_else(|| "#fleet".to_owned(), |tenant| format!("{tenant}#audit"));
        Self { pk, sk }
    }

    /// An entry of the audit log. Newer entries come first.
    pub(super) fn audit(tenant: Option<&TenantId>, sequence: u64) -> Self {
        Self::of_audit(tenant, format!("audit#{:020}", u64::MAX - sequence))
    }

    /// The end of the audit log: it is after the oldest entry.
    pub(super) fn audit_end(tenant: Option<&TenantId>) -> Self {
        Self::of_audit(tenant, "audit#~".to_owned())
    }

    /// The head of the audit log.
    pub(super) fn audit_head(tenant: Option<&TenantId>) -> Self {
        Self::of_audit(tenant, "audit_head".to_owned())
    }

    /// A mark that the audit log has an entry with this digest.
    pub(super) fn audit_mark(tenant: Option<&TenantId>, digest: &Digest) -> Self {
        Self::of_audit(tenant, format!("audit_mark#{digest}"))
    }

    /// The settings of a tenant.
    pub(super) fn tenant(tenant: &TenantId) -> Self {
        Self { pk: format!("{tenant}#tenant"), sk: "tenant".to_owned() }
    }

    /// The key of an item; `None` if the item has none.
    pub(super) fn of(item: &Item) -> Option<Self> {
        let text = |name| item.get(name)?.as_s().ok().cloned();
        Some(Self { pk: text(PK)?, sk: text(SK)? })
    }

    /// The tenant that the item belongs to.
    pub(super) fn tenant_id(&self) -> Option<TenantId> {
        let (tenant, _) = self.pk.split_once('#')?;
        tenant.parse().ok()
    }

    /// The run that the item belongs to; `None` for items of no run.
    pub(super) fn run_key(&self) -> Option<RunKey> {
        let (tenant, rest) = self.pk.split_once('#')?;
        let run = rest.strip_prefix("run#")?;
        Some(RunKey { tenant: tenant.parse().ok()?, run: run.parse().ok()? })
    }

    /// The run that an inbox entry may start; `None` for other items.
    pub(super) fn entry_run(&self) -> Option<RunKey> {
        let (tenant, rest) = self.pk.split_once('#')?;
        let run = rest.strip_prefix("entry#")?;
        Some(RunKey { tenant: tenant.parse().ok()?, run: run.parse().ok()? })
    }

    /// The size of the key in bytes.
    pub(super) fn bytes(&self) -> usize {
        PK.len() + self.pk.len() + SK.len() + self.sk.len()
    }

    /// The key as DynamoDB attributes.
    pub(super) fn item(&self) -> Item {
        let text = |text: &String| AttributeValue::S(text.clone());
        HashMap::from([(PK.to_owned(), text(&self.pk)), (SK.to_owned(), text(&self.sk))])
    }
}

/// The partition of an index for entries of `run` with this prefix.
pub(super) fn index_partition(prefix: &str, run: &RunKey) -> String {
    let digest = Digest::of_parts("countersign/due-shard/v1", &[run.tenant.as_str(), run.run.as_str()]);
    // Two bytes: the remainders of one byte would fill some partitions more than others.
    let [first, second, ..] = *digest.as_bytes();
    format!("{prefix}#{}", u16::from_be_bytes([first, second]) % u16::from(partition_count(prefix)))
}

/// The number of partitions with this prefix.
pub(super) fn partition_count(prefix: &str) -> u8 {
    match prefix {
        RUN_PARTITION => DUE_PARTITIONS,
        EVIDENCE_PARTITION => EVIDENCE_PARTITIONS,
        PAUSED_PARTITION => PAUSED_PARTITIONS,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(tenant: &str, run: &str) -> RunKey {
        RunKey { tenant: tenant.parse().unwrap(), run: run.parse().unwrap() }
    }

    #[test]
    fn partition_keys_start_with_the_tenant() {
        let (run_key, tenant) = (run("acme", "run-1"), "acme".parse().unwrap());
        let receipt = IdempotencyKey::new("sn:incident:update:acme/9d38").unwrap();
        for key in [
            Key::run(&run_key),
            Key::log_head(&tenant),
            Key::plan(&tenant, &Digest::ZERO),
            Key::policy(&tenant, &Digest::ZERO),
            Key::receipt(&tenant, &receipt),
            Key::card(&tenant, &ApprovalId::derive(&run_key, 0)),
            Key::page(&tenant, &ApprovalId::derive(&run_key, 0)),
            Key::tenant(&tenant),
            Key::api_key(&tenant, "00ff"),
            Key::concurrency_key(
                &tenant,
                &ConcurrencyKey::derive(
                    &tenant,
                    &"triage".parse().unwrap(),
                    domain::ConcurrencyScope::Workflow,
                    "INC1",
                ),
            ),
        ] {
            assert!(key.pk.starts_with("acme#"), "{key:?}");
        }
    }

    #[test]
    fn run_key_is_parsed_from_items_of_runs_only() {
        let run_key = run("acme", "run-1");
        assert_eq!(Key::event(&run_key, 7).run_key(), Some(run_key.clone()));
        assert_eq!(Key::tenant(&run_key.tenant).run_key(), None);
        assert_eq!(
            (Key::entry(&run_key).run_key(), Key::entry(&run_key).entry_run()),
            (None, Some(run_key.clone()))
        );
        assert_eq!(Key::event(&run_key, 7).entry_run(), None);
    }

    #[test]
    fn sort_keys_are_in_numeric_order() {
        let run_key = run("acme", "run-1");
        assert!(Key::event(&run_key, 9).sk < Key::event(&run_key, 10).sk);
        assert!(Key::step(&run_key, StepSeq(9), true).sk < Key::step(&run_key, StepSeq(10), false).sk);
        let version = |n| Key::version(&run_key.tenant, "triage", n).sk;
        assert!(version(9) < version(10));
        assert!(Key::outbox(&run_key, Version(9), 1).sk < Key::outbox(&run_key, Version(10), 0).sk);
        let entry = |sequence| Key::audit(Some(&run_key.tenant), sequence).sk;
        assert!(entry(u64::MAX) < entry(10) && entry(10) < entry(9));
    }
}
