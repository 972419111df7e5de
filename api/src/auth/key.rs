//! API keys.

use domain::KeyId;
use domain::access::ShownKey;
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
    let credential = credential(&key.id);
    Ok(Caller { tenant: key.tenant, person: key.person, roles: key.roles, credential })
}

/// How a key is spoken of: by its name, never by its secret.
pub(crate) fn credential(id: &KeyId) -> String {
    format!("key:{id}")
}
