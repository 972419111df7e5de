//! One measurement: a number of runs and steps, with a number of concurrent runs.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use connectors::ToolRegistry;
use domain::plan::{Call, Environment, Plan, PlannedStep, Work};
use domain::{
    Cause, IdempotencyKey, Initiator, Millis, QueueName, RunId, RunKey, RunStatus, StepId, StepStatus,
    TenantId, Timestamp, ToolName, WorkerId, WorkflowName, WorkspaceId,
};
use engine::{ConnectionParts, Engine, EngineParts, EvidenceSigner, StartRun, Timing};
use evidence::SigningKey;
use parking_lot::Mutex;
use serde_json::json;
use store::sqlite::Usage;
use store::{
    Intercept, Intercepted, Ledger as _, Queue as _, RunQuery, SqliteOptions, SqliteStore, StoreCall,
    StoreError, SystemClock,
};
use tempfile::TempDir;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use worker::{Concurrency, Worker, WorkerSettings};

use crate::{machine, noop};

/// The interval between checks whether all evidence is recorded.
const POLL_EVERY: Duration = Duration::from_millis(2);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) runs: u32,
    pub(crate) in_flight: u32,
    pub(crate) steps: u16,
}

#[derive(Debug, Clone)]
pub(crate) struct Measured {
    pub(crate) load: Load,
    pub(crate) took: Duration,
    /// The duration of each run, shortest first.
    pub(crate) runs: Vec<Duration>,
    pub(crate) cpu_s: f64,
    pub(crate) bytes: u64,
    /// The size of the rows.
    pub(crate) row_bytes: u64,
    pub(crate) commits: u64,
    pub(crate) rows: u64,
    pub(crate) peak_mib: f64,
    /// Steps of the measured runs that the store records as succeeded.
    pub(crate) recorded: u64,
}

impl Measured {
    pub(crate) fn steps(&self) -> f64 {
        f64::from(self.load.runs) * f64::from(self.load.steps)
    }
}

/// Each run in flight: its start time, and the permit that its end releases.
type RunsInFlight = Arc<Mutex<HashMap<RunKey, (Instant, OwnedSemaphorePermit)>>>;

/// Observes every run that succeeds.
#[derive(Clone, Default)]
struct FinishObserver {
    in_flight_runs: RunsInFlight,
    took: Arc<Mutex<Vec<Duration>>>,
}

impl Intercept for FinishObserver {
    type State = Option<RunKey>;

    async fn before(&self, site: &StoreCall) -> Result<Option<RunKey>, StoreError> {
        let ended = site.changes.as_ref().filter(|change| change.to == RunStatus::Succeeded);
        Ok(ended.map(|change| change.run.clone()))
    }

    async fn after(&self, ended: Option<RunKey>) -> Result<(), StoreError> {
        let ended = ended.and_then(|run| self.in_flight_runs.lock().remove(&run));
        if let Some((began, _room)) = ended {
            self.took.lock().push(began.elapsed());
        }
        Ok(())
    }
}

/// A file with runs.
pub(crate) struct FilledStore {
    pub(crate) path: PathBuf,
    pub(crate) tenant: TenantId,
    /// A time in the middle of the times of the copied runs.
    pub(crate) middle: Timestamp,
    _dir: TempDir,
}

pub(crate) struct Bench {
    load: Load,
    plan: Plan,
    dir: TempDir,
    store: SqliteStore,
    observer: FinishObserver,
    engine: Arc<Engine<Intercepted<SqliteStore, FinishObserver>>>,
    started: u32,
    with_evidence: bool,
}

impl Bench {
    /// Runs without evidence: this worker has no signing key.
    pub(crate) fn new(load: Load) -> Result<Self, String> {
        Self::with(load, None)
    }

    /// Runs with evidence.
    pub(crate) fn with_evidence(load: Load) -> Result<Self, String> {
        let key = Arc::new(SigningKey::from_seed([7; 32]));
        Self::with(load, Some(EvidenceSigner { key, origin: "bench".to_owned() }))
    }

    fn with(load: Load, evidence_signer: Option<EvidenceSigner>) -> Result<Self, String> {
        let with_evidence = evidence_signer.is_some();
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let store = SqliteStore::open(dir.path().join("bench.db"), SqliteOptions::default())
            .map_err(|error| error.to_string())?;
        let observer = FinishObserver::default();
        let engine = Engine::new(EngineParts {
            store: Arc::new(Intercepted::new(store.clone(), observer.clone())),
            tools: ToolRegistry::default().with(noop::Noop),
            connections: ConnectionParts::default(),
            clock: Arc::new(SystemClock),
            me: me()?,
            timing: Timing::default(),
            notifier: None,
            evidence_signer,
        });
        let (plan, engine) = (plan(load.steps)?, Arc::new(engine));
        Ok(Self { load, plan, dir, store, observer, engine, started: 0, with_evidence })
    }

    pub(crate) async fn measure(mut self) -> Result<Measured, String> {
        let (shutdown, working) = self.start_worker()?;
        self.run(self.load.runs.div_ceil(10)).await?;
        let measured = self.window(self.load.runs).await;
        shutdown.cancel();
        let _ = working.await;
        measured
    }

    /// Commits the runs of the load, and `others` that are canceled, paused or queued.
    pub(crate) async fn fill(mut self, others: u32) -> Result<FilledStore, String> {
        let (shutdown, working) = self.start_worker()?;
        self.run(self.load.runs).await?;
        shutdown.cancel();
        let _ = working.await;
        let by = Initiator::new(Cause::System, "bench");
        for n in 0..others {
            let start_command = self.start_command()?;
            let run =
                self.engine.admission().start(start_command).await.map_err(|error| error.to_string())?.run;
            let result = match n % 5 {
                0 | 1 => Box::pin(self.engine.tenant_handle(&run.tenant, &by).cancel(&run.run, "benchmark"))
                    .await
                    .map(drop),
                2 => Box::pin(self.engine.tenant_handle(&run.tenant, &by).pause(&run.run, "benchmark"))
                    .await
                    .map(drop),
                _ => Ok(()),
            };
            result.map_err(|error| error.to_string())?;
        }
        self.checkpoint().await?;
        let path = self.dir.path().join("bench.db");
        let middle = self.engine.now() + Millis::mins(8);
        Ok(FilledStore { path, tenant: tenant()?, middle, _dir: self.dir })
    }

    /// The cost of runs in a new file, and in a file with `after` runs.
    pub(crate) async fn early_and_late(mut self, after: u32) -> Result<(Measured, Measured), String> {
        let (shutdown, working) = self.start_worker()?;
        self.run(100).await?;
        let early = self.window(self.load.runs).await?;
        let one_at_a_time = std::mem::replace(&mut self.load.in_flight, 64);
        self.run(after).await?;
        self.load.in_flight = one_at_a_time;
        let late = self.window(self.load.runs).await?;
        shutdown.cancel();
        let _ = working.await;
        Ok((early, late))
    }

    fn start_worker(&self) -> Result<(worker::CancellationToken, tokio::task::JoinHandle<bool>), String> {
        let shutdown = worker::CancellationToken::new();
        let settings = WorkerSettings {
            concurrency: Concurrency::for_steps(64),
            heartbeat_every: None,
            ..WorkerSettings::default()
        };
        let worker = Worker::new(Arc::clone(&self.engine), settings, me()?, shutdown.clone());
        Ok((shutdown, tokio::spawn(worker.run())))
    }

    async fn window(&mut self, runs: u32) -> Result<Measured, String> {
        self.checkpoint().await?;
        self.observer.took.lock().clear();
        let row_bytes = self.row_bytes()?;
        let (usage, bytes, cpu, began) = (self.store.usage(), self.bytes(), machine::cpu_s(), Instant::now());
        let first = self.started;
        self.run(runs).await?;
        let (took, cpu_s) = (began.elapsed(), machine::cpu_s() - cpu);
        let Usage { commits, rows, .. } = self.store.usage();
        self.checkpoint().await?;
        let mut took_each = std::mem::take(&mut *self.observer.took.lock());
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

    /// The size of the rows, column by column.
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

    /// Starts `runs` runs, with the concurrency of the load, and waits for the last.
    async fn run(&mut self, runs: u32) -> Result<(), String> {
        let slots = Arc::new(Semaphore::new(usize::try_from(self.load.in_flight).unwrap_or(1)));
        for _ in 0..runs {
            let permit = Arc::clone(&slots).acquire_owned().await.map_err(|error| error.to_string())?;
            let start_command = self.start_command()?;
            let run = RunKey {
                tenant: start_command.tenant.clone(),
                run: RunId::derive(&start_command.tenant, &start_command.key),
            };
            self.observer.in_flight_runs.lock().insert(run, (Instant::now(), permit));
            let engine = Arc::clone(&self.engine);
            tokio::spawn(async move {
                if let Err(error) = engine.admission().start(start_command).await {
                    eprintln!("bench: start a run: {error}");
                }
            });
        }
        let all = slots.acquire_many(self.load.in_flight).await.map_err(|error| error.to_string())?;
        drop(all);
        // Evidence is built after the run ends; its cost belongs to the run.
        while self.with_evidence
            && self.store.depth(QueueName::Steps).await.map_err(|error| error.to_string())? > 0
        {
            tokio::time::sleep(POLL_EVERY).await;
        }
        Ok(())
    }

    fn start_command(&mut self) -> Result<StartRun, String> {
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
            applied_by: None,
            inherited: domain::Inherited::default(),
        })
    }

    /// Counts the succeeded steps in the store of the runs since `first`.
    async fn recorded(&self, first: u32) -> Result<u64, String> {
        let mut recorded = 0;
        let tenant = tenant()?;
        for number in first..self.started {
            let key = IdempotencyKey::new(&format!("bench:{number}")).map_err(|error| error.to_string())?;
            let run = RunKey { run: RunId::derive(&tenant, &key), tenant: tenant.clone() };
            let steps = self.store.steps(&run).await.map_err(|error| error.to_string())?;
            recorded += steps.iter().filter(|step| step.status == StepStatus::Succeeded).count() as u64;
        }
        self.check_all_succeeded().await?;
        Ok(recorded)
    }

    async fn check_all_succeeded(&self) -> Result<(), String> {
        for status in RunStatus::ALL.iter().copied().filter(|status| *status != RunStatus::Succeeded) {
            let query = RunQuery { status: Some(status), ..RunQuery::newest(1) };
            let page = self.store.runs(&tenant()?, query).await.map_err(|error| error.to_string())?;
            if !page.runs.is_empty() {
                return Err(format!("a run is {status}, expected succeeded"));
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
            Ok(PlannedStep::new(
                id,
                Work::Call(Call { tool: tool.clone(), connection: None, with: json!({}) }),
            ))
        })
        .collect::<Result<_, String>>()?;
    let workflow = WorkflowName::new("linear").map_err(|error| error.to_string())?;
    Ok(Plan::new(workflow, Environment::Dev, steps))
}
