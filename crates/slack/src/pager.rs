//! Pages the on-call through the `PagerDuty` Events API v2 when an approval is overdue.
//!
//! The approval's id is the deduplication key, so a second trigger has no effect, and the end of the approval resolves
//! the page. Only ids are sent; details are in Slack and in the console.

use domain::{Approval, ApprovalId};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use url::Url;

use crate::error::SlackError;
use crate::transport::{Transport, endpoint};

pub const PAGERDUTY: &str = "https://events.pagerduty.com";

#[derive(Debug, Clone)]
pub struct Pager {
    transport: Transport,
    enqueue: Url,
    routing_key: SecretString,
}

impl Pager {
    /// `base_url` is [`PAGERDUTY`], or a fake in tests.
    pub fn new(base_url: &Url, routing_key: SecretString) -> Result<Self, SlackError> {
        let enqueue = endpoint(base_url, "/v2/enqueue")?;
        Ok(Self { transport: Transport::new()?, enqueue, routing_key })
    }

    /// Pages the on-call because `approval` is overdue.
    pub async fn trigger(&self, approval: &Approval) -> Result<(), SlackError> {
        let payload = json!({
            "summary": format!("Approval overdue: step {} of {}", approval.step, approval.workflow),
            "source": approval.run.to_string(),
            "severity": "warning",
            "component": approval.workflow,
            "custom_details": {
                "approval": approval.id,
                "run": approval.run.run,
                "hash": approval.subject.hash().short(),
            },
        });
        self.enqueue("trigger", &approval.id, Some(payload)).await
    }

    /// Resolves the page. `PagerDuty` accepts this for an unknown key too.
    pub async fn resolve(&self, approval: &ApprovalId) -> Result<(), SlackError> {
        self.enqueue("resolve", approval, None).await
    }

    async fn enqueue(
        &self,
        what: &str,
        approval: &ApprovalId,
        payload: Option<Value>,
    ) -> Result<(), SlackError> {
        let mut event = json!({
            "routing_key": self.routing_key.expose_secret(),
            "event_action": what,
            "dedup_key": approval,
        });
        if let Some(payload) = payload {
            event["payload"] = payload;
        }
        self.transport.post(&self.enqueue, None, &event).await.map(|_| ())
    }
}
