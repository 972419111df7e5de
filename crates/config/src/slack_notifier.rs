//! Slack as the engine's approval notifier.

use async_trait::async_trait;
use domain::{Approval, Card};
use engine::{ApprovalNotifier, NotifyFailure, RetryHint};
use slack::{Slack, SlackError};

pub struct SlackNotifier(pub Slack);

#[async_trait]
impl ApprovalNotifier for SlackNotifier {
    async fn notify(&self, approval: &Approval, card: Option<&Card>) -> Result<Card, NotifyFailure> {
        self.0.sync_card(approval, card).await.map_err(|error| NotifyFailure {
            approval: approval.id.clone(),
            why: engine::error_chain(&error),
            retry: retry_hint(&error.source),
            so_far: error.so_far,
        })
    }
}

fn retry_hint(fault: &SlackError) -> RetryHint {
    match fault {
        SlackError::RateLimited { retry_after } => RetryHint::After(Some(*retry_after)),
        fault if fault.is_retryable() => RetryHint::After(None),
        _ => RetryHint::Never,
    }
}
