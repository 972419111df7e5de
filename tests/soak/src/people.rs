//! The users: approvers, an operator who resolves what waits for a person, and users who try what they may not do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api_types::{Approval, DecisionRequest, RunSummary, SendSignal};
use client::{ApprovalFilter, Client, ClientError, Remote, RunFilter, Transport};
use domain::{RunId, RunStatus};
use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use secrecy::SecretString;
use tokio::time::sleep;
use url::Url;

use crate::facts::Journal;
use crate::rng::{Rng, stable_hash};

pub(crate) const ADMIN: &str = "root";
/// Starts all runs, and may therefore approve none of them.
pub(crate) const REQUESTER: &str = "rita";
/// Resumes, cancels, signals and undoes.
pub(crate) const OPERATOR: &str = "otto";
/// Not in the group, so the user may not approve for it.
const OUTSIDER: &str = "dan";
pub(crate) const APPROVERS: [&str; 4] = ["ann", "ben", "cat", OUTSIDER];
/// Approve everything that is open after the load. A user who rejected a step may not approve the rollback that followed,
/// so all the others together may be too few.
pub(crate) const RESERVES: [&str; 2] = ["eve", "fay"];
/// The members of the group `oncall` during the load. The second one leaves and joins.
pub(crate) const ONCALL_DURING_LOAD: [&str; 2] = ["ben", "cat"];
/// All who are members of the group `oncall` at some time. The reserves join after the load.
pub(crate) const ONCALL: [&str; 4] = [ONCALL_DURING_LOAD[0], ONCALL_DURING_LOAD[1], RESERVES[0], RESERVES[1]];

const PAGE: u32 = 100;
const POLL_EVERY: Duration = Duration::from_millis(300);
const CONCURRENCY: usize = 8;

/// A store fault is over after five seconds, so this many requests do not all fail because of faults.
const REQUESTS_MAX: u32 = 400;

/// After this many decisions about one run, the operator cancels it.
const DECISIONS_MAX: u32 = 5;

/// The API, as each user reaches it.
#[derive(Clone)]
pub(crate) struct Api {
    servers: Vec<Url>,
    keys: Arc<BTreeMap<String, String>>,
}

impl Api {
    pub(crate) fn new(servers: Vec<Url>, keys: BTreeMap<String, String>) -> Self {
        Self { servers, keys: Arc::new(keys) }
    }

    /// A client of one of the servers.
    pub(crate) fn client(&self, person: &str, server: u64) -> Result<Client, String> {
        let key = self.keys.get(person).ok_or_else(|| format!("{person} has no key"))?;
        let server = &self.servers[usize::try_from(server).unwrap_or_default() % self.servers.len()];
        let remote =
            Remote::new(server, SecretString::from(key.clone())).map_err(|error| error.to_string())?;
        Ok(Client::new(Transport::Server(remote)))
    }

    /// One client for each server.
    pub(crate) fn clients(&self, person: &str) -> Result<Clients, String> {
        let clients = (0..self.servers.len() as u64).map(|server| self.client(person, server));
        Ok(Clients { clients: clients.collect::<Result<_, _>>()? })
    }
}

/// The clients of one user.
pub(crate) struct Clients {
    clients: Vec<Client>,
}

impl Clients {
    pub(crate) fn any(&self, rng: &mut Rng) -> &Client {
        rng.pick(&self.clients)
    }
}

/// The state that all parts of the soak share.
pub(crate) struct Shared {
    pub(crate) seed: u64,
    pub(crate) api: Api,
    pub(crate) journal: Mutex<Journal>,
    /// Set when the actors must end.
    pub(crate) stop: AtomicBool,
}

impl Shared {
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn violation(&self, run: Option<&RunId>, what: String) {
        self.journal.lock().violations.push((run.cloned(), what));
    }
}

/// Whether the request may succeed later: the server or the store did not respond, or a change happened at the same time.
pub(crate) fn is_temporary(error: &ClientError) -> bool {
    error.is_unreachable()
        || error.problem().is_none_or(|problem| problem.status >= 500 || problem.code == "CONTENDED")
}

/// Votes on approvals that the user may decide.
pub(crate) async fn approve(shared: Arc<Shared>, person: &'static str) -> Result<(), String> {
    let clients = shared.api.clients(person)?;
    let mut rng = Rng::new(shared.seed, person);
    while !shared.stopped() {
        sleep(POLL_EVERY).await;
        let filter = ApprovalFilter { mine: true, cursor: None, limit: Some(PAGE) };
        let Ok(page) = clients.any(&mut rng).approvals(filter).await else { continue };
        // Each user leaves some approvals to the others.
        let chosen: Vec<_> = page.approvals.into_iter().filter(|_| rng.percent(60)).collect();
        let (shared, client) = (&shared, clients.any(&mut rng));
        stream::iter(chosen)
            .for_each_concurrent(CONCURRENCY, |approval| async move {
                vote(shared, client, person, &approval).await;
            })
            .await;
    }
    Ok(())
}

async fn vote(shared: &Shared, client: &Client, person: &str, approval: &Approval) {
    let approve = RESERVES.contains(&person) || stable_hash(approval.approval.as_str()) % 100 >= 6;
    if approve {
        let mut journal = shared.journal.lock();
        journal.approved_by.entry(approval.approval.clone()).or_default().insert(person.to_owned());
    }
    let decision = DecisionRequest { reason: "soak".to_owned(), subject_hash: Some(approval.subject_hash) };
    // A lost reply is repeated with the next page. Another user may have decided in between.
    let _ = client.decide(&approval.approval, approve, &decision).await;
}

/// Users try to approve what they may not approve: their own runs, and requests for a group that they are not in.
pub(crate) async fn try_forbidden(shared: Arc<Shared>) -> Result<u32, String> {
    let users = [REQUESTER, OUTSIDER];
    let clients = [shared.api.clients(users[0])?, shared.api.clients(users[1])?];
    let (mut rng, mut refused) = (Rng::new(shared.seed, "forbidden"), 0);
    while !shared.stopped() {
        sleep(POLL_EVERY).await;
        let at = usize::from(rng.percent(50));
        let filter = ApprovalFilter { mine: false, cursor: None, limit: Some(PAGE) };
        let Ok(page) = clients[at].any(&mut rng).approvals(filter).await else { continue };
        let forbidden = |approval: &&Approval| {
            users[at] == REQUESTER
                || approval.requirement.groups.iter().any(|group| group.as_str() == "oncall")
        };
        let Some(approval) = page.approvals.iter().find(forbidden) else { continue };
        let decision = DecisionRequest::default();
        match clients[at].any(&mut rng).decide(&approval.approval, true, &decision).await {
            Ok(_) => {
                let what = format!("{} approved {}, which is not allowed", users[at], approval.approval);
                shared.violation(Some(&approval.run), what);
            }
            Err(error) => refused += u32::from(error.is("APPROVAL_REFUSED")),
        }
    }
    Ok(refused)
}

/// Sends the event that each waiting run waits for.
pub(crate) async fn signal(shared: Arc<Shared>) -> Result<(), String> {
    let clients = shared.api.clients(OPERATOR)?;
    let mut rng = Rng::new(shared.seed, "signal");
    while !shared.stopped() {
        sleep(POLL_EVERY).await;
        let runs = list(&clients, &mut rng, RunStatus::WaitingEvent).await;
        let client = clients.any(&mut rng);
        stream::iter(runs)
            .for_each_concurrent(CONCURRENCY, |run| async move {
                let at = run.current_step.0;
                let (Ok(id), Ok(event)) = (format!("soak-{at}").parse(), format!("go-{at}").parse()) else {
                    return;
                };
                // A signal of another step is buffered and has no effect; a lost reply is repeated with the next page.
                let _ = client.signal(&run.run, &SendSignal { id, event, payload: at.into() }).await;
            })
            .await;
    }
    Ok(())
}

async fn list(clients: &Clients, rng: &mut Rng, status: RunStatus) -> Vec<RunSummary> {
    let filter = RunFilter { status: Some(status), limit: Some(PAGE), ..RunFilter::default() };
    clients.any(rng).runs(filter).await.map(|page| page.runs).unwrap_or_default()
}

/// Decides about paused runs: retry, roll back or cancel.
pub(crate) async fn resolve(shared: Arc<Shared>) -> Result<(), String> {
    let clients = shared.api.clients(OPERATOR)?;
    let mut rng = Rng::new(shared.seed, "resolve");
    let mut decided: BTreeMap<RunId, u32> = BTreeMap::new();
    while !shared.stopped() {
        sleep(POLL_EVERY).await;
        for run in list(&clients, &mut rng, RunStatus::Paused).await {
            let count = decided.entry(run.run.clone()).or_default();
            *count += 1;
            let client = clients.any(&mut rng);
            // Every reply may be lost; the run is listed again if it is still paused.
            let _ = match rng.below(10) {
                _ if *count > DECISIONS_MAX => client.cancel(&run.run, "soak").await,
                0..=5 => {
                    *shared.journal.lock().resumed.entry(run.run.clone()).or_default() += 1;
                    client.retry(&run.run, "soak").await
                }
                6 | 7 => client.roll_back(&run.run, "soak", None).await,
                _ => client.cancel(&run.run, "soak").await,
            };
        }
    }
    Ok(())
}

/// Undoes some of the runs that succeeded.
pub(crate) async fn undo(shared: Arc<Shared>) -> Result<(), String> {
    let clients = shared.api.clients(OPERATOR)?;
    let mut rng = Rng::new(shared.seed, "undo");
    let mut requested = BTreeSet::new();
    while !shared.stopped() {
        sleep(POLL_EVERY).await;
        for run in list(&clients, &mut rng, RunStatus::Succeeded).await {
            let chosen = run.trigger != "undo" && stable_hash(run.run.as_str()).is_multiple_of(12);
            if chosen && requested.insert(run.run.clone()) {
                undo_one(&shared, &clients, &mut rng, &run.run).await;
            }
        }
    }
    Ok(())
}

/// Repeats the request until it has an answer, so that no run is started unnoticed.
async fn undo_one(shared: &Shared, clients: &Clients, rng: &mut Rng, run: &RunId) {
    for _ in 0..REQUESTS_MAX {
        match clients.any(rng).undo(run).await {
            Ok(undo) => {
                shared.journal.lock().started.insert(format!("undo:{run}"), undo.run);
                return;
            }
            Err(error) if is_temporary(&error) => sleep(POLL_EVERY).await,
            // The run has no effect that can be undone.
            Err(_) => return,
        }
    }
    shared.violation(Some(run), format!("{REQUESTS_MAX} requests to undo the run had no answer"));
}
