//! What people have settled and are asked: tenants, policies, requests for approval, and what was shown of
//! them.

use std::collections::BTreeMap;
use std::future::Future;

use domain::{Approval, ApprovalId, Card, Digest, Fleet, RunKey, Tenant, TenantId};

use crate::cursor::{Cursor, PageQuery};
use crate::error::StoreError;
use crate::ledger::Write;

/// The files of a policy, by path.
pub type PolicyFiles = BTreeMap<String, String>;

/// A page of requests for approval, oldest first.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalPage {
    /// The requests.
    pub approvals: Vec<Approval>,
    /// Where the next page starts, if there is one.
    pub next: Option<Cursor>,
}

/// Tenants, policies, requests for approval and their cards. Requests are written by the commits of their
/// runs; here they are read.
pub trait Governance {
    /// What a tenant has settled, if it has settled anything.
    fn tenant(&self, tenant: &TenantId) -> impl Future<Output = Result<Option<Tenant>, StoreError>> + Send;

    /// Writes what a tenant has settled; superseded unless the one before it has the revision before.
    fn put_tenant(&self, tenant: Tenant) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// What is settled for all tenants, if anything is.
    fn fleet(&self) -> impl Future<Output = Result<Option<Fleet>, StoreError>> + Send;

    /// What is settled for all and for `tenant`, as of a moment ago: what was written within the last second may be
    /// missing. Asked often, so it is the cheapest look there is.
    fn eventual(
        &self,
        tenant: &TenantId,
    ) -> impl Future<Output = Result<(Option<Fleet>, Option<Tenant>), StoreError>> + Send;

    /// Writes what is settled for all tenants; superseded unless the one before it has the revision before.
    fn put_fleet(&self, fleet: Fleet) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Keeps a policy under its hash. Keeping it twice changes nothing.
    fn put_policy(
        &self,
        tenant: &TenantId,
        hash: &Digest,
        files: PolicyFiles,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The policy with this hash.
    fn policy(
        &self,
        tenant: &TenantId,
        hash: &Digest,
    ) -> impl Future<Output = Result<Option<PolicyFiles>, StoreError>> + Send;

    /// A request for approval.
    fn approval(
        &self,
        tenant: &TenantId,
        id: &ApprovalId,
    ) -> impl Future<Output = Result<Option<Approval>, StoreError>> + Send;

    /// All requests of a run, in the order they were made.
    fn approvals(&self, run: &RunKey) -> impl Future<Output = Result<Vec<Approval>, StoreError>> + Send;

    /// Requests that people can still answer, through an index.
    fn open_approvals(
        &self,
        tenant: &TenantId,
        query: PageQuery,
    ) -> impl Future<Output = Result<ApprovalPage, StoreError>> + Send;

    /// What people have been shown of a request.
    fn card(
        &self,
        tenant: &TenantId,
        id: &ApprovalId,
    ) -> impl Future<Output = Result<Option<Card>, StoreError>> + Send;

    /// Writes what people have been shown; superseded unless `replaces` stands there.
    fn put_card(
        &self,
        tenant: &TenantId,
        id: &ApprovalId,
        card: Card,
        replaces: Option<Card>,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;
}
