//! The keys of the one table.
//!
//! Tenant first in every partition key, so that IAM can fence a role to one (`dynamodb:LeadingKeys`). The
//! parts are ids, digests and idempotency keys, none of which holds the `#` that joins them, and numbers of
//! fixed width: no two different things have the same key, and text order is the order meant.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::{ApprovalId, Digest, IdempotencyKey, RunKey, SignalId, StepSeq, TenantId, Ticket, Version};

use super::item::Item;

/// The partition key.
pub(super) const PK: &str = "pk";
/// The sort key.
pub(super) const SK: &str = "sk";

/// What the sort keys of a run's events begin with.
const EVENT: &str = "event#";
/// What the sort keys of a run's ended steps begin with.
pub(super) const STEP: &str = "step#";

/// Names one item.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) pk: String,
    pub(super) sk: String,
}

impl Key {
    fn of_run(run: &RunKey, sk: impl Into<String>) -> Self {
        Self { pk: format!("{}#run#{}", run.tenant, run.run), sk: sk.into() }
    }

    /// A run's hot record.
    pub(super) fn run(run: &RunKey) -> Self {
        Self::of_run(run, "run")
    }

    /// An event that ends no step.
    pub(super) fn event(run: &RunKey, n: u32) -> Self {
        Self::of_run(run, format!("{EVENT}{n:010}"))
    }

    /// A step that ended, or its undoing, and the event that says so.
    pub(super) fn step(run: &RunKey, seq: StepSeq, undo: bool) -> Self {
        Self::of_run(run, format!("{STEP}{:05}#{}", seq.0, u8::from(undo)))
    }

    /// A delivery to a run.
    pub(super) fn signal(run: &RunKey, id: &SignalId) -> Self {
        Self::of_run(run, format!("signal#{id}"))
    }

    /// The `number`th job of the commit that made `version` of a run.
    pub(super) fn outbox(run: &RunKey, version: Version, number: usize) -> Self {
        Self::of_run(run, format!("outbox#{:020}#{number:03}", version.0))
    }

    /// Where a run stands in the log of runs.
    pub(super) fn log_entry(run: &RunKey) -> Self {
        Self::of_run(run, "log")
    }

    /// The right edge of a tenant's log of runs.
    pub(super) fn log_head(tenant: &TenantId) -> Self {
        Self { pk: format!("{tenant}#log"), sk: "edge".to_owned() }
    }

    /// A plan, by its hash.
    pub(super) fn plan(tenant: &TenantId, hash: &Digest) -> Self {
        Self { pk: format!("{tenant}#plan#{hash}"), sk: "plan".to_owned() }
    }

    /// A policy, by its hash.
    pub(super) fn policy(tenant: &TenantId, hash: &Digest) -> Self {
        Self { pk: format!("{tenant}#policy#{hash}"), sk: "policy".to_owned() }
    }

    /// A receipt. Uniqueness is the primary key.
    pub(super) fn receipt(tenant: &TenantId, key: &IdempotencyKey) -> Self {
        Self { pk: format!("{tenant}#receipt#{key}"), sk: "receipt".to_owned() }
    }

    /// A request for approval.
    pub(super) fn approval(tenant: &TenantId, id: &ApprovalId) -> Self {
        Self { pk: format!("{tenant}#approval#{id}"), sk: "approval".to_owned() }
    }

    /// What people were shown of a request.
    pub(super) fn card(tenant: &TenantId, id: &ApprovalId) -> Self {
        Self { pk: format!("{tenant}#approval#{id}"), sk: "card".to_owned() }
    }

    /// What a run left under a key before another run's receipt took its place.
    pub(super) fn displaced(run: &RunKey, key: &IdempotencyKey) -> Self {
        Self::of_run(run, format!("displaced#{key}"))
    }

    /// What came in and may start a run.
    pub(super) fn entry(run: &RunKey) -> Self {
        Self { pk: format!("{}#entry#{}", run.tenant, run.run), sk: "entry".to_owned() }
    }

    /// What proved where something came from.
    pub(super) fn proof(tenant: &TenantId, proof: &Digest) -> Self {
        Self { pk: format!("{tenant}#proof#{proof}"), sk: "proof".to_owned() }
    }

    /// What an entry told.
    pub(super) fn dedupe_key(tenant: &TenantId, dedupe_key: &Digest) -> Self {
        Self { pk: format!("{tenant}#dedupe_key#{dedupe_key}"), sk: "dedupe_key".to_owned() }
    }

    /// Which run has a ticket.
    pub(super) fn ticket(tenant: &TenantId, ticket: &Ticket) -> Self {
        Self { pk: format!("{tenant}#ticket#{ticket}"), sk: "ticket".to_owned() }
    }

    /// A workflow in use.
    pub(super) fn workflow(tenant: &TenantId, name: &str) -> Self {
        Self { pk: format!("{tenant}#workflows"), sk: format!("workflow#{name}") }
    }

    /// A version of a workflow that was put to use.
    pub(super) fn version(tenant: &TenantId, name: &str, version: u32) -> Self {
        Self { pk: format!("{tenant}#workflows"), sk: format!("version#{name}#{version:010}") }
    }

    /// What is settled for all tenants. No tenant's id is empty, so it is nobody's.
    pub(super) fn fleet() -> Self {
        Self { pk: "#fleet".to_owned(), sk: "fleet".to_owned() }
    }

    /// A worker's place on the roll. It is nobody's either.
    pub(super) fn worker(name: &str) -> Self {
        Self { pk: "#roll".to_owned(), sk: format!("worker#{name}") }
    }

    /// A key that somebody proves themselves with.
    pub(super) fn api_key(tenant: &TenantId, id: &str) -> Self {
        Self { pk: format!("{tenant}#keys"), sk: format!("key#{id}") }
    }

    /// What a tenant has settled.
    pub(super) fn tenant(tenant: &TenantId) -> Self {
        Self { pk: format!("{tenant}#tenant"), sk: "tenant".to_owned() }
    }

    /// The key of an item that was read; `None` if it has none.
    pub(super) fn of(item: &Item) -> Option<Self> {
        let text = |name| item.get(name)?.as_s().ok().cloned();
        Some(Self { pk: text(PK)?, sk: text(SK)? })
    }

    /// Whose item it is.
    pub(super) fn tenant_id(&self) -> Option<TenantId> {
        let (tenant, _) = self.pk.split_once('#')?;
        tenant.parse().ok()
    }

    /// The run that the item belongs to, if it belongs to one.
    pub(super) fn run_key(&self) -> Option<RunKey> {
        let (tenant, rest) = self.pk.split_once('#')?;
        let run = rest.strip_prefix("run#")?;
        Some(RunKey { tenant: tenant.parse().ok()?, run: run.parse().ok()? })
    }

    /// What it weighs.
    pub(super) fn bytes(&self) -> usize {
        PK.len() + self.pk.len() + SK.len() + self.sk.len()
    }

    /// The key as attributes.
    pub(super) fn item(&self) -> Item {
        let text = |text: &String| AttributeValue::S(text.clone());
        HashMap::from([(PK.to_owned(), text(&self.pk)), (SK.to_owned(), text(&self.sk))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(tenant: &str, run: &str) -> RunKey {
        RunKey { tenant: tenant.parse().unwrap(), run: run.parse().unwrap() }
    }

    #[test]
    fn every_partition_key_begins_with_its_tenant() {
        let (of, tenant) = (run("acme", "run-1"), "acme".parse().unwrap());
        let receipt = IdempotencyKey::new("sn:incident:update:acme/9d38").unwrap();
        for key in [
            Key::run(&of),
            Key::log_head(&tenant),
            Key::plan(&tenant, &Digest::ZERO),
            Key::policy(&tenant, &Digest::ZERO),
            Key::receipt(&tenant, &receipt),
            Key::card(&tenant, &ApprovalId::derive(&of, 0)),
            Key::tenant(&tenant),
            Key::api_key(&tenant, "00ff"),
            Key::ticket(&tenant, &Ticket::derive(&tenant, &"triage".parse().unwrap(), "INC1")),
        ] {
            assert!(key.pk.starts_with("acme#"), "{key:?}");
        }
    }

    #[test]
    fn the_run_of_an_item_is_read_from_its_key_and_of_other_items_there_is_none() {
        let of = run("acme", "run-1");
        assert_eq!(Key::event(&of, 7).run_key(), Some(of.clone()));
        assert_eq!(Key::tenant(&of.tenant).run_key(), None);
    }

    #[test]
    fn text_order_is_the_order_meant() {
        let of = run("acme", "run-1");
        assert!(Key::event(&of, 9).sk < Key::event(&of, 10).sk);
        assert!(Key::step(&of, StepSeq(9), true).sk < Key::step(&of, StepSeq(10), false).sk);
        let version = |n| Key::version(&of.tenant, "triage", n).sk;
        assert!(version(9) < version(10));
        assert!(Key::outbox(&of, Version(9), 1).sk < Key::outbox(&of, Version(10), 0).sk);
    }
}
