//! Posting of approval requests, as the engine sees it.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{Approval, ApprovalId, Card, Millis};

/// Posts approval requests where approvers see them.
#[async_trait]
pub trait ApprovalNotifier: Send + Sync {
    /// Posts the request, or updates what was posted, and returns what is posted now. Calling it again with that
    /// result changes nothing.
    async fn notify(&self, approval: &Approval, card: Option<&Card>) -> Result<Card, NotifyFailure>;
}

/// An approval request could not be posted. It is retried.
#[derive(Debug, thiserror::Error)]
#[error("approval request {approval} was not posted: {why}")]
pub struct NotifyFailure {
    pub approval: ApprovalId,
    /// The reason, without secrets.
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
