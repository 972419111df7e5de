//! Tickets: what only one run at a time works on.
//!
//! A workflow may say which ticket its runs are about: an incident, a pull request, a host. The first run holds the
//! ticket until it is over, and whoever wants another run about it meanwhile joins it, waits, or is refused, as the
//! workflow says.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::{TenantId, WorkflowName};

/// Which ticket a run is about, and what becomes of a second one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketRule {
    /// What names the ticket; may hold expressions over what started the run.
    pub of: String,
    /// What becomes of whoever comes while it is taken.
    #[serde(default)]
    pub when_taken: WhenTaken,
}

/// What becomes of a trigger whose ticket is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenTaken {
    /// It is answered with the run that has the ticket.
    #[default]
    Join,
    /// It waits until that run is over.
    Queue,
    /// It is refused.
    Refuse,
}

/// Names a ticket among those of all tenants and workflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ticket(Digest);

impl Ticket {
    /// The ticket that `workflow` of `tenant` calls `text`.
    pub fn derive(tenant: &TenantId, workflow: &WorkflowName, text: &str) -> Self {
        Self(Digest::of_parts("countersign/ticket/v1", &[tenant.as_str(), workflow.as_str(), text]))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_its_tenants_and_its_workflows() {
        let ticket = |tenant: &str, workflow: &str, text| {
            Ticket::derive(&tenant.parse().unwrap(), &workflow.parse().unwrap(), text)
        };
        assert_eq!(ticket("a", "w", "INC1"), ticket("a", "w", "INC1"));
        for other in [ticket("b", "w", "INC1"), ticket("a", "v", "INC1"), ticket("a", "w", "INC2")] {
            assert_ne!(ticket("a", "w", "INC1"), other);
        }
    }
}
