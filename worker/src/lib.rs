//! The worker: takes messages, walks runs, and leaves in good order.
//!
//! Each queue has a loop that receives its messages and starts walks, as many at once as the queue has room for,
//! so that what people decided never waits behind a backlog of steps, nor behind steps that others decided. One more loop wakes runs that are
//! overdue, and one signs the roll of workers; the walks themselves keep their leases and messages alive. A message is deleted only after the
//! walk's last commit has left nothing to do now, so whatever dies, the message comes back.

mod health;
mod heartbeat;
mod job_runner;
mod leaving;

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use domain::worker_registry::HEARTBEAT_EVERY;
use domain::{Cause, Initiator, Millis, QueueName, WorkerId};
use engine::{AdvanceLimits, Engine};
use store::{Delivery, Store, trace};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::Instrument as _;

use health::InHand;

pub use health::{Condition, Health};
pub use leaving::{Leave, Leaving, leaving};

/// A queue hands out at most this many messages at once.
const BATCH_MAX: usize = 10;

/// How long a receive that is under way is waited for when the worker leaves, so that what it brings can
/// be given back at once.
const LAST_CALL: Duration = Duration::from_millis(250);

/// What people decided leads to work that may last. After so long it makes way for what they decide next, and for what they
/// are to be shown.
const LASTS: Duration = Duration::from_secs(2);

/// After a store that does not answer, a breath before it is asked again.
const AFTER_FAULT: Duration = Duration::from_secs(1);

/// How a worker works.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// How much it does at once.
    pub rooms: Rooms,
    /// For how long a message is hidden without a sign of life.
    pub visibility: Millis,
    /// How long one wait for messages lasts.
    pub poll: Duration,
    /// How often overdue runs are looked for.
    pub sweep_every: Duration,
    /// How often the worker looks whether it works.
    pub look_every: Duration,
    /// How often the worker signs the roll; `None`, if it is to be on none.
    pub sign_every: Option<Duration>,
    /// How long walks may go on after the worker was asked to leave.
    pub drain: Duration,
    /// How far a walk goes.
    pub limits: AdvanceLimits,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            rooms: Rooms::beside(16),
            visibility: Millis::secs(30),
            poll: Duration::from_secs(20),
            sweep_every: Duration::from_secs(5),
            look_every: Duration::from_secs(15),
            sign_every: Some(HEARTBEAT_EVERY.std()),
            drain: Duration::from_secs(25),
            limits: AdvanceLimits::default(),
        }
    }
}

/// How many messages of each queue a worker has room for at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rooms {
    /// What comes in.
    pub ingest: usize,
    /// What people decided, and what they are shown.
    pub decisions: usize,
    /// The work of runs.
    pub steps: usize,
}

impl Rooms {
    /// Room for so many steps; beside them, for a quarter as many of each of the others.
    pub const fn beside(steps: usize) -> Self {
        let others = steps.div_ceil(4);
        Self { ingest: others, decisions: others, steps }
    }

    /// How much room `queue` has.
    const fn of(self, queue: QueueName) -> usize {
        match queue {
            QueueName::Ingest => self.ingest,
            QueueName::Decisions => self.decisions,
            QueueName::Steps => self.steps,
        }
    }
}

/// A worker.
pub struct Worker<S> {
    engine: Arc<Engine<S>>,
    settings: WorkerSettings,
    me: WorkerId,
    leaving: Leaving,
    health: Arc<Health>,
    /// Room for what people decided and what lasts, as much as there is for steps.
    lasting: Arc<Semaphore>,
}

impl<S: Store> Worker<S> {
    /// A worker called `me` that works until `leaving` says otherwise.
    pub fn new(engine: Arc<Engine<S>>, settings: WorkerSettings, me: WorkerId, leaving: Leaving) -> Self {
        let lasting = Arc::new(Semaphore::new(settings.rooms.steps));
        Self { engine, settings, me, leaving, health: Arc::default(), lasting }
    }

    /// How it is, for whoever asks while it works.
    pub fn health(&self) -> Arc<Health> {
        Arc::clone(&self.health)
    }

    /// Works until it is asked to leave, then finishes the steps under way. WorkerReport whether all of them ended
    /// in time; one that did not is taken over when its lease runs out.
    pub async fn run(self) -> bool {
        let (mut decisions, mut ingest, mut steps) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
        // Biased, here and below: which loop is looked at first must not be left to chance, or a simulation
        // could not be repeated.
        let receive = async {
            tokio::join!(
                biased;
                self.receive_for_ever(QueueName::Decisions, &mut decisions),
                self.receive_for_ever(QueueName::Ingest, &mut ingest),
                self.receive_for_ever(QueueName::Steps, &mut steps),
            )
        };
        let mut place = heartbeat::Place::new(self.me.clone(), self.engine.now(), self.settings.sign_every);
        tokio::select! {
            biased;
            ((), (), ()) = receive => {}
            () = self.sweep_for_ever() => {}
            () = self.look_for_ever() => {}
            never = self.sign_for_ever(&mut place) => match never {},
        }
        let finished = tokio::select! {
            biased;
            finished = self.drain([decisions, ingest, steps]) => finished,
            never = self.sign_for_ever(&mut place) => match never {},
        };
        self.sign_off(&mut place, finished).await;
        finished
    }

    /// Receives the messages of `queue` and starts walks, until it is asked to leave.
    async fn receive_for_ever(&self, queue: QueueName, walks: &mut JoinSet<()>) {
        let room = Arc::new(Semaphore::new(self.settings.rooms.of(queue)));
        while let Some(permit) = self.room(&room).await {
            while let Some(ended) = walks.try_join_next() {
                report(ended);
            }
            let wanted = (1 + room.available_permits()).min(BATCH_MAX);
            let deliveries = self.receive(queue, wanted).await;
            let mut permits = Some(permit)
                .into_iter()
                .chain(std::iter::from_fn(|| Arc::clone(&room).try_acquire_owned().ok()));
            for delivery in deliveries {
                if self.leaving.is_asked() {
                    self.give_back(&delivery).await;
                } else if let Some(permit) = permits.next() {
                    self.start(walks, delivery, permit);
                }
            }
        }
    }

    /// Room for one more walk; `None` once the worker is asked to leave.
    async fn room(&self, room: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        tokio::select! {
            biased;
            () = self.leaving.asked() => None,
            permit = Arc::clone(room).acquire_owned() => permit.ok(),
        }
    }

    async fn receive(&self, queue: QueueName, wanted: usize) -> Vec<Delivery> {
        let WorkerSettings { visibility, poll, .. } = self.settings;
        let receive = self.engine.store().receive(queue, wanted, visibility, poll);
        tokio::pin!(receive);
        let received = tokio::select! {
            biased;
            received = &mut receive => received,
            () = self.leaving.asked() => timeout(LAST_CALL, receive).await.unwrap_or(Ok(Vec::new())),
        };
        match received {
            Ok(deliveries) => deliveries,
            Err(error) => {
                tracing::warn!(%queue, %error, "no messages received");
                sleep(AFTER_FAULT).await;
                Vec::new()
            }
        }
    }

    fn start(&self, walks: &mut JoinSet<()>, delivery: Delivery, permit: OwnedSemaphorePermit) {
        let walker = job_runner::JobRunner {
            engine: Arc::clone(&self.engine),
            visibility: self.settings.visibility,
            limits: self.settings.limits,
            leaving: self.leaving.clone(),
        };
        let health = self.health();
        let Delivery { run, queue, job, trace: led_here, .. } = &delivery;
        let context = led_here.next(&format!("{run} {job} {}", delivery.receives()));
        let (trace_id, span_id, parent_id) = (context.trace_id(), context.span_id(), led_here.span_id());
        let span = tracing::info_span!("job", %run, %queue, %job, trace_id, span_id, parent_id);
        let lasting = Arc::clone(&self.lasting);
        let work = async move {
            let (run, queue, in_hand) = (delivery.run.clone(), delivery.queue, health.take(delivery.queue));
            let went = tokio::select! {
                biased;
                went = walker.run(delivery) => went,
                never = keep_place(queue, permit, in_hand, lasting) => match never {},
            };
            health.ended(run, went);
        };
        walks.spawn(trace::within(context, work).instrument(span));
    }

    async fn give_back(&self, delivery: &Delivery) {
        // If this fails the message comes back by itself, only later.
        let _ = self.engine.store().extend(&delivery.handle, Millis(0)).await;
    }

    async fn sweep_for_ever(&self) {
        let by = Initiator::new(Cause::System, self.me.as_str());
        loop {
            sleep(self.settings.sweep_every).await;
            if let Err(error) = self.engine.sweep(&by).await {
                tracing::warn!(%error, "overdue runs not looked for");
            }
        }
    }

    /// Looks now and then whether the worker works. The look has a limit of its own, or a store that never
    /// answers would never be noticed.
    async fn look_for_ever(&self) {
        loop {
            sleep(self.settings.look_every).await;
            let mut look = Vec::with_capacity(QueueName::ALL.len());
            for queue in QueueName::ALL {
                let waiting = timeout(self.settings.look_every, self.engine.store().waiting(queue)).await;
                let waiting = waiting.ok().and_then(Result::ok).map(|count| count > 0);
                look.push(self.health.see(queue, self.settings.rooms.of(queue), waiting));
            }
            if let Ok(look) = look.try_into() {
                self.health.remember(look);
            }
        }
    }

    async fn drain(&self, queues: [JoinSet<()>; 3]) -> bool {
        let finish = async {
            for mut walks in queues {
                while let Some(ended) = walks.join_next().await {
                    report(ended);
                }
            }
        };
        timeout(self.settings.drain, finish).await.is_ok()
    }
}

/// Keeps the place of a walk until it is over. Decisions never wait behind steps: a walk in their queue that turns out to last
/// moves over as soon as there is room for it.
async fn keep_place(
    queue: QueueName,
    place: OwnedSemaphorePermit,
    mut in_hand: InHand<'_>,
    lasting: Arc<Semaphore>,
) -> Infallible {
    if queue != QueueName::Decisions {
        return pending().await;
    }
    sleep(LASTS).await;
    let Ok(_room) = lasting.acquire_owned().await else { return pending().await };
    in_hand.move_over();
    drop(place);
    pending().await
}

/// A walk that panicked left its message and its lease behind; both come back.
fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a walk ended badly");
    }
}
