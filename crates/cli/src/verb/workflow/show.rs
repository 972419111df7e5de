//! `countersign workflow show`.

use client::ClientError;
use domain::{Plan, WorkflowName};
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use views::table::{indented, table};
use views::tool;

use super::apply::{to_json, trigger_text};

/// Show the version, trigger and steps of an applied workflow
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign workflow show triage --json | jq .definition.steps")]
pub(crate) struct Args {
    /// The workflow
    name: WorkflowName,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let session = context.connect()?;
    let detail = session.client.workflow(&args.name).await.map_err(|error| show_error(error, &args.name))?;
    let applied = &detail.workflow;
    // A newer server may return a plan that this program cannot read; its steps are then in the JSON only.
    let steps = serde_json::from_value::<Plan>(detail.definition.clone()).map(|plan| steps(&plan));
    let text = format!(
        "workflow  {}, version {}\napplied   at {} by {}\ntrigger   {}\n\n{}",
        applied.workflow,
        applied.version,
        applied.applied_at,
        applied.applied_by,
        trigger_text(applied.trigger.as_ref()),
        steps.unwrap_or_else(|_| "see the steps with --json\n".to_owned()),
    );
    let mut json = to_json(applied);
    json["definition"] = json!(detail.definition);
    context.print(&text, &json)?;
    Ok(ExitStatus::Success)
}

fn steps(plan: &Plan) -> String {
    let rows: Vec<_> = (1..)
        .zip(&plan.steps)
        .map(|(number, step): (usize, _)| {
            [number.to_string(), step.id.to_string(), tool(&step.work).to_owned()]
        })
        .collect();
    indented(&table(["#", "STEP", "TOOL"], &rows), 2)
}

fn show_error(error: ClientError, name: &WorkflowName) -> CliError {
    if error.is("NOT_FOUND") {
        return CliError::Usage(format!(
            "workflow {name} is not applied; list applied workflows with `workflow list`"
        ));
    }
    error.into()
}
