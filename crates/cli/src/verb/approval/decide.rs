//! `countersign approval approve` and `countersign approval reject`.

use api_types::{DecisionOutcome, DecisionRequest};
use domain::{PersonId, StepId};
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::run_name::RunName;
use crate::verb::run::signal::run_state;

use super::find;

const EXAMPLES: &str = "\
Examples:
  countersign approval list
  countersign approval approve RUN assign --reason 'change window is open'
  countersign approval reject RUN assign --reason 'not on a Friday' --by ada

Users who participated in the run cannot decide: its requester, the author of its workflow and
the user who applied it, and users who sent the run an event or resumed, canceled or rolled it
back. If two approvers are required, each decides once. A decision is final.";

/// The length of the hash on a card.
const HASH_CHARS_MIN: usize = 12;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run
    run: RunName,
    /// The step that needs the approval
    step: StepId,
    /// The reason, which is stored with the run permanently
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// The hash of the action you reviewed, or its prefix; the decision is refused if the action has changed
    #[arg(long, value_name = "HASH")]
    hash: Option<String>,
    /// The approver [default: the current user, see --as]
    #[arg(long, value_name = "NAME")]
    by: Option<PersonId>,
}

pub(super) async fn run(args: Args, approve: bool, context: &Context) -> Result<ExitStatus, CliError> {
    let (session, run) = match args.by {
        Some(person) => context.connect_to_run_as(&args.run, person)?,
        None => context.connect_to_run(&args.run)?,
    };
    let approval = find(&session, &run, &args.step).await?;
    let hash = approval.subject_hash.to_string();
    if args.hash.as_ref().is_some_and(|seen| seen.len() < HASH_CHARS_MIN || !hash.starts_with(seen.as_str()))
    {
        return Err(CliError::Refused(format!(
            "--hash does not match: step {} now needs an approval for {hash}; review it with `approval show`",
            args.step
        )));
    }
    let person = session.client.me().await?.person;
    let request = DecisionRequest { reason: args.reason, subject_hash: Some(approval.subject_hash) };
    let decision = session.client.decide(&approval.approval, approve, &request).await?;
    let next = match decision.outcome {
        DecisionOutcome::Duplicate => "already recorded; nothing changed".to_owned(),
        DecisionOutcome::Recorded if decision.missing == 1 => "one more approval is required".to_owned(),
        DecisionOutcome::Recorded => format!("{} more approvals are required", decision.missing),
        DecisionOutcome::Decided => run_state(session.client.run(&run.run).await?.status),
    };
    let word = if approve { "approved" } else { "rejected" };
    let text = format!("{} {word} by {person}; {next}", args.step);
    let json = json!({
        "run": run.run,
        "step": args.step,
        "approval": approval.approval,
        "approved": approve,
        "by": person,
        "new": decision.outcome != DecisionOutcome::Duplicate,
    });
    context.print(&text, &json)?;
    Ok(ExitStatus::Success)
}
