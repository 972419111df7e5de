//! `countersign run start`.

use std::path::{Path, PathBuf};

use api::auth::COMMAND_LINE;
use client::ClientError;
use domain::{IdempotencyKey, Plan, RecordName, RunKey, WorkflowName, WorkspaceId};
use engine::{Engine, StartOutcome};
use serde_json::{Value, json};
use store::{Ledger as _, SqliteStore};

use crate::api_session::ApiSession;
use crate::context::{Context, IfMissing, command_engine, default_tools};
use crate::error::CliError;
use crate::input::{JsonSource, read_workflow};
use crate::process::ExitStatus;
use crate::random;
use crate::start_run::{StartRequest, start_run};
use views::counted;
use views::hint::{CommandHints, quoted};

use super::follower::wait_until_started;
use super::watch;

const EXAMPLES: &str = "\
Examples:
  countersign run start triage.yaml
  countersign run start triage.yaml --input '{\"ticket\": \"INC-7\"}' --follow
  countersign run start triage.yaml --input @ticket.json --key INC-7
  countersign run start triage --profile work      start an applied workflow on a server
  curl -s https://example.com/ticket | countersign run start triage.yaml --input -

--key makes the command idempotent: the same key always returns the same run, so a command whose
outcome is unknown can be repeated. The same key with another input is refused
(IDEMPOTENCY_CONFLICT).";

/// Start a run of a workflow
///
/// The run is durable when the command returns. Workers (`countersign worker`) execute its steps.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A workflow file, or the name of an applied workflow
    #[arg(value_name = "WORKFLOW")]
    file: PathBuf,
    /// The input of the run: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", default_value = "{}", allow_hyphen_values = true)]
    input: JsonSource,
    /// The idempotency key: the same key returns the same run [default: random]
    #[arg(long, value_name = "KEY")]
    key: Option<IdempotencyKey>,
    /// The external record that the run is about, such as servicenow:incident:9d38 or github:acme/shop#7
    #[arg(long, value_name = "RECORD")]
    record: Option<RecordName>,
    /// The workspace of the run, which selects its connections [default: that of the workflow, or default]
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<WorkspaceId>,
    /// Follow the run until it ends or pauses; waits first if the run is queued behind its concurrency key
    #[arg(long, visible_alias = "watch")]
    follow: bool,
}

pub(super) async fn run(args: Args, context: &Context) -> Result<ExitStatus, CliError> {
    if let Some(name) = applied_name(&args.file, context)? {
        return start_by_name(name, args, context).await;
    }
    let tools = default_tools();
    let plan = read_workflow(&args.file, &tools)?;
    let input = args.input.read("the run's input")?;
    let given = args.key.clone();
    // The API derives the key in the same way, so that a file and an applied workflow share keys.
    let key = match args.key {
        Some(key) => api::request_key(COMMAND_LINE, Some(key.as_str()))
            .map_err(|problem| CliError::Usage(problem.detail))?,
        None => random_key()?,
    };
    let engine = command_engine(context.file_store(IfMissing::Create)?, tools)?;
    let request =
        StartRequest { plan: plan.clone(), workspace: args.workspace, input, key, record: args.record };
    let started = start_run(&engine, request, context).await?;
    let other_plan = !started.new
        && started.outcome == StartOutcome::OwnRun
        && has_other_plan(&engine, &started.run, &plan).await?;
    let report = StartReport {
        run: started.run,
        new: started.new,
        outcome: started.outcome,
        other_plan,
        workflow: plan.workflow.clone(),
        summary: Some(PlanSummary { version: plan.version, steps: plan.steps.len() }),
        key: given,
    };
    context.print(&report.text(&context.hints()), &report.to_json())?;
    if args.follow { report.follow(&context.connect()?, context).await } else { Ok(ExitStatus::Success) }
}

/// The name of an applied workflow, unless the argument is a file. A server cannot read files of this machine.
fn applied_name(argument: &Path, context: &Context) -> Result<Option<WorkflowName>, CliError> {
    let name = argument.to_str().and_then(|text| text.parse().ok());
    if context.targets_file()? {
        return Ok(name.filter(|_| !argument.exists() && context.store.exists()));
    }
    if name.is_none() || argument.is_file() {
        return Err(CliError::Usage(format!(
            "a server or an AWS account starts applied workflows only; run `workflow apply {}`, then `run start` with \
             the workflow's name",
            quoted(&argument.to_string_lossy())
        )));
    }
    Ok(name)
}

async fn start_by_name(
    workflow: WorkflowName,
    args: Args,
    context: &Context,
) -> Result<ExitStatus, CliError> {
    let input = args.input.read("the run's input")?;
    let key = args.key.clone().map_or_else(random_key, Ok)?;
    let session = context.connect()?;
    let request = api_types::StartRun {
        workflow: workflow.clone(),
        workspace: args.workspace,
        input,
        record: args.record,
    };
    let started = session.client.start(&request, key.to_string()).await;
    let started = started.map_err(|error| start_error(error, &key))?;
    // The run is started even if the reads for the report fail.
    let report = StartReport::load(&session, &workflow, &started).await;
    let report = report.unwrap_or_else(|_| StartReport::without_summary(&session, workflow, started));
    let report = StartReport { key: args.key, ..report };
    context.print(&report.text(&session.hints), &report.to_json())?;
    if args.follow { report.follow(&session, context).await } else { Ok(ExitStatus::Success) }
}

/// If the outcome is unknown, the error names the key, also a random one: another key would start another run.
fn start_error(error: ClientError, key: &IdempotencyKey) -> CliError {
    if error.is_outcome_unknown() {
        return CliError::MaybeStarted { source: Box::new(error), key: key.to_string() };
    }
    match error.problem() {
        Some(problem) if problem.code == "IDEMPOTENCY_CONFLICT" => {
            CliError::Refused(format!("{problem} [{}]; use another --key", problem.code))
        }
        Some(problem) if problem.code == "NO_WORKFLOW" => CliError::Usage(format!(
            "{problem}, and no such file exists; list applied workflows with `workflow list`"
        )),
        _ => error.into(),
    }
}

fn random_key() -> Result<IdempotencyKey, CliError> {
    let key = format!("cli:{}", random::hex::<16>()?);
    IdempotencyKey::new(&key).map_err(|error| CliError::Usage(error.to_string()))
}

/// Whether an earlier request started the run from another plan.
async fn has_other_plan(engine: &Engine<SqliteStore>, run: &RunKey, plan: &Plan) -> Result<bool, CliError> {
    let record = engine.store().load(run).await?;
    Ok(record.is_some_and(|record| record.plan != plan.hash()))
}

/// The result of the command.
struct StartReport {
    run: RunKey,
    new: bool,
    outcome: StartOutcome,
    other_plan: bool,
    workflow: WorkflowName,
    /// `None` if the reads after the start failed.
    summary: Option<PlanSummary>,
    /// The idempotency key that the user gave.
    key: Option<IdempotencyKey>,
}

struct PlanSummary {
    version: u32,
    steps: usize,
}

impl StartReport {
    async fn load(
        session: &ApiSession,
        workflow: &WorkflowName,
        started: &client::RunStart,
    ) -> Result<Self, ClientError> {
        let applied = session.client.workflow(workflow).await?;
        if let Some(blocker) = started.blocked_by.clone() {
            // The run does not exist yet, so its version and steps come from the workflow.
            let tenant = session.client.me().await?.tenant;
            return Ok(Self {
                run: RunKey { tenant: tenant.clone(), run: started.run.clone() },
                new: started.new,
                outcome: StartOutcome::WaitsFor(RunKey { tenant, run: blocker }),
                other_plan: false,
                workflow: applied.workflow.workflow,
                summary: Some(PlanSummary {
                    version: applied.workflow.version,
                    steps: applied.definition["steps"].as_array().map_or(0, Vec::len),
                }),
                key: None,
            });
        }
        let run = session.client.run(&started.run).await?;
        let outcome = if started.joined { StartOutcome::Joined } else { StartOutcome::OwnRun };
        Ok(Self {
            run: RunKey { tenant: run.tenant, run: started.run.clone() },
            new: started.new,
            other_plan: !started.new && outcome == StartOutcome::OwnRun && applied.workflow.plan != run.plan,
            outcome,
            workflow: run.workflow,
            summary: Some(PlanSummary { version: run.version, steps: run.steps.len() }),
            key: None,
        })
    }

    fn without_summary(session: &ApiSession, workflow: WorkflowName, started: client::RunStart) -> Self {
        let client::RunStart { run, new, joined, blocked_by } = started;
        let key = |run| RunKey { tenant: session.tenant.clone(), run };
        let outcome = match blocked_by {
            Some(blocker) => StartOutcome::WaitsFor(key(blocker)),
            None if joined => StartOutcome::Joined,
            None => StartOutcome::OwnRun,
        };
        Self { run: key(run), new, outcome, other_plan: false, workflow, summary: None, key: None }
    }

    fn text(&self, hints: &CommandHints) -> String {
        let (target, followed) = match &self.outcome {
            // The run itself does not exist yet.
            StartOutcome::WaitsFor(blocker) => ("that run", blocker),
            StartOutcome::OwnRun | StartOutcome::Joined => ("it", &self.run),
        };
        let watch = hints.run("watch", followed);
        let key = self.key.as_ref().map(|key| format!("  key {key}\n")).unwrap_or_default();
        format!("{}\n  {}\n{key}  follow {target} with: {watch}\n", self.run.run, self.outcome_text())
    }

    fn outcome_text(&self) -> String {
        match (&self.outcome, self.new, self.other_plan) {
            (StartOutcome::Joined, ..) => {
                "joined: this run has the same concurrency key; no new run was started".to_owned()
            }
            (StartOutcome::WaitsFor(blocker), ..) => {
                format!("queued: starts when run {} with the same concurrency key ends", blocker.run)
            }
            (StartOutcome::OwnRun, true, _) => match &self.summary {
                Some(PlanSummary { version, steps }) => {
                    let steps = counted(*steps, "step");
                    format!("started: workflow {}, version {version}, {steps}", self.workflow)
                }
                None => format!("started: workflow {}; its details cannot be read now", self.workflow),
            },
            (StartOutcome::OwnRun, false, false) => {
                "already started by an earlier request with this key; nothing changed".to_owned()
            }
            (StartOutcome::OwnRun, false, true) => {
                "already started by an earlier request with this key, from a different version of the \
                 workflow; nothing changed"
                    .to_owned()
            }
        }
    }

    /// Follows the run until it ends or pauses, once it exists.
    async fn follow(&self, session: &ApiSession, context: &Context) -> Result<ExitStatus, CliError> {
        if let StartOutcome::WaitsFor(blocker) = &self.outcome {
            wait_until_started(session, &self.run, blocker, context).await?;
        }
        watch::follow(session, &self.run, context).await
    }

    fn to_json(&self) -> Value {
        json!({
            "run": self.run.run,
            "tenant": self.run.tenant,
            "new": self.new,
            "joined": self.outcome == StartOutcome::Joined,
            "blocked_by": match &self.outcome {
                StartOutcome::WaitsFor(blocker) => Some(&blocker.run),
                StartOutcome::OwnRun | StartOutcome::Joined => None,
            },
            "workflow": self.workflow,
            "version": self.summary.as_ref().map(|summary| summary.version),
            "steps": self.summary.as_ref().map(|summary| summary.steps),
            "other_plan": self.other_plan,
            "key": self.key,
        })
    }
}
