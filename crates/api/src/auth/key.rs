//! API keys.

use domain::access::{ApiKey, PresentedKey};
use domain::{KeyId, TenantId};
use engine::Engine;
use store::Store;

use super::Caller;
use crate::problem::ApiError;

/// The caller with this API key.
pub(super) async fn caller<S: Store>(engine: &Engine<S>, shown: &str) -> Result<Caller, ApiError> {
    let shown = PresentedKey::parse(shown).ok_or_else(ApiError::unauthenticated)?;
    let stored = engine.governance().api_key(&shown.tenant, &shown.id).await?;
    let live = stored.filter(|key| key.matches(&shown) && key.is_live(engine.now()));
    let Some(key) = live else {
        tracing::warn!(event = "key_rejected", tenant = %shown.tenant, key = %shown.id, "API key rejected");
        return Err(ApiError::unauthenticated());
    };
    Ok(key_owner(key))
}

/// The caller of a session that started with this API key, while the key is valid.
pub(super) async fn session_caller<S: Store>(
    engine: &Engine<S>,
    tenant: &TenantId,
    key: &KeyId,
) -> Result<Caller, ApiError> {
    let stored = engine.governance().api_key(tenant, key).await?;
    let live = stored.filter(|key| key.is_live(engine.now()));
    live.map(key_owner).ok_or_else(ApiError::unauthenticated)
}

fn key_owner(key: ApiKey) -> Caller {
    let credential = credential(&key.id);
    Caller { tenant: key.tenant, person: key.person, roles: key.roles, credential, unlisted: false }
}

/// The name of an API key, without its secret.
pub(crate) fn credential(id: &KeyId) -> String {
    format!("key:{id}")
}
