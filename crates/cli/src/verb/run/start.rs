//! `countersign run start`: a workflow and an input become a run.

use std::path::{Path, PathBuf};

use api::auth::COMMAND_LINE;
use client::ClientError;
use connectors::{Allow, Settings};
use domain::{IdempotencyKey, Plan, RecordName, RunKey, WorkflowName, WorkspaceId};
use engine::{Engine, Place, StartRun, Started};
use serde_json::{Value, json};
use store::{Ledger as _, SqliteStore};

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::input::{JsonSource, read_workflow};
use crate::link::Link;
use crate::random;
use views::counted;
use views::hint::{Hints, quoted};

use super::{queued, watch};

const EXAMPLES: &str = "\
Examples:
  countersign run start triage.yaml
  countersign run start triage.yaml --input '{\"ticket\": \"INC-7\"}' --follow
  countersign run start triage.yaml --input @ticket.json --key INC-7
  countersign run start triage --profile work      a workflow in use, by its name, on a server
  curl -s https://example.com/ticket | countersign run start triage.yaml --input -

The key names the request: the same key always means the same run, so a start that may have been
lost can simply be typed again. The same key with another input is refused (IDEMPOTENCY_CONFLICT).";

/// Start a run of a workflow
///
/// The run is durable when this returns. A worker (`countersign worker`) does its steps.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The workflow: a file, or the name of one in use
    #[arg(value_name = "WORKFLOW")]
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
    /// Follow the run until it is over or paused; one that waits for its ticket, from its beginning
    #[arg(long, visible_alias = "watch")]
    follow: bool,
}

/// A wish to start a run.
pub(crate) struct Wish {
    pub(crate) plan: Plan,
    pub(crate) input: Value,
    pub(crate) key: IdempotencyKey,
    pub(crate) record: Option<RecordName>,
}

pub(super) async fn run(args: Args, context: &Context) -> Result<Ending, CliError> {
    if let Some(name) = in_use(&args.file, context)? {
        return by_name(name, args, context).await;
    }
    let plan = read_workflow(&args.file, &connectors::standard(Allow::default(), Settings::default()))?;
    let input = args.input.read("the run's input")?;
    // What a key names is the same for a file and for a workflow in use.
    let key = match args.key {
        Some(key) => api::request_key(COMMAND_LINE, Some(key.as_str()))
            .map_err(|problem| CliError::Usage(problem.detail))?,
        None => random_key()?,
    };
    let engine = context.engine()?;
    let wish = Wish { plan: plan.clone(), input, key, record: args.record };
    let started = start(&engine, wish, context).await?;
    let other_plan = !started.new
        && started.place == Place::Own
        && is_of_another_plan(&engine, &started.run, &plan).await?;
    let told = Told {
        run: started.run,
        new: started.new,
        place: started.place,
        other_plan,
        workflow: plan.workflow.clone(),
        seen: Some(Seen { version: plan.version, steps: plan.steps.len() }),
    };
    context.answer(&told.text(&context.hints()), &told.to_json())?;
    if args.follow { told.follow(&context.link()?, context).await } else { Ok(Ending::Done) }
}

/// The name that was typed, unless it is a file. Elsewhere nobody knows the files of this machine.
fn in_use(typed: &Path, context: &Context) -> Result<Option<WorkflowName>, CliError> {
    let name = typed.to_str().and_then(|text| text.parse().ok());
    if context.is_for_a_file()? {
        return Ok(name.filter(|_| !typed.exists() && context.store.exists()));
    }
    if name.is_none() || typed.is_file() {
        return Err(CliError::Usage(format!(
            "a server or an account starts workflows that are in use: `workflow apply {}`, then `run start` with its name",
            quoted(&typed.to_string_lossy())
        )));
    }
    Ok(name)
}

/// Starts a run of a workflow in use.
async fn by_name(workflow: WorkflowName, args: Args, context: &Context) -> Result<Ending, CliError> {
    let input = args.input.read("the run's input")?;
    let key = args.key.map_or_else(random_key, Ok)?;
    let link = context.link()?;
    let wish = api_types::StartRun { workflow: workflow.clone(), input, record: args.record };
    let started = link.client.start(&wish, key.to_string()).await.map_err(|error| in_words(error, &key))?;
    // It is started, whatever comes of looking at it.
    let told =
        told(&link, &workflow, &started).await.unwrap_or_else(|_| Told::unseen(&link, workflow, started));
    context.answer(&told.text(&link.hints), &told.to_json())?;
    if args.follow { told.follow(&link, context).await } else { Ok(Ending::Done) }
}

/// What is told of a run of a workflow in use.
async fn told(link: &Link, workflow: &WorkflowName, started: &client::Started) -> Result<Told, ClientError> {
    let shown = link.client.workflow(workflow).await?;
    if let Some(by) = started.behind.clone() {
        // Its run is not there yet, so there is nothing to look at.
        let tenant = link.client.me().await?.tenant;
        return Ok(Told {
            run: RunKey { tenant: tenant.clone(), run: started.run.clone() },
            new: started.new,
            place: Place::Behind(RunKey { tenant, run: by }),
            other_plan: false,
            workflow: shown.workflow.workflow,
            seen: Some(Seen {
                version: shown.workflow.version,
                steps: shown.definition["steps"].as_array().map_or(0, Vec::len),
            }),
        });
    }
    let seen = link.client.run(&started.run).await?;
    let newest = shown.workflow.plan;
    let place = if started.joined { Place::Joined } else { Place::Own };
    Ok(Told {
        run: RunKey { tenant: seen.tenant, run: started.run.clone() },
        new: started.new,
        other_plan: !started.new && place == Place::Own && newest != seen.plan,
        place,
        workflow: seen.workflow,
        seen: Some(Seen { version: seen.version, steps: seen.steps.len() }),
    })
}

/// Why it was not started, where the API's words are about something else. A key that was drawn is told where nobody knows
/// whether it was: with another one it would be another run.
fn in_words(error: ClientError, key: &IdempotencyKey) -> CliError {
    if error.leaves_open() {
        return CliError::MaybeStarted { source: Box::new(error), key: key.to_string() };
    }
    match error.problem() {
        Some(problem) if problem.code == "IDEMPOTENCY_CONFLICT" => {
            CliError::Refused(format!("{problem} [{}]; use another --key for another request", problem.code))
        }
        Some(problem) if problem.code == "NO_WORKFLOW" => CliError::Usage(format!(
            "{problem}, and there is no such file; `workflow list` shows those in use"
        )),
        _ => error.into(),
    }
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

/// What is told of a run that was started.
struct Told {
    run: RunKey,
    new: bool,
    /// Where the request stands among those about the same ticket.
    place: Place,
    other_plan: bool,
    workflow: WorkflowName,
    /// `None` where it could not be looked at.
    seen: Option<Seen>,
}

/// What is known of a run from looking at it.
struct Seen {
    version: u32,
    steps: usize,
}

impl Told {
    /// A run that was started and then not seen.
    fn unseen(link: &Link, workflow: WorkflowName, started: client::Started) -> Self {
        let client::Started { run, new, joined, behind } = started;
        let of = |run| RunKey { tenant: link.tenant.clone(), run };
        let place = match behind {
            Some(by) => Place::Behind(of(by)),
            None if joined => Place::Joined,
            None => Place::Own,
        };
        Self { run: of(run), new, place, other_plan: false, workflow, seen: None }
    }

    fn text(&self, hints: &Hints) -> String {
        let what = match (&self.place, self.new, self.other_plan) {
            (Place::Joined, ..) => {
                "is about the same ticket and answers for this request; no other run was started".to_owned()
            }
            (Place::Behind(by), ..) => {
                format!("starts when run {} is over, which is about the same ticket", by.run)
            }
            (Place::Own, true, _) => match &self.seen {
                Some(Seen { version, steps }) => {
                    let steps = counted(*steps, "step");
                    format!("started: workflow {}, version {version}, {steps}", self.workflow)
                }
                None => format!("started: workflow {}; it could not be looked at", self.workflow),
            },
            (Place::Own, false, false) => {
                "already started by an earlier request with this key; nothing changed".to_owned()
            }
            (Place::Own, false, true) => {
                "already started by an earlier request with this key, from a different version of the \
                 workflow; nothing changed"
                    .to_owned()
            }
        };
        let (whom, followed) = match &self.place {
            // There is nothing to look at yet.
            Place::Behind(by) => ("that one", by),
            Place::Own | Place::Joined => ("it", &self.run),
        };
        format!("{}\n  {what}\n  follow {whom} with: {}\n", self.run.run, hints.run("watch", followed))
    }

    /// Follows the run until it is over or paused, once it is there.
    async fn follow(&self, link: &Link, context: &Context) -> Result<Ending, CliError> {
        if let Place::Behind(by) = &self.place {
            queued::begun(link, &self.run, by, context).await?;
        }
        watch::follow(link, &self.run, context).await
    }

    fn to_json(&self) -> Value {
        json!({
            "run": self.run.run,
            "tenant": self.run.tenant,
            "new": self.new,
            "joined": self.place == Place::Joined,
            "behind": match &self.place {
                Place::Behind(by) => Some(&by.run),
                Place::Own | Place::Joined => None,
            },
            "workflow": self.workflow,
            "version": self.seen.as_ref().map(|seen| seen.version),
            "steps": self.seen.as_ref().map(|seen| seen.steps),
            "other_plan": self.other_plan,
        })
    }
}
