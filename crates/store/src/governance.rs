//! Tenant settings, the fleet switch, policies, approval requests, and their cards and pages.

use std::collections::BTreeMap;
use std::future::Future;

use domain::{Approval, ApprovalId, Card, Digest, Fleet, Page, RunKey, Tenant, TenantId};

use crate::cursor::{Cursor, PageQuery};
use crate::error::StoreError;
use crate::ledger::Write;

/// The files of a policy bundle, by path.
pub type PolicyFiles = BTreeMap<String, String>;

/// A page of approval requests, oldest first.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalPage {
    /// The requests of this page.
    pub approvals: Vec<Approval>,
    /// The cursor of the next page; `None` on the last page.
    pub next: Option<Cursor>,
}

/// Tenant settings, the fleet switch, policies, approval requests, and their cards and pages. [`crate::Ledger::commit`] writes
/// approval requests; this trait only reads them. Unless a method says otherwise, reads are strongly consistent.
pub trait Governance {
    /// Reads the settings of a tenant. `None` if the tenant has none.
    fn tenant(&self, tenant: &TenantId) -> impl Future<Output = Result<Option<Tenant>, StoreError>> + Send;

    /// Writes the settings of a tenant. `Superseded` if the stored revision is not `tenant.revision - 1` (no
    /// settings at all for revision 0).
    fn put_tenant(&self, tenant: Tenant) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Reads the fleet settings, such as the dispatch switch of the fleet.
    fn fleet(&self) -> impl Future<Output = Result<Option<Fleet>, StoreError>> + Send;

    /// Reads the fleet settings and the settings of `tenant`, eventually consistent: a write of the last second may
    /// be missing. Workers poll this, so it is the cheapest read the store has.
    fn settings_eventual(
        &self,
        tenant: &TenantId,
    ) -> impl Future<Output = Result<(Option<Fleet>, Option<Tenant>), StoreError>> + Send;

    /// Reads the settings of `tenant`, eventually consistent like [`Governance::settings_eventual`].
    fn tenant_eventual(
        &self,
        tenant: &TenantId,
    ) -> impl Future<Output = Result<Option<Tenant>, StoreError>> + Send;

    /// Writes the fleet settings. `Superseded` if the stored revision is not `fleet.revision - 1`.
    fn put_fleet(&self, fleet: Fleet) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Stores a policy under its hash. Storing it again has no effect.
    fn put_policy(
        &self,
        tenant: &TenantId,
        hash: &Digest,
        files: PolicyFiles,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Reads the policy with this hash.
    fn policy(
        &self,
        tenant: &TenantId,
        hash: &Digest,
    ) -> impl Future<Output = Result<Option<PolicyFiles>, StoreError>> + Send;

    /// Reads an approval request.
    fn approval(
        &self,
        tenant: &TenantId,
        id: &ApprovalId,
    ) -> impl Future<Output = Result<Option<Approval>, StoreError>> + Send;

    /// All approval requests of a run, oldest first.
    fn approvals(&self, run: &RunKey) -> impl Future<Output = Result<Vec<Approval>, StoreError>> + Send;

    /// A page of the tenant's open approval requests, from an index. A new or answered request may appear or
    /// disappear late.
    fn open_approvals(
        &self,
        tenant: &TenantId,
        query: PageQuery,
    ) -> impl Future<Output = Result<ApprovalPage, StoreError>> + Send;

    /// Reads the card (the Slack message) of an approval request.
    fn card(
        &self,
        tenant: &TenantId,
        id: &ApprovalId,
    ) -> impl Future<Output = Result<Option<Card>, StoreError>> + Send;

    /// Writes the card of an approval request. `Superseded` if the stored card is not equal to `replaces`.
    fn put_card(
        &self,
        tenant: &TenantId,
        id: &ApprovalId,
        card: Card,
        replaces: Option<Card>,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Reads the page of the on-call about an approval request.
    fn page(
        &self,
        tenant: &TenantId,
        id: &ApprovalId,
    ) -> impl Future<Output = Result<Option<Page>, StoreError>> + Send;

    /// Writes the page of an approval request. `Superseded` if the stored page is not equal to `replaces`.
    fn put_page(
        &self,
        tenant: &TenantId,
        id: &ApprovalId,
        page: Page,
        replaces: Option<Page>,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;
}
