//! `countersign approval approve|reject`: a person answers.

use domain::command::{Advanced, Answered};
use domain::{Channel, PersonId, StepId};
use engine::Reply;
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::run_name::RunName;

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
    let run = context.run(&args.run);
    let person = match args.by {
        Some(person) => person,
        None => PersonId::new(&context.user())?,
    };
    let engine = context.existing_engine()?;
    let approval = engine.approval_of(&run, &args.step).await?;
    let hash = approval.subject.hash().to_string();
    if args.hash.as_ref().is_some_and(|seen| seen.len() < HASH_CHARS_MIN || !hash.starts_with(seen.as_str()))
    {
        let why = format!("step {} asks about {hash} by now, not about what you saw", args.step);
        return Err(CliError::Refused(why));
    }
    let reply = Reply {
        approval: approval.id.clone(),
        subject: Some(approval.subject.hash()),
        person: person.clone(),
        approve,
        reason: args.reason,
        through: Channel::CommandLine,
    };
    let answered = Box::pin(engine.answer(&run.tenant, reply)).await?;
    let word = if approve { "approved" } else { "rejected" };
    let text = format!("{} {word} by {person}; {}", args.step, follows(answered));
    let json = json!({
        "run": run.run,
        "step": args.step,
        "approval": approval.id,
        "approved": approve,
        "by": person,
        "new": answered != Answered::Before,
    });
    context.answer(&text, &json)?;
    Ok(Ending::Done)
}

fn follows(answered: Answered) -> String {
    match answered {
        Answered::Before => "you had said so before, nothing changed".to_owned(),
        Answered::Counted { missing: 1 } => "one more person must agree".to_owned(),
        Answered::Counted { missing } => format!("{missing} more people must agree"),
        Answered::Decided(Advanced::Ready) => "the run goes on".to_owned(),
        Answered::Decided(Advanced::Paused) => "the run is paused".to_owned(),
        Answered::Decided(Advanced::Over(status)) => format!("the run is {status}"),
    }
}
