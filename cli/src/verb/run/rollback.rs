//! `countersign run rollback`: takes a run's effects back.

use domain::StepSeq;
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;

use super::directive::Directive;

/// Take a run's effects back, newest first, and stop it
///
/// Every finished step whose workflow says how is taken back; the run then ends as canceled. A step that is
/// being worked on must finish first: `run pause` waits for that.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign run rollback RUN --reason 'wrong customer'")]
pub(crate) struct Args {
    #[command(flatten)]
    wish: Directive,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let run = context.run(&args.wish.run);
    let engine = context.existing_engine()?;
    let first: StepSeq = engine.roll_back(&run, &context.by_user(), &args.wish.reason).await?;
    let view = engine.inspect(&run).await?;
    let step = view.plan().step(first).map(|step| step.id.clone());
    let name = step.as_ref().map_or_else(|| first.to_string(), ToString::to_string);
    let watch = context.hints_for(&run).run("watch", &run);
    context.answer(
        &format!("the run takes its effects back, beginning with step {name}\n  follow it with: {watch}"),
        &json!({ "run": run.run, "result": "rolling_back", "first": step }),
    )?;
    Ok(Ending::Done)
}
