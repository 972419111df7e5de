//! The measurements.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use domain::{Cause, Initiator, Millis, RunKey, TenantId};
use dynamodb::DynamoDb;
use engine::{AdvanceLimits, Engine, StartRun};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use store::aws::{AwsParts, AwsStore, create_table, retries, timeouts};
use testkit::{TRANSFORM, TestClock};
use tokio::time::Instant;

use crate::network::{Load, Network};
use crate::partitions::Consumption;
use crate::services::Services;

type Store = AwsStore<Services, Services>;

/// The latency of a request.
const LATENCY: Duration = Duration::from_millis(10);

/// The processes that seal, and the jobs that each has in progress.
const PROCESSES: usize = 4;
const JOBS: usize = 128;

const TABLE: &str = "countersign";

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    bundles: usize,
    due: usize,
    runs: usize,
    tenants: usize,
}

impl Sizes {
    pub(crate) const SMALL: Self = Self { bundles: 2_000, due: 2_000, runs: 500, tenants: 100 };
    pub(crate) const LARGE: Self = Self { bundles: 10_000, due: 20_000, runs: 10_000, tenants: 1_000 };
}

/// A rate and what it was measured from.
#[derive(Debug)]
pub(crate) struct Measurement {
    pub(crate) name: &'static str,
    /// For each second.
    pub(crate) rate: f64,
    /// The rate that the design aims at.
    goal: f64,
    /// A lower rate is a regression.
    pub(crate) minimum: f64,
    count: usize,
    elapsed: Duration,
    load: Load,
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, rate, goal, minimum, count, elapsed, load } = self;
        write!(
            f,
            "{name:5} {rate:>8.0}/s  goal {goal:>6.0}/s  minimum {minimum:>6.0}/s  {count} in {:.2} s of virtual time, \
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

/// Runs all measurements, each on an empty table and in its own virtual time.
pub(crate) fn all(sizes: Sizes, seed: u64) -> Result<Vec<Measurement>, String> {
    let mut measurements = Vec::new();
    for number in 0..3 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let measured = runtime.map_err(to_text)?.block_on(async {
            let env = TestEnv::new(seed).await?;
            match number {
                0 => env.seal(sizes.bundles).await,
                1 => env.wake(sizes.due).await,
                _ => env.finish(sizes.runs, sizes.tenants).await,
            }
        });
        measurements.push(measured?);
    }
    Ok(measurements)
}

struct TestEnv {
    network: Network,
    client: Client,
    clock: TestClock,
    services: Services,
    /// Must outlive the client.
    _dynamodb: DynamoDb,
}

impl TestEnv {
    async fn new(seed: u64) -> Result<Self, String> {
        let dynamodb = DynamoDb::start().map_err(to_text)?;
        let network = Network::new(seed);
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("us-east-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "local"))
            .endpoint_url(dynamodb.endpoint())
            .http_client(network.clone())
            .timeout_config(timeouts())
            .retry_config(retries());
        let client = Client::from_conf(config.build());
        create_table(&client, TABLE).await.map_err(to_text)?;
        let services = Services::new(LATENCY);
        Ok(Self { network, client, clock: TestClock::runtime(), services, _dynamodb: dynamodb })
    }

    /// A process with its own store.
    fn process(&self, name: &str) -> Engine<Store> {
        let store = AwsStore::new(AwsParts {
            client: self.client.clone(),
            table: TABLE.to_owned(),
            queue: self.services.clone(),
            blobs: self.services.clone(),
            clock: Arc::new(self.clock.clone()),
        });
        testkit::engine().standard_tools().clock(self.clock.clone()).me(name).signed().on(store)
    }

    /// Bundles of one tenant a second.
    async fn seal(self, count: usize) -> Result<Measurement, String> {
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
        self.network.start(LATENCY);
        let began = Instant::now();
        let sealed = finished.iter().enumerate().map(|(number, run)| {
            let engine = &processes[number % PROCESSES];
            async move { engine.operations().build_evidence(run).await.map(drop).map_err(to_text) }
        });
        stream::iter(sealed).buffer_unordered(PROCESSES * JOBS).try_collect::<()>().await?;
        Ok(self.measured("seal", count, began, Limits { goal: 1_000.0, minimum: 800.0 }))
    }

    /// Due runs woken a second, by one sweeper.
    async fn wake(self, count: usize) -> Result<Measurement, String> {
        let engine = self.process("w");
        let tenants: Vec<TenantId> = (0..10).map(tenant).collect::<Result<_, _>>()?;
        let started = (0..count).map(|number| start(&engine, &tenants[number % tenants.len()], number));
        stream::iter(started).buffer_unordered(JOBS).try_collect::<Vec<_>>().await?;
        self.clock.advance(Millis::hours(1));
        self.network.start(LATENCY);
        let began = Instant::now();
        let by = Initiator::new(Cause::System, "sweep");
        let mut woken = 0;
        while woken < count {
            let swept = Box::pin(engine.operations().sweep(&by)).await.map_err(to_text)?.woken;
            if swept == 0 {
                return Err(format!("the sweep woke {woken} of {count} due runs"));
            }
            woken += usize::try_from(swept).map_err(to_text)?;
        }
        // A million runs in ten minutes.
        Ok(self.measured("wake", woken, began, Limits { goal: 1_667.0, minimum: 1_667.0 }))
    }

    /// Runs that start, finish and get their evidence. The rate is the one at which the hottest shared partition is
    /// full.
    async fn finish(self, count: usize, tenants: usize) -> Result<Measurement, String> {
        let engine = self.process("w");
        let tenants: Vec<TenantId> = (0..tenants).map(tenant).collect::<Result<_, _>>()?;
        self.network.start(LATENCY);
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
        let measured = self.measured("runs", count, began, Limits { goal: 10_000.0, minimum: 5_000.0 });
        let full = |used: &Consumption| f64_of(count) * used.access.limit() / used.units.max(f64::EPSILON);
        let shared = self.network.hottest_shared();
        let rate = shared.iter().map(full).fold(f64::INFINITY, f64::min);
        Ok(Measurement { rate, load: Load { hottest: shared, ..measured.load }, ..measured })
    }

    fn measured(&self, name: &'static str, count: usize, began: Instant, limits: Limits) -> Measurement {
        let elapsed = began.elapsed();
        let rate = f64_of(count) / elapsed.as_secs_f64().max(f64::EPSILON);
        let Limits { goal, minimum } = limits;
        Measurement { name, rate, goal, minimum, count, elapsed, load: self.network.load() }
    }
}

fn tenant(number: usize) -> Result<TenantId, String> {
    format!("tenant-{number}").parse().map_err(to_text)
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

fn f64_of(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

fn to_text(error: impl fmt::Display) -> String {
    error.to_string()
}
