//! API keys.

use domain::access::{ApiKey, ShownKey};
use domain::{KeyId, TenantId};
use engine::Engine;
use store::Store;

use super::Caller;
use crate::problem::Problem;

/// Who shows this key.
pub(super) async fn caller<S: Store>(engine: &Engine<S>, shown: &str) -> Result<Caller, Problem> {
    let shown = ShownKey::read(shown).ok_or_else(Problem::unauthenticated)?;
    let known = engine.api_key(&shown.tenant, &shown.id).await?;
    let live = known.filter(|key| key.is_shown(&shown) && key.is_live(engine.now()));
    let Some(key) = live else {
        tracing::warn!(tenant = %shown.tenant, key = %shown.id, "a key that opens nothing was shown");
        return Err(Problem::unauthenticated());
    };
    Ok(holder(key))
}

/// Whoever began a session with this key, as long as it opens anything.
pub(super) async fn of_session<S: Store>(
    engine: &Engine<S>,
    tenant: &TenantId,
    key: &KeyId,
) -> Result<Caller, Problem> {
    let known = engine.api_key(tenant, key).await?;
    let live = known.filter(|key| key.is_live(engine.now()));
    live.map(holder).ok_or_else(Problem::unauthenticated)
}

fn holder(key: ApiKey) -> Caller {
    let credential = credential(&key.id);
    Caller { tenant: key.tenant, person: key.person, roles: key.roles, credential }
}

/// How a key is spoken of: by its name, never by its secret.
pub(crate) fn credential(id: &KeyId) -> String {
    format!("key:{id}")
}
