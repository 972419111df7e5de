//! `countersign approval approve|reject`: a person answers.

use api_types::{Answer, AnswerOutcome};
use domain::{PersonId, StepId};
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::run_name::RunName;
use crate::verb::run::signal::follows;

use super::find::find;

const EXAMPLES: &str = "\
Examples:
  countersign approval list
  countersign approval approve RUN assign --reason 'change window is open'
  countersign approval reject RUN assign --reason 'not on a Friday' --by ada

Whoever asked for the run, or wrote its workflow, cannot answer. Where two people must agree, each
answers once. A decision stands; whoever comes later is shown it.";

/// As much of a hash as a card shows.
const HASH_CHARS_MIN: usize = 12;

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
    /// The hash of what you saw, or its beginning: an answer to anything else does not count
    #[arg(long, value_name = "HASH")]
    hash: Option<String>,
    /// Who answers [default: whoever is asking, see --as]
    #[arg(long, value_name = "NAME")]
    by: Option<PersonId>,
}

pub(super) async fn run(args: Args, approve: bool, context: &Context) -> Result<Ending, CliError> {
    let (link, run) = match args.by {
        Some(person) => context.link_to_as(&args.run, person)?,
        None => context.link_to(&args.run)?,
    };
    let asked = find(&link, &run, &args.step).await?;
    let hash = asked.subject.to_string();
    if args.hash.as_ref().is_some_and(|seen| seen.len() < HASH_CHARS_MIN || !hash.starts_with(seen.as_str()))
    {
        let why = format!("step {} asks about {hash} by now, not about what you saw", args.step);
        return Err(CliError::Refused(why));
    }
    let person = link.client.me().await?.person;
    let answer = Answer { reason: args.reason, subject: Some(asked.subject) };
    let answered = link.client.answer(&asked.approval, approve, &answer).await?;
    let follows = match answered.outcome {
        AnswerOutcome::Duplicate => "you had said so before, nothing changed".to_owned(),
        AnswerOutcome::Counted if answered.missing == 1 => "one more person must agree".to_owned(),
        AnswerOutcome::Counted => format!("{} more people must agree", answered.missing),
        AnswerOutcome::Decided => follows(link.client.run(&run.run).await?.status),
    };
    let word = if approve { "approved" } else { "rejected" };
    let text = format!("{} {word} by {person}; {follows}", args.step);
    let json = json!({
        "run": run.run,
        "step": args.step,
        "approval": asked.approval,
        "approved": approve,
        "by": person,
        "new": answered.outcome != AnswerOutcome::Duplicate,
    });
    context.answer(&text, &json)?;
    Ok(Ending::Done)
}
