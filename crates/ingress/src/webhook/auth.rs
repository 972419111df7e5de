//! Who may come in: for each tenant and source, how it proves itself.

use std::collections::BTreeMap;

use domain::{Digest, Source, TenantId, Timestamp};
use signing::Secrets;

use super::scheme::Proof;
use crate::http::Headers;

/// The doors of every tenant. Each has a secret of its own, so that what one tenant's sender signs opens no
/// other's.
#[derive(Debug)]
pub struct WebhookAuth {
    doors: BTreeMap<(TenantId, Source), Proof>,
    /// What is tried where there is no door, so that the answer takes as long. It opens nothing.
    decoy: Proof,
}

/// Why a door cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWebhookAuth {
    /// The source cannot prove itself in this way.
    #[error(
        "{source_name} of tenant {tenant}: GitHub signs as GitHub does, ServiceNow and webhooks as we ask"
    )]
    Proof {
        /// Whose.
        tenant: TenantId,
        /// Which.
        source_name: Source,
    },
    /// There is one already.
    #[error("{source_name} of tenant {tenant} is described twice")]
    Twice {
        /// Whose.
        tenant: TenantId,
        /// Which.
        source_name: Source,
    },
}

impl Default for WebhookAuth {
    #[expect(clippy::expect_used, reason = "the decoy is a constant")]
    fn default() -> Self {
        let decoy =
            Secrets::new("whatever is signed with this is refused".into()).expect("it is long enough");
        Self { doors: BTreeMap::new(), decoy: Proof::Signed(decoy) }
    }
}

impl WebhookAuth {
    /// The same, with one more door.
    pub fn and(mut self, tenant: TenantId, source: Source, proof: Proof) -> Result<Self, InvalidWebhookAuth> {
        let has_door = Source::WEBHOOKS.contains(&source);
        if !has_door || matches!(proof, Proof::GitHub(_)) != (source == Source::GitHub) {
            return Err(InvalidWebhookAuth::Proof { tenant, source_name: source });
        }
        if self.doors.contains_key(&(tenant.clone(), source)) {
            return Err(InvalidWebhookAuth::Twice { tenant, source_name: source });
        }
        self.doors.insert((tenant, source), proof);
        Ok(self)
    }

    /// Whose door this is and what proves the sender, if the door is there and the sender is proved.
    pub(super) fn authenticate(
        &self,
        tenant: &str,
        source: &str,
        headers: &Headers<'_>,
        body: &[u8],
        now: Timestamp,
    ) -> Option<(TenantId, Source, Digest)> {
        let named = tenant.parse().ok().zip(source.parse().ok());
        let door = named.and_then(|named: (TenantId, Source)| Some((self.doors.get(&named)?, named)));
        let proved = door.as_ref().map_or(&self.decoy, |(proof, _)| proof).verify(headers, body, now);
        match (door, proved) {
            (Some((_, (tenant, source))), Ok(code)) => {
                let parts = [tenant.as_str().as_bytes(), source.as_str().as_bytes(), code.as_bytes()];
                let proof = Digest::of_parts("countersign/entry-proof/v1", &parts);
                Some((tenant, source, proof))
            }
            (Some((_, (tenant, source))), Err(fault)) => {
                tracing::warn!(%tenant, %source, %fault, "a delivery is not proved");
                None
            }
            (None, _) => {
                tracing::warn!("a delivery to a door that is not there");
                None
            }
        }
    }
}
