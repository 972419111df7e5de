//! A scenario: one flow with its faults and clock skew, run to its end.

use std::sync::Arc;
use std::time::Duration;

use connectors::ToolRegistry;
use domain::plan::Plan;
use domain::tenant::Caps;
use domain::{
    Cause, Channel, EventName, IdempotencyKey, Initiator, Job, Millis, Outgoing, PersonId, QueueName, RunId,
    RunKey, RunRecord, RunStatus, SignalId, StepState, Tenant, TenantId, ToolName, WorkerId, WorkspaceId,
};
use engine::{
    ConnectionParts, Engine, EngineError, EngineParts, EvidenceSigner, SignalRun, StartRun, Timing,
    VoteRequest,
};
use evidence::SigningKey;
use serde::Serialize;
use serde_json::json;
use store::{Clock, Governance as _, Intercepted, Ledger as _, Queue as _, SqliteOptions, SqliteStore};
use tokio::time::{Instant, sleep, timeout};
use worker::{Concurrency, Worker, WorkerSettings};

use crate::clock::VirtualClock;
use crate::fault::{FaultPoint, Faults, Node, NodeConfig};
use crate::flow::{Flow, Script};
use crate::oracle::{self, FinalState};
use crate::service::{FakeNotifier, FakeService, SimTool, TOOLS};

/// The clock skew of the two workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Skew {
    /// Both clocks are right.
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
    fn skew_ms(self, slot: usize) -> i64 {
        const HOUR: i64 = 3_600_000;
        match (self, slot) {
            (Self::FastAndSlow | Self::Fast, 0) | (Self::SlowAndFast, 1) => HOUR,
            (Self::FastAndSlow, 1) | (Self::SlowAndFast | Self::Slow, 0) => -HOUR,
            _ => 0,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Scenario {
    pub flow: &'static Flow,
    pub points: Vec<FaultPoint>,
    pub skew: Skew,
}

#[derive(Debug, Clone)]
pub(crate) struct ScenarioResult {
    pub(crate) calls: u32,
    pub(crate) reached: u32,
    pub(crate) trace: Vec<String>,
    pub(crate) broken: Vec<String>,
}

/// A crashed process is restarted after this delay.
const RESTART: Duration = Duration::from_secs(2);

/// Longer than any flow takes with the largest clock skew.
const TIME_LIMIT: Duration = Duration::from_hours(8);

/// Poll intervals of the script and the oracle, which are outside the simulated system. The interval grows
/// because some flows wait for hours of virtual time.
const POLL_MIN: Duration = Duration::from_millis(250);
const POLL_MAX: Duration = Duration::from_secs(20);

const WORKERS: usize = 2;

impl Scenario {
    /// Runs the scenario and returns the invariants that did not hold.
    pub fn broken(&self) -> Vec<String> {
        self.run().broken
    }

    /// Runs the scenario. It is single-threaded and in virtual time, so the result is deterministic.
    pub(crate) fn run(&self) -> ScenarioResult {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        match runtime {
            Ok(runtime) => runtime.block_on(self.run_async()),
            Err(error) => {
                ScenarioResult { calls: 0, reached: 0, trace: Vec::new(), broken: vec![error.to_string()] }
            }
        }
    }

    async fn run_async(&self) -> ScenarioResult {
        let simulation = match Simulation::new(self) {
            Ok(simulation) => Arc::new(simulation),
            Err(error) => {
                return ScenarioResult { calls: 0, reached: 0, trace: Vec::new(), broken: vec![error] };
            }
        };
        let mut tasks = tokio::task::JoinSet::new();
        for slot in 0..WORKERS {
            tasks.spawn(Arc::clone(&simulation).run_worker(slot));
        }
        let final_state = timeout(TIME_LIMIT, async {
            Box::pin(simulation.run_script()).await;
            simulation.wait_until_idle().await
        })
        .await;
        tasks.shutdown().await;
        let broken = match final_state {
            Ok(record) => simulation.check(record).await,
            Err(_) => vec![format!("the run did not end within {TIME_LIMIT:?}")],
        };
        let faults = &simulation.faults;
        ScenarioResult { calls: faults.calls(), reached: faults.reached(), trace: faults.trace(), broken }
    }
}

struct Simulation {
    flow: &'static Flow,
    skew: Skew,
    faultless: bool,
    verify_evidence: bool,
    plan: Plan,
    run: RunKey,
    store: SqliteStore,
    service: Arc<FakeService>,
    faults: Arc<Faults>,
    started: Instant,
    timing: Timing,
    key: Arc<SigningKey>,
}

type SimEngine = Engine<Intercepted<SqliteStore, Node>>;

impl Simulation {
    fn new(scenario: &Scenario) -> Result<Self, String> {
        let started = Instant::now();
        let options =
            SqliteOptions { clock: Arc::new(VirtualClock::new(started, 0)), ..SqliteOptions::default() };
        let tenant = TenantId::new("acme").map_err(|error| error.to_string())?;
        Ok(Self {
            flow: scenario.flow,
            skew: scenario.skew,
            faultless: scenario.points.is_empty(),
            verify_evidence: scenario.points.len() != 2,
            plan: plan(scenario.flow)?,
            run: RunKey { run: RunId::derive(&tenant, &key()), tenant },
            store: SqliteStore::memory(options).map_err(|error| error.to_string())?,
            service: Arc::default(),
            faults: Arc::new(Faults::new(scenario.points.clone())),
            started,
            timing: Timing::default(),
            key: Arc::new(SigningKey::from_seed([7; 32])),
        })
    }

    fn node(&self, name: String, skew_ms: i64) -> (Node, Arc<dyn Clock>) {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(self.started, skew_ms));
        let node = Node::new(NodeConfig {
            name,
            faults: Arc::clone(&self.faults),
            rival: self.store.clone(),
            clock: Arc::new(VirtualClock::new(self.started, 0)),
            freeze: Millis(self.timing.lease.0 * 2),
        });
        (node, clock)
    }

    #[expect(clippy::expect_used, reason = "the names are literals")]
    fn engine(&self, node: &Node, clock: Arc<dyn Clock>, name: &str) -> (Arc<SimEngine>, WorkerId) {
        let me = WorkerId::new(name).expect("a worker's name");
        let tools = TOOLS.into_iter().fold(ToolRegistry::default(), |tools, (name, class, actual_class)| {
            let (node, service) = (node.clone(), Arc::clone(&self.service));
            tools.with(SimTool { name, class, actual_class, node, service })
        });
        let store = Arc::new(Intercepted::new(self.store.clone(), node.clone()));
        let notifier = FakeNotifier { node: node.clone(), service: Arc::clone(&self.service) };
        let parts = EngineParts {
            store,
            tools,
            connections: ConnectionParts::default(),
            clock,
            me: me.clone(),
            timing: self.timing.clone(),
            notifier: Some(Arc::new(notifier)),
            evidence_signer: Some(EvidenceSigner {
                key: Arc::clone(&self.key),
                origin: "simulation".to_owned(),
            }),
        };
        (Arc::new(Engine::new(parts)), me)
    }

    /// Runs a worker and restarts it after each crash.
    async fn run_worker(self: Arc<Self>, slot: usize) {
        for incarnation in 0.. {
            let name = format!("worker-{slot}.{incarnation}");
            let (node, clock) = self.node(name.clone(), self.skew.skew_ms(slot));
            let (engine, me) = self.engine(&node, clock, &name);
            let shutdown = worker::CancellationToken::new();
            let settings = WorkerSettings {
                concurrency: Concurrency { ingest: 1, decisions: 2, steps: 2 },
                // Rare, so that most calls belong to the flow. Notifications and the due index must suffice.
                poll: Duration::from_mins(10),
                sweep_every: Duration::from_mins(2),
                // The simulation does not read worker status.
                health_check_every: Duration::from_hours(24),
                heartbeat_every: None,
                ..WorkerSettings::default()
            };
            // A shutdown drops all tasks of the worker, as the end of a process does.
            let mut process = tokio::task::JoinSet::new();
            process.spawn(Worker::new(engine, settings, me, shutdown.clone()).run());
            node.wait_for_crash().await;
            process.shutdown().await;
            sleep(RESTART).await;
        }
    }

    /// Starts the run and performs the flow's script. A caller that crashes or gets no answer tries again.
    async fn run_script(&self) {
        let tenant = Tenant {
            caps: Caps { max_writes_per_run: self.flow.writes_max, ..Caps::default() },
            ..Tenant::new(self.run.tenant.clone())
        };
        let _ = self.store.put_tenant(tenant).await;
        self.retry_until_answered("starter", async |engine: &SimEngine| {
            Box::pin(engine.admission().start(self.start_command())).await.map(|_| ())
        })
        .await;
        match self.flow.script {
            Script::Nothing => {}
            Script::EventAtStart => self.send_event().await,
            Script::EventWhenWaiting => {
                self.wait_until(|record| record.status == RunStatus::WaitingEvent).await;
                self.send_event().await;
            }
            Script::Approve => self.approve_everything().await,
            Script::Reject => {
                self.wait_until(|record| record.status == RunStatus::WaitingApproval).await;
                self.vote("alice", false).await;
            }
            Script::RejectThenApprove => {
                self.wait_until(|record| record.status == RunStatus::WaitingApproval).await;
                self.vote("alice", false).await;
                self.wait_until(|record| record.status == RunStatus::Paused).await;
                self.resume().await;
                self.approve_everything().await;
            }
            Script::ApproveWhenEscalated => {
                self.wait_until_escalated().await;
                self.approve_everything().await;
            }
            Script::ApproveDuringCancel => {
                self.wait_until(|record| record.status == RunStatus::WaitingApproval).await;
                tokio::join!(biased; self.vote("alice", true), self.cancel());
            }
            Script::UndoWhenFinished => {
                self.wait_until(|_| false).await;
                self.retry_until_answered("operator", async |engine: &SimEngine| {
                    Box::pin(engine.tenant_handle(&self.run.tenant, &operator()).undo(&self.run.run))
                        .await
                        .map(|_| ())
                })
                .await;
            }
            Script::CancelWhenRunning => {
                self.wait_until(|record| {
                    matches!(record.step_state, StepState::Running(_)) || record.status.is_terminal()
                })
                .await;
                self.cancel().await;
            }
            Script::DuplicateMessages => self.send_duplicates().await,
            Script::RetryWhenPaused | Script::RollBackWhenPaused => {
                Box::pin(self.resolve_when_paused()).await;
            }
        }
    }

    fn start_command(&self) -> StartRun {
        StartRun {
            tenant: self.run.tenant.clone(),
            workspace: workspace(),
            plan: self.plan.clone(),
            trigger_kind: "simulation".to_owned(),
            record: None,
            key: key(),
            input: json!({ "n": 41 }),
            by: Initiator::new(Cause::Webhook, "simulation"),
            applied_by: None,
            inherited: domain::Inherited::default(),
        }
    }

    async fn send_event(&self) {
        let request = signal();
        self.retry_until_answered("sender", async |engine: &SimEngine| {
            let by = Initiator::new(Cause::Webhook, "sender");
            Box::pin(engine.tenant_handle(&self.run.tenant, &by).signal(&self.run.run, request.clone()))
                .await
                .map(|_| ())
        })
        .await;
    }

    /// Two approvers approve every approval until the run ends.
    async fn approve_everything(&self) {
        loop {
            let is_waiting = |record: &RunRecord| record.status == RunStatus::WaitingApproval;
            self.wait_until(|record| is_waiting(record) || record.status == RunStatus::Paused).await;
            if !self.record().await.is_some_and(|record| is_waiting(&record)) {
                return;
            }
            self.vote("alice", true).await;
            self.vote("bob", true).await;
        }
    }

    /// A person decides the open approval, if there is one.
    async fn vote(&self, name: &str, approve: bool) {
        let open = self.store.approvals(&self.run).await.unwrap_or_default();
        let Some(approval) = open.into_iter().find(domain::Approval::is_open) else { return };
        let request = VoteRequest {
            approval: approval.id.clone(),
            subject: Some(approval.subject.hash()),
            person: person_id(name),
            approve,
            reason: "because".to_owned(),
            through: Channel::CommandLine,
        };
        self.retry_until_answered(name, async |engine: &SimEngine| {
            Box::pin(engine.governance().record_vote(&self.run.tenant, request.clone())).await.map(|_| ())
        })
        .await;
    }

    async fn wait_until_escalated(&self) {
        let mut backoff = backoff();
        while self.record().await.is_some_and(|record| !record.status.is_terminal()) {
            let approvals = self.store.approvals(&self.run).await.unwrap_or_default();
            if approvals.iter().any(|approval| approval.escalated_at.is_some()) {
                return;
            }
            backoff.wait().await;
        }
    }

    async fn cancel(&self) {
        self.retry_until_answered("operator", async |engine: &SimEngine| {
            Box::pin(engine.tenant_handle(&self.run.tenant, &operator()).cancel(&self.run.run, "enough"))
                .await
                .map(|_| ())
        })
        .await;
    }

    async fn resume(&self) {
        self.retry_until_answered("operator", async |engine: &SimEngine| {
            Box::pin(engine.tenant_handle(&self.run.tenant, &operator()).resume(&self.run.run, "ask again"))
                .await
        })
        .await;
    }

    /// Bypasses the fault layer: the duplicates come from the queue, not from a caller.
    async fn send_duplicates(&self) {
        for delay in [0, 1, 150, 300, 700, 31_000] {
            let (run, delay) = (self.run.clone(), Millis(delay));
            let _ =
                self.store.send(&Outgoing { run, queue: QueueName::Steps, job: Job::Advance, delay }).await;
        }
    }

    async fn resolve_when_paused(&self) {
        loop {
            let stopped = |status| matches!(status, RunStatus::Paused | RunStatus::WaitingApproval);
            self.wait_until(|record| stopped(record.status) || record.status.is_terminal()).await;
            let Some(record) = self.record().await else { return };
            if record.status.is_terminal() {
                return;
            }
            // Another attempt at an opaque action needs an approval, by another user than the operator.
            if record.status == RunStatus::WaitingApproval {
                self.vote("alice", true).await;
                continue;
            }
            self.retry_until_answered("operator", async |engine: &SimEngine| match self.flow.script {
                Script::RollBackWhenPaused if record.rollback.is_none() => {
                    Box::pin(engine.tenant_handle(&self.run.tenant, &operator()).roll_back(
                        &self.run.run,
                        "roll back",
                        None,
                    ))
                    .await
                    .map(|_| ())
                }
                _ => {
                    Box::pin(
                        engine
                            .tenant_handle(&self.run.tenant, &operator())
                            .resume(&self.run.run, "checked: safe to retry"),
                    )
                    .await
                }
            })
            .await;
        }
    }

    /// Repeats the request until there is an answer. A refusal is an answer.
    async fn retry_until_answered(
        &self,
        caller: &str,
        request: impl AsyncFn(&SimEngine) -> Result<(), EngineError>,
    ) {
        for attempt in 0.. {
            let name = format!("{caller}.{attempt}");
            let (node, clock) = self.node(name.clone(), 0);
            let (engine, _) = self.engine(&node, clock, &name);
            tokio::select! {
                biased;
                () = node.wait_for_crash() => {}
                answer = Box::pin(request(&engine)) => match answer {
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

    async fn wait_until(&self, condition: impl Fn(&RunRecord) -> bool) {
        let mut backoff = backoff();
        while !self.record().await.is_some_and(|record| condition(&record) || record.status.is_terminal()) {
            backoff.wait().await;
        }
    }

    /// Waits until the run is terminal or paused and all queues are empty.
    async fn wait_until_idle(&self) -> RunRecord {
        let mut backoff = backoff();
        loop {
            if let Some(record) = self.record().await {
                let idle = record.status.is_terminal() || record.status == RunStatus::Paused;
                if idle && self.queues_are_empty().await {
                    return record;
                }
            }
            backoff.wait().await;
        }
    }

    async fn queues_are_empty(&self) -> bool {
        for queue in QueueName::ALL {
            if !self.store.depth(queue).await.is_ok_and(|depth| depth == 0) {
                return false;
            }
        }
        true
    }

    async fn check(&self, record: RunRecord) -> Vec<String> {
        // Requests in transit arrive before the effects are counted.
        sleep(Duration::from_mins(5)).await;
        let final_state = FinalState {
            flow: self.flow,
            faultless: self.faultless && self.skew == Skew::None,
            record,
            plan: &self.plan,
            store: &self.store,
            effects: self.service.effects(),
            cards: self.service.cards(),
            key: self.key.public(),
            verify_evidence: self.verify_evidence,
        };
        oracle::check(&final_state).await
    }
}

/// A poll interval that grows.
struct Backoff(Duration);

fn backoff() -> Backoff {
    Backoff(POLL_MIN)
}

impl Backoff {
    async fn wait(&mut self) {
        sleep(self.0).await;
        self.0 = (self.0 * 5 / 4).min(POLL_MAX);
    }
}

pub(crate) fn plan(flow: &Flow) -> Result<Plan, String> {
    // The default policy requires no approval in `dev`; flows about approvals set their own environment.
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
fn person_id(name: &str) -> PersonId {
    PersonId::new(name).expect("a person")
}

fn operator() -> Initiator {
    Initiator::new(Cause::User, "operator")
}
