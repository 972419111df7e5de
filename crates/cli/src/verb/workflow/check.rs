//! `countersign workflow check`.

use std::path::{Path, PathBuf};

use connectors::ToolRegistry;
use domain::plan::{InputRefs, Plan, PlannedStep, Undo, Work};
use serde_json::{Value, json};

use crate::context::{Context, default_tools};
use crate::error::CliError;
use crate::input::{read_source, read_workflow};
use crate::process::ExitStatus;
use crate::verb::workflow::apply::file_error;
use views::table::{indented, table};
use views::{counted, tool};

const EXAMPLES: &str = "\
Examples:
  countersign workflow check triage.yaml
  countersign workflow check workflows/*.yaml --json
  countersign workflow check triage.yaml --resolve

Without --resolve only the file is read. With it, the server or store also checks what `workflow apply`
would: that each step has a connection, the author is a user, and the version is new.

The effect class determines the recovery when a worker dies in the middle of a step:
  pure, read_only, native_key, compare_and_set   the step is repeated
  look_up                                        the effect is looked up first
  opaque                                         the run pauses for an operator";

/// Validate workflow files and list their steps, effects and inputs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also check the connections, the author and the trigger against the tenant; nothing is applied
    #[arg(long)]
    resolve: bool,
}

/// Checks every file, also after an invalid one.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let tools = default_tools();
    let session = if args.resolve { Some(context.connect()?) } else { None };
    let mut errors = Vec::new();
    for file in &args.files {
        let mut checked = read_workflow(file, &tools);
        if let (Some(session), Ok(_)) = (&session, &checked) {
            let source = read_source(file)?;
            if let Err(error) = session.client.check_workflow(source.clone()).await {
                checked = Err(file_error(error, file, &source));
            }
        }
        match checked {
            Ok(plan) => context.print(&plan_text(file, &plan, &tools), &plan_json(file, &plan, &tools))?,
            Err(error) => errors.push(error),
        }
    }
    match (errors.len(), args.files.len()) {
        (0, _) => Ok(ExitStatus::Success),
        (_, 1) => errors.pop().map_or(Ok(ExitStatus::Success), Err),
        (invalid, total) => {
            for error in &errors {
                error.report(context.json);
            }
            Err(CliError::InvalidFiles { invalid, total })
        }
    }
}

fn plan_text(file: &Path, plan: &Plan, tools: &ToolRegistry) -> String {
    let heading = format!(
        "{}: workflow {}, version {}, {}, plan {}\n",
        file.display(),
        plan.workflow,
        plan.version,
        counted(plan.steps.len(), "step"),
        plan.hash().short(),
    );
    let rows: Vec<_> = plan.steps.iter().enumerate().map(|(at, step)| row(plan, tools, at, step)).collect();
    heading + &indented(&table(["#", "STEP", "TOOL", "EFFECT", "READS", "ROLLBACK"], &rows), 2)
}

fn row(plan: &Plan, tools: &ToolRegistry, at: usize, step: &PlannedStep) -> [String; 6] {
    let rollback = match &step.rollback {
        None => String::new(),
        Some(Undo::Auto) => "auto".to_owned(),
        Some(Undo::Call(call)) => call.tool.to_string(),
    };
    [
        (at + 1).to_string(),
        step.id.to_string(),
        tool(&step.work).to_owned(),
        effect(tools, &step.work).unwrap_or_else(|| "known at run time".to_owned()),
        input_names(plan, &step.reads).join(", "),
        rollback,
    ]
}

fn plan_json(file: &Path, plan: &Plan, tools: &ToolRegistry) -> Value {
    let step = |step: &PlannedStep| {
        json!({
            "id": step.id,
            "tool": tool(&step.work),
            "effect": effect(tools, &step.work),
            "reads": input_names(plan, &step.reads),
            "rollback": step.rollback.is_some(),
            "attempts": step.retry.attempts,
        })
    };
    json!({
        "file": file.to_string_lossy(),
        "workflow": plan.workflow,
        "version": plan.version,
        "environment": plan.environment,
        "plan": plan.hash(),
        "steps": plan.steps.iter().map(step).collect::<Value>(),
    })
}

/// The effect class of the step, if the file determines it.
fn effect(tools: &ToolRegistry, work: &Work) -> Option<String> {
    match work {
        Work::Call(call) => Some(tools.get(&call.tool)?.effect_class(&call.with)?.to_string()),
        Work::Wait { .. } | Work::Gate { .. } => Some("none".to_owned()),
    }
}

fn input_names(plan: &Plan, reads: &InputRefs) -> Vec<String> {
    let trigger = reads.trigger.then(|| "trigger".to_owned());
    let steps = reads.steps.iter().filter_map(|seq| plan.step(*seq)).map(|step| step.id.to_string());
    trigger.into_iter().chain(steps).collect()
}
