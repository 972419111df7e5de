//! Webhook authentication: one scheme with its secrets for each tenant and source.

use std::collections::BTreeMap;

use domain::{Digest, IdempotencyKey, Source, TenantId, Timestamp};
use engine::{InboundEvent, metrics};
use http::HeaderMap;
use serde_json::Value;
use signing::Secrets;

use super::scheme::AuthScheme;

const UNAUTHENTICATED: &str = "unauthenticated";

/// The source in the metrics of a delivery whose path names no configured tenant and source.
const UNKNOWN_SOURCE: &str = "unknown";

/// The schemes of all tenants. Each tenant and source has its own secret, so a signature of one is not valid for
/// another.
#[derive(Debug)]
pub struct WebhookAuth {
    schemes: BTreeMap<(TenantId, Source), AuthScheme>,
    /// Verified, and rejected, if the tenant or source is unknown, so that the response takes equally long.
    decoy: AuthScheme,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWebhookAuth {
    #[error(
        "source {source_name} of tenant {tenant} does not support this scheme: use `github` for GitHub, and `hmac`, \
         `basic` or `bearer` for ServiceNow and webhooks"
    )]
    Scheme { tenant: TenantId, source_name: Source },
    #[error("source {source_name} of tenant {tenant} is listed twice: remove one of the entries")]
    DuplicateSource { tenant: TenantId, source_name: Source },
}

/// The authenticated sender of a request.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) tenant: TenantId,
    pub(super) source: Source,
    /// Identifies the authenticated request, so that a replay of the same bytes is recognized.
    proof: Digest,
}

impl Sender {
    /// Makes the proof one of this delivery: the same bytes in another delivery are another request.
    pub(super) fn include_delivery_id(&mut self, delivery: &str) {
        self.proof =
            Digest::of_parts("countersign/delivery-proof/v1", &[self.proof.as_bytes(), delivery.as_bytes()]);
    }

    /// An event from this sender that names no record and needs no dedupe key.
    pub(super) fn event(self, key: IdempotencyKey, body: Value) -> InboundEvent {
        let Self { tenant, source, proof } = self;
        InboundEvent {
            tenant,
            key,
            source,
            topic: None,
            record: None,
            proof,
            dedupe_key: None,
            body,
            start_request: None,
        }
    }
}

impl Default for WebhookAuth {
    #[expect(clippy::expect_used, reason = "the decoy is a constant")]
    fn default() -> Self {
        let decoy = Secrets::new("requests signed with the decoy are rejected".into());
        Self { schemes: BTreeMap::new(), decoy: AuthScheme::Hmac(decoy.expect("it is long enough")) }
    }
}

impl WebhookAuth {
    pub fn with(
        mut self,
        tenant: TenantId,
        source: Source,
        scheme: AuthScheme,
    ) -> Result<Self, InvalidWebhookAuth> {
        let has_webhook = Source::WEBHOOKS.contains(&source);
        if !has_webhook || matches!(scheme, AuthScheme::GitHub(_)) != (source == Source::GitHub) {
            return Err(InvalidWebhookAuth::Scheme { tenant, source_name: source });
        }
        if self.schemes.contains_key(&(tenant.clone(), source)) {
            return Err(InvalidWebhookAuth::DuplicateSource { tenant, source_name: source });
        }
        self.schemes.insert((tenant, source), scheme);
        Ok(self)
    }

    /// The tenant and the source of a path, if they are configured.
    pub(super) fn configured(&self, tenant: &str, source: &str) -> Option<(TenantId, Source)> {
        let named = tenant.parse().ok().zip(source.parse().ok())?;
        self.schemes.contains_key(&named).then_some(named)
    }

    /// The sender of `body`, if the tenant and source of the path are configured and the request is authentic.
    pub(super) fn authenticate(
        &self,
        tenant: &str,
        source: &str,
        headers: &HeaderMap,
        body: &[u8],
        now: Timestamp,
    ) -> Option<Sender> {
        let named = self.configured(tenant, source);
        let known = named.and_then(|named| Some((self.schemes.get(&named)?, named)));
        let verified = known.as_ref().map_or(&self.decoy, |(scheme, _)| scheme).verify(headers, body, now);
        match (known, verified) {
            (Some((_, (tenant, source))), Ok(code)) => {
                let parts = [tenant.as_str().as_bytes(), source.as_str().as_bytes(), code.as_bytes()];
                let proof = Digest::of_parts("countersign/entry-proof/v1", &parts);
                Some(Sender { tenant, source, proof })
            }
            (Some((_, (tenant, source))), Err(error)) => {
                metrics::delivery_refused(Some(&tenant), source.as_str(), UNAUTHENTICATED);
                tracing::warn!(event = "webhook_unauthenticated", %tenant, %source, %error, "webhook not authenticated");
                None
            }
            (None, _) => {
                metrics::delivery_refused(None, UNKNOWN_SOURCE, UNAUTHENTICATED);
                tracing::warn!(event = "webhook_unauthenticated", "webhook for an unknown tenant or source");
                None
            }
        }
    }
}
