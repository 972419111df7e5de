//! One measurement: so many runs of so many steps, so many at once.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use connectors::Toolbox;
use domain::plan::{Call, Environment, Plan, PlannedStep, Work};
use domain::{
    Cause, IdempotencyKey, Initiator, Millis, QueueName, RunId, RunKey, RunStatus, StepId, StepStatus,
    TenantId, Timestamp, ToolName, WorkerId, WorkflowName, WorkspaceId,
};
use engine::{Engine, Parts, Sealing, StartRun, Timing};
use evidence::SigningKey;
use serde_json::json;
use store::sqlite::Usage;
use store::{
    Intercept, Intercepted, Ledger as _, Queue as _, RunQuery, Site, SqliteOptions, SqliteStore, StoreError,
    SystemClock,
};
use tempfile::TempDir;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use worker::{Rooms, Worker, WorkerSettings};

use crate::{machine, noop};

/// How often it is looked whether all evidence is there.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) runs: u32,
    pub(crate) in_flight: u32,
    pub(crate) steps: u16,
}

/// What was measured.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    pub(crate) load: Load,
    pub(crate) took: Duration,
    /// How long each run took, shortest first.
    pub(crate) runs: Vec<Duration>,
    pub(crate) cpu_s: f64,
    pub(crate) bytes: u64,
    /// What the rows hold.
    pub(crate) row_bytes: u64,
    pub(crate) commits: u64,
    pub(crate) rows: u64,
    pub(crate) peak_mib: f64,
    /// Steps of the measured runs that the store has on record as succeeded.
    pub(crate) recorded: u64,
}

impl Measured {
    pub(crate) fn steps(&self) -> f64 {
        f64::from(self.load.runs) * f64::from(self.load.steps)
    }
}

/// Runs under way: when they began, and room for the next when they end.
type UnderWay = Arc<Mutex<HashMap<RunKey, (Instant, OwnedSemaphorePermit)>>>;

/// Hears of every run that ends.
#[derive(Clone, Default)]
struct Finish {
    under_way: UnderWay,
    took: Arc<Mutex<Vec<Duration>>>,
}

impl Intercept for Finish {
    type Pass = Option<RunKey>;

    async fn before(&self, site: &Site) -> Result<Option<RunKey>, StoreError> {
        let ended = site.changes.as_ref().filter(|change| change.to == RunStatus::Succeeded);
        Ok(ended.map(|change| change.run.clone()))
    }

    async fn after(&self, ended: Option<RunKey>) -> Result<(), StoreError> {
        let ended = ended.and_then(|run| lock(&self.under_way).remove(&run));
        if let Some((began, _room)) = ended {
            lock(&self.took).push(began.elapsed());
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file with runs in it.
pub(crate) struct Furnished {
    pub(crate) path: PathBuf,
    pub(crate) tenant: TenantId,
    /// A time in the midst of those that copies will have.
    pub(crate) middle: Timestamp,
    _dir: TempDir,
}

pub(crate) struct Bench {
    load: Load,
    plan: Plan,
    dir: TempDir,
    store: SqliteStore,
    finish: Finish,
    engine: Arc<Engine<Intercepted<SqliteStore, Finish>>>,
    started: u32,
    sealed: bool,
}

impl Bench {
    /// Runs alone: this worker has no key, and leaves evidence to others.
    pub(crate) fn new(load: Load) -> Result<Self, String> {
        Self::with(load, None)
    }

    /// Runs with their evidence.
    pub(crate) fn sealing(load: Load) -> Result<Self, String> {
        let key = Arc::new(SigningKey::from_seed([7; 32]));
        Self::with(load, Some(Sealing { key, origin: "bench".to_owned() }))
    }

    fn with(load: Load, sealing: Option<Sealing>) -> Result<Self, String> {
        let sealed = sealing.is_some();
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let store = SqliteStore::open(dir.path().join("bench.db"), SqliteOptions::default())
            .map_err(|error| error.to_string())?;
        let finish = Finish::default();
        let engine = Engine::new(Parts {
            store: Arc::new(Intercepted::new(store.clone(), finish.clone())),
            tools: Toolbox::default().with(noop::Noop),
            clock: Arc::new(SystemClock),
            me: me()?,
            timing: Timing::default(),
            shows: None,
            sealing,
        });
        let (plan, engine) = (plan(load.steps)?, Arc::new(engine));
        Ok(Self { load, plan, dir, store, finish, engine, started: 0, sealed })
    }

    pub(crate) async fn measure(mut self) -> Result<Measured, String> {
        let (leave, working) = self.employ()?;
        self.run(self.load.runs.div_ceil(10)).await?;
        let measured = self.window(self.load.runs).await;
        leave.ask();
        let _ = working.await;
        measured
    }

    /// Runs that have ended well, and between them so many that were canceled, are paused, or wait.
    pub(crate) async fn furnish(mut self, others: u32) -> Result<Furnished, String> {
        let (leave, working) = self.employ()?;
        self.run(self.load.runs).await?;
        leave.ask();
        let _ = working.await;
        let by = Initiator::new(Cause::System, "bench");
        for n in 0..others {
            let wish = self.wish()?;
            let run = self.engine.start(wish).await.map_err(|error| error.to_string())?.run;
            let told = match n % 5 {
                0 | 1 => self.engine.cancel(&run, &by, "enough").await.map(drop),
                2 => self.engine.pause(&run, &by, "a look").await.map(drop),
                _ => Ok(()),
            };
            told.map_err(|error| error.to_string())?;
        }
        self.checkpoint().await?;
        let path = self.dir.path().join("bench.db");
        let middle = self.engine.now() + Millis::mins(8);
        Ok(Furnished { path, tenant: tenant()?, middle, _dir: self.dir })
    }

    /// What runs cost when the file is new, and when it holds `after` of them.
    pub(crate) async fn early_and_late(mut self, after: u32) -> Result<(Measured, Measured), String> {
        let (leave, working) = self.employ()?;
        self.run(100).await?;
        let early = self.window(self.load.runs).await?;
        let one_at_a_time = std::mem::replace(&mut self.load.in_flight, 64);
        self.run(after).await?;
        self.load.in_flight = one_at_a_time;
        let late = self.window(self.load.runs).await?;
        leave.ask();
        let _ = working.await;
        Ok((early, late))
    }

    fn employ(&self) -> Result<(worker::Leave, tokio::task::JoinHandle<bool>), String> {
        let (leave, leaving) = worker::leaving();
        let settings =
            WorkerSettings { rooms: Rooms::beside(64), sign_every: None, ..WorkerSettings::default() };
        let worker = Worker::new(Arc::clone(&self.engine), settings, me()?, leaving);
        Ok((leave, tokio::spawn(worker.run())))
    }

    async fn window(&mut self, runs: u32) -> Result<Measured, String> {
        self.checkpoint().await?;
        lock(&self.finish.took).clear();
        let row_bytes = self.row_bytes()?;
        let (usage, bytes, cpu, began) = (self.store.usage(), self.bytes(), machine::cpu_s(), Instant::now());
        let first = self.started;
        self.run(runs).await?;
        let (took, cpu_s) = (began.elapsed(), machine::cpu_s() - cpu);
        let Usage { commits, rows, .. } = self.store.usage();
        self.checkpoint().await?;
        let mut took_each = std::mem::take(&mut *lock(&self.finish.took));
        took_each.sort_unstable();
        Ok(Measured {
            load: Load { runs, ..self.load },
            took,
            runs: took_each,
            cpu_s,
            bytes: self.bytes().saturating_sub(bytes),
            row_bytes: self.row_bytes()?.saturating_sub(row_bytes),
            commits: commits - usage.commits,
            rows: rows - usage.rows,
            peak_mib: machine::peak_mib(),
            recorded: self.recorded(first).await?,
        })
    }

    async fn checkpoint(&self) -> Result<(), String> {
        self.store.checkpoint().await.map_err(|error| error.to_string())
    }

    fn bytes(&self) -> u64 {
        std::fs::metadata(self.dir.path().join("bench.db")).map_or(0, |file| file.len())
    }

    /// What the rows hold, column by column.
    fn row_bytes(&self) -> Result<u64, String> {
        let failed = |error: rusqlite::Error| error.to_string();
        let conn = rusqlite::Connection::open(self.dir.path().join("bench.db")).map_err(failed)?;
        let held: i64 = conn
            .query_row(
                "SELECT (SELECT coalesce(sum(length(CAST(body AS BLOB))), 0) FROM runs) + \
                 (SELECT coalesce(sum(length(hash) + length(event) + \
                         coalesce(length(CAST(payload AS BLOB)), 0)), 0) FROM history) + \
                 (SELECT coalesce(sum(length(CAST(body AS BLOB))), 0) FROM receipts)",
                [],
                |row| row.get(0),
            )
            .map_err(failed)?;
        u64::try_from(held).map_err(|error| error.to_string())
    }

    /// Starts so many runs, as many at once as the load says, and waits for the last.
    async fn run(&mut self, runs: u32) -> Result<(), String> {
        let room = Arc::new(Semaphore::new(usize::try_from(self.load.in_flight).unwrap_or(1)));
        for _ in 0..runs {
            let permit = Arc::clone(&room).acquire_owned().await.map_err(|error| error.to_string())?;
            let wish = self.wish()?;
            let run = RunKey { tenant: wish.tenant.clone(), run: RunId::derive(&wish.tenant, &wish.key) };
            lock(&self.finish.under_way).insert(run, (Instant::now(), permit));
            let engine = Arc::clone(&self.engine);
            tokio::spawn(async move {
                if let Err(error) = engine.start(wish).await {
                    eprintln!("a run could not be started: {error}");
                }
            });
        }
        let all = room.acquire_many(self.load.in_flight).await.map_err(|error| error.to_string())?;
        drop(all);
        // Evidence is put together after the run; what it costs belongs to it all the same.
        while self.sealed && self.store.depth(QueueName::Steps).await.map_err(|error| error.to_string())? > 0
        {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    fn wish(&mut self) -> Result<StartRun, String> {
        let key =
            IdempotencyKey::new(&format!("bench:{}", self.started)).map_err(|error| error.to_string())?;
        self.started += 1;
        Ok(StartRun {
            tenant: tenant()?,
            workspace: WorkspaceId::new("main").map_err(|error| error.to_string())?,
            plan: self.plan.clone(),
            trigger_kind: "bench".to_owned(),
            record: None,
            key,
            input: json!({}),
            by: Initiator::new(Cause::System, "bench"),
        })
    }

    /// Counts what the store has on record of the runs since `first`.
    async fn recorded(&self, first: u32) -> Result<u64, String> {
        let mut recorded = 0;
        let tenant = tenant()?;
        for number in first..self.started {
            let key = IdempotencyKey::new(&format!("bench:{number}")).map_err(|error| error.to_string())?;
            let run = RunKey { run: RunId::derive(&tenant, &key), tenant: tenant.clone() };
            let steps = self.store.steps(&run).await.map_err(|error| error.to_string())?;
            recorded += steps.iter().filter(|step| step.status == StepStatus::Succeeded).count() as u64;
        }
        self.nothing_left().await?;
        Ok(recorded)
    }

    async fn nothing_left(&self) -> Result<(), String> {
        for status in RunStatus::ALL.into_iter().filter(|status| *status != RunStatus::Succeeded) {
            let query = RunQuery { status: Some(status), ..RunQuery::newest(1) };
            let page = self.store.runs(&tenant()?, query).await.map_err(|error| error.to_string())?;
            if !page.runs.is_empty() {
                return Err(format!("a run is {status}"));
            }
        }
        Ok(())
    }
}

pub(crate) fn me() -> Result<WorkerId, String> {
    WorkerId::new("bench").map_err(|error| error.to_string())
}

pub(crate) fn tenant() -> Result<TenantId, String> {
    TenantId::new("bench").map_err(|error| error.to_string())
}

pub(crate) fn plan(steps: u16) -> Result<Plan, String> {
    let tool = ToolName::new(noop::NAME).map_err(|error| error.to_string())?;
    let steps = (0..steps)
        .map(|n| {
            let id = StepId::new(&format!("s{n}")).map_err(|error| error.to_string())?;
            Ok(PlannedStep::new(id, Work::Call(Call { tool: tool.clone(), with: json!({}) })))
        })
        .collect::<Result<_, String>>()?;
    let workflow = WorkflowName::new("linear").map_err(|error| error.to_string())?;
    Ok(Plan::new(workflow, Environment::Dev, steps))
}
