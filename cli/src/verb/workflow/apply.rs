//! `countersign workflow apply`: what triggers a workflow starts runs of it from now on.

use std::path::PathBuf;

use connectors::{Allow, Settings};
use domain::Applied;
use domain::plan::{Schedule, TriggeredBy};
use serde_json::{Value, json};

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::input::read_workflow;

const EXAMPLES: &str = "\
Examples:
  countersign workflow apply triage.yaml
  countersign workflow list

Runs that are under way keep the version they began with. Applying the same file again changes nothing;
another file needs a larger `version`.";

/// Put a workflow to use: its trigger starts runs of it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The workflow
    file: PathBuf,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<Ending, CliError> {
    let plan = read_workflow(&args.file, &connectors::standard(Allow::default(), Settings::default()))?;
    let engine = context.engine()?;
    let applied = engine.apply(&context.tenant, &plan, context.by_user()).await?;
    let text = format!(
        "workflow {}, version {} is in use\n  {}\n",
        applied.workflow,
        applied.version,
        starts(applied.triggered_by.as_ref())
    );
    context.answer(&text, &to_json(&applied))?;
    Ok(Ending::Done)
}

/// What starts runs, in words.
pub(super) fn starts(by: Option<&TriggeredBy>) -> String {
    let Some(by) = by else { return "started by name alone: it has no `trigger`".to_owned() };
    if let Some(Schedule { cron, zone }) = &by.schedule {
        return format!("started by schedule {cron} in {zone}");
    }
    let about = by.about.as_ref().map(|about| format!(" {about}")).unwrap_or_default();
    let when = by.when.as_ref().map(|when| format!(" when {when}")).unwrap_or_default();
    format!("started by {}{about}{when}", by.source)
}

pub(super) fn to_json(applied: &Applied) -> Value {
    json!({
        "workflow": applied.workflow,
        "version": applied.version,
        "plan": applied.plan,
        "trigger": applied.triggered_by,
        "applied_at": applied.at,
        "applied_by": applied.by.id,
    })
}
