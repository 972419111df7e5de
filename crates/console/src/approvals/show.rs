//! One approval: the card, the exact content, and the buttons.

use api::ApiError;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use domain::approval::{check_assurance, may_approve};
use domain::{Approval, ApprovalId, Digest, Role, Subject, Tenant, json};
use engine::{EngineError, VoteInput};
use maud::{Markup, html};
use serde::Deserialize;
use store::Store;

use super::card;
use crate::extract::{PathParams, SessionUser};
use crate::form::SessionForm;
use crate::layout::{self, MenuItem, Page, Stream, facts, token};
use crate::page_error::{PageError, notice};
use crate::text::{MultilineText, approval_status};

/// Reasons are stored in the chain permanently, so they are short.
const REASON_CHARS_MAX: usize = 500;

#[derive(Deserialize)]
pub(crate) struct DecisionForm {
    #[serde(default)]
    answer: String,
    #[serde(default)]
    subject: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    sure: String,
}

pub(crate) async fn show<S: Store>(
    user: SessionUser<S>,
    PathParams(id): PathParams<String>,
) -> Result<Response, PageError> {
    let id = ApprovalId::new(&id).map_err(|_| not_found())?;
    let approval = user.handle.approval(&id).await?;
    render(&user, &approval, None).await
}

pub(crate) async fn answer<S: Store>(
    PathParams(id): PathParams<String>,
    SessionForm { user, form }: SessionForm<S, DecisionForm>,
) -> Result<Response, PageError> {
    let id = ApprovalId::new(&id).map_err(|_| not_found())?;
    user.require_role(Role::Approver)?;
    let approval = user.handle.approval(&id).await?;
    let reply = match reply(&user, &approval, &form) {
        Ok(reply) => reply,
        Err(problem) => return render(&user, &approval, Some(&problem)).await,
    };
    match user.handle.record_vote(reply).await {
        Ok(_) => Ok(Redirect::to(&format!("/approvals/{id}")).into_response()),
        Err(EngineError::Refused(refusal)) => {
            let current = user.handle.approval(&id).await?;
            render(&user, &current, Some(&refusal.into())).await
        }
        Err(error) => Err(error.into()),
    }
}

fn not_found() -> PageError {
    PageError::not_found("approval")
}

fn reply<S>(user: &SessionUser<S>, approval: &Approval, form: &DecisionForm) -> Result<VoteInput, ApiError> {
    let subject: Digest = form.subject.parse().map_err(|_| {
        ApiError::bad_request("the form has no valid subject hash").remedy("reload the page and decide again")
    })?;
    let approve = match form.answer.as_str() {
        "approve" => true,
        "reject" => false,
        _ => return Err(ApiError::bad_request("the decision must be `approve` or `reject`")),
    };
    let reason: String = form.reason.trim().chars().take(REASON_CHARS_MAX).collect();
    if !approve && reason.is_empty() {
        return Err(ApiError::bad_request("a rejection needs a reason"));
    }
    if approve && form.sure != "yes" && card::warning(approval).is_some() {
        return Err(ApiError::bad_request("this action is hard to undo: select the checkbox to confirm"));
    }
    let through = user.caller.channel();
    Ok(VoteInput { approval: approval.id.clone(), subject: Some(subject), approve, reason, through })
}

async fn render<S: Store>(
    user: &SessionUser<S>,
    approval: &Approval,
    refused: Option<&ApiError>,
) -> Result<Response, PageError> {
    let tenant = user.handle.tenant().await?;
    let title = format!("{}: {}", approval.workflow, approval.step);
    let page = Page {
        title: &title,
        menu_item: MenuItem::Approvals,
        // The page does not change while the approver reads it.
        stream: Stream::None,
        head: html! {
            h1 { (title) }
            p { (approval_status(approval.status)) " · run " a href={ "/runs/" (approval.run.run) } { code { (approval.run.run) } } }
            @if let Some(problem) = refused { (notice(problem)) }
        },
        live: html! { (card::card(approval)) (content(&approval.subject)) },
        foot: html! { (buttons(user, approval, &tenant)) },
    };
    let status = refused.and_then(|problem| StatusCode::from_u16(problem.status).ok());
    let page = Html(layout::page(user, &page).into_string());
    Ok((status.unwrap_or(StatusCode::OK), page).into_response())
}

/// The bytes that the hash covers.
fn content(subject: &Subject) -> Markup {
    let (kind, bytes) = match subject {
        Subject::Question { message } => ("The question", json::canonical(message)),
        Subject::Action { action, rollback: None, .. } => ("The action", json::canonical(action)),
        Subject::Action { action, rollback: Some(rollback), .. } => {
            ("The action and its declared rollback", json::canonical(&(action, rollback)))
        }
    };
    html! {
        section aria-labelledby="content" {
            h2 #content { "Exact content" }
            p.soft { (kind) " in canonical JSON. An approval is valid for this hash only; a change of the content voids it." }
            pre.exact tabindex="0" role="region" aria-label=(kind) { code { (MultilineText(&String::from_utf8_lossy(&bytes))) } }
            (facts(&[("Hash", html! { code { (subject.hash()) } })]))
        }
    }
}

fn buttons<S>(user: &SessionUser<S>, approval: &Approval, tenant: &Tenant) -> Markup {
    let person = &user.caller.person;
    html! {
        section.answer aria-labelledby="decision" {
            h2 #decision { "Your decision" }
            @if !approval.is_open() {
                p { "This approval is closed." }
            } @else if !user.has_role(Role::Approver) {
                p { "You need the role approver to decide." }
            } @else if let Err(refusal) = may_approve(approval, person, tenant) {
                p { (refusal) "." }
            } @else if let Err(refusal) = check_assurance(approval, person, &user.caller.channel()) {
                p { (refusal) "." }
            } @else if approval.votes.iter().any(|vote| vote.person == *person) {
                p { "You have decided. One more approval is required." }
            } @else {
                div.answers { (approve(user, approval)) (reject(user, approval)) }
            }
        }
    }
}

fn approve<S>(user: &SessionUser<S>, approval: &Approval) -> Markup {
    html! {
        form.stack method="post" action={ "/approvals/" (approval.id) } {
            (token(user)) (subject_hash(approval))
            label for="approve-reason" { "Reason (optional)" }
            input #approve-reason name="reason" type="text" maxlength=(REASON_CHARS_MAX) autocomplete="off";
            @if let Some(warning) = card::warning(approval) {
                label.check { input name="sure" type="checkbox" value="yes" required; " " (warning) " I confirm this action." }
            }
            button.primary type="submit" name="answer" value="approve" { "Approve" }
        }
    }
}

fn reject<S>(user: &SessionUser<S>, approval: &Approval) -> Markup {
    html! {
        form.stack method="post" action={ "/approvals/" (approval.id) } {
            (token(user)) (subject_hash(approval))
            label for="reject-reason" { "Reason" }
            input #reject-reason name="reason" type="text" required maxlength=(REASON_CHARS_MAX) autocomplete="off";
            button.danger type="submit" name="answer" value="reject" { "Reject" }
        }
    }
}

/// The hash of the content that the approver sees: the decision is valid for it only.
fn subject_hash(approval: &Approval) -> Markup {
    html! { input type="hidden" name="subject" value=(approval.subject.hash()); }
}
