//! One request: the card, the exact action, and the two buttons.

use api::Problem;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use domain::command::may_answer;
use domain::{Approval, ApprovalId, Digest, Role, Subject, Tenant, json};
use engine::{ApprovalReply, EngineError};
use maud::{Markup, html};
use serde::Deserialize;
use store::Store;

use super::card;
use crate::at::{Named, Visitor};
use crate::form::Sent;
use crate::layout::{self, Entry, Page, Stream, facts, token};
use crate::no::{No, notice};
use crate::text::{Lines, approval_status};

/// More is an essay; the chain keeps it for ever.
const REASON_CHARS_MAX: usize = 500;

#[derive(Deserialize)]
pub(crate) struct Said {
    #[serde(default)]
    answer: String,
    #[serde(default)]
    subject: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    sure: String,
}

pub(crate) async fn show<S: Store>(visitor: Visitor<S>, Named(id): Named<String>) -> Result<Response, No> {
    let id = ApprovalId::new(&id).map_err(|_| unknown())?;
    let approval = visitor.handle.approval(&id).await?;
    render(&visitor, &approval, None).await
}

pub(crate) async fn answer<S: Store>(
    Named(id): Named<String>,
    Sent { visitor, form }: Sent<S, Said>,
) -> Result<Response, No> {
    let id = ApprovalId::new(&id).map_err(|_| unknown())?;
    visitor.must_be(Role::Approver)?;
    let approval = visitor.handle.approval(&id).await?;
    let reply = match reply(&visitor, &approval, &form) {
        Ok(reply) => reply,
        Err(problem) => return render(&visitor, &approval, Some(&problem)).await,
    };
    match visitor.handle.answer(reply).await {
        Ok(_) => Ok(Redirect::to(&format!("/approvals/{id}")).into_response()),
        Err(EngineError::Refused(refusal)) => {
            let stands = visitor.handle.approval(&id).await?;
            render(&visitor, &stands, Some(&refusal.into())).await
        }
        Err(error) => Err(error.into()),
    }
}

fn unknown() -> No {
    No::such("request for approval")
}

fn reply<S>(visitor: &Visitor<S>, approval: &Approval, form: &Said) -> Result<ApprovalReply, Problem> {
    let subject: Digest =
        form.subject.parse().map_err(|_| Problem::bad_request("the form does not say what was approved"))?;
    let approve = match form.answer.as_str() {
        "approve" => true,
        "reject" => false,
        _ => return Err(Problem::bad_request("the form says neither yes nor no")),
    };
    let reason: String = form.reason.trim().chars().take(REASON_CHARS_MAX).collect();
    if !approve && reason.is_empty() {
        return Err(Problem::bad_request("a no needs a reason: whoever asked wants to know what to change"));
    }
    if approve && form.sure != "yes" && card::warning(approval).is_some() {
        return Err(Problem::bad_request(
            "a yes that is hard to make good again is asked for twice: tick the box",
        ));
    }
    let through = visitor.caller.channel();
    Ok(ApprovalReply { approval: approval.id.clone(), subject: Some(subject), approve, reason, through })
}

async fn render<S: Store>(
    visitor: &Visitor<S>,
    approval: &Approval,
    refused: Option<&Problem>,
) -> Result<Response, No> {
    let tenant = visitor.handle.tenant().await?;
    let title = format!("{}: {}", approval.workflow, approval.step);
    let page = Page {
        title: &title,
        under: Entry::Approvals,
        // What somebody is reading to decide on does not change under their eyes.
        stream: Stream::None,
        head: html! {
            h1 { (title) }
            p { (approval_status(approval.status)) " · run " a href={ "/runs/" (approval.run.run) } { code { (approval.run.run) } } }
            @if let Some(problem) = refused { (notice(problem)) }
        },
        live: html! { (card::drawn(approval)) (exactly(&approval.subject)) },
        foot: html! { (buttons(visitor, approval, &tenant)) },
    };
    let status = refused.and_then(|problem| StatusCode::from_u16(problem.status).ok());
    let page = Html(layout::page(visitor, &page).into_string());
    Ok((status.unwrap_or(StatusCode::OK), page).into_response())
}

/// What exactly is approved: every byte that the hash covers.
fn exactly(subject: &Subject) -> Markup {
    let (what, bytes) = match subject {
        Subject::Question { message } => ("The question", json::canonical(message)),
        Subject::Action { action, .. } => ("The action", json::canonical(action)),
    };
    html! {
        section aria-labelledby="exactly" {
            h2 #exactly { "What exactly is approved" }
            p.soft { (what) " in canonical JSON. A yes is bound to its hash: should anything of it change, the yes counts for nothing." }
            pre.exact tabindex="0" role="region" aria-label=(what) { code { (Lines(&String::from_utf8_lossy(&bytes))) } }
            (facts(&[("Hash", html! { code { (subject.hash()) } })]))
        }
    }
}

fn buttons<S>(visitor: &Visitor<S>, approval: &Approval, tenant: &Tenant) -> Markup {
    let person = &visitor.caller.person;
    html! {
        section.answer aria-labelledby="answer" {
            h2 #answer { "Your answer" }
            @if !approval.is_open() {
                p { "It has been answered; nothing more can be said to it." }
            } @else if !visitor.may(Role::Approver) {
                p { "Your key lets you look. Answering takes the role approver." }
            } @else if let Err(refusal) = may_answer(approval, person, tenant) {
                p { (refusal) "." }
            } @else if approval.votes.iter().any(|vote| vote.person == *person) {
                p { "You have answered. Another person must agree." }
            } @else {
                div.answers { (yes(visitor, approval)) (no(visitor, approval)) }
            }
        }
    }
}

fn yes<S>(visitor: &Visitor<S>, approval: &Approval) -> Markup {
    html! {
        form.stack method="post" action={ "/approvals/" (approval.id) } {
            (token(visitor)) (bound(approval))
            label for="yes-reason" { "Why, if you want to say" }
            input #yes-reason name="reason" type="text" maxlength=(REASON_CHARS_MAX) autocomplete="off";
            @if let Some(warning) = card::warning(approval) {
                label.check { input name="sure" type="checkbox" value="yes" required; " " (warning) " I am sure." }
            }
            button.primary type="submit" name="answer" value="approve" { "Approve" }
        }
    }
}

fn no<S>(visitor: &Visitor<S>, approval: &Approval) -> Markup {
    html! {
        form.stack method="post" action={ "/approvals/" (approval.id) } {
            (token(visitor)) (bound(approval))
            label for="no-reason" { "Why not" }
            input #no-reason name="reason" type="text" required maxlength=(REASON_CHARS_MAX) autocomplete="off";
            button.danger type="submit" name="answer" value="reject" { "Reject" }
        }
    }
}

/// What was seen: an answer to something else does not count.
fn bound(approval: &Approval) -> Markup {
    html! { input type="hidden" name="subject" value=(approval.subject.hash()); }
}
