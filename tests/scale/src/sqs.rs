//! A model of SQS: standard queues that deliver some messages twice or late, and serve tenants fairly.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use domain::{Millis, Outgoing, QueueName, TenantId, Timestamp, TraceContext};
use parking_lot::Mutex;
use store::{DeadLetter, Delivery, Handle, Queue, RECEIVES_MAX, StoreError, trace};
use testkit::Random;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

/// The most messages that a queue has in flight.
const IN_FLIGHT_MAX: usize = 120_000;

/// The most messages of one request.
const BATCH_MAX: usize = 10;

/// How often messages are delivered twice or late, in thousandths, and how late.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delays {
    pub(crate) latency: Duration,
    pub(crate) duplicates: usize,
    pub(crate) late: usize,
    pub(crate) late_by: Duration,
}

/// Clones share their state.
#[derive(Debug, Clone)]
pub(crate) struct Sqs {
    delays: Delays,
    state: Arc<Mutex<State>>,
    sent: Arc<Notify>,
}

#[derive(Debug)]
struct State {
    queues: BTreeMap<QueueName, Messages>,
    random: Random,
    /// Requests, except receives without a message.
    requests: usize,
    in_flight_max: usize,
}

#[derive(Debug, Default)]
struct Messages {
    last_id: u64,
    all: HashMap<u64, Message>,
    /// Messages that are not in flight, by the time at which they are visible.
    waiting: BTreeMap<TenantId, BTreeSet<(Instant, u64)>>,
    /// Messages in flight, by the time at which they become visible again.
    in_flight: BTreeSet<(Instant, u64)>,
    in_flight_by_tenant: BTreeMap<TenantId, usize>,
    dead: Vec<Message>,
}

#[derive(Debug, Clone)]
struct Message {
    content: Outgoing,
    trace: TraceContext,
    receives: u32,
    /// Set while the message is in flight.
    visible_at: Option<Instant>,
}

impl Sqs {
    pub(crate) fn new(delays: Delays, seed: u64) -> Self {
        let queues = QueueName::ALL.into_iter().map(|queue| (queue, Messages::default())).collect();
        let state = State { queues, random: Random::new(seed), requests: 0, in_flight_max: 0 };
        Self { delays, state: Arc::new(Mutex::new(state)), sent: Arc::default() }
    }

    /// The requests so far, except receives without a message, and the most messages that were in flight at once.
    pub(crate) fn usage(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.requests, state.in_flight_max)
    }

    /// The messages that a queue stores: visible, delayed or in flight.
    pub(crate) fn stored(&self, queue: QueueName) -> usize {
        self.state.lock().queues.get(&queue).map_or(0, |messages| messages.all.len())
    }

    fn store(&self, message: &Outgoing) {
        let mut state = self.state.lock();
        let State { queues, random, .. } = &mut *state;
        let copies = if random.happens(self.delays.duplicates) { 2 } else { 1 };
        for _ in 0..copies {
            let late = if random.happens(self.delays.late) {
                random.up_to(self.delays.late_by)
            } else {
                Duration::ZERO
            };
            let visible_at = Instant::now() + message.delay.std() + late;
            if let Some(queue) = queues.get_mut(&message.queue) {
                queue.add(message, trace::context_for(&message.run), visible_at);
            }
        }
        drop(state);
        self.sent.notify_waiters();
    }

    fn receive_visible(
        &self,
        queue: QueueName,
        max: usize,
        visibility: Millis,
    ) -> Result<Vec<Delivery>, StoreError> {
        let mut state = self.state.lock();
        let Some(messages) = state.queues.get_mut(&queue) else { return Ok(Vec::new()) };
        messages.expire();
        if messages.in_flight.len() >= IN_FLIGHT_MAX {
            return Err(StoreError::Busy { doing: "receive messages" });
        }
        let mut received = Vec::new();
        while received.len() < max.min(BATCH_MAX) {
            let Some((id, message)) = messages.receive_one(visibility.std()) else { break };
            received.push(Delivery {
                run: message.content.run.clone(),
                queue,
                job: message.content.job.clone(),
                trace: message.trace,
                handle: Handle::new(format!("{queue} {id}"), message.receives),
            });
        }
        let in_flight = messages.in_flight.len();
        state.in_flight_max = state.in_flight_max.max(in_flight);
        state.requests += usize::from(!received.is_empty());
        Ok(received)
    }

    /// When the next message of a queue is visible.
    fn next_visible(&self, queue: QueueName) -> Option<Instant> {
        let state = self.state.lock();
        let messages = state.queues.get(&queue)?;
        let waiting = messages.waiting.values().filter_map(|ids| ids.first()).min();
        waiting.into_iter().chain(messages.in_flight.first()).map(|(at, _)| *at).min()
    }

    /// Changes the message of a handle. `false` if the handle is no longer valid.
    fn change_message(&self, handle: &Handle, visibility: Option<Duration>) -> bool {
        let mut state = self.state.lock();
        state.requests += 1;
        let Some((queue, id)) = handle.text().split_once(' ') else { return false };
        let (Some(queue), Ok(id)) =
            (QueueName::ALL.into_iter().find(|name| name.to_string() == queue), id.parse::<u64>())
        else {
            return false;
        };
        let Some(messages) = state.queues.get_mut(&queue) else { return false };
        messages.expire();
        let changed = messages.change_visibility(id, handle.receive(), visibility);
        drop(state);
        self.sent.notify_waiters();
        changed
    }
}

impl Messages {
    fn add(&mut self, content: &Outgoing, trace: TraceContext, visible_at: Instant) {
        self.last_id += 1;
        self.waiting.entry(content.run.tenant.clone()).or_default().insert((visible_at, self.last_id));
        let message = Message { content: content.clone(), trace, receives: 0, visible_at: None };
        self.all.insert(self.last_id, message);
    }

    /// Makes the messages visible whose visibility timeout has passed.
    fn expire(&mut self) {
        let now = Instant::now();
        while let Some((at, id)) = self.in_flight.first().copied().filter(|(at, _)| *at <= now) {
            self.in_flight.remove(&(at, id));
            self.make_visible(id, at);
        }
    }

    fn make_visible(&mut self, id: u64, visible_at: Instant) {
        let Some(message) = self.all.get_mut(&id) else { return };
        message.visible_at = None;
        let tenant = message.content.run.tenant.clone();
        if let Some(count) = self.in_flight_by_tenant.get_mut(&tenant) {
            *count = count.saturating_sub(1);
        }
        if message.receives >= RECEIVES_MAX {
            self.dead.extend(self.all.remove(&id));
        } else {
            self.waiting.entry(tenant).or_default().insert((visible_at, id));
        }
    }

    /// Takes a visible message of the tenant that has the fewest in flight.
    fn receive_one(&mut self, visibility: Duration) -> Option<(u64, &Message)> {
        let now = Instant::now();
        let in_flight = |tenant: &TenantId| self.in_flight_by_tenant.get(tenant).copied().unwrap_or_default();
        let visible = self.waiting.iter().filter(|(_, ids)| ids.first().is_some_and(|(at, _)| *at <= now));
        let tenant = visible.min_by_key(|(tenant, _)| in_flight(tenant)).map(|(tenant, _)| tenant.clone())?;
        let (_, id) = self.waiting.get_mut(&tenant)?.pop_first()?;
        *self.in_flight_by_tenant.entry(tenant).or_default() += 1;
        self.in_flight.insert((now + visibility, id));
        let message = self.all.get_mut(&id)?;
        message.visible_at = Some(now + visibility);
        message.receives += 1;
        Some((id, message))
    }

    /// Deletes a message in flight, or makes it visible again after `visibility`.
    fn change_visibility(&mut self, id: u64, receive: u32, visibility: Option<Duration>) -> bool {
        let Some(message) = self.all.get_mut(&id).filter(|message| message.receives == receive) else {
            return false;
        };
        let Some(at) = message.visible_at else { return false };
        self.in_flight.remove(&(at, id));
        match visibility {
            Some(Duration::ZERO) => self.make_visible(id, Instant::now()),
            Some(visibility) => {
                let at = Instant::now() + visibility;
                message.visible_at = Some(at);
                self.in_flight.insert((at, id));
            }
            None => {
                let tenant = message.content.run.tenant.clone();
                self.all.remove(&id);
                if let Some(count) = self.in_flight_by_tenant.get_mut(&tenant) {
                    *count = count.saturating_sub(1);
                }
            }
        }
        true
    }
}

impl Queue for Sqs {
    async fn send(&self, message: &Outgoing) -> Result<(), StoreError> {
        sleep(self.delays.latency / 2).await;
        self.state.lock().requests += 1;
        self.store(message);
        sleep(self.delays.latency / 2).await;
        Ok(())
    }

    async fn send_all(&self, messages: &[Outgoing]) -> Vec<Result<(), StoreError>> {
        for batch in messages.chunks(BATCH_MAX) {
            sleep(self.delays.latency / 2).await;
            self.state.lock().requests += 1;
            for message in batch {
                self.store(message);
            }
            sleep(self.delays.latency / 2).await;
        }
        messages.iter().map(|_| Ok(())).collect()
    }

    async fn receive(
        &self,
        queue: QueueName,
        max: usize,
        visibility: Millis,
        wait: Duration,
    ) -> Result<Vec<Delivery>, StoreError> {
        sleep(self.delays.latency / 2).await;
        let until = Instant::now() + wait;
        loop {
            let sent = self.sent.notified();
            tokio::pin!(sent);
            sent.as_mut().enable();
            let received = self.receive_visible(queue, max, visibility)?;
            if !received.is_empty() || Instant::now() >= until {
                sleep(self.delays.latency / 2).await;
                return Ok(received);
            }
            let next = self.next_visible(queue).map_or(until, |next| next.min(until));
            tokio::select! {
                biased;
                () = sent => {}
                () = sleep_until(next) => {}
            }
        }
    }

    async fn extend(&self, handle: &Handle, visibility: Millis) -> Result<bool, StoreError> {
        sleep(self.delays.latency).await;
        Ok(self.change_message(handle, Some(visibility.std())))
    }

    async fn delete(&self, handle: &Handle) -> Result<bool, StoreError> {
        sleep(self.delays.latency).await;
        Ok(self.change_message(handle, None))
    }

    async fn dead_letters(&self, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
        let state = self.state.lock();
        let dead = state.queues.values().flat_map(|messages| &messages.dead);
        let dead_letters = dead.map(|message| DeadLetter {
            message: Some((message.content.run.clone(), message.content.job.clone())),
            queue: message.content.queue,
            receives: message.receives,
            at: Timestamp(0),
        });
        Ok(dead_letters.take(usize::try_from(limit).unwrap_or(usize::MAX)).collect())
    }

    async fn redrive(&self, _: u32) -> Result<u32, StoreError> {
        Ok(0)
    }

    async fn depth(&self, queue: QueueName) -> Result<u64, StoreError> {
        let state = self.state.lock();
        Ok(state.queues.get(&queue).map_or(0, |messages| messages.all.len() as u64))
    }

    async fn visible(&self, queue: QueueName) -> Result<u64, StoreError> {
        let (state, now) = (self.state.lock(), Instant::now());
        let visible = state.queues.get(&queue).into_iter().flat_map(|messages| messages.waiting.values());
        Ok(visible.flatten().filter(|(at, _)| *at <= now).count() as u64)
    }
}

#[cfg(test)]
mod tests {
    use domain::{Job, RunId, RunKey};

    use super::*;

    const NONE: Delays = Delays { latency: Duration::ZERO, duplicates: 0, late: 0, late_by: Duration::ZERO };

    fn message(tenant: &str, key: &str) -> Outgoing {
        let tenant: TenantId = tenant.parse().unwrap();
        let run = RunKey { run: RunId::derive(&tenant, &key.parse().unwrap()), tenant };
        Outgoing { run, queue: QueueName::Steps, job: Job::Advance, delay: Millis(0) }
    }

    async fn receive(sqs: &Sqs, max: usize) -> Vec<Delivery> {
        sqs.receive(QueueName::Steps, max, Millis::secs(20), Duration::ZERO).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn undeleted_message_is_delivered_again() {
        let sqs = Sqs::new(NONE, 1);
        sqs.send(&message("a", "1")).await.unwrap();
        let first = receive(&sqs, 10).await;
        assert_eq!(first.len(), 1);
        assert!(receive(&sqs, 10).await.is_empty());
        tokio::time::advance(Duration::from_secs(20)).await;
        let second = receive(&sqs, 10).await;
        assert_eq!(second[0].receives(), 2);
        assert!(!sqs.delete(&first[0].handle).await.unwrap(), "the first handle is outdated");
        assert!(sqs.delete(&second[0].handle).await.unwrap());
        assert_eq!(sqs.depth(QueueName::Steps).await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn tenant_with_backlog_does_not_delay_another() {
        let sqs = Sqs::new(NONE, 1);
        for number in 0..50 {
            sqs.send(&message("big", &number.to_string())).await.unwrap();
        }
        assert_eq!(receive(&sqs, 10).await.len(), 10);
        sqs.send(&message("small", "1")).await.unwrap();
        assert_eq!(receive(&sqs, 1).await[0].run.tenant.as_str(), "small");
    }

    #[tokio::test(start_paused = true)]
    async fn duplicate_is_a_separate_message() {
        let sqs = Sqs::new(Delays { duplicates: 1_000, ..NONE }, 1);
        sqs.send(&message("a", "1")).await.unwrap();
        let both = receive(&sqs, 10).await;
        assert_eq!(both.len(), 2);
        assert_eq!(both[0].run, both[1].run);
        assert!(sqs.delete(&both[0].handle).await.unwrap());
        assert!(sqs.delete(&both[1].handle).await.unwrap());
    }
}
