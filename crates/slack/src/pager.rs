//! Pages the on-call through the `PagerDuty` Events API v2 when an approval is overdue.
//!
//! A page is delivered over a connection of kind `pagerduty`, independent of the card in Slack.
//!
//! The approval's id is the deduplication key, so a second trigger has no effect, and the end of the approval resolves
//! the page. Only ids are sent; details are in Slack and in the console.

use connectors::{Credential, ToolConnection};
use domain::{Approval, ApprovalId, PageStatus};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use crate::error::SlackError;
use crate::transport::Transport;

/// A client for one service. `Debug` does not show the routing key.
#[derive(Debug, Clone)]
pub struct Pager {
    transport: Transport,
    routing_key: SecretString,
}

impl Pager {
    /// The credential of the connection is the routing key of the integration.
    pub fn on(connection: &ToolConnection) -> Result<Self, SlackError> {
        let Credential::Bearer(routing_key) = connection.credential.clone() else {
            return Err(SlackError::Settings("the connection has no routing key"));
        };
        Ok(Self { transport: Transport::new(connection)?, routing_key })
    }

    /// Pages the on-call about an overdue approval, and resolves the page of one that has ended. `page` is the page as
    /// last stored; a call with the result of an earlier one does nothing. A repeated event is deduplicated.
    pub async fn sync_page(
        &self,
        approval: &Approval,
        page: Option<PageStatus>,
    ) -> Result<Option<PageStatus>, SlackError> {
        if approval.escalated_at.is_none() {
            return Ok(page);
        }
        match (page, approval.is_open()) {
            (None, true) => self.trigger(approval).await.map(|()| Some(PageStatus::Paged)),
            // A page whose reply was lost is not recorded, and is resolved too.
            (None | Some(PageStatus::Paged), false) => {
                self.resolve(&approval.id).await.map(|()| Some(PageStatus::Resolved))
            }
            (Some(PageStatus::Paged), true) | (Some(PageStatus::Resolved), _) => Ok(page),
        }
    }

    async fn trigger(&self, approval: &Approval) -> Result<(), SlackError> {
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

    /// `PagerDuty` accepts this for an unknown key too.
    async fn resolve(&self, approval: &ApprovalId) -> Result<(), SlackError> {
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
        self.transport.post_anonymously(&["v2", "enqueue"], &event).await.map(|_| ())
    }
}
