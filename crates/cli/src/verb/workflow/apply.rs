//! `countersign workflow apply`: what triggers a workflow starts runs of it from now on.

use std::path::{Path, PathBuf};

use api_types::Workflow;
use client::{ClientError, Problem};
use domain::plan::{Schedule, TriggeredBy};
use serde_json::{Value, json};
use workflow::Place;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::input::read_source;

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
    let source = read_source(&args.file)?;
    let link = context.link_or_new()?;
    let applied =
        link.client.apply(source.clone()).await.map_err(|error| in_file(error, &args.file, &source))?;
    let text = format!(
        "workflow {}, version {} is in use\n  {}\n",
        applied.workflow,
        applied.version,
        starts(applied.trigger.as_ref())
    );
    context.answer(&text, &to_json(&applied))?;
    Ok(Ending::Done)
}

/// What is wrong with a file, with the line that it is on.
pub(in crate::verb) fn in_file(error: ClientError, path: &Path, source: &str) -> CliError {
    match error.problem() {
        Some(Problem { detail, place: Some(place), .. }) => {
            let place = Place { line: place.line, column: place.column };
            let shown = format!("{detail}\n{}", place.snippet(source));
            CliError::NotAWorkflow { path: path.into(), place, shown }
        }
        _ => error.into(),
    }
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

pub(super) fn to_json(applied: &Workflow) -> Value {
    json!({
        "workflow": applied.workflow,
        "version": applied.version,
        "plan": applied.plan,
        "trigger": applied.trigger,
        "applied_at": applied.applied_at,
        "applied_by": applied.applied_by,
    })
}
