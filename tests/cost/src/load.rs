//! The loads: runs of a workflow, one after the other, on the AWS store, with the real engine and one worker.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use config::ConnectionNotifier;
use connectors::{HostAllowList, ToolRegistry};
use domain::{
    ApprovalId, Cause, Channel, Digest, IdempotencyKey, Initiator, PersonId, Plan, QueueName, RunId, RunKey,
    RunStatus, Source, TenantId, WorkerId, WorkspaceId,
};
use dynamodb::DynamoDb;
use engine::{
    ConnectionParts, Engine, EngineParts, EvidenceSigner, InboundEvent, Notifier, StartRun, Timing,
    VoteRequest,
};
use evidence::SigningKey;
use serde_json::{Value, json};
use store::aws::{AwsParts, AwsStore, create_table};
use store::{
    Archive as _, Governance as _, Ledger as _, Queue as _, SqliteOptions, SqliteStore, SystemClock,
};
use tokio::task::Id;
use worker::{Concurrency, Worker, WorkerSettings};

use crate::capacity::Capacity;
use crate::counted::CountingStore;
use crate::external::{ExternalSystems, SECOND_PERSON, SLACK_USER, TEAM, tenant_of};
use crate::meter::{Counters, Meter};

/// The interval between checks whether the queues are empty.
const POLL_EVERY: Duration = Duration::from_millis(2);

/// The time limit of one run.
const RUN_MAX: Duration = Duration::from_secs(30);

/// Runs before the measurement. They fill the caches, as in a process that has been up for a while.
const WARM_UP: u32 = 3;

const TABLE: &str = "countersign";
const GOVERNED: &str = include_str!("../workflows/governed.yaml");
const TWO_WRITES: &str = include_str!("../workflows/two-writes.yaml");

type Store = AwsStore<CountingStore, CountingStore>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// Steps without effects, started by a call to the engine.
    Linear { steps: u16 },
    /// Reads, transforms and writes in external systems, started by a webhook, with one approval.
    Governed(Writes),
}

/// The writes of a governed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writes {
    /// One write, with an approval.
    ApprovedOnly,
    /// One write with an approval, and one that policy allows without.
    ApprovedAndAllowed,
}

impl Load {
    fn steps(self) -> u16 {
        match self {
            Self::Linear { steps } => steps,
            Self::Governed(_) => 5,
        }
    }
}

pub(crate) struct Counts {
    pub(crate) runs: u32,
    pub(crate) steps: u16,
    pub(crate) counters: Counters,
    /// Round trips of each webhook, and of each approval decision.
    pub(crate) webhooks: Vec<u64>,
    pub(crate) answers: Vec<u64>,
    /// The requests of one sweep that finds no overdue run, and its round trips.
    pub(crate) sweep: Counters,
    pub(crate) sweep_trips: u64,
}

/// Runs `load` and counts its requests.
pub(crate) async fn count(load: Load, runs: u32) -> Result<Counts, String> {
    let env = CostEnv::new(load).await?;
    let shutdown = worker::CancellationToken::new();
    // The sweep is counted separately: how often it falls into the measurement depends on the machine.
    let settings = WorkerSettings {
        concurrency: Concurrency::for_steps(16),
        sweep_every: Duration::from_hours(1),
        health_check_every: Duration::from_hours(1),
        heartbeat_every: None,
        ..WorkerSettings::default()
    };
    let worker = Worker::new(Arc::clone(&env.engine), settings, me()?, shutdown.clone());
    let working = tokio::spawn(worker.run());
    let counts = env.measure(runs).await;
    shutdown.cancel();
    let _ = working.await;
    counts
}

struct CostEnv {
    load: Load,
    plan: Plan,
    engine: Arc<Engine<Store>>,
    embedded: SqliteStore,
    meter: Meter,
    /// Must outlive the store.
    _dynamodb: DynamoDb,
    /// Must outlive the tools that call it.
    _external: Option<ExternalSystems>,
}

/// The tasks that represent Lambda invocations.
#[derive(Default)]
struct Functions {
    webhooks: Vec<Id>,
    answers: Vec<Id>,
}

impl CostEnv {
    async fn new(load: Load) -> Result<Self, String> {
        let meter = Meter::default();
        let embedded = SqliteStore::memory(SqliteOptions::default()).map_err(to_text)?;
        let counted = CountingStore { store: embedded.clone(), meter: meter.clone() };
        let dynamodb = DynamoDb::start().map_err(to_text)?;
        let client = client_with_table(dynamodb.endpoint(), &meter).await?;
        let store = AwsStore::new(AwsParts {
            client,
            table: TABLE.to_owned(),
            queue: counted.clone(),
            blobs: counted,
            clock: Arc::new(SystemClock),
        });
        let external = match load {
            Load::Linear { .. } => None,
            Load::Governed(_) => Some(ExternalSystems::open().await?),
        };
        let tools = connectors::standard_tools(HostAllowList::default());
        let (connections, notifier) = match &external {
            None => (ConnectionParts::default(), None),
            Some(external) => (external.connections()?, Some(Arc::new(ConnectionNotifier::default()) as _)),
        };
        let plan = plan(load, &tools)?;
        let engine = Arc::new(engine(store, tools, connections, notifier)?);
        if matches!(load, Load::Governed(_)) {
            engine.store().put_tenant(tenant_of(tenant()?)?).await.map_err(to_text)?;
            let by = Initiator::new(Cause::System, "cost");
            engine.tenant_handle(&tenant()?, &by).apply(&plan).await.map_err(to_text)?;
        }
        Ok(Self { load, plan, engine, embedded, meter, _dynamodb: dynamodb, _external: external })
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
        let counters = self.meter.take();
        let trips = |tasks: &[Id]| tasks.iter().map(|task| counters.trips_of(*task)).collect();
        let (webhooks, answers) = (trips(&functions.webhooks), trips(&functions.answers));
        // The first sweep of a process also looks for finished runs that an earlier process left in the index.
        let by = Initiator::new(Cause::System, "cost");
        self.engine.operations().sweep(&by).await.map_err(to_text)?;
        self.meter.take();
        let engine = Arc::clone(&self.engine);
        let sweeping = tokio::spawn(async move { engine.operations().sweep(&by).await });
        let task = sweeping.id();
        sweeping.await.map_err(to_text)?.map_err(to_text)?;
        let sweep = self.meter.take();
        let sweep_trips = sweep.trips_of(task);
        for number in WARM_UP..WARM_UP + runs {
            self.check_run(&run(number)?).await?;
        }
        Ok(Counts { runs, steps: self.load.steps(), counters, webhooks, answers, sweep, sweep_trips })
    }

    /// One run, from its trigger to its evidence.
    async fn run(&self, number: u32, functions: &mut Functions) -> Result<(), String> {
        match self.load {
            Load::Linear { .. } => {
                self.engine.admission().start(self.start_command(number)?).await.map_err(to_text)?;
            }
            Load::Governed(_) => {
                let (engine, inbound_event) = (Arc::clone(&self.engine), inbound_event(number)?);
                let accepting = tokio::spawn(async move { engine.admission().accept(inbound_event).await });
                functions.webhooks.push(accepting.id());
                accepting.await.map_err(to_text)?.map_err(to_text)?;
                self.wait_until_idle().await?;
                let (engine, reply) = (Arc::clone(&self.engine), reply(number)?);
                let tenant = tenant()?;
                let answering =
                    tokio::spawn(
                        async move { Box::pin(engine.governance().record_vote(&tenant, reply)).await },
                    );
                functions.answers.push(answering.id());
                answering.await.map_err(to_text)?.map_err(to_text)?;
            }
        }
        self.wait_until_idle().await
    }

    /// Waits until all queues are empty.
    async fn wait_until_idle(&self) -> Result<(), String> {
        let look = async {
            loop {
                let mut left = 0;
                for queue in QueueName::ALL {
                    left += self.embedded.depth(queue).await.map_err(to_text)?;
                }
                if left == 0 {
                    return Ok(());
                }
                tokio::time::sleep(POLL_EVERY).await;
            }
        };
        tokio::time::timeout(RUN_MAX, look)
            .await
            .unwrap_or_else(|_| Err(format!("a run did not finish within {RUN_MAX:?}")))
    }

    /// Checks that a run succeeded with all effects and has evidence; otherwise its cost would be too low.
    async fn check_run(&self, run: &RunKey) -> Result<(), String> {
        let store = self.engine.store();
        let record = store.load(run).await.map_err(to_text)?.ok_or("a run is missing")?;
        if record.status != RunStatus::Succeeded {
            return Err(format!("run {run} is {}", record.status));
        }
        let effects = match self.load {
            Load::Linear { .. } => 0,
            Load::Governed(Writes::ApprovedOnly) => 1,
            Load::Governed(Writes::ApprovedAndAllowed) => 2,
        };
        if record.effects.done != effects {
            return Err(format!("run {run} had {} effects, expected {effects}", record.effects.done));
        }
        let evidence = store.evidence(run).await.map_err(to_text)?;
        evidence.map(drop).ok_or_else(|| format!("run {run} has no evidence"))
    }

    fn start_command(&self, number: u32) -> Result<StartRun, String> {
        Ok(StartRun {
            tenant: tenant()?,
            workspace: WorkspaceId::default(),
            plan: self.plan.clone(),
            trigger_kind: "api".to_owned(),
            record: None,
            key: key(number)?,
            input: json!({}),
            by: Initiator::new(Cause::System, "cost"),
            applied_by: None,
            inherited: domain::Inherited::default(),
        })
    }
}

fn engine(
    store: Store,
    tools: ToolRegistry,
    connections: ConnectionParts,
    notifier: Notifier,
) -> Result<Engine<Store>, String> {
    Ok(Engine::new(EngineParts {
        store: Arc::new(store),
        tools,
        connections,
        clock: Arc::new(SystemClock),
        me: me()?,
        timing: Timing::default(),
        notifier,
        evidence_signer: Some(EvidenceSigner {
            key: Arc::new(SigningKey::from_seed([7; 32])),
            origin: "cost.example/log".to_owned(),
        }),
    }))
}

/// Creates the table. Returns a client that measures its requests.
async fn client_with_table(endpoint: &str, meter: &Meter) -> Result<Client, String> {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "local"))
        .endpoint_url(endpoint)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .interceptor(Capacity(meter.clone()));
    let client = Client::from_conf(config.build());
    create_table(&client, TABLE).await.map_err(to_text)?;
    Ok(client)
}

fn plan(load: Load, tools: &ToolRegistry) -> Result<Plan, String> {
    let source = match load {
        Load::Linear { steps } => linear(steps),
        Load::Governed(Writes::ApprovedOnly) => GOVERNED.to_owned(),
        Load::Governed(Writes::ApprovedAndAllowed) => TWO_WRITES.to_owned(),
    };
    let names: BTreeSet<_> = tools.names().cloned().collect();
    workflow::parse(&source, &names).map_err(|error| error.render(&source))
}

/// Steps in a row, each with an output of about 200 bytes, as in the benchmark.
fn linear(steps: u16) -> String {
    let text = "x".repeat(170);
    let step = |n: u16| {
        format!("  - {{ id: s{n}, tool: transform, with: {{ value: {{ step: s{n}, text: {text} }} }} }}\n")
    };
    let steps: String = (0..steps).map(step).collect();
    format!("workflow: linear\nversion: 1\nenvironment: dev\nsteps:\n{steps}")
}

fn inbound_event(number: u32) -> Result<InboundEvent, String> {
    Ok(InboundEvent {
        tenant: tenant()?,
        key: key(number)?,
        source: Source::ServiceNow,
        topic: Some("incident".to_owned()),
        record: Some(format!("servicenow:incident:{number:032x}").parse().map_err(to_text)?),
        proof: Digest::of_parts("cost/proof", &[number.to_string().as_str()]),
        dedupe_key: None,
        body: body(number),
        start_request: None,
    })
}

/// The body of a ServiceNow webhook; each asks for another change.
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

fn reply(number: u32) -> Result<VoteRequest, String> {
    Ok(VoteRequest {
        approval: ApprovalId::derive(&run(number)?, 0),
        subject: None,
        person: PersonId::new(SECOND_PERSON).map_err(to_text)?,
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
    IdempotencyKey::new(&format!("cost:{number}")).map_err(to_text)
}

fn me() -> Result<WorkerId, String> {
    WorkerId::new("worker-7f3a").map_err(to_text)
}

fn tenant() -> Result<TenantId, String> {
    TenantId::new("acme").map_err(to_text)
}

fn to_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
