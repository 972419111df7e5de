//! `countersign workflow show`: a workflow in use, step by step.

use client::ClientError;
use domain::{Plan, WorkflowName};
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use views::table::{indented, table};
use views::tool;

use super::apply::{starts, to_json};

/// Show a workflow in use: its version, what starts it, and its steps
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign workflow show triage --json | jq .definition.steps")]
pub(crate) struct Args {
    /// The workflow
    name: WorkflowName,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let link = context.link()?;
    let shown = link.client.workflow(&args.name).await.map_err(|error| unknown(error, &args.name))?;
    let applied = &shown.workflow;
    // A plan of a newer server may hold what this program does not know; its steps are then in the JSON alone.
    let steps = serde_json::from_value::<Plan>(shown.definition.clone()).map(|plan| steps(&plan));
    let text = format!(
        "workflow  {}, version {}\nin use    since {}, by {}\nstarts    {}\n\n{}",
        applied.workflow,
        applied.version,
        applied.applied_at,
        applied.applied_by,
        starts(applied.trigger.as_ref()),
        steps.unwrap_or_else(|_| "see --json for its steps\n".to_owned()),
    );
    let mut json = to_json(applied);
    json["definition"] = json!(shown.definition);
    context.answer(&text, &json)?;
    Ok(Ending::Done)
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

fn unknown(error: ClientError, name: &WorkflowName) -> CliError {
    if error.is("NOT_FOUND") {
        return CliError::Usage(format!(
            "no workflow {name} is in use; `workflow list` shows those that are"
        ));
    }
    error.into()
}
