//! One soak: prepare, load with faults, settle, audit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use api_types::{CreateKey, RoleName};
use client::{Client, Remote, Transport};
use domain::RunStatus;
use parking_lot::Mutex;
use secrecy::SecretString;
use serde::Serialize;
use serde_json::Value;
use store::{Archive as _, Blobs as _, Ledger as _, RunQuery, StoreError};
use tokio::task::JoinSet;
use tokio::time::sleep;
use url::Url;

use crate::chaos::{Chaos, Directory, add_reserves, policy, start_dispatch};
use crate::deployment::Deployment;
use crate::facts::{Journal, Observed, RunFacts, all_runs, read_runs};
use crate::fleet::Fleet;
use crate::flow::flows;
use crate::load::{FIRST_ISSUE, Load};
use crate::oracle::{self, Totals, Violation};
use crate::people::{self, ADMIN, APPROVERS, Api, ONCALL_DURING_LOAD, OPERATOR, REQUESTER, RESERVES, Shared};
use crate::rng::Rng;

/// The time between two progress lines.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// The time between two counts of the open runs.
const POLL_EVERY: Duration = Duration::from_millis(500);

/// How long the servers may take to answer for the first time.
const READY_MAX: Duration = Duration::from_mins(1);

/// This many bundles are also verified with `countersign bundle verify`; all are verified with its library.
const VERIFIED_BY_PROGRAM: usize = 100;

/// At most this many runs that do not end are named.
const STUCK_SHOWN: usize = 20;

const ACTIVE: [RunStatus; 7] = [
    RunStatus::Queued,
    RunStatus::Running,
    RunStatus::WaitingApproval,
    RunStatus::WaitingEvent,
    RunStatus::Paused,
    RunStatus::RollingBack,
    RunStatus::FailedRetryable,
];

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The time of the load; the soak then settles.
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    /// The load ends when this many runs were requested.
    pub(crate) runs: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { time: Duration::from_mins(2), seed: 1, runs: u64::MAX }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    /// Requests that were accepted.
    accepted: usize,
    joined: u64,
    rejected: u64,
    #[serde(flatten)]
    totals: Totals,
    faults: BTreeMap<&'static str, u32>,
    /// Attempts to approve without permission that were refused.
    refused_approvals: u32,
    load_seconds: u64,
    settle_seconds: u64,
    audit_seconds: u64,
    runs_per_second: f64,
    violations: usize,
    #[serde(skip)]
    pub(crate) found: Vec<Violation>,
    #[serde(skip)]
    pub(crate) store_location: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { runs, succeeded, failed, canceled, undo_runs, .. } = self.totals;
        writeln!(f, "accepted   {} ({} joined, {} rejected)", self.accepted, self.joined, self.rejected)?;
        writeln!(
            f,
            "runs       {runs}: {succeeded} succeeded, {failed} failed, {canceled} canceled; {undo_runs} undo another"
        )?;
        writeln!(
            f,
            "effects    {} outside, {} receipts done, {} open, {} unknown at some time, {} approved",
            self.totals.effects,
            self.totals.receipts_done,
            self.totals.receipts_open,
            self.totals.unknown,
            self.totals.approved_effects
        )?;
        writeln!(
            f,
            "evidence   {} bundles verified, {} log entries",
            self.totals.bundles, self.totals.log_entries
        )?;
        let faults: Vec<_> = self.faults.iter().map(|(name, count)| format!("{name} {count}")).collect();
        writeln!(f, "faults     {}", faults.join(", "))?;
        write!(
            f,
            "time       {} s load ({:.0} runs/s), {} s settling, {} s audit",
            self.load_seconds, self.runs_per_second, self.settle_seconds, self.audit_seconds
        )
    }
}

/// Runs a soak on `deployment`.
pub(crate) async fn soak<S: Deployment>(deployment: S, settings: &Settings) -> Result<Report, String> {
    let deployment = Arc::new(deployment);
    let profile = deployment.profile();
    let ports = free_ports(profile.servers)?;
    let fleet =
        Arc::new(Fleet::start(Arc::clone(&deployment), &ports, deployment.directory().join("programs.log"))?);
    let shared = Arc::new(prepare(&*deployment, &ports, settings.seed).await?);
    let load = Arc::new(Load {
        shared: Arc::clone(&shared),
        deployment: Arc::clone(&deployment),
        flows: flows(settings.seed, &deployment.endpoints()),
        runs_max: settings.runs,
        until: Instant::now() + settings.time,
        next: AtomicU64::new(0),
        open: AtomicUsize::new(0),
        rejected: AtomicU64::new(0),
        joined: AtomicU64::new(0),
    });
    apply_flows(&shared, &load.flows).await?;
    let chaos = Arc::new(Chaos {
        shared: Arc::clone(&shared),
        deployment: Arc::clone(&deployment),
        fleet: Arc::clone(&fleet),
        counts: Mutex::new(BTreeMap::new()),
        faults_stopped: AtomicBool::new(false),
    });
    let running = SoakRun { shared, deployment, fleet, load, chaos, started: Instant::now() };
    running.run().await
}

struct SoakRun<S: Deployment> {
    shared: Arc<Shared>,
    deployment: Arc<S>,
    fleet: Arc<Fleet<S>>,
    load: Arc<Load<S>>,
    chaos: Arc<Chaos<S>>,
    started: Instant,
}

impl<S: Deployment> SoakRun<S> {
    async fn run(self) -> Result<Report, String> {
        let supervisor = tokio::spawn(supervise(Arc::clone(&self.fleet)));
        let watcher = tokio::spawn(watch(Arc::clone(&self.load), Arc::clone(&self.chaos), self.started));
        let refused = tokio::spawn(people::try_forbidden(Arc::clone(&self.shared)));
        let mut actors = self.actors();
        let mut starters = JoinSet::new();
        for _ in 0..self.deployment.profile().starters {
            starters.spawn(Arc::clone(&self.load).start_runs());
        }
        let mut chaos = tokio::spawn(Arc::clone(&self.chaos).run());
        tokio::select! {
            ended = join_all(&mut starters) => ended?,
            ended = &mut chaos => {
                task_result(ended)??;
                return Err("the faults ended before the load".to_owned());
            }
        }
        let load_seconds = self.started.elapsed();
        self.chaos.faults_stopped.store(true, Ordering::Relaxed);
        task_result(chaos.await)??;
        let admin = self.shared.api.client(ADMIN, 0)?;
        start_dispatch(&admin).await?;
        add_reserves(&admin).await?;
        for person in RESERVES {
            actors.spawn(people::approve(Arc::clone(&self.shared), person));
        }
        eprintln!("soak: the load is over; no further faults");
        let settling = Instant::now();
        let settled = self.settle().await;
        let settle_seconds = settling.elapsed();
        self.shared.stop.store(true, Ordering::Relaxed);
        join_all(&mut actors).await?;
        let refused = task_result(refused.await)??;
        watcher.abort();
        if let Err(stuck) = settled {
            self.shared.violation(None, stuck);
        }
        let auditing = Instant::now();
        let (totals, found) = self.audit().await?;
        supervisor.abort();
        Ok(self.report(totals, found, refused, (load_seconds, settle_seconds, auditing.elapsed())))
    }

    fn actors(&self) -> JoinSet<Result<(), String>> {
        let mut actors = JoinSet::new();
        for person in APPROVERS {
            actors.spawn(people::approve(Arc::clone(&self.shared), person));
        }
        actors.spawn(people::signal(Arc::clone(&self.shared)));
        actors.spawn(people::resolve(Arc::clone(&self.shared)));
        actors.spawn(people::undo(Arc::clone(&self.shared)));
        actors.spawn(inject_external_faults(Arc::clone(&self.chaos)));
        actors.spawn(sweep(Arc::clone(&self.chaos)));
        actors
    }

    /// Waits until every run has ended and has evidence. An error names the runs that did not end.
    async fn settle(&self) -> Result<(), String> {
        let limit = self.deployment.profile().settle_timeout;
        let mut last = (usize::MAX, Instant::now());
        loop {
            sleep(POLL_EVERY * 4).await;
            let left = match self.unsettled().await {
                Ok(left) if left.is_empty() => return Ok(()),
                Ok(left) if left.len() < last.0 => {
                    last = (left.len(), Instant::now());
                    continue;
                }
                Ok(left) => left.into_iter().take(STUCK_SHOWN).collect::<Vec<_>>().join(", "),
                // The store may be unavailable; the next poll asks again.
                Err(error) => error.to_string(),
            };
            if last.1.elapsed() > limit {
                return Err(format!("no progress for {} s: {left}", limit.as_secs()));
            }
        }
    }

    /// The runs that have not ended, have no evidence, or do not exist yet.
    async fn unsettled(&self) -> Result<Vec<String>, StoreError> {
        let (store, mut left) = (self.deployment.store(), Vec::new());
        let runs = all_runs(store, &self.deployment.tenant()).await?;
        for record in &runs {
            if !record.status.is_terminal() {
                left.push(format!("{} is {}", record.key.run, record.status));
            } else if store.evidence(&record.key).await?.is_none() {
                left.push(format!("{} has no evidence", record.key.run));
            }
        }
        let known: BTreeSet<_> = runs.iter().map(|record| &record.key.run).collect();
        let started: Vec<_> = self.shared.journal.lock().started.values().cloned().collect();
        left.extend(started.iter().filter(|run| !known.contains(run)).map(|run| format!("{run} is pending")));
        Ok(left)
    }

    async fn audit(&self) -> Result<(Totals, Vec<Violation>), String> {
        let key = self.deployment.public_key()?;
        let runs = read_runs(self.deployment.store(), &self.deployment.tenant(), &key)
            .await
            .map_err(|error| error.to_string())?;
        let issues = FIRST_ISSUE..FIRST_ISSUE + self.load.next.load(Ordering::Relaxed);
        let journal = self.shared.journal.lock().clone();
        let observed =
            Observed { journal, runs, external: self.deployment.external_systems().counts(issues) };
        let (totals, mut found) = oracle::check(&observed);
        found.extend(self.verify_by_program(&observed.runs).await?);
        Ok((totals, found))
    }

    /// Verifies some bundles with the program, as an auditor does.
    async fn verify_by_program(&self, runs: &[RunFacts]) -> Result<Vec<Violation>, String> {
        let failed = |error: std::io::Error| format!("verify a bundle: {error}");
        let (store, tenant) = (self.deployment.store(), self.deployment.tenant());
        let (file, key) =
            (self.deployment.directory().join("run.bundle"), self.deployment.directory().join("signer.pub"));
        std::fs::write(&key, self.deployment.public_key()?.to_text()).map_err(failed)?;
        let mut found = Vec::new();
        let every = runs.len() / VERIFIED_BY_PROGRAM + 1;
        for run in runs.iter().step_by(every).filter(|run| run.bundle.is_ok()) {
            let bytes = store.bundle(&tenant, &store.bundle_name(&run.run)).await;
            std::fs::write(&file, bytes.map_err(|error| error.to_string())?.unwrap_or_default())
                .map_err(failed)?;
            let mut command = self.deployment.program();
            command.args(["bundle", "verify"]).arg(&file).arg("--key").arg(&key);
            let output = command.output().map_err(failed)?;
            if !output.status.success() {
                let what = format!("bundle verify: {}", String::from_utf8_lossy(&output.stderr).trim());
                found.push(Violation { run: Some(run.run.clone()), what });
            }
        }
        Ok(found)
    }

    fn report(
        &self,
        totals: Totals,
        found: Vec<Violation>,
        refused_approvals: u32,
        (load, settle, audit): (Duration, Duration, Duration),
    ) -> Report {
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let runs_per_second = totals.runs as f64 / (load + settle).as_secs_f64();
        Report {
            seed: self.shared.seed,
            accepted: self.shared.journal.lock().started.len(),
            joined: self.load.joined.load(Ordering::Relaxed),
            rejected: self.load.rejected.load(Ordering::Relaxed),
            totals,
            faults: self.chaos.counts.lock().clone(),
            refused_approvals,
            load_seconds: load.as_secs(),
            settle_seconds: settle.as_secs(),
            audit_seconds: audit.as_secs(),
            runs_per_second,
            violations: found.len(),
            store_location: if found.is_empty() { String::new() } else { self.deployment.keep() },
            found,
        }
    }
}

/// Replaces processes that ended.
async fn supervise<S: Deployment>(fleet: Arc<Fleet<S>>) {
    loop {
        sleep(Duration::from_millis(100)).await;
        if let Err(error) = fleet.replace_ended() {
            eprintln!("soak: {error}");
        }
    }
}

/// Counts the open runs and prints progress lines.
async fn watch<S: Deployment>(load: Arc<Load<S>>, chaos: Arc<Chaos<S>>, started: Instant) {
    let (store, tenant) = (load.deployment.store(), load.deployment.tenant());
    let mut printed = Instant::now();
    loop {
        sleep(POLL_EVERY).await;
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for status in ACTIVE {
            let limit = u32::try_from(load.deployment.profile().open_max).unwrap_or(u32::MAX);
            let query = RunQuery { status: Some(status), ..RunQuery::newest(limit) };
            if let Ok(page) = store.runs(&tenant, query).await {
                counts.insert(status.to_string(), page.runs.len());
            }
        }
        let open: usize = counts.values().sum();
        load.open.store(open, Ordering::Relaxed);
        if printed.elapsed() >= PROGRESS_EVERY {
            printed = Instant::now();
            let accepted = load.shared.journal.lock().started.len();
            let faults: u32 = chaos.counts.lock().values().sum();
            let open: Vec<_> = counts
                .iter()
                .filter(|(_, count)| **count > 0)
                .map(|(name, count)| format!("{name} {count}"))
                .collect();
            eprintln!(
                "{:>5} s  accepted {accepted}  effects {}  faults {faults}  open: {}",
                started.elapsed().as_secs(),
                load.deployment.external_systems().total(),
                open.join(", ")
            );
        }
    }
}

/// Lets the external systems fail in proportion to their requests, until the faults are stopped.
async fn inject_external_faults<S: Deployment>(chaos: Arc<Chaos<S>>) -> Result<(), String> {
    let mut rng = Rng::new(chaos.shared.seed, "external");
    let mut seen = [0; 4];
    while !chaos.faults_stopped.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(50)).await;
        let injected = chaos.deployment.external_systems().inject(&mut seen, &mut rng);
        *chaos.counts.lock().entry("external").or_default() += injected;
    }
    Ok(())
}

async fn sweep<S: Deployment>(chaos: Arc<Chaos<S>>) -> Result<(), String> {
    while !chaos.shared.stopped() {
        sleep(Duration::from_secs(1)).await;
        chaos.deployment.sweep().await;
    }
    Ok(())
}

/// Creates the keys, the directory and the policy.
async fn prepare<S: Deployment>(deployment: &S, ports: &[u16], seed: u64) -> Result<Shared, String> {
    let servers: Vec<Url> = ports
        .iter()
        .map(|port| format!("http://127.0.0.1:{port}").parse().map_err(|error| format!("{error}")))
        .collect::<Result<_, String>>()?;
    let mut keys = BTreeMap::from([(ADMIN.to_owned(), first_key(deployment.cli())?)]);
    let remote = Remote::new(&servers[0], SecretString::from(keys[ADMIN].clone()))
        .map_err(|error| error.to_string())?;
    let admin = Client::new(Transport::Server(remote));
    wait_until_ready(&admin).await?;
    Directory::new(&ONCALL_DURING_LOAD)?.put(&admin).await.map_err(|error| error.to_string())?;
    admin.apply_policy(policy(true)).await.map_err(|error| error.to_string())?;
    let approvers = APPROVERS.into_iter().chain(RESERVES).map(|person| (person, vec![RoleName::Approver]));
    // The requester may approve in general, but not the runs of this soak.
    let others =
        [(OPERATOR, vec![RoleName::Operator]), (REQUESTER, vec![RoleName::Operator, RoleName::Approver])];
    for (person, roles) in approvers.chain(others) {
        let name = person.parse().map_err(|error| format!("{error}"))?;
        let request = CreateKey { person: name, roles, note: String::new(), expires_in: None };
        let created = admin.create_key(&request).await.map_err(|error| error.to_string())?;
        keys.insert(person.to_owned(), created.secret);
    }
    Ok(Shared {
        seed,
        api: Api::new(servers, keys),
        journal: Mutex::new(Journal::default()),
        stop: AtomicBool::new(false),
    })
}

fn first_key(mut command: Command) -> Result<String, String> {
    let output = command.args(["key", "create", ADMIN, "--role", "admin", "--json"]).output();
    let output = output.map_err(|error| format!("create the first key: {error}"))?;
    let value: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("create the first key: {}", String::from_utf8_lossy(&output.stderr)))?;
    value["secret"].as_str().map(str::to_owned).ok_or_else(|| "the first key has no secret".to_owned())
}

async fn wait_until_ready(admin: &Client) -> Result<(), String> {
    let started = Instant::now();
    loop {
        match admin.me().await {
            Ok(_) => return Ok(()),
            Err(error) if started.elapsed() > READY_MAX => {
                return Err(format!("the server does not answer: {error}"));
            }
            Err(_) => sleep(Duration::from_millis(200)).await,
        }
    }
}

async fn apply_flows(shared: &Shared, flows: &[crate::flow::Flow]) -> Result<(), String> {
    let admin = shared.api.client(ADMIN, 0)?;
    for flow in flows {
        let applied = admin.apply(flow.source.clone()).await;
        applied.map_err(|error| format!("apply {}: {error}\n{}", flow.name, flow.source))?;
    }
    Ok(())
}

/// Free ports. Another process could take one before the server does; the server then does not start.
fn free_ports(count: usize) -> Result<Vec<u16>, String> {
    let failed = |error: std::io::Error| format!("find a free port: {error}");
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>().map_err(failed)?;
    listeners.iter().map(|listener| Ok(listener.local_addr().map_err(failed)?.port())).collect()
}

async fn join_all(tasks: &mut JoinSet<Result<(), String>>) -> Result<(), String> {
    while let Some(ended) = tasks.join_next().await {
        task_result(ended)??;
    }
    Ok(())
}

fn task_result<T>(ended: Result<T, tokio::task::JoinError>) -> Result<T, String> {
    ended.map_err(|error| format!("a task of the soak ended: {error}"))
}
