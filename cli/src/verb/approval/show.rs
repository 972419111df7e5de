//! `countersign approval show`: what exactly is asked, of whom, and why.

use std::fmt::Write as _;

use domain::{Action, Approval, Reversibility, StepId, Subject, Verdict};
use serde_json::{Value, json};

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::run_name::RunName;
use telling::time::moment;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign approval show RUN assign")]
pub(crate) struct Args {
    /// The run that asks
    run: RunName,
    /// The step that asks
    step: StepId,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let run = context.run(&args.run);
    let engine = context.existing_engine()?;
    let approval = engine.approval_of(&run, &args.step).await?;
    let json = serde_json::to_value(&approval).unwrap_or(Value::Null);
    context.answer(&text(&approval), &json!({ "approval": json, "subject": approval.subject.hash() }))?;
    Ok(Ending::Done)
}

fn text(approval: &Approval) -> String {
    let mut text = format!(
        "approval {}\nrun      {}\nstep     {}{}\nstatus   {}\nhash     {}\n",
        approval.id,
        approval.run.run,
        approval.step,
        if approval.undo { " (taking it back)" } else { "" },
        approval.outcome(),
        approval.subject.hash(),
    );
    match &approval.subject {
        Subject::Question { message } => push(&mut text, &format!("asks     {message}")),
        Subject::Action { action, verdict } => {
            push(&mut text, &proposed(action));
            push(&mut text, &because(verdict));
        }
    }
    push(&mut text, &people(approval));
    text
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

fn people(approval: &Approval) -> String {
    let names = |people: Vec<String>| if people.is_empty() { "nobody".to_owned() } else { people.join(", ") };
    let groups: Vec<_> = approval.demand.groups.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "needs    {} of {}\nnot      {}\nlapses   {}",
        approval.demand.people.count(),
        if groups.is_empty() { "anybody".to_owned() } else { groups.join(", ") },
        names(approval.excluded().iter().map(ToString::to_string).collect()),
        moment(approval.expires_at),
    );
    for vote in &approval.votes {
        let word = if vote.approve { "yes" } else { "no" };
        let _ = write!(text, "\n  {} said {word} at {}: {}", vote.person, moment(vote.at), vote.reason);
    }
    text
}
