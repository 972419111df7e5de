//! The measurements.

use std::fmt;
use std::ops::Range;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use domain::{Cause, Initiator, Millis, RunKey, TenantId};
use engine::{AdvanceLimits, DispatchScope, Engine, StartRun};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use store::aws::AwsStore;
use testkit::TRANSFORM;
use tokio::time::{Instant, sleep};

use crate::aws::{SimulatedAws, tenant, to_text};
use crate::network::{Conditions, Load};
use crate::partitions::Consumption;
use crate::services::Services;

type Store = AwsStore<Services, Services>;

/// The latency of a request.
const LATENCY: Duration = Duration::from_millis(10);

/// How late an index is.
const INDEX_LAG: Duration = Duration::from_secs(1);

/// The processes that build evidence, and the jobs that each has in progress.
const PROCESSES: usize = 4;
const JOBS: usize = 128;

/// Finished runs without evidence in front of the due runs: more than one sweep reads.
const WITHOUT_EVIDENCE: usize = 2_500;

/// The tenants whose runs one worker has in progress, and how often the worker reads the switch.
const SWITCH_TENANTS: usize = 100;
const SWITCH_ROUNDS: usize = 3;

/// Longer than an answer of the switch is cached.
const SWITCH_EXPIRES: Duration = Duration::from_millis(1_100);

/// The partition with the dispatch switch of the fleet.
const FLEET: &str = "#fleet";

/// A larger number of runs may need this many times the requests for each.
const REQUESTS_GROWTH_MAX: f64 = 1.1;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    bundles: usize,
    due: usize,
    runs: usize,
    tenants: usize,
    canceled: usize,
}

impl Sizes {
    pub(crate) const SMALL: Self =
        Self { bundles: 2_000, due: 5_000, runs: 500, tenants: 100, canceled: 1_000 };
    pub(crate) const LARGE: Self =
        Self { bundles: 10_000, due: 20_000, runs: 10_000, tenants: 1_000, canceled: 20_000 };
}

/// A rate and what it was measured from.
#[derive(Debug)]
pub(crate) struct Measurement {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) rate: f64,
    /// The rate that the design aims at.
    goal: f64,
    /// A lower rate is a regression.
    pub(crate) minimum: f64,
    count: usize,
    elapsed: Duration,
    load: Load,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    PerSecond,
    Workers,
}

impl Unit {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::PerSecond => "per_second",
            Self::Workers => "workers",
        }
    }
}

impl Measurement {
    fn requests_per_run(&self) -> f64 {
        to_f64(usize::try_from(self.load.requests).unwrap_or(usize::MAX)) / to_f64(self.count)
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, unit, rate, goal, minimum, count, elapsed, load } = self;
        let unit = if *unit == Unit::PerSecond { "/s" } else { " workers" };
        write!(
            f,
            "{name:8} {rate:>8.0}{unit}  goal {goal:>6.0}{unit}  minimum {minimum:>6.0}{unit}  {count} in {:.2} s of virtual time, \
             {} requests, {} throttled",
            elapsed.as_secs_f64(),
            load.requests,
            load.throttled
        )?;
        for Consumption { partition, access, units } in &load.hottest {
            let share = units / elapsed.as_secs_f64().max(f64::EPSILON) / access.limit() * 100.0;
            write!(f, "\n      {partition}: {units:.0} {access:?} units, {share:.0} % of its limit")?;
        }
        Ok(())
    }
}

/// The rates of a measurement that are compared with the measured one.
#[derive(Clone, Copy)]
struct Limits {
    goal: f64,
    minimum: f64,
}

/// Runs all measurements in parallel, each on an empty table and in its own virtual time.
pub(crate) fn all(sizes: Sizes, seed: u64) -> Result<Vec<Measurement>, String> {
    let kinds = [Kind::Evidence, Kind::Wake, Kind::WakeBehind, Kind::Runs, Kind::Switch, Kind::Backout];
    thread::scope(|scope| {
        let measurements = kinds.map(|kind| scope.spawn(move || measure(kind, sizes, seed)));
        measurements.into_iter().map(join_thread).collect()
    })
}

/// The result of a thread.
pub(crate) fn join_thread<T>(thread: ScopedJoinHandle<'_, Result<T, String>>) -> Result<T, String> {
    thread.join().unwrap_or_else(|_| Err("a measurement panicked".to_owned()))
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Evidence,
    Wake,
    WakeBehind,
    Runs,
    Switch,
    Backout,
}

fn measure(kind: Kind, sizes: Sizes, seed: u64) -> Result<Measurement, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.map_err(to_text)?.block_on(async {
        let env = MeasureEnv::new(seed).await?;
        match kind {
            Kind::Evidence => env.build_evidence(sizes.bundles).await,
            Kind::Wake => env.wake(sizes.due).await,
            Kind::WakeBehind => env.wake_behind(sizes.due / 5).await,
            Kind::Runs => env.finish(sizes.runs, sizes.tenants).await,
            Kind::Switch => env.read_switch().await,
            Kind::Backout => env.back_out(sizes.canceled).await,
        }
    })
}

struct MeasureEnv {
    aws: SimulatedAws,
    services: Services,
}

impl MeasureEnv {
    async fn new(seed: u64) -> Result<Self, String> {
        Ok(Self { aws: SimulatedAws::new(seed, false).await?, services: Services::new(LATENCY) })
    }

    /// A process with its own store.
    fn process(&self, name: &str) -> Engine<Store> {
        let store = self.aws.store(self.services.clone(), self.services.clone());
        testkit::engine().standard_tools().clock(self.aws.clock.clone()).me(name).signed().on(store)
    }

    /// Bundles of one tenant a second.
    async fn build_evidence(self, count: usize) -> Result<Measurement, String> {
        let processes: Vec<_> = (0..PROCESSES).map(|number| self.process(&format!("w{number}"))).collect();
        let tenant = tenant(0)?;
        let finished = stream::iter(0..count).map(|number| {
            let (engine, tenant) = (&processes[0], &tenant);
            async move {
                let run = start(engine, tenant, number).await?;
                advance(engine, &run).await?;
                Ok::<_, String>(run)
            }
        });
        let finished: Vec<RunKey> = finished.buffer_unordered(JOBS).try_collect().await?;
        self.aws.network.start(Conditions::with_latency(LATENCY));
        let began = Instant::now();
        let built = finished.iter().enumerate().map(|(number, run)| {
            let engine = &processes[number % PROCESSES];
            async move { engine.operations().build_evidence(run).await.map(drop).map_err(to_text) }
        });
        stream::iter(built).buffer_unordered(PROCESSES * JOBS).try_collect::<()>().await?;
        // The processes compete for the head of the log after random delays: the rate is between 700/s and 930/s.
        Ok(self.measurement("evidence", count, began, Limits { goal: 1_000.0, minimum: 600.0 }))
    }

    /// Due runs woken a second, by one sweeper. The index is late, so it shows runs again that were just woken; a sweep
    /// must go on behind them.
    async fn wake(self, count: usize) -> Result<Measurement, String> {
        let engine = self.process("w");
        // A million runs in ten minutes.
        let limits = Limits { goal: 1_667.0, minimum: 1_667.0 };
        let (measured, sweeps) = self.wake_due("wake", &engine, count, INDEX_LAG, limits).await?;
        if sweeps > 1 {
            return Err(format!("{sweeps} sweeps woke {count} due runs; one has the time"));
        }
        Ok(measured)
    }

    /// The same, behind finished runs without evidence that were due before. The sweep moves these first.
    async fn wake_behind(self, count: usize) -> Result<Measurement, String> {
        let engine = self.process("w");
        let (busy, first) = (tenant(10)?, 1_000_000);
        let finished = (first..first + WITHOUT_EVIDENCE).map(|number| {
            let (engine, busy) = (&engine, &busy);
            async move { advance(engine, &start(engine, busy, number).await?).await }
        });
        stream::iter(finished).buffer_unordered(JOBS).try_collect::<()>().await?;
        let limits = Limits { goal: 100.0, minimum: 100.0 };
        Ok(self.wake_due("behind", &engine, count, Duration::ZERO, limits).await?.0)
    }

    /// Wakes due runs in as many sweeps as it takes; returns their number too.
    async fn wake_due(
        &self,
        name: &'static str,
        engine: &Engine<Store>,
        count: usize,
        index_lag: Duration,
        limits: Limits,
    ) -> Result<(Measurement, u32), String> {
        let tenants: Vec<TenantId> = (0..10).map(tenant).collect::<Result<_, _>>()?;
        let started = (0..count).map(|number| start(engine, &tenants[number % tenants.len()], number));
        stream::iter(started).buffer_unordered(JOBS).try_collect::<Vec<_>>().await?;
        self.aws.clock.advance(Millis::hours(1));
        self.aws.network.start(Conditions { index_lag, ..Conditions::with_latency(LATENCY) });
        let began = Instant::now();
        let by = Initiator::new(Cause::System, "sweep");
        let (mut woken, mut sweeps) = (0, 0);
        while woken < count {
            let swept = Box::pin(engine.operations().sweep(&by)).await.map_err(to_text)?.woken;
            if swept == 0 {
                return Err(format!("the sweep woke {woken} of {count} due runs"));
            }
            woken += usize::try_from(swept).map_err(to_text)?;
            sweeps += 1;
        }
        Ok((self.measurement(name, woken, began, limits), sweeps))
    }

    /// Runs that start, finish and get their evidence. The rate is the one at which the hottest shared partition is
    /// full.
    async fn finish(self, count: usize, tenants: usize) -> Result<Measurement, String> {
        let engine = self.process("w");
        let tenants: Vec<TenantId> = (0..tenants).map(tenant).collect::<Result<_, _>>()?;
        self.aws.network.start(Conditions::with_latency(LATENCY));
        let began = Instant::now();
        let runs = (0..count).map(|number| {
            let (engine, tenant) = (&engine, &tenants[number % tenants.len()]);
            async move {
                let run = start(engine, tenant, number).await?;
                advance(engine, &run).await?;
                engine.operations().build_evidence(&run).await.map(drop).map_err(to_text)
            }
        });
        stream::iter(runs).buffer_unordered(JOBS).try_collect::<()>().await?;
        let measured = self.measurement("runs", count, began, Limits { goal: 10_000.0, minimum: 7_000.0 });
        let full = |used: &Consumption| to_f64(count) * used.access.limit() / used.units.max(f64::EPSILON);
        let shared = self.aws.network.hottest_shared();
        let rate = shared.iter().map(full).fold(f64::INFINITY, f64::min);
        Ok(Measurement { rate, load: Load { hottest: shared, ..measured.load }, ..measured })
    }

    /// How many workers can read the dispatch switch of the fleet before its item is full. A worker has runs of many
    /// tenants in progress, and reads the switch again when its answer has expired.
    async fn read_switch(self) -> Result<Measurement, String> {
        let engine = self.process("w");
        self.aws.network.start(Conditions::with_latency(LATENCY));
        let began = Instant::now();
        for first in (0..SWITCH_TENANTS * SWITCH_ROUNDS).step_by(SWITCH_TENANTS) {
            let runs = (0..SWITCH_TENANTS).map(|number| {
                let engine = &engine;
                async move { advance(engine, &start(engine, &tenant(number)?, first + number).await?).await }
            });
            stream::iter(runs).buffer_unordered(JOBS).try_collect::<()>().await?;
            sleep(SWITCH_EXPIRES).await;
        }
        let limits = Limits { goal: 1_000.0, minimum: 1_000.0 };
        let measured = self.measurement("switch", SWITCH_TENANTS * SWITCH_ROUNDS, began, limits);
        let switch = self.aws.network.reads_of(FLEET).ok_or("the switch was not read")?;
        let read_by_each = switch.units / measured.elapsed.as_secs_f64();
        Ok(Measurement { rate: switch.access.limit() / read_by_each, unit: Unit::Workers, ..measured })
    }

    /// Runs canceled a second by `backout --all`, with ten runs for each tenant. Most of the time goes to the lists of the
    /// tenants, which are read one after the other. Fails if the requests for each run grow with the number of runs.
    async fn back_out(self, count: usize) -> Result<Measurement, String> {
        let engine = self.process("w");
        let few = self.back_out_all(&engine, 0..count / 4).await?;
        let many = self.back_out_all(&engine, count / 4..count / 4 + count).await?;
        if many.requests_per_run() > few.requests_per_run() * REQUESTS_GROWTH_MAX {
            return Err(format!(
                "backout is not linear: {:.2} requests for each of {} runs, {:.2} for each of {}",
                few.requests_per_run(),
                few.count,
                many.requests_per_run(),
                many.count
            ));
        }
        // A backout also waits a fixed time, until every process has seen the stop.
        let (count, elapsed) = (many.count - few.count, many.elapsed.saturating_sub(few.elapsed));
        let rate = to_f64(count) / elapsed.as_secs_f64().max(f64::EPSILON);
        Ok(Measurement { rate, count, elapsed, ..many })
    }

    /// Starts these runs and cancels them.
    async fn back_out_all(&self, engine: &Engine<Store>, runs: Range<usize>) -> Result<Measurement, String> {
        let count = runs.len();
        self.aws.network.start(Conditions::IDEAL);
        let started = runs.map(|number| async move { start(engine, &tenant(number / 10)?, number).await });
        stream::iter(started).buffer_unordered(JOBS).try_collect::<Vec<_>>().await?;
        self.aws.network.start(Conditions::with_latency(LATENCY));
        let (began, by) = (Instant::now(), Initiator::new(Cause::System, "backout"));
        let backout = engine.operations().backout(&DispatchScope::All, &by, "measured", |_| {});
        let canceled = Box::pin(backout).await.map_err(to_text)?.canceled;
        let measured = self.measurement("backout", count, began, Limits { goal: 60.0, minimum: 60.0 });
        Box::pin(engine.operations().start_dispatch(&DispatchScope::All, &by)).await.map_err(to_text)?;
        match usize::try_from(canceled) {
            Ok(canceled) if canceled == count => Ok(measured),
            _ => Err(format!("the backout canceled {canceled} of {count} runs")),
        }
    }

    fn measurement(&self, name: &'static str, count: usize, began: Instant, limits: Limits) -> Measurement {
        let elapsed = began.elapsed();
        let rate = to_f64(count) / elapsed.as_secs_f64().max(f64::EPSILON);
        let Limits { goal, minimum } = limits;
        let (unit, load) = (Unit::PerSecond, self.aws.network.load());
        Measurement { name, unit, rate, goal, minimum, count, elapsed, load }
    }
}

async fn start(engine: &Engine<Store>, tenant: &TenantId, number: usize) -> Result<RunKey, String> {
    let request = testkit::request(engine, TRANSFORM, &format!("run-{number}"));
    let request = StartRun { tenant: tenant.clone(), ..request };
    Box::pin(engine.admission().start(request)).await.map(|started| started.run).map_err(to_text)
}

async fn advance(engine: &Engine<Store>, run: &RunKey) -> Result<(), String> {
    let advance = engine.execution().advance(run, &(), AdvanceLimits::default());
    Box::pin(advance).await.map(drop).map_err(to_text)
}

pub(crate) fn to_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}
