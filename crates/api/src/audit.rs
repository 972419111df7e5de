//! The audit log of the tenant.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use store::Store;

use crate::Shared;
use crate::extract::QueryParams;
use crate::page::{self, List};
use crate::problem::ApiError;
use crate::role_guard::Admin;
use api_types::{AuditedChange, AuditedChanges};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    cursor: Option<String>,
    limit: Option<String>,
}

pub(crate) async fn list<S: Store>(
    State(api): State<Shared<S>>,
    Admin { handle, .. }: Admin<S>,
    QueryParams(filter): QueryParams<Filter>,
) -> Result<Json<AuditedChanges>, ApiError> {
    let limit = page::limit(filter.limit.as_deref())?;
    let list =
        List { secret: &api.cursors, tenant: handle.tenant_id(), name: "audit", filter: String::new() };
    let after = filter.cursor.as_deref().map(|cursor| list.open(cursor)).transpose()?;
    let page = handle.audit(after, limit).await?;
    Ok(Json(AuditedChanges {
        changes: page.entries.into_iter().map(AuditedChange::from).collect(),
        next: page.next.as_ref().map(|next| list.encode_cursor(next)),
    }))
}
