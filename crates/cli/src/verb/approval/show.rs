//! `countersign approval show`: what exactly is asked, of whom, and why.

use std::fmt::Write as _;

use api_types::Approval;
use domain::{Action, ApprovalStatus, Reversibility, StepId, Subject, Verdict};
use serde_json::{Value, json};

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::run_name::RunName;

use super::find::find;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign approval show RUN assign")]
pub(crate) struct Args {
    /// The run that asks
    run: RunName,
    /// The step that asks
    step: StepId,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let (link, run) = context.link_to(&args.run)?;
    let asked = find(&link, &run, &args.step).await?;
    let mut json = json!(asked);
    json["id"] = json!(asked.approval);
    json["subject"] = json!(asked.about);
    context.answer(&text(&asked), &json!({ "approval": json, "subject": asked.subject }))?;
    Ok(Ending::Done)
}

fn text(asked: &Approval) -> String {
    let mut text = format!(
        "approval {}\nrun      {}\nstep     {}{}\nstatus   {}\nhash     {}\n",
        asked.approval,
        asked.run,
        asked.step,
        if asked.undo { " (taking it back)" } else { "" },
        outcome(asked),
        asked.subject,
    );
    match &asked.about {
        Subject::Question { message } => push(&mut text, &format!("asks     {message}")),
        Subject::Action { action, verdict } => {
            push(&mut text, &proposed(action));
            push(&mut text, &because(verdict));
        }
    }
    push(&mut text, &people(asked));
    text
}

/// How it stands, and whose word that was.
fn outcome(asked: &Approval) -> String {
    match (asked.status, asked.votes.last()) {
        (ApprovalStatus::Approved | ApprovalStatus::Rejected, Some(vote)) => {
            format!("{} by {} at {}", asked.status.as_str(), vote.person, vote.at)
        }
        (status, _) => status.as_str().to_owned(),
    }
}

fn push(text: &mut String, more: &str) {
    text.push_str(more);
    text.push('\n');
}

/// What would be done, field by field.
fn proposed(action: &Action) -> String {
    let mut text =
        format!("would    {} on {}\nundo     {}", action.tool, action.target, undo(&action.reversibility));
    for change in &action.changes {
        let before = change.before.as_ref().map_or_else(|| "?".to_owned(), Value::to_string);
        let _ = write!(text, "\n  {}: {before} → {}", change.field, change.after);
    }
    if action.changes.is_empty() {
        let _ = write!(text, "\n  {}", action.fields);
    }
    text
}

fn undo(reversibility: &Reversibility) -> String {
    match reversibility {
        Reversibility::NoEffect => "nothing to take back".to_owned(),
        Reversibility::Inverse => "reversible: the receipt will say how to restore what was there".to_owned(),
        Reversibility::Compensable => {
            "compensable: another call makes up for it, if the workflow names one".to_owned()
        }
        Reversibility::Irreversible(why) => format!("irreversible: {why}"),
    }
}

fn because(verdict: &Verdict) -> String {
    let line = |reason: &domain::Reason| {
        let place = match (&reason.file, reason.line) {
            (Some(file), Some(line)) => format!(" ({file}:{line})"),
            _ => String::new(),
        };
        format!("  {}: {}{place}", reason.rule, reason.says)
    };
    let rules = verdict.because.iter().map(line).collect::<Vec<_>>().join("\n");
    format!("policy   {}\n{rules}", verdict.policy)
}

fn people(asked: &Approval) -> String {
    let names = |people: Vec<String>| if people.is_empty() { "nobody".to_owned() } else { people.join(", ") };
    let groups: Vec<_> = asked.demand.groups.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "needs    {} of {}\nnot      {}\nlapses   {}",
        asked.demand.people.count(),
        if groups.is_empty() { "anybody the tenant knows".to_owned() } else { groups.join(", ") },
        names(asked.excluded.iter().map(ToString::to_string).collect()),
        asked.expires_at,
    );
    for vote in &asked.votes {
        let word = if vote.approve { "yes" } else { "no" };
        let _ = write!(text, "\n  {} said {word} at {}: {}", vote.person, vote.at, vote.reason);
    }
    text
}
