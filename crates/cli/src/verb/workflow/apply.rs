//! `countersign workflow apply`.

use std::path::{Path, PathBuf};

use api_types::Workflow;
use client::{ClientError, Problem};
use domain::plan::{Schedule, TriggeredBy};
use serde_json::{Value, json};
use workflow::SourcePosition;

use crate::context::Context;
use crate::error::CliError;
use crate::input::read_source;
use crate::process::ExitStatus;

const EXAMPLES: &str = "\
Examples:
  countersign workflow apply triage.yaml
  countersign workflow list

Existing runs keep their version. Applying the same file again changes nothing; a changed file
needs a higher `version`.";

/// Apply a workflow, so that its trigger and its name start runs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The workflow file
    file: PathBuf,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitStatus, CliError> {
    let source = read_source(&args.file)?;
    let session = context.connect_or_create()?;
    let applied =
        session.client.apply(source.clone()).await.map_err(|error| file_error(error, &args.file, &source))?;
    let text = format!(
        "workflow {}, version {} is applied\n  {}\n",
        applied.workflow,
        applied.version,
        trigger_text(applied.trigger.as_ref())
    );
    context.print(&text, &to_json(&applied))?;
    Ok(ExitStatus::Success)
}

/// Adds an excerpt of the file to an error with a location.
pub(in crate::verb) fn file_error(error: ClientError, path: &Path, source: &str) -> CliError {
    match error.problem() {
        Some(Problem { detail, location: Some(location), .. }) => {
            let location = SourcePosition { line: location.line, column: location.column };
            let rendered = format!("{detail}\n{}", location.snippet(source));
            CliError::InvalidWorkflow { path: path.into(), location, rendered }
        }
        _ => error.into(),
    }
}

/// The trigger of a workflow.
pub(super) fn trigger_text(by: Option<&TriggeredBy>) -> String {
    let Some(by) = by else { return "started by name only (no `trigger`)".to_owned() };
    if let Some(Schedule { cron, zone }) = &by.schedule {
        return format!("started by schedule {cron} ({zone})");
    }
    let about = by.topic.as_ref().map(|about| format!(" {about}")).unwrap_or_default();
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
