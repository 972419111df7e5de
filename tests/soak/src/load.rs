//! Starts runs, and cancels, pauses, rolls back or repeats some of the requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use api_types::StartRun;
use client::RunStart;
use serde_json::json;
use tokio::time::sleep;

use crate::deployment::Deployment;
use crate::flow::{Flow, GROUPS};
use crate::people::{Clients, OPERATOR, REQUESTER, Shared, is_temporary};
use crate::rng::Rng;

const PAUSE: Duration = Duration::from_millis(50);

/// Numbers of issues below this belong to the fake itself.
pub(crate) const FIRST_ISSUE: u64 = 1_000;

pub(crate) struct Load<S> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) deployment: Arc<S>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) runs_max: u64,
    pub(crate) until: Instant,
    /// The number of the next run.
    pub(crate) next: AtomicU64,
    /// The number of open runs, at the last poll.
    pub(crate) open: AtomicUsize,
    pub(crate) rejected: AtomicU64,
    pub(crate) joined: AtomicU64,
}

impl<S: Deployment> Load<S> {
    /// Starts runs until the time is over or all runs are started.
    pub(crate) async fn start_runs(self: Arc<Self>) -> Result<(), String> {
        let clients = self.shared.api.clients(REQUESTER)?;
        let operator = Arc::new(self.shared.api.clients(OPERATOR)?);
        loop {
            while self.open.load(Ordering::Relaxed) >= self.deployment.profile().open_max
                && Instant::now() < self.until
            {
                sleep(PAUSE).await;
            }
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.runs_max || Instant::now() >= self.until {
                return Ok(());
            }
            let mut rng = Rng::new(self.shared.seed, &format!("run-{number}"));
            self.open.fetch_add(1, Ordering::Relaxed);
            self.start_run(number, &clients, &operator, &mut rng).await;
        }
    }

    async fn start_run(&self, number: u64, clients: &Clients, operator: &Arc<Clients>, rng: &mut Rng) {
        let flow = rng.pick(&self.flows).clone();
        let (sys_id, issue) = (format!("{number:032x}"), FIRST_ISSUE + number);
        self.deployment.external_systems().prepare(&sys_id, issue);
        let group = format!("group-{}", rng.below(GROUPS));
        let Ok(workflow) = flow.name.parse() else { return };
        let input = json!({ "n": number, "sys_id": sys_id, "issue": issue, "group": group });
        let request = StartRun { workflow, workspace: None, input, record: None };
        let key = format!("soak-{number}");
        let Some(started) = self.request_start(&request, &key, clients, rng).await else { return };
        self.joined.fetch_add(u64::from(started.joined), Ordering::Relaxed);
        self.shared.journal.lock().started.insert(key.clone(), started.run.clone());
        if rng.percent(3) {
            let again = self.request_start(&request, &key, clients, rng).await;
            if again.as_ref().is_none_or(|again| again.run != started.run) {
                self.shared.violation(Some(&started.run), format!("a repeated request got {again:?}"));
            }
        }
        Self::interrupt_later(started, operator, rng);
    }

    /// Repeats the request until it has an answer. `None` if the concurrency key is in use, or after a violation.
    async fn request_start(
        &self,
        request: &StartRun,
        key: &str,
        clients: &Clients,
        rng: &mut Rng,
    ) -> Option<RunStart> {
        let deadline = self.until + self.deployment.profile().settle_timeout;
        loop {
            match clients.any(rng).start(request, key.to_owned()).await {
                Ok(started) => return Some(started),
                Err(error) if is_temporary(&error) && Instant::now() > deadline => {
                    self.shared.violation(None, format!("the request {key} has no answer: {error}"));
                    return None;
                }
                Err(error) if is_temporary(&error) => sleep(PAUSE).await,
                Err(error) if error.is("CONCURRENCY_CONFLICT") => {
                    self.rejected.fetch_add(1, Ordering::Relaxed);
                    return None;
                }
                Err(error) => {
                    self.shared.violation(None, format!("the request {key} was refused: {error}"));
                    return None;
                }
            }
        }
    }

    /// Cancels, pauses or rolls back some runs a little later.
    fn interrupt_later(started: RunStart, operator: &Arc<Clients>, rng: &mut Rng) {
        let choice = rng.below(100);
        if choice >= 9 {
            return;
        }
        let (after, operator, mut rng) = (rng.below(1_500), Arc::clone(operator), rng.clone());
        tokio::spawn(async move {
            sleep(Duration::from_millis(after)).await;
            let client = operator.any(&mut rng);
            // The run may have ended, or not exist yet; a lost reply is as good as no request.
            let _ = match choice {
                0..=4 => client.cancel(&started.run, "soak").await,
                5 | 6 => client.pause(&started.run, "soak").await,
                _ => client.roll_back(&started.run, "soak", None).await,
            };
        });
    }
}
