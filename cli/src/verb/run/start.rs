//! `countersign run start`: a workflow and an input become a run.

use std::path::PathBuf;

use connectors::{Allow, Settings};
use domain::{IdempotencyKey, Plan, RecordName, RunKey, WorkspaceId};
use engine::{Engine, StartRun, Started};
use serde_json::{Value, json};
use store::{Ledger as _, SqliteStore};

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::input::{JsonSource, read_workflow};
use crate::random;
use telling::counted;

use super::watch;

const EXAMPLES: &str = "\
Examples:
  countersign run start triage.yaml
  countersign run start triage.yaml --input '{\"ticket\": \"INC-7\"}' --watch
  countersign run start triage.yaml --input @ticket.json --key INC-7
  curl -s https://example.com/ticket | countersign run start triage.yaml --input -

The key names the request: the same key always means the same run, so a start that may have been
lost can simply be typed again. The same key with another input is refused (IDEMPOTENCY_CONFLICT).";

/// Start a run of a workflow
///
/// The run is durable when this returns. A worker (`countersign worker`) does its steps.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The workflow
    file: PathBuf,
    /// The run's input: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", default_value = "{}", allow_hyphen_values = true)]
    input: JsonSource,
    /// Names the request; the same key is the same run [default: a random one]
    #[arg(long, value_name = "KEY")]
    key: Option<IdempotencyKey>,
    /// The record outside that it is about, such as servicenow:incident:9d38 or github:acme/shop#7
    #[arg(long, value_name = "RECORD")]
    record: Option<RecordName>,
    /// Follow the run until it is over or paused
    #[arg(long)]
    watch: bool,
}

/// A wish to start a run.
pub(crate) struct Wish {
    pub(crate) plan: Plan,
    pub(crate) input: Value,
    pub(crate) key: IdempotencyKey,
    pub(crate) record: Option<RecordName>,
}

pub(super) async fn run(args: Args, context: &Context) -> Result<Ending, CliError> {
    let plan = read_workflow(&args.file, &connectors::standard(Allow::default(), Settings::default()))?;
    let input = args.input.read("the run's input")?;
    let key = args.key.map_or_else(random_key, Ok)?;
    let engine = context.engine()?;
    let started =
        start(&engine, Wish { plan: plan.clone(), input, key, record: args.record }, context).await?;
    let other_plan = !started.new && is_of_another_plan(&engine, &started.run, &plan).await?;
    context.answer(&text(&started, &plan, other_plan, context), &to_json(&started, &plan, other_plan))?;
    if args.watch { watch::follow(&engine, &started.run, context).await } else { Ok(Ending::Done) }
}

/// Starts a run, or finds the one that the same request started before.
pub(crate) async fn start(
    engine: &Engine<SqliteStore>,
    wish: Wish,
    context: &Context,
) -> Result<Started, CliError> {
    let started = engine.start(StartRun {
        tenant: context.tenant.clone(),
        workspace: WorkspaceId::default(),
        plan: wish.plan,
        trigger_kind: "cli".to_owned(),
        record: wish.record,
        key: wish.key,
        input: wish.input,
        by: context.by_user(),
    });
    Ok(started.await?)
}

fn random_key() -> Result<IdempotencyKey, CliError> {
    let key = format!("cli:{}", random::hex::<16>()?);
    IdempotencyKey::new(&key).map_err(|error| CliError::Usage(error.to_string()))
}

/// Whether the run that the key names was started from a different file.
async fn is_of_another_plan(
    engine: &Engine<SqliteStore>,
    run: &RunKey,
    plan: &Plan,
) -> Result<bool, CliError> {
    let record = engine.store().load(run).await?;
    Ok(record.is_some_and(|record| record.plan != plan.hash()))
}

fn text(started: &Started, plan: &Plan, other_plan: bool, context: &Context) -> String {
    let (run, hints) = (&started.run, context.hints());
    let steps = counted(plan.steps.len(), "step");
    let what = match (started.new, other_plan) {
        (true, _) => format!("started: workflow {}, version {}, {steps}", plan.workflow, plan.version),
        (false, false) => "already started by an earlier request with this key; nothing changed".to_owned(),
        (false, true) => {
            "already started by an earlier request with this key, from a different version of the workflow; \
             nothing changed"
                .to_owned()
        }
    };
    format!("{}\n  {what}\n  follow it with: {}\n", run.run, hints.run("watch", run))
}

fn to_json(started: &Started, plan: &Plan, other_plan: bool) -> Value {
    json!({
        "run": started.run.run,
        "tenant": started.run.tenant,
        "new": started.new,
        "workflow": plan.workflow,
        "version": plan.version,
        "steps": plan.steps.len(),
        "other_plan": other_plan,
    })
}
