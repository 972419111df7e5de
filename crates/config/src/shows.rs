//! Slack, as the engine knows it.

use async_trait::async_trait;
use domain::{Approval, Card};
use engine::{Again, NotShown, Shows};
use slack::{Fault, Slack};

/// Shows people what they are asked, in Slack.
pub struct InSlack(pub Slack);

#[async_trait]
impl Shows for InSlack {
    async fn show(&self, approval: &Approval, card: Option<&Card>) -> Result<Card, NotShown> {
        self.0.show(approval, card).await.map_err(|error| NotShown {
            approval: approval.id.clone(),
            why: engine::told(&error),
            again: again(&error.fault),
            so_far: error.so_far,
        })
    }
}

fn again(fault: &Fault) -> Again {
    match fault {
        Fault::RateLimited { retry_after } => Again::After(Some(*retry_after)),
        fault if fault.may_pass() => Again::After(None),
        _ => Again::No,
    }
}
