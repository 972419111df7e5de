//! The inbox: what came in from outside, and the workflows it may start.

use std::future::Future;

use domain::{Applied, Arrival, Fate, RunKey, TenantId, WorkflowName};

use crate::error::StoreError;
use crate::ledger::Write;

/// What became of an arrival at the door.
#[derive(Debug, Clone, PartialEq)]
pub enum Accepted {
    /// It is kept, durably.
    New,
    /// This one was here before, under the same key or with the same proof.
    Known(Box<Arrival>),
}

/// Arrivals, and the workflows that a tenant has put to use.
pub trait Inbox {
    /// Keeps an arrival, unless one with its key or its proof is there. It may be forgotten once the time on it
    /// has passed.
    fn accept(&self, arrival: Arrival) -> impl Future<Output = Result<Accepted, StoreError>> + Send;

    /// The arrival that may start `run`.
    fn arrival(&self, run: &RunKey) -> impl Future<Output = Result<Option<Arrival>, StoreError>> + Send;

    /// Records what became of an arrival. Superseded unless it waits.
    fn settle(&self, run: &RunKey, fate: Fate) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Puts a workflow to use. Superseded unless it [follows](Applied::follows) the one that is in use.
    fn apply(&self, applied: Applied) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// The workflows in use, by name; the newest version of each.
    fn applied(&self, tenant: &TenantId) -> impl Future<Output = Result<Vec<Applied>, StoreError>> + Send;

    /// Every version of a workflow that was put to use, the newest first.
    fn versions(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowName,
    ) -> impl Future<Output = Result<Vec<Applied>, StoreError>> + Send;
}
