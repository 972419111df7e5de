//! A fleet of workers under realistic conditions: latency, throttled partitions, indexes that lag, transactions that
//! become visible item by item, duplicate and late messages, and workers that die.

mod external;
mod load;
mod oracle;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use domain::{Approval, Cause, EffectClass, Initiator, Millis, QueueName, RunKey, TenantId};
use engine::{Engine, StartRun, Timing};
use futures_util::stream::{self, StreamExt as _};
use parking_lot::Mutex;
use store::aws::AwsStore;
use store::{Archive as _, Ledger as _};
use testkit::Random;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use worker::{CancellationToken, Concurrency, Worker, WorkerSettings};

use crate::aws::{SimulatedAws, tenant, to_text};
use crate::measure::{join_thread, to_f64};
use crate::network::Conditions;
use crate::services::Services;
use crate::sqs::{Delays, Sqs};

use external::{Approvers, ExternalSystem, ExternalTool};
use load::{Kind, PlannedRun};
use oracle::{FinishedRun, effect_delays, percentile, timer_delays};

type FleetStore = AwsStore<Sqs, Services>;

/// The settings of the worker on AWS.
const LEASE: Millis = Millis::secs(20);
const RENEW_EVERY: Millis = Millis::secs(5);
const SWEEP_EVERY: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_secs(5);

/// How long a process takes to start again.
const RESTART: Duration = Duration::from_secs(5);

/// How long the fleet continues to run after the last start.
const SETTLE: Duration = Duration::from_mins(5);

/// How long after the start of the line its messages are counted: the waiting runs have been processed once, and
/// the run that they wait for has not ended.
const LINE_SETTLED: Duration = Duration::from_mins(1);

/// The most messages of a line. Only its first run has one, which can be duplicated.
const LINE_MESSAGES_MAX: usize = load::WAITERS / 4;

/// A bill under realistic conditions is at most this many times the bill under ideal ones.
const COST_FACTOR: f64 = 1.2;

/// A sweep that finds due runs reads more than one that finds nothing.
const SWEEPS_FACTOR: f64 = 1.5;

/// Dollars per million.
const WRITE_UNITS: f64 = 0.625;
const READ_UNITS: f64 = 0.125;
const SQS_REQUESTS: f64 = 0.40;

#[derive(Debug, Clone, Copy)]
pub(crate) struct FleetSize {
    workers: usize,
    tenants: usize,
    runs: usize,
    /// The time during which runs start.
    time: Duration,
    /// The part of the real limits that each partition has.
    capacity: f64,
}

impl FleetSize {
    pub(crate) const SMALL: Self =
        Self { workers: 6, tenants: 12, runs: 120, time: Duration::from_mins(6), capacity: 0.02 };
    pub(crate) const LARGE: Self =
        Self { workers: 64, tenants: 100, runs: 10_000, time: Duration::from_hours(1), capacity: 0.1 };
}

/// The conditions of a simulation. The ideal ones are for comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scenario {
    Ideal,
    Realistic,
}

impl Scenario {
    fn conditions(self, capacity: f64) -> Conditions {
        let latency = Duration::from_millis(10);
        match self {
            Self::Ideal => Conditions { latency, ..Conditions::IDEAL },
            Self::Realistic => {
                Conditions { latency, capacity: Some(capacity), index_lag: Duration::from_secs(3) }
            }
        }
    }

    fn delays(self) -> Delays {
        let latency = Duration::from_millis(10);
        match self {
            Self::Ideal => Delays { latency, duplicates: 0, late: 0, late_by: Duration::ZERO },
            Self::Realistic => Delays { latency, duplicates: 10, late: 20, late_by: Duration::from_secs(10) },
        }
    }
}

/// The result of a simulation.
#[derive(Debug)]
pub(crate) struct FleetReport {
    size: FleetSize,
    kills: usize,
    requests: u64,
    throttled: u64,
    in_flight_max: usize,
    effect: Duration,
    effect_of_others: Duration,
    timer: Duration,
    cost: f64,
    ideal_cost: f64,
    pub(crate) violations: Vec<String>,
}

impl fmt::Display for FleetReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, kills, requests, throttled, in_flight_max, effect, effect_of_others, timer, .. } =
            self;
        write!(
            f,
            "fleet {} workers, {} tenants, {} runs in {:?} of virtual time, {kills} workers killed, {requests} requests, \
             {throttled} throttled, {in_flight_max} messages in flight at most\n      \
             effect after {effect:?}, of small tenants {effect_of_others:?} (95th percentile); latest timer {timer:?} \
             late; ${:.2} per million runs, {:.2} times the ideal bill; {} violations",
            size.workers,
            size.tenants,
            size.runs,
            size.time,
            self.cost,
            self.cost / self.ideal_cost,
            self.violations.len()
        )?;
        for violation in self.violations.iter().take(20) {
            write!(f, "\n      {violation}")?;
        }
        Ok(())
    }
}

/// Simulates a fleet under realistic conditions, and compares its bill with the one under ideal conditions.
pub(crate) fn simulate(size: FleetSize, seed: u64) -> Result<FleetReport, String> {
    let (ideal, real) = thread::scope(|scope| {
        let ideal = scope.spawn(move || simulate_scenario(size, seed, Scenario::Ideal));
        let real = simulate_scenario(size, seed, Scenario::Realistic);
        (join_thread(ideal), real)
    });
    let (ideal, mut real) = (ideal?, real?);
    real.violations.extend(ideal.violations.iter().map(|violation| format!("ideal conditions: {violation}")));
    real.ideal_cost = ideal.cost;
    if real.cost > ideal.cost * COST_FACTOR {
        let message = format!("a million runs cost ${:.2} instead of ${:.2}", real.cost, ideal.cost);
        real.violations.push(message);
    }
    Ok(real)
}

fn simulate_scenario(size: FleetSize, seed: u64, scenario: Scenario) -> Result<FleetReport, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.map_err(to_text)?.block_on(async {
        let fleet = Fleet::new(size, seed, scenario).await?;
        Box::pin(fleet.run()).await
    })
}

struct Fleet {
    size: FleetSize,
    scenario: Scenario,
    aws: SimulatedAws,
    sqs: Sqs,
    services: Services,
    system: Arc<ExternalSystem>,
    approvers: mpsc::UnboundedSender<Approval>,
    random: Random,
    /// Taken by the task of the approvers.
    requests: Mutex<Option<mpsc::UnboundedReceiver<Approval>>>,
}

impl Fleet {
    async fn new(size: FleetSize, seed: u64, scenario: Scenario) -> Result<Self, String> {
        let aws = SimulatedAws::new(seed, scenario == Scenario::Realistic).await?;
        let delays = scenario.delays();
        let (approvers, requests) = mpsc::unbounded_channel();
        Ok(Self {
            size,
            scenario,
            aws,
            sqs: Sqs::new(delays, seed ^ 1),
            services: Services::new(delays.latency),
            system: Arc::default(),
            approvers,
            random: Random::new(seed ^ 2),
            requests: Mutex::new(Some(requests)),
        })
    }

    fn process(&self, name: &str) -> Engine<FleetStore> {
        let store = self.aws.store(self.sqs.clone(), self.services.clone());
        let tool = |name, class| ExternalTool { name, class, system: Arc::clone(&self.system) };
        testkit::engine()
            .standard_tools()
            .tool(tool("fleet.keyed", EffectClass::NativeKey))
            .tool(tool("fleet.opaque", EffectClass::Opaque))
            .clock(self.aws.clock.clone())
            .me(name)
            .timing(Timing { lease: LEASE, renew_every: RENEW_EVERY, ..Timing::default() })
            .notifier(Some(Arc::new(Approvers(self.approvers.clone()))))
            .signed()
            .on(store)
    }

    fn start_worker(&self, name: &str) -> Result<JoinSet<bool>, String> {
        let settings = WorkerSettings {
            concurrency: Concurrency::for_steps(16),
            visibility: LEASE,
            poll: POLL,
            sweep_every: SWEEP_EVERY,
            health_check_every: Duration::from_hours(24),
            ..WorkerSettings::default()
        };
        let me = name.parse().map_err(to_text)?;
        let worker = Worker::new(Arc::new(self.process(name)), settings, me, CancellationToken::new());
        let mut process = JoinSet::new();
        process.spawn(worker.run());
        Ok(process)
    }

    async fn run(mut self) -> Result<FleetReport, String> {
        let server = Arc::new(self.process("server"));
        let sweep_units = self.measure_sweep_units(&server).await?;
        let planned = load::plan(self.size.runs, self.size.tenants, self.size.time, &mut self.random);
        self.aws.network.start(self.scenario.conditions(self.size.capacity));
        let approving = self.requests.lock().take().map(|requests| approve(Arc::clone(&server), requests));
        let mut people = JoinSet::new();
        people.extend(approving);
        let began = Instant::now();
        let mut accepted = JoinSet::new();
        for (number, run) in planned.into_iter().enumerate() {
            accepted.spawn(start(Arc::clone(&server), run, number, began));
        }
        let line = tokio::spawn(count_line(self.sqs.clone(), began + load::line_starts(self.size.time)));
        let kills = self.run_workers(began + self.size.time, began + self.size.time + SETTLE).await?;
        let units = self.aws.network.units();
        let load = self.aws.network.load();
        let mut violations = self.check_shared(sweep_units, kills);
        let messages = line.await.map_err(to_text)?;
        if messages > LINE_MESSAGES_MAX {
            let waiters = load::WAITERS;
            violations
                .push(format!("{waiters} runs that wait for a concurrency key have {messages} messages"));
        }
        // The checks are not part of the simulation.
        self.aws.network.start(Conditions::IDEAL);
        let mut runs = BTreeMap::new();
        while let Some(started) = accepted.join_next().await {
            let (key, kind, at) = started.map_err(to_text)??;
            runs.insert(key, (kind, at));
        }
        let finished = self.read_runs(&server, runs).await?;
        let first = tenant(0)?;
        let (sqs_requests, in_flight_max) = self.sqs.usage();
        let cost = units.0 * READ_UNITS + units.1 * WRITE_UNITS + to_f64(sqs_requests) * SQS_REQUESTS;
        violations.extend(oracle::check(&finished, &first));
        Ok(FleetReport {
            size: self.size,
            kills,
            requests: load.requests,
            throttled: load.throttled,
            in_flight_max,
            effect: percentile(&effect_delays(finished.iter()), 95),
            effect_of_others: percentile(
                &effect_delays(finished.iter().filter(|run| run.key.tenant != first)),
                95,
            ),
            timer: timer_delays(&finished).last().copied().unwrap_or_default(),
            cost: cost / to_f64(self.size.runs),
            ideal_cost: f64::NAN,
            violations,
        })
    }

    /// The units of a sweep that finds nothing.
    async fn measure_sweep_units(&self, server: &Engine<FleetStore>) -> Result<f64, String> {
        let by = Initiator::new(Cause::System, "sweep");
        // The first sweep of a process also looks for finished runs.
        for _ in 0..2 {
            self.aws.network.start(Conditions::IDEAL);
            Box::pin(server.operations().sweep(&by)).await.map_err(to_text)?;
        }
        Ok(self.aws.network.idle_units())
    }

    /// The violations of what all tenants share: no item or index partition is throttled, and one worker sweeps.
    fn check_shared(&self, sweep_units: f64, kills: usize) -> Vec<String> {
        let throttled = self.aws.network.throttled_shared();
        let mut violations: Vec<String> = throttled
            .into_iter()
            .map(|(partition, requests)| format!("{requests} requests to {partition} were throttled"))
            .collect();
        let sweeps = self.aws.network.idle_units() / sweep_units;
        let periods = (self.size.time + SETTLE).as_secs_f64() / SWEEP_EVERY.as_secs_f64();
        // One worker sweeps every time, each worker one time in ten, and a new worker before it has read the registry.
        let expected = periods * (1.0 + to_f64(self.size.workers) / 10.0) + to_f64(self.size.workers + kills);
        if sweeps > expected * SWEEPS_FACTOR {
            violations.push(format!("the workers swept {sweeps:.0} times instead of {expected:.0}"));
        }
        violations
    }

    /// Runs the workers until `end`. Until `kill_until`, workers are killed and replaced. Returns the number of kills.
    async fn run_workers(&mut self, kill_until: Instant, end: Instant) -> Result<usize, String> {
        let mut workers = Vec::new();
        for number in 0..self.size.workers {
            workers.push(self.start_worker(&format!("worker-{number}"))?);
        }
        let mut kills = 0;
        while self.scenario == Scenario::Realistic {
            // Each worker dies about once in ten minutes.
            let pause = Duration::from_mins(20) / u32::try_from(self.size.workers).map_err(to_text)?;
            sleep(self.random.up_to(pause)).await;
            if Instant::now() >= kill_until {
                break;
            }
            let slot = self.random.below(workers.len());
            workers[slot].shutdown().await;
            kills += 1;
            sleep(RESTART).await;
            workers[slot] = self.start_worker(&format!("worker-{slot}.{kills}"))?;
        }
        sleep_until(end).await;
        Ok(kills)
    }

    async fn read_runs(
        &self,
        server: &Engine<FleetStore>,
        runs: BTreeMap<RunKey, (Kind, Instant)>,
    ) -> Result<Vec<FinishedRun>, String> {
        let effects = self.system.effects();
        let read = runs.into_iter().map(|(key, (kind, accepted))| {
            let effects = effects.get(&key).cloned().unwrap_or_default();
            async move {
                let record = server.store().load(&key).await.map_err(to_text)?;
                let evidence = server.store().evidence(&key).await.map_err(to_text)?;
                let progress = record.map(Into::into);
                Ok(FinishedRun { key, kind, accepted, progress, evidence, effects })
            }
        });
        stream::iter(read).buffered(64).collect::<Vec<_>>().await.into_iter().collect()
    }
}

/// Starts a run at its time, and tries again until the start is accepted.
async fn start(
    server: Arc<Engine<FleetStore>>,
    run: PlannedRun,
    number: usize,
    began: Instant,
) -> Result<(RunKey, Kind, Instant), String> {
    sleep_until(began + run.at).await;
    let tenant: TenantId = tenant(run.tenant)?;
    let request = testkit::request(&server, run.kind.workflow(), &format!("run-{number}"));
    let request = StartRun { tenant, ..request };
    loop {
        match Box::pin(server.admission().start(request.clone())).await {
            Ok(started) => return Ok((started.run, run.kind, Instant::now())),
            Err(_) => sleep(Duration::from_secs(1)).await,
        }
    }
}

/// The messages of the runs that wait for a concurrency key. Other runs have none in this queue for long.
async fn count_line(sqs: Sqs, started: Instant) -> usize {
    sleep_until(started + LINE_SETTLED).await;
    sqs.stored(QueueName::Ingest)
}

/// Approves every request after a few seconds.
async fn approve(server: Arc<Engine<FleetStore>>, mut requests: mpsc::UnboundedReceiver<Approval>) {
    let mut votes = JoinSet::new();
    while let Some(approval) = requests.recv().await {
        if !approval.is_open() {
            continue;
        }
        let server = Arc::clone(&server);
        votes.spawn(async move {
            sleep(Duration::from_secs(10)).await;
            let vote = testkit::vote(&approval, "alice");
            let tenant = &approval.run.tenant;
            for _ in 0..30 {
                match Box::pin(server.governance().record_vote(tenant, vote.clone())).await {
                    Ok(_) => return,
                    Err(_) => sleep(Duration::from_secs(1)).await,
                }
            }
        });
    }
}
