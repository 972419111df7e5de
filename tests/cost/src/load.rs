//! The loads: runs of a workflow, one after the other, on the store on AWS, by the real engine and one worker.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use connectors::{Allow, Settings, Toolbox};
use domain::{
    ApprovalId, Cause, Channel, Digest, IdempotencyKey, Initiator, PersonId, Plan, QueueName, RunId, RunKey,
    RunStatus, Source, TenantId, WorkerId, WorkspaceId,
};
use dynoxide::{Database, server};
use engine::{Engine, InboundEvent, Parts, Reply, Sealing, Showing, StartRun, Timing};
use evidence::SigningKey;
use serde_json::{Value, json};
use store::aws::{AwsParts, AwsStore, create_table};
use store::{
    Archive as _, Governance as _, Ledger as _, Queue as _, SqliteOptions, SqliteStore, SystemClock,
};
use tokio::net::TcpListener;
use tokio::task::Id;
use worker::{Rooms, Worker, WorkerSettings};

use crate::capacity::Capacity;
use crate::counted::Counted;
use crate::meter::{Book, Meter};
use crate::world::{SECOND_PERSON, SLACK_USER, TEAM, World, tenant_of};

/// How often it is looked whether there is nothing left to do.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How long one run may take.
const RUN_MAX: Duration = Duration::from_secs(30);

/// Runs before the first that counts: they fill the caches of a process that has been up for a while.
const WARM_UP: u32 = 3;

const TABLE: &str = "countersign";
const GOVERNED: &str = include_str!("../workflows/governed.yaml");
const TWO_WRITES: &str = include_str!("../workflows/two-writes.yaml");

type Store = AwsStore<Counted, Counted>;

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// So many steps that touch nothing, started by a call to the engine.
    Linear { steps: u16 },
    /// Reads, transforms and changes of other systems, started by a webhook, with one request for approval.
    Governed(Writes),
}

/// How much a governed run changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writes {
    /// What a person said yes to.
    Approved,
    /// That, and a change that policy allows by itself.
    AndAllowed,
}

impl Load {
    fn steps(self) -> u16 {
        match self {
            Self::Linear { steps } => steps,
            Self::Governed(_) => 5,
        }
    }
}

/// What was counted.
pub(crate) struct Counts {
    pub(crate) runs: u32,
    pub(crate) steps: u16,
    pub(crate) book: Book,
    /// Round trips of each webhook, and of each answer.
    pub(crate) webhooks: Vec<u64>,
    pub(crate) answers: Vec<u64>,
    /// What one look for overdue runs takes when there is none.
    pub(crate) sweep: Book,
}

/// Runs `load` and counts.
pub(crate) async fn count(load: Load, runs: u32) -> Result<Counts, String> {
    let stage = Stage::set(load).await?;
    let (leave, leaving) = worker::leaving();
    // The sweep is counted by itself: how often it falls into the measurement depends on the machine.
    let settings = WorkerSettings {
        rooms: Rooms::beside(16),
        sweep_every: Duration::from_hours(1),
        look_every: Duration::from_hours(1),
        sign_every: None,
        ..WorkerSettings::default()
    };
    let worker = Worker::new(Arc::clone(&stage.engine), settings, me()?, leaving);
    let working = tokio::spawn(worker.run());
    let counts = stage.measure(runs).await;
    leave.ask();
    let _ = working.await;
    counts
}

struct Stage {
    load: Load,
    plan: Plan,
    engine: Arc<Engine<Store>>,
    beside: SqliteStore,
    meter: Meter,
    /// Outlives the tools that speak to it.
    _world: Option<World>,
}

/// The tasks that stand for functions.
#[derive(Default)]
struct Functions {
    webhooks: Vec<Id>,
    answers: Vec<Id>,
}

impl Stage {
    async fn set(load: Load) -> Result<Self, String> {
        let meter = Meter::default();
        let beside = SqliteStore::memory(SqliteOptions::default()).map_err(told)?;
        let counted = Counted { store: beside.clone(), meter: meter.clone() };
        let client = dynamodb(&meter).await?;
        let store = AwsStore::new(AwsParts {
            client,
            table: TABLE.to_owned(),
            queue: counted.clone(),
            blobs: counted,
            clock: Arc::new(SystemClock),
        });
        let world = match load {
            Load::Linear { .. } => None,
            Load::Governed(_) => Some(World::open().await?),
        };
        let (tools, shows) = match &world {
            None => (connectors::standard(Allow::default(), Settings::default()), None),
            Some(world) => (world.tools()?, world.shows()?),
        };
        let plan = plan(load, &tools)?;
        let engine = Arc::new(engine(store, tools, shows)?);
        if matches!(load, Load::Governed(_)) {
            engine.store().put_tenant(tenant_of(tenant()?)?).await.map_err(told)?;
            let by = Initiator::new(Cause::System, "cost");
            engine.apply(&tenant()?, &plan, by).await.map_err(told)?;
        }
        Ok(Self { load, plan, engine, beside, meter, _world: world })
    }

    async fn measure(&self, runs: u32) -> Result<Counts, String> {
        for number in 0..WARM_UP {
            self.run(number, &mut Functions::default()).await?;
        }
        self.meter.take();
        let mut functions = Functions::default();
        for number in WARM_UP..WARM_UP + runs {
            self.run(number, &mut functions).await?;
        }
        let book = self.meter.take();
        let trips = |tasks: &[Id]| tasks.iter().map(|task| book.trips_of(*task)).collect();
        let (webhooks, answers) = (trips(&functions.webhooks), trips(&functions.answers));
        self.engine.sweep(&Initiator::new(Cause::System, "cost")).await.map_err(told)?;
        let sweep = self.meter.take();
        for number in WARM_UP..WARM_UP + runs {
            self.is_whole(&run(number)?).await?;
        }
        Ok(Counts { runs, steps: self.load.steps(), book, webhooks, answers, sweep })
    }

    /// One run, from its trigger to its evidence.
    async fn run(&self, number: u32, functions: &mut Functions) -> Result<(), String> {
        match self.load {
            Load::Linear { .. } => {
                self.engine.start(self.wish(number)?).await.map_err(told)?;
            }
            Load::Governed(_) => {
                let (engine, knock) = (Arc::clone(&self.engine), knock(number)?);
                let accepting = tokio::spawn(async move { engine.accept(knock).await });
                functions.webhooks.push(accepting.id());
                accepting.await.map_err(told)?.map_err(told)?;
                self.settled().await?;
                let (engine, reply) = (Arc::clone(&self.engine), reply(number)?);
                let tenant = tenant()?;
                let answering = tokio::spawn(async move { engine.answer(&tenant, reply).await });
                functions.answers.push(answering.id());
                answering.await.map_err(told)?.map_err(told)?;
            }
        }
        self.settled().await
    }

    /// Waits until no message is left, which is when nobody has anything to do.
    async fn settled(&self) -> Result<(), String> {
        let look = async {
            loop {
                let mut left = 0;
                for queue in QueueName::ALL {
                    left += self.beside.depth(queue).await.map_err(told)?;
                }
                if left == 0 {
                    return Ok(());
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::time::timeout(RUN_MAX, look).await.unwrap_or_else(|_| Err("a run got stuck".to_owned()))
    }

    /// A run that did not end well, or left no evidence, was too cheap.
    async fn is_whole(&self, run: &RunKey) -> Result<(), String> {
        let store = self.engine.store();
        let record = store.load(run).await.map_err(told)?.ok_or("a run is missing")?;
        if record.status != RunStatus::Succeeded {
            return Err(format!("run {run} is {}", record.status));
        }
        let effects = match self.load {
            Load::Linear { .. } => 0,
            Load::Governed(Writes::Approved) => 1,
            Load::Governed(Writes::AndAllowed) => 2,
        };
        if record.effects.done != effects {
            return Err(format!("run {run} had {} effects instead of {effects}", record.effects.done));
        }
        let evidence = store.evidence(run).await.map_err(told)?;
        evidence.map(drop).ok_or_else(|| format!("run {run} has no evidence"))
    }

    fn wish(&self, number: u32) -> Result<StartRun, String> {
        Ok(StartRun {
            tenant: tenant()?,
            workspace: WorkspaceId::default(),
            plan: self.plan.clone(),
            trigger_kind: "api".to_owned(),
            record: None,
            key: key(number)?,
            input: json!({}),
            by: Initiator::new(Cause::System, "cost"),
        })
    }
}

fn engine(store: Store, tools: Toolbox, shows: Showing) -> Result<Engine<Store>, String> {
    Ok(Engine::new(Parts {
        store: Arc::new(store),
        tools,
        clock: Arc::new(SystemClock),
        me: me()?,
        timing: Timing::default(),
        shows,
        sealing: Some(Sealing {
            key: Arc::new(SigningKey::from_seed([7; 32])),
            origin: "cost.example/log".to_owned(),
        }),
    }))
}

/// A DynamoDB in this process, with our table in it.
async fn dynamodb(meter: &Meter) -> Result<Client, String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(told)?;
    let endpoint = format!("http://{}", listener.local_addr().map_err(told)?);
    tokio::spawn(server::serve_on(listener, Database::memory().map_err(told)?));
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "local"))
        .endpoint_url(endpoint)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .interceptor(Capacity(meter.clone()));
    let client = Client::from_conf(config.build());
    create_table(&client, TABLE).await.map_err(told)?;
    Ok(client)
}

fn plan(load: Load, tools: &Toolbox) -> Result<Plan, String> {
    let source = match load {
        Load::Linear { steps } => linear(steps),
        Load::Governed(Writes::Approved) => GOVERNED.to_owned(),
        Load::Governed(Writes::AndAllowed) => TWO_WRITES.to_owned(),
    };
    let names: BTreeSet<_> = tools.names().cloned().collect();
    workflow::parse(&source, &names).map_err(|error| error.render(&source))
}

/// Steps in a row, each with an output of about 200 bytes, as the benchmark has them.
fn linear(steps: u16) -> String {
    let text = "x".repeat(170);
    let step = |n: u16| {
        format!("  - {{ id: s{n}, tool: transform, with: {{ value: {{ step: s{n}, text: {text} }} }} }}\n")
    };
    let steps: String = (0..steps).map(step).collect();
    format!("workflow: linear\nversion: 1\nenvironment: dev\nsteps:\n{steps}")
}

fn knock(number: u32) -> Result<InboundEvent, String> {
    Ok(InboundEvent {
        tenant: tenant()?,
        key: key(number)?,
        source: Source::ServiceNow,
        about: Some("incident".to_owned()),
        record: Some(format!("servicenow:incident:{number:032x}").parse().map_err(told)?),
        proof: Digest::of_parts("cost/proof", &[number.to_string().as_str()]),
        dedupe_key: None,
        body: body(number),
        asked: None,
    })
}

/// What an instance sends of an incident; each asks for another change.
fn body(number: u32) -> Value {
    json!({
        "incident": fakes::servicenow::INCIDENT,
        "number": format!("INC{number:07}"),
        "short_description": "Primary database does not answer",
        "priority": "1",
        "urgency": format!("{}", number + 10),
        "group": format!("group-{number}"),
        "sys_updated_on": "2026-07-01 12:00:00",
    })
}

fn reply(number: u32) -> Result<Reply, String> {
    Ok(Reply {
        approval: ApprovalId::derive(&run(number)?, 0),
        subject: None,
        person: PersonId::new(SECOND_PERSON).map_err(told)?,
        approve: true,
        reason: String::new(),
        through: Channel::Slack { team: TEAM.to_owned(), user: SLACK_USER.to_owned() },
    })
}

fn run(number: u32) -> Result<RunKey, String> {
    let tenant = tenant()?;
    Ok(RunKey { run: RunId::derive(&tenant, &key(number)?), tenant })
}

fn key(number: u32) -> Result<IdempotencyKey, String> {
    IdempotencyKey::new(&format!("cost:{number}")).map_err(told)
}

fn me() -> Result<WorkerId, String> {
    WorkerId::new("worker-7f3a").map_err(told)
}

fn tenant() -> Result<TenantId, String> {
    TenantId::new("acme").map_err(told)
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}
