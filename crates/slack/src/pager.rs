//! Who is called when an answer is overdue: `PagerDuty`, through its Events API v2.
//!
//! The approval's id is the event's deduplication key, so that calling twice calls once, and the end of the
//! approval ends the call. Only ids are sent; what is asked about is read in Slack or in the console.

use domain::{Approval, ApprovalId};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use url::Url;

use crate::fault::Fault;
use crate::transport::{Transport, endpoint};

/// Where `PagerDuty` takes events.
pub const PAGERDUTY: &str = "https://events.pagerduty.com";

/// Speaks to `PagerDuty` for one of its services.
#[derive(Debug, Clone)]
pub struct Pager {
    transport: Transport,
    enqueue: Url,
    routing_key: SecretString,
}

impl Pager {
    /// A pager for the service that `routing_key` names, at `base_url` ([`PAGERDUTY`], or a stand-in).
    pub fn new(base_url: &Url, routing_key: SecretString) -> Result<Self, Fault> {
        let enqueue = endpoint(base_url, "/v2/enqueue")?;
        Ok(Self { transport: Transport::new()?, enqueue, routing_key })
    }

    /// The answer to `approval` is overdue.
    pub async fn trigger(&self, approval: &Approval) -> Result<(), Fault> {
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

    /// The approval is not open any more. `PagerDuty` takes this for an event it never saw, too.
    pub async fn resolve(&self, approval: &ApprovalId) -> Result<(), Fault> {
        self.enqueue("resolve", approval, None).await
    }

    async fn enqueue(&self, what: &str, approval: &ApprovalId, payload: Option<Value>) -> Result<(), Fault> {
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
