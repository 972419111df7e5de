//! Notification of approvers, as the engine sees it.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{Approval, ApprovalId, Card, Millis, Page, Tenant, Timestamp, WorkspaceId};

use crate::core::connections::ConnectionParts;

/// What a notifier needs apart from the approval.
#[derive(Debug)]
pub struct NotifyContext<'a> {
    /// The connections of the tenant, as read a moment ago.
    pub tenant: &'a Tenant,
    /// The workspace of the run.
    pub workspace: &'a WorkspaceId,
    pub connections: &'a ConnectionParts,
    pub now: Timestamp,
}

/// Tells approvers about approval requests. The card and the page are delivered by jobs of their own.
#[async_trait]
pub trait ApprovalNotifier: Send + Sync {
    /// Posts the request, or updates what was posted, and returns what is posted now. Calling it again with that
    /// result changes nothing. `None` if this process knows no place for the requests of the tenant.
    async fn notify(
        &self,
        approval: &Approval,
        card: Option<&Card>,
        context: &NotifyContext<'_>,
    ) -> Result<Option<Card>, NotifyFailure>;

    /// Pages the on-call about an overdue request, or resolves the page of one that has ended, and returns the page as
    /// it is now. `None` if the tenant has no on-call.
    async fn page(
        &self,
        approval: &Approval,
        page: Option<&Page>,
        context: &NotifyContext<'_>,
    ) -> Result<Option<Page>, NotifyFailure> {
        let _ = (approval, context);
        Ok(page.cloned())
    }
}

/// A request could not be delivered to approvers. The delivery is retried.
#[derive(Debug, thiserror::Error)]
#[error("approval request {approval} was not delivered: {why}")]
pub struct NotifyFailure {
    pub approval: ApprovalId,
    /// The channel, the operation and the reason, without secrets.
    pub why: String,
    /// What is posted despite the error, if that has changed.
    pub so_far: Option<Card>,
    pub retry: RetryHint,
}

/// Whether a failed attempt is worth retrying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryHint {
    /// It is, after at least this long if the external system named a time.
    After(Option<Millis>),
    /// It fails until a person fixes the cause.
    Never,
}

pub type Notifier = Option<Arc<dyn ApprovalNotifier>>;
