//! Faults: processes are killed, stopped, suspended and drained; the store is slow, unavailable or full; dispatch, policy
//! and directory change.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api_types::{Caps, Person, PutTenant};
use client::{Client, ClientError};
use domain::{GroupName, PersonId};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use crate::deployment::{Deployment, StoreFault};
use crate::fleet::Fleet;
use crate::people::{
    ADMIN, APPROVERS, Clients, ONCALL, ONCALL_DURING_LOAD, OPERATOR, REQUESTER, RESERVES, Shared,
    is_temporary,
};
use crate::rng::Rng;

const COMMON: &str = include_str!("policies/common.rego");
const COMMON_TEST: &str = include_str!("policies/common_test.rego");
const STRICT: &str = include_str!("policies/strict.rego");

const PAUSE: Duration = Duration::from_millis(200);

/// A store fault is over after five seconds, so this many requests do not all fail because of faults.
const REQUESTS_MAX: u32 = 600;

const WRITES_MAX: u32 = 64;

pub(crate) struct Chaos<S> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) deployment: Arc<S>,
    pub(crate) fleet: Arc<Fleet<S>>,
    pub(crate) counts: Mutex<BTreeMap<&'static str, u32>>,
    /// Set when no further fault may start.
    pub(crate) faults_stopped: AtomicBool,
}

impl<S: Deployment> Chaos<S> {
    fn count(&self, what: &'static str) {
        *self.counts.lock().entry(what).or_default() += 1;
    }

    /// Injects process faults and, at the same time, store faults and changes by an admin, until the faults are stopped.
    /// Every fault is over when this returns.
    pub(crate) async fn run(self: Arc<Self>) -> Result<(), String> {
        let admin = self.shared.api.clients(ADMIN)?;
        let mut rng = Rng::new(self.shared.seed, "process faults");
        let processes = async {
            while self.pause(&mut rng).await {
                self.inject_process_fault(&admin, &mut rng).await;
            }
            Ok(())
        };
        let mut rng = Rng::new(self.shared.seed, "store faults");
        let store = async {
            while self.pause(&mut rng).await {
                self.inject_shared_fault(&admin, &mut rng).await?;
            }
            Ok(())
        };
        tokio::try_join!(processes, store).map(drop)
    }

    /// Returns whether another fault may follow.
    async fn pause(&self, rng: &mut Rng) -> bool {
        let mean = u64::try_from(self.deployment.profile().fault_every.as_millis()).unwrap_or(u64::MAX);
        sleep(Duration::from_millis(rng.between(mean / 2, mean * 3 / 2))).await;
        !self.faults_stopped.load(Ordering::Relaxed)
    }

    async fn inject_process_fault(&self, admin: &Clients, rng: &mut Rng) {
        match rng.below(100) {
            0..=49 => self.signal(true, Signal::KILL, "workers_killed", rng),
            50..=66 => self.signal(false, Signal::KILL, "servers_killed", rng),
            67..=79 => self.signal(true, Signal::TERM, "workers_terminated", rng),
            80..=87 => self.drain(admin, rng).await,
            _ => self.suspend(rng).await,
        }
    }

    /// A fault of the store, or a change by an admin. It affects all processes.
    async fn inject_shared_fault(&self, admin: &Clients, rng: &mut Rng) -> Result<(), String> {
        match rng.below(100) {
            0..=19 => return self.stop_dispatch(admin.any(rng), rng).await,
            20..=34 => self.change_policy(admin.any(rng), rng).await,
            35..=49 => return self.change_directory(admin.any(rng), rng).await,
            50..=67 => return self.inject_store_fault(StoreFault::Slow, "store_slow", rng).await,
            68..=84 => return self.inject_store_fault(StoreFault::Unavailable, "store_away", rng).await,
            _ => return self.inject_store_fault(StoreFault::Full, "store_full", rng).await,
        }
        Ok(())
    }

    fn signal(&self, worker: bool, signal: Signal, what: &'static str, rng: &mut Rng) {
        if let Some(pid) = self.fleet.pid(worker, rng.below(1_000)) {
            send_signal(pid, signal);
            self.count(what);
        }
    }

    /// Suspends a worker for longer than its leases; it continues with steps that it lost.
    async fn suspend(&self, rng: &mut Rng) {
        let Some(pid) = self.fleet.pid(true, rng.below(1_000)) else { return };
        let suspended = Suspended::new(pid);
        self.count("workers_suspended");
        sleep(self.deployment.profile().suspend_time).await;
        drop(suspended);
    }

    /// Asks a worker through the store to drain. It ends, and is replaced.
    async fn drain(&self, admin: &Clients, rng: &mut Rng) {
        let Ok(listed) = admin.any(rng).workers().await else { return };
        let running: Vec<_> = listed
            .workers
            .iter()
            .filter(|worker| matches!(worker.status.as_str(), "idle" | "executing"))
            .collect();
        if running.is_empty() {
            return;
        }
        let mut command = self.deployment.cli();
        command.args(["worker", "drain", &rng.pick(&running).worker, "--reason", "soak", "--no-wait"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
        let drained = tokio::task::spawn_blocking(move || command.status()).await;
        if matches!(drained, Ok(Ok(status)) if status.success()) {
            self.count("workers_drained");
        }
    }

    async fn stop_dispatch(&self, admin: &Client, rng: &mut Rng) -> Result<(), String> {
        if admin.stop_dispatch("soak").await.is_ok() {
            self.count("dispatch_stopped");
        }
        sleep(Duration::from_millis(rng.between(200, 2_000))).await;
        start_dispatch(admin).await
    }

    async fn change_policy(&self, admin: &Client, rng: &mut Rng) {
        if admin.apply_policy(policy(rng.percent(50))).await.is_ok() {
            self.count("policy_changed");
        }
    }

    async fn change_directory(&self, admin: &Client, rng: &mut Rng) -> Result<(), String> {
        let oncall = if rng.percent(50) { &ONCALL_DURING_LOAD[..] } else { &ONCALL_DURING_LOAD[..1] };
        if Directory::new(oncall)?.put(admin).await.is_ok() {
            self.count("directory_changed");
        }
        Ok(())
    }

    async fn inject_store_fault(
        &self,
        fault: StoreFault,
        what: &'static str,
        rng: &mut Rng,
    ) -> Result<(), String> {
        if self.deployment.supports(fault) {
            let time = Duration::from_millis(rng.between(500, 5_000));
            self.deployment.inject_fault(fault, time, self.fleet.pids()).await?;
            self.count(what);
        }
        Ok(())
    }
}

/// A suspended process. It continues when this is dropped, also if the future that suspended it is dropped: a process
/// that stays suspended may hold the write lock of the store.
struct Suspended(Pid);

impl Suspended {
    fn new(pid: Pid) -> Self {
        send_signal(pid, Signal::STOP);
        Self(pid)
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        send_signal(self.0, Signal::CONT);
    }
}

/// Sends a signal, unless the process has ended.
fn send_signal(pid: Pid, signal: Signal) {
    let _ = kill_process(pid, signal);
}

/// Repeats the request until dispatch is started and every run that waited is enqueued.
pub(crate) async fn start_dispatch(admin: &Client) -> Result<(), String> {
    let (mut cursor, mut failed) = (None, String::new());
    for _ in 0..REQUESTS_MAX {
        match admin.start_dispatch(cursor.clone()).await {
            Ok(started) => match started.next {
                None => return Ok(()),
                next => cursor = next,
            },
            Err(error) if is_temporary(&error) => {
                failed = error.to_string();
                sleep(PAUSE).await;
            }
            Err(error) => return Err(format!("start dispatch: {error}")),
        }
    }
    Err(format!("dispatch was not started after {REQUESTS_MAX} requests: {failed}"))
}

/// The files of the strict or the lenient policy.
pub(crate) fn policy(strict: bool) -> BTreeMap<String, String> {
    let mut files = vec![("common.rego", COMMON), ("common_test.rego", COMMON_TEST)];
    if strict {
        files.push(("strict.rego", STRICT));
    }
    files.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

/// The directory with these members of the group `oncall`.
pub(crate) struct Directory {
    people: BTreeMap<PersonId, Person>,
    groups: BTreeMap<GroupName, BTreeSet<PersonId>>,
}

impl Directory {
    pub(crate) fn new(oncall: &[&str]) -> Result<Self, String> {
        let person = |name: &str| name.parse::<PersonId>().map_err(|error| error.to_string());
        let users = APPROVERS.into_iter().chain(RESERVES).chain([ADMIN, OPERATOR, REQUESTER]);
        let people = users.map(|name| Ok((person(name)?, Person::default())));
        let oncall = oncall.iter().map(|name| person(name)).collect::<Result<_, String>>()?;
        let group = "oncall".parse().map_err(|error| format!("{error}"))?;
        Ok(Self { people: people.collect::<Result<_, String>>()?, groups: BTreeMap::from([(group, oncall)]) })
    }

    /// Replaces the directory of the tenant.
    pub(crate) async fn put(&self, admin: &Client) -> Result<(), ClientError> {
        let revision = admin.tenant().await?.revision;
        let (people, groups) = (self.people.clone(), self.groups.clone());
        let put = PutTenant {
            caps: Caps {
                max_writes_per_run: WRITES_MAX,
                max_cost_per_run_microusd: None,
                workspaces: BTreeMap::default(),
            },
            people,
            groups,
            redact: Vec::new(),
            revision,
        };
        admin.put_tenant(&put).await.map(drop)
    }
}

/// Adds the reserves to the group `oncall`, so that every open approval can be decided.
pub(crate) async fn add_reserves(admin: &Client) -> Result<(), String> {
    let (directory, mut failed) = (Directory::new(&ONCALL)?, String::new());
    for _ in 0..REQUESTS_MAX {
        match directory.put(admin).await {
            Ok(()) => return Ok(()),
            Err(error) if is_temporary(&error) => failed = error.to_string(),
            Err(error) => return Err(format!("add the reserves: {error}")),
        }
        sleep(PAUSE).await;
    }
    Err(format!("the directory was not replaced after {REQUESTS_MAX} requests: {failed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The state letter of a process in `/proc`: `T` if it is suspended.
    fn state(pid: Pid) -> Option<String> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        stat.rsplit(')').next()?.split_whitespace().next().map(str::to_owned)
    }

    fn wait_for(pid: Pid, suspended: bool) -> bool {
        (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            state(pid).is_some_and(|state| (state == "T") == suspended)
        })
    }

    #[tokio::test]
    async fn process_continues_if_its_suspension_is_canceled() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let pid = Pid::from_child(&child);
        let suspension = tokio::spawn(async move {
            let _suspended = Suspended::new(pid);
            sleep(Duration::from_mins(10)).await;
        });
        while !tokio::task::spawn_blocking(move || wait_for(pid, true)).await.expect("the state is read") {}
        suspension.abort();
        let _ = suspension.await;
        let continued = wait_for(pid, false);
        child.kill().expect("sleep is running");
        child.wait().expect("sleep ends");
        assert!(continued);
    }
}
