//! API keys.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use domain::access::{NOTE_CHARS_MAX, ShownKey, secret_digest};
use domain::{KeyId, Millis, PersonId, Role, Roles, TenantId, Timestamp};
use engine::NewKey;
use serde::Deserialize;
use store::Store;

use crate::Shared;
use crate::at::Admin;
use crate::auth::credential;
use crate::chance;
use crate::extract::{Asked, Named, Sent};
use crate::page::{self, List};
use crate::problem::Problem;
use api_types::{Key, Keys, MadeKey, MakeKey};

/// Ten years; a key that is to outlive that is made for ever.
const LIFE_MAX: Millis = Millis(10 * 366 * 86_400_000);

/// Which keys are asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    cursor: Option<String>,
    limit: Option<String>,
}

/// The tenant's keys, by id.
pub(crate) async fn list<S: Store>(
    State(api): State<Shared<S>>,
    Admin { handle, .. }: Admin<S>,
    Asked(filter): Asked<Filter>,
) -> Result<Json<Keys>, Problem> {
    let limit = page::limit(filter.limit.as_deref())?;
    let list = List { secret: &api.cursors, tenant: handle.tenant_id(), name: "keys", filter: String::new() };
    let after = filter.cursor.as_deref().map(|cursor| list.open(cursor)).transpose()?;
    let page = handle.keys(after, limit).await?;
    Ok(Json(Keys {
        keys: page.keys.into_iter().map(Key::from).collect(),
        next: page.next.as_ref().map(|next| list.seal(next)),
    }))
}

/// Makes a key.
pub(crate) async fn make<S: Store>(
    Admin { handle, .. }: Admin<S>,
    Sent(wish): Sent<MakeKey>,
) -> Result<(StatusCode, Json<MadeKey>), Problem> {
    if wish.roles.is_empty() {
        return Err(Problem::bad_request(
            "a key without a role opens nothing; name one of viewer, operator, approver and admin",
        ));
    }
    if wish.note.chars().count() > NOTE_CHARS_MAX {
        return Err(Problem::bad_request(format!("`note` has more than {NOTE_CHARS_MAX} characters")));
    }
    let expires_at = wish.expires_in.as_deref().map(|text| end(handle.now(), text)).transpose()?;
    let roles = wish.roles.into_iter().map(Role::from).collect();
    let (new, text) = forged(handle.tenant_id(), wish.person, roles)?;
    let new = NewKey { note: wish.note, expires_at, ..new };
    let key = handle.make_key(new).await?;
    Ok((StatusCode::CREATED, Json(MadeKey { key: key.into(), text })))
}

/// A key for `person` that nobody can guess, and its text, which is shown once.
pub fn forged(tenant: &TenantId, person: PersonId, roles: Roles) -> Result<(NewKey, String), Problem> {
    let bad = |error: domain::id::InvalidId| Problem::bad_request(error.to_string());
    let (id, secret) = (KeyId::new(&chance::hex::<8>()?).map_err(bad)?, chance::hex::<32>()?);
    let text = ShownKey::write(tenant, &id, &secret);
    let secret = secret_digest(tenant, &id, &secret);
    Ok((NewKey { id, secret, person, roles, note: String::new(), expires_at: None }, text))
}

fn end(now: Timestamp, text: &str) -> Result<Timestamp, Problem> {
    let life: Millis =
        text.parse().map_err(|error: domain::time::InvalidMillis| Problem::bad_request(error.to_string()))?;
    if life.0 == 0 || life > LIFE_MAX {
        return Err(Problem::bad_request("`expires_in` is at most ten years, and more than nothing"));
    }
    Ok(now + life)
}

/// Takes a key back, unless it is the one that is shown: nobody locks themselves out by mistake.
pub(crate) async fn revoke<S: Store>(
    Admin { handle, caller }: Admin<S>,
    Named(key): Named<KeyId>,
) -> Result<Json<Key>, Problem> {
    if caller.credential == credential(&key) {
        return Err(Problem::new(StatusCode::CONFLICT, "KEY_IN_USE", "a key does not take itself back")
            .remedy("make another key, and take this one back with that"));
    }
    Ok(Json(handle.revoke_key(&key).await?.into()))
}
