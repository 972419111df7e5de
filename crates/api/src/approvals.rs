//! Approvals.

use axum::Json;
use axum::extract::State;
use domain::approval::{check_assurance, may_approve};
use domain::command::VoteResult;
use domain::{Approval as DomainApproval, ApprovalId, Tenant};
use engine::VoteInput;
use serde::Deserialize;
use store::Store;

use crate::Shared;
use crate::auth::Caller;
use crate::extract::{JsonBody, PathParam, QueryParams};
use crate::page::{self, List};
use crate::problem::ApiError;
use crate::role_guard::{Approver, Viewer};
use api_types::{Approval, Approvals, DecisionOutcome, DecisionRequest, DecisionResponse};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    #[serde(default)]
    mine: bool,
    cursor: Option<String>,
    limit: Option<String>,
}

/// Open approvals, oldest first.
pub(crate) async fn list<S: Store>(
    State(api): State<Shared<S>>,
    Viewer { handle, caller }: Viewer<S>,
    QueryParams(filter): QueryParams<Filter>,
) -> Result<Json<Approvals>, ApiError> {
    let limit = page::limit(filter.limit.as_deref())?;
    let list = List {
        secret: &api.cursors,
        tenant: handle.tenant_id(),
        name: "approvals",
        filter: format!("mine={}", filter.mine),
    };
    let after = filter.cursor.as_deref().map(|cursor| list.open(cursor)).transpose()?;
    let mut page = handle.open_approvals(after, limit).await?;
    if filter.mine {
        let tenant = handle.tenant().await?;
        page.approvals.retain(|approval| can_decide(approval, &caller, &tenant));
    }
    Ok(Json(Approvals {
        approvals: page.approvals.into_iter().map(Approval::from).collect(),
        next: page.next.as_ref().map(|next| list.encode_cursor(next)),
    }))
}

/// Whether the caller may decide the approval and has not decided yet.
fn can_decide(approval: &DomainApproval, caller: &Caller, tenant: &Tenant) -> bool {
    let person = &caller.person;
    may_approve(approval, person, tenant).is_ok()
        && check_assurance(approval, person, &caller.channel()).is_ok()
        && approval.votes.iter().all(|vote| vote.person != *person)
}

pub(crate) async fn show<S: Store>(
    Viewer { handle, .. }: Viewer<S>,
    PathParam(approval): PathParam<ApprovalId>,
) -> Result<Json<Approval>, ApiError> {
    Ok(Json(handle.approval(&approval).await?.into()))
}

pub(crate) async fn approve<S: Store>(
    approver: Approver<S>,
    PathParam(approval): PathParam<ApprovalId>,
    JsonBody(answer): JsonBody<DecisionRequest>,
) -> Result<Json<DecisionResponse>, ApiError> {
    decide(approver, approval, true, answer).await
}

pub(crate) async fn reject<S: Store>(
    approver: Approver<S>,
    PathParam(approval): PathParam<ApprovalId>,
    JsonBody(answer): JsonBody<DecisionRequest>,
) -> Result<Json<DecisionResponse>, ApiError> {
    decide(approver, approval, false, answer).await
}

async fn decide<S: Store>(
    Approver { handle, caller }: Approver<S>,
    approval: ApprovalId,
    approve: bool,
    DecisionRequest { reason, subject_hash }: DecisionRequest,
) -> Result<Json<DecisionResponse>, ApiError> {
    let through = caller.channel();
    let reply = VoteInput { approval: approval.clone(), subject: subject_hash, approve, reason, through };
    let outcome = match handle.record_vote(reply).await? {
        VoteResult::Decided(_) => DecisionOutcome::Decided,
        VoteResult::Counted { .. } => DecisionOutcome::Recorded,
        VoteResult::Duplicate => DecisionOutcome::Duplicate,
    };
    let decided = handle.approval(&approval).await?;
    Ok(Json(DecisionResponse { approval, status: decided.status, outcome, missing: decided.missing() }))
}
