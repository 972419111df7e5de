//! Tenant settings, policies, approval requests, cards and pages.

use std::collections::HashMap;

use domain::dispatch::RECORD_FORMAT;
use domain::{Approval, ApprovalId, Card, Digest, Fleet, Page, RunKey, RunRecord, Tenant, TenantId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::blobs::Blobs;
use crate::cursor::PageQuery;
use crate::error::StoreError;
use crate::governance::{ApprovalPage, Governance, PolicyFiles};
use crate::ledger::Write;
use crate::queue::Queue;

use super::item::{BODY, FORMAT, Item, number, text};
use super::key::Key;
use super::{AwsStore, Condition, Consistency, build_item, versioned_item};

impl<Q, B> Governance for AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    async fn tenant(&self, tenant: &TenantId) -> Result<Option<Tenant>, StoreError> {
        self.get_body(&Key::tenant(tenant), "read the settings of a tenant").await
    }

    async fn put_tenant(&self, tenant: Tenant) -> Result<Write, StoreError> {
        let doing = "write the settings of a tenant";
        let (item, condition) = self.tenant_item(&tenant, doing).await?;
        self.put(item, condition, doing).await
    }

    async fn fleet(&self) -> Result<Option<Fleet>, StoreError> {
        self.get_body(&Key::fleet(), "read the fleet settings").await
    }

    async fn settings_eventual(
        &self,
        tenant: &TenantId,
    ) -> Result<(Option<Fleet>, Option<Tenant>), StoreError> {
        let doing = "read the dispatch switches";
        let (fleet_key, tenant_key) = (Key::fleet(), Key::tenant(tenant));
        let (mut fleet_settings, mut tenant_settings) = (None, None);
        let mut found = Vec::with_capacity(2);
        self.get_batch(&[fleet_key.clone(), tenant_key], Consistency::Eventual, &mut found, doing).await?;
        for item in found {
            if Key::of(&item).as_ref() == Some(&fleet_key) {
                fleet_settings = Some(self.decode_body(&item, doing).await?);
            } else {
                tenant_settings = Some(self.decode_body(&item, doing).await?);
            }
        }
        Ok((fleet_settings, tenant_settings))
    }

    async fn tenant_eventual(&self, tenant: &TenantId) -> Result<Option<Tenant>, StoreError> {
        let doing = "read the dispatch switches";
        let mut found = Vec::with_capacity(1);
        self.get_batch(&[Key::tenant(tenant)], Consistency::Eventual, &mut found, doing).await?;
        match found.first() {
            Some(item) => self.decode_body(item, doing).await.map(Some),
            None => Ok(None),
        }
    }

    async fn put_fleet(&self, fleet: Fleet) -> Result<Write, StoreError> {
        let doing = "write the fleet settings";
        let (item, condition) = Self::fleet_item(&fleet, doing)?;
        self.put(item, condition, doing).await
    }

    async fn put_policy(
        &self,
        tenant: &TenantId,
        hash: &Digest,
        files: PolicyFiles,
    ) -> Result<(), StoreError> {
        let doing = "store a policy";
        let item =
            build_item(&Key::policy(tenant, hash), [(BODY, self.encode_body(tenant, &files, doing).await?)]);
        self.put(item, Condition::is_new(), doing).await.map(drop)
    }

    async fn policy(&self, tenant: &TenantId, hash: &Digest) -> Result<Option<PolicyFiles>, StoreError> {
        self.get_body(&Key::policy(tenant, hash), "read a policy").await
    }

    async fn approval(&self, tenant: &TenantId, id: &ApprovalId) -> Result<Option<Approval>, StoreError> {
        self.get_body(&Key::approval(tenant, id), "read an approval request").await
    }

    async fn approvals(&self, run: &RunKey) -> Result<Vec<Approval>, StoreError> {
        let doing = "list the approval requests of a run";
        let record: Option<RunRecord> = self.get_body(&Key::run(run), doing).await?;
        // The id of an approval request is derived from the run and a number, so no index is needed.
        let count = record.map_or(0, |record| record.approvals);
        let id = |number| ApprovalId::derive(run, number);
        let keys: Vec<Key> = (0..count).map(|number| Key::approval(&run.tenant, &id(number))).collect();
        let items = self.get_all(&keys, doing).await?;
        let mut items: HashMap<_, _> =
            items.into_iter().filter_map(|item| Some((Key::of(&item)?, item))).collect();
        let mut approvals = Vec::with_capacity(keys.len());
        for item in keys.iter().filter_map(|key| items.remove(key)) {
            approvals.push(self.decode_body(&item, doing).await?);
        }
        Ok(approvals)
    }

    async fn open_approvals(&self, tenant: &TenantId, query: PageQuery) -> Result<ApprovalPage, StoreError> {
        self.list_open(tenant, query).await
    }

    async fn card(&self, tenant: &TenantId, id: &ApprovalId) -> Result<Option<Card>, StoreError> {
        self.get_body(&Key::card(tenant, id), "read a card").await
    }

    async fn put_card(
        &self,
        tenant: &TenantId,
        id: &ApprovalId,
        card: Card,
        replaces: Option<Card>,
    ) -> Result<Write, StoreError> {
        self.replace_body(tenant, &Key::card(tenant, id), (card, replaces), "write a card").await
    }

    async fn page(&self, tenant: &TenantId, id: &ApprovalId) -> Result<Option<Page>, StoreError> {
        self.get_body(&Key::page(tenant, id), "read a page").await
    }

    async fn put_page(
        &self,
        tenant: &TenantId,
        id: &ApprovalId,
        page: Page,
        replaces: Option<Page>,
    ) -> Result<Write, StoreError> {
        self.replace_body(tenant, &Key::page(tenant, id), (page, replaces), "write a page").await
    }
}

impl<Q, B> AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    /// Writes `body` if the stored one is equal to `replaces`.
    async fn replace_body<T: Serialize + DeserializeOwned + PartialEq + Send + Sync>(
        &self,
        tenant: &TenantId,
        key: &Key,
        (body, replaces): (T, Option<T>),
        doing: &'static str,
    ) -> Result<Write, StoreError> {
        let body = self.encode_body(tenant, &body, doing).await?;
        let item = build_item(key, [(BODY, body), (FORMAT, number(RECORD_FORMAT))]);
        let Some(replaces) = replaces else {
            return self.put(item, Condition::is_new(), doing).await;
        };
        let unchanged = Condition::body(self.encode_body(tenant, &replaces, doing).await?);
        if self.put(item.clone(), unchanged, doing).await? == Write::Committed {
            return Ok(Write::Committed);
        }
        // Another version of the program may have encoded the same value differently. The condition then uses the
        // stored bytes.
        let current = self.get(key, doing).await?;
        match current {
            Some(current) if self.decode_body::<T>(&current, doing).await? == replaces => {
                let unchanged = current.get(BODY).cloned().map_or_else(Condition::is_new, Condition::body);
                self.put(item, unchanged, doing).await
            }
            Some(_) | None => Ok(Write::Superseded),
        }
    }

    pub(super) async fn tenant_item(
        &self,
        tenant: &Tenant,
        doing: &'static str,
    ) -> Result<(Item, Condition), StoreError> {
        let body = self.encode_body(&tenant.tenant, tenant, doing).await?;
        let item = versioned_item(&Key::tenant(&tenant.tenant), tenant.revision, body);
        Ok((item, tenant.revision.checked_sub(1).map_or_else(Condition::is_new, Condition::revision)))
    }

    pub(super) fn fleet_item(fleet: &Fleet, doing: &'static str) -> Result<(Item, Condition), StoreError> {
        // Fleet settings are short, so they are always inline: a blob would need a tenant.
        let body = serde_json::to_string(fleet).map_err(|error| StoreError::broken(doing, error))?;
        let item = versioned_item(&Key::fleet(), fleet.revision, text(body));
        Ok((item, fleet.revision.checked_sub(1).map_or_else(Condition::is_new, Condition::revision)))
    }
}
