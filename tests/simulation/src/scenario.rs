//! A scenario: one flow, some faults, some clocks — played to its end.

use std::sync::Arc;
use std::time::Duration;

use connectors::Toolbox;
use domain::plan::Plan;
use domain::tenant::Caps;
use domain::{
    Cause, Channel, EventName, IdempotencyKey, Initiator, Job, Live, Millis, Outgoing, PersonId, QueueName,
    RunId, RunKey, RunRecord, RunStatus, SignalId, Tenant, TenantId, ToolName, WorkerId, WorkspaceId,
};
use engine::{Engine, EngineError, Parts, Reply, Sealing, SignalRun, StartRun, Timing};
use evidence::SigningKey;
use serde::Serialize;
use serde_json::json;
use store::{Clock, Governance as _, Intercepted, Ledger as _, Queue as _, SqliteOptions, SqliteStore};
use tokio::time::{Instant, sleep, timeout};
use worker::{Rooms, Worker, WorkerSettings};

use crate::clock::VirtualClock;
use crate::fault::{Faults, Node, NodeParts, Point};
use crate::flow::{Flow, Script};
use crate::oracle::{self, Ending};
use crate::world::{SimShows, SimTool, TOOLS, World};

/// How wrong the clocks of the two workers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Skew {
    /// Both are right.
    None,
    /// The first is an hour fast, the second an hour slow.
    FastAndSlow,
    /// The first is an hour slow, the second an hour fast.
    SlowAndFast,
    /// The first is an hour fast, the second is right.
    Fast,
    /// The first is an hour slow, the second is right.
    Slow,
}

impl Skew {
    fn of(self, slot: usize) -> i64 {
        const HOUR: i64 = 3_600_000;
        match (self, slot) {
            (Self::FastAndSlow | Self::Fast, 0) | (Self::SlowAndFast, 1) => HOUR,
            (Self::FastAndSlow, 1) | (Self::SlowAndFast | Self::Slow, 0) => -HOUR,
            _ => 0,
        }
    }
}

/// One flow, some faults, some clocks.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Which flow.
    pub flow: &'static Flow,
    /// What fails.
    pub points: Vec<Point>,
    /// How wrong the clocks are.
    pub skew: Skew,
}

/// How a scenario went.
#[derive(Debug, Clone)]
pub(crate) struct Played {
    pub(crate) calls: u32,
    pub(crate) reached: u32,
    pub(crate) trace: Vec<String>,
    pub(crate) broken: Vec<String>,
}

/// A process that dies is started again after this long.
const RESTART: Duration = Duration::from_secs(2);

/// Longer than any flow takes with the worst of clocks.
const SETTLES_WITHIN: Duration = Duration::from_hours(8);

/// How soon the onlooker, who is not part of the simulated system, has a look; and how seldom when
/// nothing happens for hours.
const LOOK: Duration = Duration::from_millis(250);
const LOOK_MAX: Duration = Duration::from_secs(20);

const WORKERS: usize = 2;

impl Scenario {
    /// Plays it, and tells what must not be and is.
    pub fn broken(&self) -> Vec<String> {
        self.play().broken
    }

    /// Plays it. Single-threaded, in virtual time: the same scenario always goes the same way.
    pub(crate) fn play(&self) -> Played {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        match runtime {
            Ok(runtime) => runtime.block_on(self.play_out()),
            Err(error) => Played { calls: 0, reached: 0, trace: Vec::new(), broken: vec![error.to_string()] },
        }
    }

    async fn play_out(&self) -> Played {
        let stage = match Stage::new(self) {
            Ok(stage) => Arc::new(stage),
            Err(error) => return Played { calls: 0, reached: 0, trace: Vec::new(), broken: vec![error] },
        };
        let mut tasks = tokio::task::JoinSet::new();
        for slot in 0..WORKERS {
            tasks.spawn(Arc::clone(&stage).keep_alive(slot));
        }
        let ending = timeout(SETTLES_WITHIN, async {
            Box::pin(stage.act_out()).await;
            stage.settle().await
        })
        .await;
        tasks.shutdown().await;
        let broken = match ending {
            Ok(record) => stage.judge(record).await,
            Err(_) => vec![format!("the run did not come to an end within {SETTLES_WITHIN:?}")],
        };
        let faults = &stage.faults;
        Played { calls: faults.calls(), reached: faults.reached(), trace: faults.trace(), broken }
    }
}

/// Everything a scenario takes place on.
struct Stage {
    flow: &'static Flow,
    skew: Skew,
    faultless: bool,
    verifies: bool,
    plan: Plan,
    run: RunKey,
    store: SqliteStore,
    world: Arc<World>,
    faults: Arc<Faults>,
    begun: Instant,
    timing: Timing,
    key: Arc<SigningKey>,
}

type SimEngine = Engine<Intercepted<SqliteStore, Node>>;

impl Stage {
    fn new(scenario: &Scenario) -> Result<Self, String> {
        let begun = Instant::now();
        let options =
            SqliteOptions { clock: Arc::new(VirtualClock::new(begun, 0)), ..SqliteOptions::default() };
        let tenant = TenantId::new("acme").map_err(|error| error.to_string())?;
        Ok(Self {
            flow: scenario.flow,
            skew: scenario.skew,
            faultless: scenario.points.is_empty(),
            verifies: scenario.points.len() != 2,
            plan: plan(scenario.flow)?,
            run: RunKey { run: RunId::derive(&tenant, &key()), tenant },
            store: SqliteStore::memory(options).map_err(|error| error.to_string())?,
            world: Arc::default(),
            faults: Arc::new(Faults::new(scenario.points.clone())),
            begun,
            timing: Timing::default(),
            key: Arc::new(SigningKey::from_seed([7; 32])),
        })
    }

    fn node(&self, name: String, off_by_ms: i64) -> (Node, Arc<dyn Clock>) {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(self.begun, off_by_ms));
        let node = Node::new(NodeParts {
            name,
            faults: Arc::clone(&self.faults),
            rival: self.store.clone(),
            clock: Arc::new(VirtualClock::new(self.begun, 0)),
            freeze: Millis(self.timing.lease.0 * 2),
        });
        (node, clock)
    }

    #[expect(clippy::expect_used, reason = "the names are made here")]
    fn engine(&self, node: &Node, clock: Arc<dyn Clock>, name: &str) -> (Arc<SimEngine>, WorkerId) {
        let me = WorkerId::new(name).expect("a worker's name");
        let tools = TOOLS.into_iter().fold(Toolbox::default(), |tools, (name, class, service)| {
            let (node, world) = (node.clone(), Arc::clone(&self.world));
            tools.with(SimTool { name, class, service, node, world })
        });
        let store = Arc::new(Intercepted::new(self.store.clone(), node.clone()));
        let shows = SimShows { node: node.clone(), world: Arc::clone(&self.world) };
        let parts = Parts {
            store,
            tools,
            clock,
            me: me.clone(),
            timing: self.timing.clone(),
            shows: Some(Arc::new(shows)),
            sealing: Some(Sealing { key: Arc::clone(&self.key), origin: "simulation".to_owned() }),
        };
        (Arc::new(Engine::new(parts)), me)
    }

    /// A worker that is started again whenever it dies.
    async fn keep_alive(self: Arc<Self>, slot: usize) {
        for incarnation in 0.. {
            let name = format!("worker-{slot}.{incarnation}");
            let (node, clock) = self.node(name.clone(), self.skew.of(slot));
            let (engine, me) = self.engine(&node, clock, &name);
            let (_leave, leaving) = worker::leaving();
            let settings = WorkerSettings {
                rooms: Rooms { ingest: 1, decisions: 2, steps: 2 },
                // Rare, so that a flow's calls are mostly its own; bell and index must still be enough.
                poll: Duration::from_mins(10),
                sweep_every: Duration::from_mins(2),
                // Nothing here asks how a worker is.
                look_every: Duration::from_hours(24),
                sign_every: None,
                ..WorkerSettings::default()
            };
            // Dropped with everything that was started from it, as a process is.
            let mut process = tokio::task::JoinSet::new();
            process.spawn(Worker::new(engine, settings, me, leaving).run());
            node.died().await;
            process.shutdown().await;
            sleep(RESTART).await;
        }
    }

    /// Starts the run, and does what the flow's script says. Whoever dies while asking asks again: a
    /// sender that got no answer always does.
    async fn act_out(&self) {
        let tenant = Tenant {
            caps: Caps { max_writes_per_run: self.flow.writes_max },
            ..Tenant::new(self.run.tenant.clone())
        };
        let _ = self.store.put_tenant(tenant).await;
        self.insist("starter", async |engine: &SimEngine| {
            Box::pin(engine.start(self.wish())).await.map(|_| ())
        })
        .await;
        match self.flow.script {
            Script::Nothing => {}
            Script::EventAtOnce => self.send_event().await,
            Script::EventWhenWaiting => {
                self.until(|record| record.status == RunStatus::WaitingEvent).await;
                self.send_event().await;
            }
            Script::Approve => self.approve_everything().await,
            Script::Reject => {
                self.until(|record| record.status == RunStatus::WaitingApproval).await;
                self.answer("alice", false).await;
            }
            Script::RejectThenApprove => {
                self.until(|record| record.status == RunStatus::WaitingApproval).await;
                self.answer("alice", false).await;
                self.until(|record| record.status == RunStatus::Paused).await;
                self.resume().await;
                self.approve_everything().await;
            }
            Script::ApproveWhenEscalated => {
                self.until_escalated().await;
                self.approve_everything().await;
            }
            Script::ApproveAgainstCancel => {
                self.until(|record| record.status == RunStatus::WaitingApproval).await;
                tokio::join!(biased; self.answer("alice", true), self.cancel());
            }
            Script::UndoWhenOver => {
                self.until(|_| false).await;
                self.insist("operator", async |engine: &SimEngine| {
                    Box::pin(engine.undo(&self.run, &operator())).await.map(|_| ())
                })
                .await;
            }
            Script::CancelWhenHeld => {
                self.until(|record| matches!(record.live, Live::Running(_)) || record.status.is_terminal())
                    .await;
                self.cancel().await;
            }
            Script::DoubleMessages => self.double_messages().await,
            Script::RetryWhenPaused | Script::RollBackWhenPaused => Box::pin(self.help_when_paused()).await,
        }
    }

    fn wish(&self) -> StartRun {
        StartRun {
            tenant: self.run.tenant.clone(),
            workspace: workspace(),
            plan: self.plan.clone(),
            trigger_kind: "simulation".to_owned(),
            record: None,
            key: key(),
            input: json!({ "n": 41 }),
            by: Initiator::new(Cause::Webhook, "simulation"),
        }
    }

    async fn send_event(&self) {
        let wish = signal();
        self.insist("sender", async |engine: &SimEngine| {
            let by = Initiator::new(Cause::Webhook, "sender");
            Box::pin(engine.signal(&self.run, &by, wish.clone())).await.map(|_| ())
        })
        .await;
    }

    /// Whatever people are asked until the run is over, two of them say yes.
    async fn approve_everything(&self) {
        loop {
            let asks = |record: &RunRecord| record.status == RunStatus::WaitingApproval;
            self.until(|record| asks(record) || record.status == RunStatus::Paused).await;
            if !self.record().await.is_some_and(|record| asks(&record)) {
                return;
            }
            self.answer("alice", true).await;
            self.answer("bob", true).await;
        }
    }

    /// A person answers what is asked at this moment. What is no longer asked needs no answer.
    async fn answer(&self, person: &str, approve: bool) {
        let open = self.store.approvals(&self.run).await.unwrap_or_default();
        let Some(approval) = open.into_iter().find(domain::Approval::is_open) else { return };
        let reply = Reply {
            approval: approval.id.clone(),
            subject: Some(approval.subject.hash()),
            person: person_called(person),
            approve,
            reason: "because".to_owned(),
            through: Channel::CommandLine,
        };
        self.insist(person, async |engine: &SimEngine| {
            Box::pin(engine.answer(&self.run.tenant, reply.clone())).await.map(|_| ())
        })
        .await;
    }

    async fn until_escalated(&self) {
        let mut looks = looks();
        while self.record().await.is_some_and(|record| !record.status.is_terminal()) {
            let asked = self.store.approvals(&self.run).await.unwrap_or_default();
            if asked.iter().any(|approval| approval.escalated_at.is_some()) {
                return;
            }
            looks.wait().await;
        }
    }

    async fn cancel(&self) {
        self.insist("operator", async |engine: &SimEngine| {
            Box::pin(engine.cancel(&self.run, &operator(), "enough")).await.map(|_| ())
        })
        .await;
    }

    async fn resume(&self) {
        self.insist("operator", async |engine: &SimEngine| {
            Box::pin(engine.resume(&self.run, &operator(), "ask again")).await
        })
        .await;
    }

    /// Not through the fault layer: this is the queue misbehaving, not somebody asking for it.
    async fn double_messages(&self) {
        for delay in [0, 1, 150, 300, 700, 31_000] {
            let (run, delay) = (self.run.clone(), Millis(delay));
            let _ =
                self.store.send(&Outgoing { run, queue: QueueName::Steps, job: Job::Advance, delay }).await;
        }
    }

    async fn help_when_paused(&self) {
        loop {
            self.until(|record| record.status == RunStatus::Paused || record.status.is_terminal()).await;
            let Some(record) = self.record().await else { return };
            if record.status.is_terminal() {
                return;
            }
            self.insist("operator", async |engine: &SimEngine| match self.flow.script {
                Script::RollBackWhenPaused if record.rollback.is_none() => {
                    Box::pin(engine.roll_back(&self.run, &operator(), "take it back")).await.map(|_| ())
                }
                _ => Box::pin(engine.resume(&self.run, &operator(), "I looked: it is safe")).await,
            })
            .await;
        }
    }

    /// Asks until there is an answer; a refusal is one.
    async fn insist(&self, who: &str, ask: impl AsyncFn(&SimEngine) -> Result<(), EngineError>) {
        for attempt in 0.. {
            let name = format!("{who}.{attempt}");
            let (node, clock) = self.node(name.clone(), 0);
            let (engine, _) = self.engine(&node, clock, &name);
            tokio::select! {
                biased;
                () = node.died() => {}
                answer = Box::pin(ask(&engine)) => match answer {
                    Ok(()) | Err(EngineError::Refused(_)) => return,
                    Err(_) => {}
                }
            }
            sleep(RESTART).await;
        }
    }

    async fn record(&self) -> Option<RunRecord> {
        self.store.load(&self.run).await.ok().flatten()
    }

    async fn until(&self, there: impl Fn(&RunRecord) -> bool) {
        let mut looks = looks();
        while !self.record().await.is_some_and(|record| there(&record) || record.status.is_terminal()) {
            looks.wait().await;
        }
    }

    /// Waits until the run is at rest and every message is used up.
    async fn settle(&self) -> RunRecord {
        let mut looks = looks();
        loop {
            if let Some(record) = self.record().await {
                let rests = record.status.is_terminal() || record.status == RunStatus::Paused;
                if rests && self.is_empty().await {
                    return record;
                }
            }
            looks.wait().await;
        }
    }

    async fn is_empty(&self) -> bool {
        for queue in QueueName::ALL {
            if !self.store.depth(queue).await.is_ok_and(|depth| depth == 0) {
                return false;
            }
        }
        true
    }

    async fn judge(&self, record: RunRecord) -> Vec<String> {
        // What is still on its way arrives; then the world is counted.
        sleep(Duration::from_mins(5)).await;
        let ending = Ending {
            flow: self.flow,
            faultless: self.faultless && self.skew == Skew::None,
            record,
            plan: &self.plan,
            store: &self.store,
            effects: self.world.effects(),
            cards: self.world.cards(),
            key: self.key.public(),
            verifies: self.verifies,
        };
        oracle::judge(&ending).await
    }
}

/// Waits that grow longer.
struct Looks(Duration);

fn looks() -> Looks {
    Looks(LOOK)
}

impl Looks {
    async fn wait(&mut self) {
        sleep(self.0).await;
        self.0 = (self.0 * 5 / 4).min(LOOK_MAX);
    }
}

/// The flow's plan.
pub(crate) fn plan(flow: &Flow) -> Result<Plan, String> {
    // Where nothing is said, nobody is asked: the flows that are about people say so.
    let environment = if flow.workflow.contains("environment:") { "" } else { "environment: dev\n" };
    let source = format!("workflow: simulated\nversion: 1\n{environment}{}", flow.workflow);
    let tools: std::collections::BTreeSet<ToolName> =
        TOOLS.iter().filter_map(|(name, ..)| ToolName::new(name).ok()).collect();
    workflow::parse(&source, &tools).map_err(|error| format!("{}: {error}", flow.name))
}

#[expect(clippy::expect_used, reason = "literals")]
fn key() -> IdempotencyKey {
    IdempotencyKey::new("simulation:1").expect("a key")
}

#[expect(clippy::expect_used, reason = "literals")]
fn workspace() -> WorkspaceId {
    WorkspaceId::new("main").expect("a workspace")
}

#[expect(clippy::expect_used, reason = "literals")]
fn signal() -> SignalRun {
    SignalRun {
        id: SignalId::new("delivery-1").expect("a signal id"),
        event: EventName::new("go").expect("an event name"),
        payload: json!({ "go": "now" }),
    }
}

#[expect(clippy::expect_used, reason = "literals")]
fn person_called(name: &str) -> PersonId {
    PersonId::new(name).expect("a person")
}

fn operator() -> Initiator {
    Initiator::new(Cause::User, "operator")
}
