//! The audit log of the tenant.

use std::str::FromStr;

use axum::Json;
use axum::extract::State;
use domain::audit::AdminChange;
use engine::AuditQuery;
use serde::Deserialize;
use store::Store;

use crate::Shared;
use crate::extract::{PathId, PathParam, QueryParams};
use crate::page::{self, List};
use crate::problem::ApiError;
use crate::role_guard::Admin;
use api_types::{AuditLogHead, AuditedChange, AuditedChanges};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    kind: Option<String>,
    cursor: Option<String>,
    limit: Option<String>,
}

/// The number of an entry in a path.
pub(crate) struct EntryNumber(u64);

impl FromStr for EntryNumber {
    type Err = ApiError;

    fn from_str(text: &str) -> Result<Self, ApiError> {
        let unknown = || ApiError::not_found(Self::WHAT);
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number).map(Self).ok_or_else(unknown)
    }
}

impl PathId for EntryNumber {
    const PART: &'static str = "sequence";
    const WHAT: &'static str = "audit entry";
}

pub(crate) async fn list<S: Store>(
    State(api): State<Shared<S>>,
    Admin { handle, .. }: Admin<S>,
    QueryParams(Filter { kind, cursor, limit }): QueryParams<Filter>,
) -> Result<Json<AuditedChanges>, ApiError> {
    let limit = page::limit(limit.as_deref())?;
    if let Some(kind) = kind.as_deref().filter(|kind| !AdminChange::KINDS.contains(kind)) {
        return Err(ApiError::bad_request(format!(
            "`kind` is {kind:?}; use one of {}",
            AdminChange::KINDS.join(", ")
        )));
    }
    let filter = kind.clone().unwrap_or_default();
    let list = List { secret: &api.cursors, tenant: handle.tenant_id(), name: "audit", filter };
    let after = cursor.as_deref().map(|cursor| list.open(cursor)).transpose()?;
    let page = handle.audit(AuditQuery { after, limit, kind }).await?;
    Ok(Json(AuditedChanges {
        changes: page.entries.into_iter().map(AuditedChange::from).collect(),
        next: page.next.as_ref().map(|next| list.encode_cursor(next)),
    }))
}

pub(crate) async fn show<S: Store>(
    Admin { handle, .. }: Admin<S>,
    PathParam(EntryNumber(sequence)): PathParam<EntryNumber>,
) -> Result<Json<AuditedChange>, ApiError> {
    let record = handle.audit_record(sequence).await?;
    record.map(|record| Json(record.into())).ok_or_else(|| ApiError::not_found(EntryNumber::WHAT))
}

pub(crate) async fn head<S: Store>(Admin { handle, .. }: Admin<S>) -> Result<Json<AuditLogHead>, ApiError> {
    Ok(Json(handle.audit_head().await?.into()))
}
