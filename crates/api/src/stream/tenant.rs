//! The stream of all runs of a tenant. One server counts its ids, so they are valid only on that server and only as far
//! back as its buffer. A listener with another id must resync.

use std::sync::Arc;

use domain::{Plan, RunRecord, TenantId};
use engine::{EngineError, TenantHandle};
use store::Store;
use tokio::time::Instant;

use super::envelope::{event_envelopes, stream_envelope};
use super::feed::Feed;
use super::hub::{Hub, Subscription};
use super::ids::TenantEventId;
use super::listener::Start;
use super::poller::{PollError, TenantPoller};
use super::{Inner, POLL_MIN};

const OPENED: (&str, &str) = ("stream.opened", "the stream starts here");

const RESYNC: (&str, &str) = (
    "stream.resync",
    "events after the given id are not available; list the runs again, then continue from this id",
);

/// A poll is followed by a pause of at least this many times its duration, regardless of nudges. So polling takes at
/// most a quarter of the time.
const PAUSE_FACTOR: u32 = 3;

/// A subscription to the hub of the tenant.
pub(super) async fn subscribe<S: Store>(
    streams: &Arc<Inner>,
    handle: &TenantHandle<S>,
) -> Result<Subscription<TenantEventId>, EngineError> {
    streams.tenants.subscribe(handle.tenant_id(), || open(streams, handle)).await
}

async fn open<S: Store>(
    streams: &Arc<Inner>,
    handle: &TenantHandle<S>,
) -> Result<Arc<Hub<TenantEventId>>, EngineError> {
    // The first poll runs before the stream opens, so that no later event is missed.
    let poller = TenantPoller::start(handle.clone()).await?;
    let at = TenantEventId { epoch: epoch(), seq: 0 };
    let hub = Hub::new(Feed::new(Some(at), streams.settings.envelopes_max));
    let publisher = Publisher { streams: Arc::clone(streams), poller, hub: Arc::clone(&hub), at };
    tokio::spawn(publisher.run(handle.tenant_id().clone()));
    Ok(hub)
}

/// A number that is unique among all hubs of all servers.
fn epoch() -> u64 {
    getrandom::u64().unwrap_or_else(|error| {
        // Then an id of another server can be mistaken for one of this server.
        tracing::warn!(event = "random_source_failed", %error, "random source failed");
        0
    })
}

/// The start of a listener whose last received id is `last`.
pub(super) fn start<S: Store>(
    subscription: &Subscription<TenantEventId>,
    handle: &TenantHandle<S>,
    last: Option<&str>,
) -> Start<TenantEventId> {
    let resumable = last.and_then(|id| id.parse().ok()).filter(|id| subscription.feed().can_resume_from(*id));
    if resumable.is_some() {
        return Start { last: resumable, first: None };
    }
    let newest = subscription.feed().newest();
    let envelope = if last.is_some() { RESYNC } else { OPENED };
    Start { last: newest, first: newest.map(|id| stream_envelope(id, handle.now(), envelope)) }
}

/// Polls the runs of a tenant and sends new events.
struct Publisher<S> {
    streams: Arc<Inner>,
    poller: TenantPoller<S>,
    hub: Arc<Hub<TenantEventId>>,
    at: TenantEventId,
}

impl<S: Store> Publisher<S> {
    async fn run(mut self, tenant: TenantId) {
        let settings = self.streams.settings.clone();
        let mut nudged = self.streams.nudge.subscribe();
        let mut pause = POLL_MIN;
        loop {
            self.streams.pause(&mut nudged, settings.poll_every.max(pause), pause).await;
            if self.hub.close_if_idle(settings.linger) || self.streams.is_closing() {
                break;
            }
            let start = Instant::now();
            if let Err(error) = self.poll().await {
                tracing::warn!(event = "stream_poll_failed", %tenant, %error, "stream poll failed");
            }
            pause = POLL_MIN.max(start.elapsed().saturating_mul(PAUSE_FACTOR));
        }
        self.streams.tenants.remove_closed(&tenant, &self.hub);
    }

    async fn poll(&mut self) -> Result<(), EngineError> {
        let changed = match self.poller.poll().await {
            Ok(changed) => changed,
            Err(PollError::Engine(error)) => return Err(error),
            Err(PollError::TooMany) => return self.resync().await,
        };
        for record in changed {
            // A failure is retried at the next poll and does not affect other runs.
            if let Err(error) = self.publish(&record).await {
                tracing::warn!(event = "stream_publish_failed", run = %record.key, error = %engine::error_chain(&error), "events of a run not sent");
            }
        }
        Ok(())
    }

    async fn publish(&mut self, record: &RunRecord) -> Result<(), EngineError> {
        let plan = self.poller.handle().plan_of(record).await?;
        let plan: &Plan = plan.plan();
        loop {
            let events = self.poller.next_events(record).await?;
            if events.is_empty() {
                return Ok(());
            }
            let mut envelopes = Vec::new();
            for event in &events {
                envelopes.extend(event_envelopes((record, plan), event, |_| {
                    self.at.seq += 1;
                    self.at
                }));
            }
            self.hub.feed.push(envelopes);
        }
    }

    /// Asks all listeners to resync, and continues from here.
    async fn resync(&mut self) -> Result<(), EngineError> {
        self.poller = TenantPoller::start(self.poller.handle().clone()).await?;
        self.at.seq += 1;
        self.hub.feed.push(vec![(self.at, stream_envelope(self.at, self.poller.handle().now(), RESYNC))]);
        Ok(())
    }
}
