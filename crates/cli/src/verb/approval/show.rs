//! `countersign approval show`.

use std::fmt::Write as _;

use api_types::Approval;
use domain::{Action, ApprovalStatus, Reversibility, StepId, Subject, Verdict};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::run_name::RunName;

use super::find;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign approval show RUN assign")]
pub(crate) struct Args {
    /// The run
    run: RunName,
    /// The step that needs the approval
    step: StepId,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let (session, run) = context.connect_to_run(&args.run)?;
    let approval = find(&session, &run, &args.step).await?;
    let mut json = json!(approval);
    json["id"] = json!(approval.approval);
    context.print(&text(&approval), &json!({ "approval": json }))?;
    Ok(ExitStatus::Success)
}

fn text(approval: &Approval) -> String {
    let mut text = format!(
        "approval {}\nrun      {}\nstep     {}{}\nstatus   {}\nhash     {}\n",
        approval.approval,
        approval.run,
        approval.step,
        if approval.rollback { " (rollback)" } else { "" },
        status_text(approval),
        approval.subject_hash,
    );
    for line in history(approval) {
        push_line(&mut text, &line);
    }
    match &approval.subject {
        Subject::Question { message } => push_line(&mut text, &format!("question {message}")),
        Subject::Action { action, verdict, rollback } => {
            push_line(&mut text, &action_text(action));
            if let Some(call) = rollback {
                push_line(&mut text, &format!("rollback {} with {}", call.tool, call.with));
            }
            push_line(&mut text, &reasons_text(verdict));
        }
    }
    push_line(&mut text, &approvers_text(approval));
    text
}

/// What happened before this request.
fn history(approval: &Approval) -> impl Iterator<Item = String> {
    let attempted = approval.attempted_at.as_ref();
    let attempted = attempted.map(|at| format!("warning  the action may already have happened at {at}"));
    let rejected = approval.rejected.as_ref().map(|rejection| {
        format!("warning  rejected before by {} at {}: {}", rejection.by, rejection.at, rejection.reason)
    });
    attempted.into_iter().chain(rejected)
}

fn status_text(approval: &Approval) -> String {
    match (approval.status, approval.votes.last()) {
        (ApprovalStatus::Approved | ApprovalStatus::Rejected, Some(vote)) => {
            format!("{} by {} at {}", approval.status.as_str(), vote.person, vote.at)
        }
        (status, _) => status.as_str().to_owned(),
    }
}

fn push_line(text: &mut String, more: &str) {
    text.push_str(more);
    text.push('\n');
}

/// The proposed action, field by field.
fn action_text(action: &Action) -> String {
    let mut text = format!(
        "action   {} on {}\nundo     {}",
        action.tool,
        action.target,
        reversibility_text(&action.reversibility)
    );
    for change in &action.changes {
        let before = change.before.as_ref().map_or_else(|| "?".to_owned(), Value::to_string);
        let _ = write!(text, "\n  {}: {before} → {}", change.field, change.after);
    }
    if action.changes.is_empty() {
        let _ = write!(text, "\n  {}", action.fields);
    }
    text
}

fn reversibility_text(reversibility: &Reversibility) -> String {
    match reversibility {
        Reversibility::NoEffect => "nothing to undo".to_owned(),
        Reversibility::Inverse => "reversible: the receipt records the previous values".to_owned(),
        Reversibility::Compensable => "compensable: by another call, if the workflow defines one".to_owned(),
        Reversibility::Irreversible(why) => format!("irreversible: {why}"),
    }
}

fn reasons_text(verdict: &Verdict) -> String {
    let line = |reason: &domain::Reason| {
        let location = match (&reason.file, reason.line) {
            (Some(file), Some(line)) => format!(" ({file}:{line})"),
            _ => String::new(),
        };
        format!("  {}: {}{location}", reason.rule, reason.message)
    };
    let rules = verdict.reasons.iter().map(line).collect::<Vec<_>>().join("\n");
    format!("policy   {}\n{rules}", verdict.policy)
}

fn approvers_text(approval: &Approval) -> String {
    let names = |people: Vec<String>| if people.is_empty() { "none".to_owned() } else { people.join(", ") };
    let groups: Vec<_> = approval.requirement.groups.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "needs    {} of {}\nexcluded {}\nexpires  {}",
        approval.requirement.people.count(),
        if groups.is_empty() { "all users of the tenant".to_owned() } else { groups.join(", ") },
        names(approval.excluded.iter().map(ToString::to_string).collect()),
        approval.expires_at,
    );
    for vote in &approval.votes {
        let word = if vote.approve { "approved" } else { "rejected" };
        let _ = write!(text, "\n  {} {word} at {}: {}", vote.person, vote.at, vote.reason);
    }
    text
}
