//! The worker: receives messages, runs their jobs, drains on shutdown.
//!
//! Each queue has a loop that receives messages and starts jobs, up to the queue's limit. So decisions by people
//! never wait behind a backlog of steps, and `slots` keeps one tenant's jobs from delaying another tenant. Long jobs of the
//! decisions queue, and evidence that takes long, move to slots of their own. One more loop
//! sweeps for overdue runs, and one writes the heartbeat. The jobs renew their own leases and extend their messages. A
//! message is deleted only after the last commit has left nothing to do now, so a dead worker's message is redelivered.

mod health;
mod heartbeat;
mod job_runner;
mod slots;
mod sweep;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use domain::worker_registry::HEARTBEAT_EVERY;
use domain::{Job, Millis, QueueName, WorkerId};
use engine::{AdvanceLimits, Engine};
use store::{Delivery, Store, trace};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tracing::Instrument as _;

use health::InFlight;
use slots::{FreeSlots, Slot, Slots};

pub use health::{HealthStatus, WorkerHealth};
pub use tokio_util::sync::CancellationToken;

/// The most messages of one receive.
const BATCH_MAX: usize = 10;

/// How long a running receive is waited for at shutdown, so that its messages can be returned at once.
const LAST_RECEIVE_TIMEOUT: Duration = Duration::from_millis(250);

/// After this time, a decision job or an evidence job moves to the slots for long jobs, so that later decisions and steps
/// do not wait for it.
const LONG_JOB_AFTER: Duration = Duration::from_secs(2);

/// The pause after the store did not answer.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);

/// How long one poll for reserved slots lasts. A slot for any tenant may become free meanwhile.
const RESERVED_POLL: Duration = Duration::from_secs(1);

/// How often messages of tenants below their share are received first, where the queue can select them.
const OTHERS_FIRST_EVERY: Duration = Duration::from_secs(1);

/// How long a message of a tenant that has its share of the slots is invisible. Another worker may have a free slot.
const PUT_BACK_FOR: Millis = Millis::secs(2);

/// How long a message is invisible that asks for evidence while evidence takes long. There may be one for each run that
/// ended since, and receiving them all again and again would delay steps.
const EVIDENCE_PUT_BACK_FOR: Millis = Millis::mins(1);

/// How long evidence may take in a slot of long jobs, before it is built again later: as long as a call of a tool. A store
/// that does not answer must not hold these slots for ever.
const EVIDENCE_MAX: Duration = Duration::from_mins(10);

/// The settings of a worker.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// How many messages are processed at once. As many again are processed for tenants below their share.
    pub concurrency: Concurrency,
    /// The visibility timeout of a message, extended while it is processed.
    pub visibility: Millis,
    /// How long one poll for messages lasts.
    pub poll: Duration,
    pub sweep_every: Duration,
    /// How often the worker checks its own health.
    pub health_check_every: Duration,
    /// How often the worker writes its registry record; `None` to not register.
    pub heartbeat_every: Option<Duration>,
    /// How long jobs may continue after shutdown was requested.
    pub drain: Duration,
    pub limits: AdvanceLimits,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            concurrency: Concurrency::for_steps(16),
            visibility: Millis::secs(30),
            poll: Duration::from_secs(20),
            sweep_every: Duration::from_secs(5),
            health_check_every: Duration::from_secs(15),
            heartbeat_every: Some(HEARTBEAT_EVERY.std()),
            drain: Duration::from_secs(25),
            limits: AdvanceLimits::default(),
        }
    }
}

/// How many messages of each queue a worker processes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concurrency {
    pub ingest: usize,
    pub decisions: usize,
    pub steps: usize,
}

impl Concurrency {
    /// `steps` for the steps queue, and a quarter of that for each of the others.
    pub const fn for_steps(steps: usize) -> Self {
        let others = steps.div_ceil(4);
        Self { ingest: others, decisions: others, steps }
    }

    const fn limit(self, queue: QueueName) -> usize {
        match queue {
            QueueName::Ingest => self.ingest,
            QueueName::Decisions => self.decisions,
            QueueName::Steps => self.steps,
        }
    }
}

pub struct Worker<S> {
    engine: Arc<Engine<S>>,
    settings: WorkerSettings,
    me: WorkerId,
    shutdown: CancellationToken,
    health: Arc<WorkerHealth>,
    long_jobs: LongJobs,
}

/// The slots of long jobs. A job moves there from its queue's slots.
#[derive(Clone)]
struct LongJobs {
    /// For jobs of the decisions queue, as many as for steps.
    decisions: Arc<Slots>,
    /// For jobs that build evidence, a quarter of that. If no slot is free, evidence is built later.
    evidence: Arc<Slots>,
}

impl LongJobs {
    fn new(steps: usize) -> Self {
        Self { decisions: Slots::new(steps), evidence: Slots::new(steps.div_ceil(4)) }
    }

    /// Whether this job can start. If evidence takes long, further evidence would only occupy the slots of steps.
    fn has_room_for(&self, delivery: &Delivery) -> bool {
        delivery.job != Job::BuildEvidence || self.evidence.has_free_slot(&delivery.run.tenant)
    }
}

impl<S: Store> Worker<S> {
    /// A worker that runs until `shutdown` is canceled.
    pub fn new(
        engine: Arc<Engine<S>>,
        settings: WorkerSettings,
        me: WorkerId,
        shutdown: CancellationToken,
    ) -> Self {
        let long_jobs = LongJobs::new(settings.concurrency.steps);
        Self { engine, settings, me, shutdown, health: Arc::default(), long_jobs }
    }

    pub fn health(&self) -> Arc<WorkerHealth> {
        Arc::clone(&self.health)
    }

    /// Runs until shutdown is requested, then finishes the steps in progress. Returns whether all finished in time;
    /// the others are taken over when their leases expire.
    pub async fn run(self) -> bool {
        let (mut decisions, mut ingest, mut steps) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
        // Biased, here and below: the order in which loops are polled must be deterministic, so that a simulation can
        // be repeated.
        let receive = async {
            tokio::join!(
                biased;
                self.receive_loop(QueueName::Decisions, &mut decisions),
                self.receive_loop(QueueName::Ingest, &mut ingest),
                self.receive_loop(QueueName::Steps, &mut steps),
            )
        };
        let mut registration =
            heartbeat::Registration::new(self.me.clone(), self.engine.now(), self.settings.heartbeat_every);
        tokio::select! {
            biased;
            ((), (), ()) = receive => {}
            () = self.sweep_loop() => {}
            () = self.health_check_loop() => {}
            never = self.heartbeat_loop(&mut registration) => match never {},
        }
        let finished = tokio::select! {
            biased;
            finished = self.drain([decisions, ingest, steps]) => finished,
            never = self.heartbeat_loop(&mut registration) => match never {},
        };
        self.last_heartbeat(&mut registration, finished).await;
        finished
    }

    /// Receives messages of `queue` and starts jobs until shutdown.
    async fn receive_loop(&self, queue: QueueName, jobs: &mut JoinSet<()>) {
        let slots = Slots::new(self.settings.concurrency.limit(queue));
        let mut others_first_at = Instant::now();
        while let Some(free) = self.wait_for_free(&slots).await {
            while let Some(ended) = jobs.try_join_next() {
                log_panic(ended);
            }
            for delivery in self.receive_for(queue, &free, &mut others_first_at).await {
                if self.shutdown.is_cancelled() {
                    self.make_visible(&delivery).await;
                } else if !self.long_jobs.has_room_for(&delivery) {
                    self.postpone_evidence(jobs, delivery);
                } else if let Some(slot) = slots.take(&delivery.run.tenant) {
                    self.start(jobs, delivery, slot);
                } else {
                    self.return_to_queue(jobs, delivery, PUT_BACK_FOR);
                }
            }
        }
    }

    /// Waits for free slots; `None` after shutdown was requested.
    async fn wait_for_free(&self, slots: &Slots) -> Option<FreeSlots> {
        tokio::select! {
            biased;
            () = self.shutdown.cancelled() => None,
            free = slots.wait_for_free() => Some(free),
        }
    }

    /// Receives messages for the `free` slots. SQS selects by itself: it prefers tenants with few messages in flight.
    async fn receive_for(
        &self,
        queue: QueueName,
        free: &FreeSlots,
        others_first_at: &mut Instant,
    ) -> Vec<Delivery> {
        let (max, visibility) = (free.count.min(BATCH_MAX), self.settings.visibility);
        if free.reserved || (!free.tenants_at_share.is_empty() && Instant::now() >= *others_first_at) {
            *others_first_at = Instant::now() + OTHERS_FIRST_EVERY;
            match self.engine.store().receive_except(queue, &free.tenants_at_share, max, visibility).await {
                Ok(Some(deliveries)) if free.reserved || !deliveries.is_empty() => return deliveries,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(event = "receive_failed", %queue, %error, "no messages of other tenants received");
                }
            }
        }
        self.receive(queue, max, if free.reserved { RESERVED_POLL } else { self.settings.poll }).await
    }

    async fn receive(&self, queue: QueueName, max: usize, poll: Duration) -> Vec<Delivery> {
        let receive = self.engine.store().receive(queue, max, self.settings.visibility, poll);
        tokio::pin!(receive);
        let received = tokio::select! {
            biased;
            received = &mut receive => received,
            () = self.shutdown.cancelled() => timeout(LAST_RECEIVE_TIMEOUT, receive).await.unwrap_or(Ok(Vec::new())),
        };
        match received {
            Ok(deliveries) => deliveries,
            Err(error) => {
                tracing::warn!(event = "receive_failed", %queue, %error, "no messages received");
                self.health.receive_failed(queue);
                sleep(PAUSE_AFTER_ERROR).await;
                Vec::new()
            }
        }
    }

    fn job_runner(&self) -> job_runner::JobRunner<S> {
        job_runner::JobRunner {
            engine: Arc::clone(&self.engine),
            visibility: self.settings.visibility,
            limits: self.settings.limits,
            shutdown: self.shutdown.clone(),
        }
    }

    fn start(&self, jobs: &mut JoinSet<()>, delivery: Delivery, slot: Slot) {
        let (runner, health) = (self.job_runner(), self.health());
        let Delivery { run, queue, job, trace: parent, .. } = &delivery;
        let context = parent.next(&format!("{run} {job} {}", delivery.receives()));
        let (trace_id, span_id, parent_id) = (context.trace_id(), context.span_id(), parent.span_id());
        let span = tracing::info_span!("job", %run, %queue, %job, trace_id, span_id, parent_id);
        let long_jobs = self.long_jobs.clone();
        let work = async move {
            let in_flight = health.message_received(delivery.queue);
            let progress = tokio::select! {
                biased;
                progress = runner.run(&delivery) => progress,
                NoFreeSlot = hold_slot(&delivery, slot, in_flight, long_jobs) => {
                    return runner.postpone_evidence(&delivery, EVIDENCE_PUT_BACK_FOR).await;
                }
            };
            health.job_ended(delivery.run, progress);
        };
        jobs.spawn(trace::with_context(context, work).instrument(span));
    }

    /// Returns a message that gets no slot to the queue.
    fn return_to_queue(&self, jobs: &mut JoinSet<()>, delivery: Delivery, delay: Millis) {
        let (runner, context) = (self.job_runner(), delivery.trace);
        jobs.spawn(trace::with_context(
            context,
            async move { runner.return_to_queue(&delivery, delay).await },
        ));
    }

    /// Returns a message that asks for evidence while evidence takes long.
    fn postpone_evidence(&self, jobs: &mut JoinSet<()>, delivery: Delivery) {
        let (runner, health, context) = (self.job_runner(), self.health(), delivery.trace);
        let work = async move {
            // The queue is served, although its messages are not processed yet.
            let _in_flight = health.message_received(delivery.queue);
            runner.postpone_evidence(&delivery, EVIDENCE_PUT_BACK_FOR).await;
        };
        jobs.spawn(trace::with_context(context, work));
    }

    async fn make_visible(&self, delivery: &Delivery) {
        // If this fails, the message is redelivered later.
        let _ = self.engine.store().extend(&delivery.handle, Millis(0)).await;
    }

    /// Checks the worker's health periodically. The check has its own time limit, so that a store that never answers
    /// is noticed.
    async fn health_check_loop(&self) {
        loop {
            sleep(self.settings.health_check_every).await;
            let mut checks = Vec::with_capacity(QueueName::ALL.len());
            for queue in QueueName::ALL {
                let count =
                    timeout(self.settings.health_check_every, self.engine.store().visible(queue)).await;
                let visible = count.ok().and_then(Result::ok).map(|count| count > 0);
                checks.push(self.health.check_queue(queue, self.settings.concurrency.limit(queue), visible));
            }
            if let Ok(check) = checks.try_into() {
                self.health.record_check(check);
            }
        }
    }

    async fn drain(&self, queues: [JoinSet<()>; 3]) -> bool {
        let finish = async {
            for mut jobs in queues {
                while let Some(ended) = jobs.join_next().await {
                    log_panic(ended);
                }
            }
        };
        timeout(self.settings.drain, finish).await.is_ok()
    }
}

/// A job must stop and continue later.
struct NoFreeSlot;

/// Holds a job's slot until it ends. Decisions and steps never wait behind long jobs: a long job of the decisions queue
/// moves to the slots of long jobs as soon as its tenant may have one. Evidence that takes long moves too, if there is a
/// slot, and stops otherwise: it can be built at any time.
async fn hold_slot(
    delivery: &Delivery,
    slot: Slot,
    mut in_flight: InFlight<'_>,
    long_jobs: LongJobs,
) -> NoFreeSlot {
    let (tenant, builds_evidence) = (&delivery.run.tenant, delivery.job == Job::BuildEvidence);
    if delivery.queue != QueueName::Decisions && !builds_evidence {
        return pending().await;
    }
    sleep(LONG_JOB_AFTER).await;
    let _long_job = if builds_evidence {
        let Some(long_job) = long_jobs.evidence.take(tenant) else { return NoFreeSlot };
        long_job
    } else {
        long_jobs.decisions.wait_and_take(tenant).await
    };
    in_flight.move_to_long_jobs();
    drop(slot);
    if !builds_evidence {
        return pending().await;
    }
    sleep(EVIDENCE_MAX).await;
    NoFreeSlot
}

/// A job that panicked left its message and its lease behind; both expire.
fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(event = "job_panicked", %error, "job panicked");
    }
}
