//! Tenant settings.

use axum::Json;
use axum::extract::State;
use domain::Tenant as DomainTenant;
use engine::TenantUpdate;
use store::Store;

use crate::Shared;
use crate::extract::JsonBody;
use crate::problem::ApiError;
use crate::role_guard::{Admin, Viewer};
use api_types::{PutTenant, SecretNames, Tenant};

pub(crate) async fn show<S: Store>(Viewer { handle, .. }: Viewer<S>) -> Result<Json<Tenant>, ApiError> {
    let settled = handle.tenant_settings().await?;
    let none = || Tenant { revision: None, ..DomainTenant::new(handle.tenant_id().clone()).into() };
    Ok(Json(settled.map_or_else(none, Tenant::from)))
}

/// Replaces users, groups and caps.
pub(crate) async fn put<S: Store>(
    Admin { handle, caller }: Admin<S>,
    JsonBody(put): JsonBody<PutTenant>,
) -> Result<Json<Tenant>, ApiError> {
    let PutTenant { caps, people, groups, redact, revision } = put;
    let update = TenantUpdate {
        caps: caps.into(),
        redact,
        people: people.into_iter().map(|(id, person)| (id, person.into())).collect(),
        groups,
        seen: revision,
    };
    let updated =
        DomainTenant { people: update.people.clone(), ..DomainTenant::new(handle.tenant_id().clone()) };
    if !caller.is_listed_in(&updated) {
        // With this directory the caller could only read, and so not correct it.
        return Err(ApiError::bad_request("`people` does not contain the caller, who could then only read").remedy(
            "add yourself to `people`: an API key needs its user there, a token an entry with its subject in `oidc`",
        ));
    }
    Ok(Json(handle.update_tenant(update).await?.into()))
}

/// The names of the secrets of external systems.
pub(crate) async fn secrets<S: Store>(
    State(api): State<Shared<S>>,
    Admin { handle, .. }: Admin<S>,
) -> Json<SecretNames> {
    Json(SecretNames { secrets: api.secrets.get(handle.tenant_id()).cloned().unwrap_or_default() })
}
