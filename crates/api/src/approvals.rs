//! Requests for approval.

use axum::Json;
use axum::extract::State;
use domain::command::{Answered as Answering, may_answer};
use domain::{Approval as Asking, ApprovalId, PersonId, Tenant};
use engine::ApprovalReply;
use serde::Deserialize;
use store::Store;

use crate::Shared;
use crate::at::{Approver, Viewer};
use crate::extract::{Asked, Named, Sent};
use crate::page::{self, List};
use crate::problem::Problem;
use api_types::{Answer, AnswerOutcome, Answered, Approval, Approvals};

/// Which requests are asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    #[serde(default)]
    mine: bool,
    cursor: Option<String>,
    limit: Option<String>,
}

/// Requests that people can still answer, oldest first.
pub(crate) async fn list<S: Store>(
    State(api): State<Shared<S>>,
    Viewer { handle, caller }: Viewer<S>,
    Asked(filter): Asked<Filter>,
) -> Result<Json<Approvals>, Problem> {
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
        page.approvals.retain(|asked| is_asked(asked, &caller.person, &tenant));
    }
    Ok(Json(Approvals {
        approvals: page.approvals.into_iter().map(Approval::from).collect(),
        next: page.next.as_ref().map(|next| list.seal(next)),
    }))
}

/// Whether `person` is asked and has not answered.
fn is_asked(asked: &Asking, person: &PersonId, tenant: &Tenant) -> bool {
    may_answer(asked, person, tenant).is_ok() && asked.votes.iter().all(|vote| vote.person != *person)
}

/// A request.
pub(crate) async fn show<S: Store>(
    Viewer { handle, .. }: Viewer<S>,
    Named(approval): Named<ApprovalId>,
) -> Result<Json<Approval>, Problem> {
    Ok(Json(handle.approval(&approval).await?.into()))
}

/// Somebody says yes.
pub(crate) async fn approve<S: Store>(
    at: Approver<S>,
    Named(approval): Named<ApprovalId>,
    Sent(answer): Sent<Answer>,
) -> Result<Json<Answered>, Problem> {
    said(at, approval, true, answer).await
}

/// Somebody says no.
pub(crate) async fn reject<S: Store>(
    at: Approver<S>,
    Named(approval): Named<ApprovalId>,
    Sent(answer): Sent<Answer>,
) -> Result<Json<Answered>, Problem> {
    said(at, approval, false, answer).await
}

async fn said<S: Store>(
    Approver { handle, caller }: Approver<S>,
    approval: ApprovalId,
    approve: bool,
    Answer { reason, subject }: Answer,
) -> Result<Json<Answered>, Problem> {
    let through = caller.channel();
    let reply = ApprovalReply { approval: approval.clone(), subject, approve, reason, through };
    let outcome = match handle.answer(reply).await? {
        Answering::Decided(_) => AnswerOutcome::Decided,
        Answering::Counted { .. } => AnswerOutcome::Counted,
        Answering::Duplicate => AnswerOutcome::Duplicate,
    };
    let asked = handle.approval(&approval).await?;
    Ok(Json(Answered { approval, status: asked.status, outcome, missing: asked.missing() }))
}
