//! API keys.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use domain::access::{NOTE_CHARS_MAX, PresentedKey, secret_digest};
use domain::{KeyId, Millis, PersonId, Role, Roles, TenantId};
use engine::NewApiKey;
use serde::Deserialize;
use store::Store;

use crate::Shared;
use crate::auth::credential;
use crate::extract::{JsonBody, PathParam, QueryParams};
use crate::page::{self, List};
use crate::problem::ApiError;
use crate::random;
use crate::role_guard::Admin;
use api_types::{CreateKey, CreatedKey, Key, Keys};

/// The lifetime of a key whose request names none.
const LIFETIME_DEFAULT: Millis = Millis(90 * 86_400_000);

/// A key that does not expire must be requested by this word.
const NEVER: &str = "never";

/// Ten years.
const LIFETIME_MAX: Millis = Millis(3_650 * 86_400_000);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    cursor: Option<String>,
    limit: Option<String>,
}

/// The API keys of the tenant, by id.
pub(crate) async fn list<S: Store>(
    State(api): State<Shared<S>>,
    Admin { handle, .. }: Admin<S>,
    QueryParams(filter): QueryParams<Filter>,
) -> Result<Json<Keys>, ApiError> {
    let limit = page::limit(filter.limit.as_deref())?;
    let list = List { secret: &api.cursors, tenant: handle.tenant_id(), name: "keys", filter: String::new() };
    let after = filter.cursor.as_deref().map(|cursor| list.open(cursor)).transpose()?;
    let page = handle.keys(after, limit).await?;
    Ok(Json(Keys {
        keys: page.keys.into_iter().map(Key::from).collect(),
        next: page.next.as_ref().map(|next| list.encode_cursor(next)),
    }))
}

pub(crate) async fn create<S: Store>(
    Admin { handle, .. }: Admin<S>,
    JsonBody(request): JsonBody<CreateKey>,
) -> Result<(StatusCode, Json<CreatedKey>), ApiError> {
    if request.roles.is_empty() {
        return Err(ApiError::bad_request(
            "`roles` is empty; name at least one of viewer, operator, approver and admin",
        ));
    }
    if request.note.chars().count() > NOTE_CHARS_MAX {
        return Err(ApiError::bad_request(format!("`note` is longer than {NOTE_CHARS_MAX} characters")));
    }
    let expires_in = match request.expires_in.as_deref() {
        None => Some(LIFETIME_DEFAULT),
        Some(NEVER) => None,
        Some(text) => Some(parse_lifetime(text)?),
    };
    let roles = request.roles.into_iter().map(Role::from).collect();
    let (new, secret) = generate_key(handle.tenant_id(), request.person, roles)?;
    let new = NewApiKey { note: request.note, expires_in, ..new };
    let key = handle.make_key(new).await?;
    Ok((StatusCode::CREATED, Json(CreatedKey { key: key.into(), secret })))
}

/// Generates a key for `person`, with its text, which is returned only once.
pub fn generate_key(
    tenant: &TenantId,
    person: PersonId,
    roles: Roles,
) -> Result<(NewApiKey, String), ApiError> {
    let bad = |error: domain::id::InvalidId| ApiError::bad_request(error.to_string());
    let (id, secret) = (KeyId::new(&random::hex::<8>()?).map_err(bad)?, random::hex::<32>()?);
    let text = PresentedKey::format(tenant, &id, &secret);
    let secret = secret_digest(tenant, &id, &secret);
    Ok((NewApiKey { id, secret, person, roles, note: String::new(), expires_in: None }, text))
}

fn parse_lifetime(text: &str) -> Result<Millis, ApiError> {
    let lifetime: Millis = text
        .parse()
        .map_err(|error: domain::time::InvalidMillis| ApiError::bad_request(error.to_string()))?;
    if lifetime.0 == 0 || lifetime > LIFETIME_MAX {
        return Err(ApiError::bad_request("`expires_in` must be more than zero and at most ten years"));
    }
    Ok(lifetime)
}

/// Revokes a key. The caller's own key is refused, so that an admin does not lock themselves out.
pub(crate) async fn revoke<S: Store>(
    Admin { handle, caller }: Admin<S>,
    PathParam(key): PathParam<KeyId>,
) -> Result<Json<Key>, ApiError> {
    if caller.credential == credential(&key) {
        return Err(ApiError::new(StatusCode::CONFLICT, "KEY_IN_USE", "an API key cannot revoke itself")
            .remedy("create another API key and revoke this one with it"));
    }
    Ok(Json(handle.revoke_key(&key).await?.into()))
}
