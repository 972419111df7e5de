//! `countersign approval approve|reject`: a person answers the question that a step asks.

use clap::Subcommand;
use domain::command::{Advanced, Decided};
use domain::{Cause, Initiator, StepId};
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::run_name::RunName;

const EXAMPLES: &str = "\
Examples:
  countersign run list --status waiting_approval
  countersign approval approve RUN ask --reason 'change window is open'
  countersign approval reject RUN ask --reason 'not on a Friday' --by ada

One answer counts; whoever comes second is shown the first.";

/// The two answers.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Say yes to the question that a step asks
    Approve(Args),
    /// Say no to the question that a step asks
    Reject(Args),
}

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run that asks
    run: RunName,
    /// The step that asks
    step: StepId,
    /// Why, in your words; kept with the run for ever
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Who answers [default: the user of this shell]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

pub(super) async fn run(verb: Verb, context: &Context) -> Result<Ending, CliError> {
    let (args, approve) = match verb {
        Verb::Approve(args) => (args, true),
        Verb::Reject(args) => (args, false),
    };
    let run = context.run(&args.run);
    let by = Initiator::new(Cause::Approval, args.by.unwrap_or_else(|| context.user()));
    let engine = context.existing_engine()?;
    let decided = engine.decide_gate(&run, &by, (args.step.clone(), approve, args.reason)).await?;
    let answer = if approve { "approved" } else { "rejected" };
    let text = format!("{} {answer} by {}; {}", args.step, by.id, follows(decided));
    let json = json!({ "run": run.run, "step": args.step, "approved": approve, "by": by.id, "new": decided != Decided::Before });
    context.answer(&text, &json)?;
    Ok(Ending::Done)
}

fn follows(decided: Decided) -> String {
    match decided {
        Decided::Before => "you had said so before, nothing changed".to_owned(),
        Decided::Now(Advanced::Ready) => "the run goes on".to_owned(),
        Decided::Now(Advanced::Paused) => "the run is paused".to_owned(),
        Decided::Now(Advanced::Over(status)) => format!("the run is {status}"),
    }
}
