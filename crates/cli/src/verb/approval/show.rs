//! `countersign approval show`.

use api_types::Approval;
use domain::verdict::RequiredAssurance;
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

/// The text of an approval: one field on each line. Untrusted text, such as that of a ticket, can contain line breaks. The
/// lines after the first one are indented, so that they cannot be taken for a field.
#[derive(Default)]
struct Card(String);

/// The values start in the column after the longest name.
const VALUE_COLUMN: usize = 9;

impl Card {
    fn field(&mut self, name: &str, value: &str) {
        let width = VALUE_COLUMN - 1;
        self.line(&format!("{name:<width$} {value}"));
    }

    /// A line that belongs to the field above it.
    fn detail(&mut self, text: &str) {
        self.line(&format!("  {text}"));
    }

    fn line(&mut self, text: &str) {
        let indented = text.trim_end().replace('\n', &format!("\n{:VALUE_COLUMN$}", ""));
        self.0.push_str(&indented);
        self.0.push('\n');
    }
}

fn text(approval: &Approval) -> String {
    let mut card = Card::default();
    let rollback = if approval.rollback { " (rollback)" } else { "" };
    card.field("approval", approval.approval.as_str());
    card.field("run", approval.run.as_str());
    card.field("step", &format!("{}{rollback}", approval.step));
    card.field("status", &status_text(approval));
    card.field("hash", &approval.subject_hash.to_string());
    for warning in history(approval) {
        card.field("warning", &warning);
    }
    match &approval.subject {
        Subject::Question { message } => card.field("question", message),
        Subject::Action { action, verdict, rollback } => {
            add_action(&mut card, action);
            if let Some(call) = rollback {
                card.field("rollback", &format!("{} with {}", call.tool, call.with));
            }
            add_verdict(&mut card, verdict);
        }
    }
    add_approvers(&mut card, approval);
    card.0
}

/// What happened before this request.
fn history(approval: &Approval) -> impl Iterator<Item = String> {
    let attempted = approval.attempted_at.as_ref();
    let attempted = attempted.map(|at| format!("the action may already have happened at {at}"));
    let rejected = approval.rejected.as_ref().map(|rejection| {
        format!("rejected before by {} at {}: {}", rejection.by, rejection.at, rejection.reason)
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

/// The proposed action, field by field.
fn add_action(card: &mut Card, action: &Action) {
    card.field("action", &format!("{} on {}", action.tool, action.target));
    card.field("undo", &reversibility_text(&action.reversibility));
    for change in &action.changes {
        let before = change.before.as_ref().map_or_else(|| "?".to_owned(), Value::to_string);
        card.detail(&format!("{}: {before} → {}", change.field, change.after));
    }
    if action.changes.is_empty() {
        for argument in arguments(&action.fields) {
            card.detail(&argument);
        }
    }
}

/// The arguments of a call, one on each line: what is called comes first, and a long body does not hide it. Values are
/// JSON, in which a line break is escaped.
fn arguments(fields: &Value) -> Vec<String> {
    let Value::Object(fields) = fields else { return vec![fields.to_string()] };
    let mut fields: Vec<_> = fields.iter().filter(|(_, value)| !value.is_null()).collect();
    fields.sort_by_key(|(name, _)| match name.as_str() {
        "method" => 0,
        "url" => 1,
        "query" => 2,
        "body" => 4,
        _ => 3,
    });
    fields.into_iter().map(|(name, value)| format!("{name}: {value}")).collect()
}

fn reversibility_text(reversibility: &Reversibility) -> String {
    match reversibility {
        Reversibility::NoEffect => "nothing to undo".to_owned(),
        Reversibility::Inverse => "reversible: the receipt records the previous values".to_owned(),
        Reversibility::Compensable => "compensable: by another call, if the workflow defines one".to_owned(),
        Reversibility::Irreversible(why) => format!("irreversible: {why}"),
    }
}

fn add_verdict(card: &mut Card, verdict: &Verdict) {
    card.field("policy", &verdict.policy.to_string());
    for reason in &verdict.reasons {
        let location = match (&reason.file, reason.line) {
            (Some(file), Some(line)) => format!(" ({file}:{line})"),
            _ => String::new(),
        };
        card.detail(&format!("{}: {}{location}", reason.rule, reason.message));
    }
}

fn add_approvers(card: &mut Card, approval: &Approval) {
    let names =
        |names: Vec<String>, none: &str| if names.is_empty() { none.to_owned() } else { names.join(", ") };
    let groups = approval.requirement.groups.iter().map(ToString::to_string).collect();
    let excluded = approval.excluded.iter().map(ToString::to_string).collect();
    let people = approval.requirement.people.count();
    card.field("needs", &format!("{people} of {}", names(groups, "all users of the tenant")));
    if approval.requirement.assurance == RequiredAssurance::IdentityProvider {
        card.detail("approvers must sign in to the console through the identity provider");
    }
    card.field("excluded", &names(excluded, "none"));
    card.field("expires", &approval.expires_at);
    for vote in &approval.votes {
        let word = if vote.approve { "approved" } else { "rejected" };
        let by = vote.assurance.replace('_', " ");
        card.detail(&format!(
            "{} {word} at {} (authenticated by {by}): {}",
            vote.person, vote.at, vote.reason
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_break_starts_no_field() {
        let mut card = Card::default();
        card.field("question", "Go on?\nstatus   approved by grace\n");
        card.detail("grace approved at noon: fine\n\nexpires  never");
        let expected = "question Go on?\n         status   approved by grace\n  \
                        grace approved at noon: fine\n         \n         expires  never\n";
        assert_eq!(card.0, expected);
    }

    #[test]
    fn long_body_is_the_last_argument() {
        let call = json!({
            "body": { "note": "a\nb" }, "headers": {}, "method": "POST", "query": { "to": "eve" },
            "timeout": null, "url": "https://pay.example",
        });
        let expected = [
            r#"method: "POST""#,
            r#"url: "https://pay.example""#,
            r#"query: {"to":"eve"}"#,
            "headers: {}",
            r#"body: {"note":"a\nb"}"#,
        ];
        assert_eq!(arguments(&call), expected);
        assert_eq!(arguments(&json!(["a"])), [r#"["a"]"#]);
    }
}
