//! The stream of all runs of a tenant. Its ids count what one server told, so they mean something to that server
//! alone, and only as far back as it remembers; whoever comes with another is told to look for themselves.

use std::sync::Arc;

use domain::{Plan, RunRecord, TenantId};
use engine::{EngineError, TenantHandle};
use store::Store;
use tokio::time::Instant;

use super::envelope::{of_event, of_stream};
use super::feed::Feed;
use super::hub::{Hub, Seat};
use super::listener::Start;
use super::lookout::{Lookout, Overlooked};
use super::place::Turn;
use super::{Inner, LOOK_LEAST};

const OPENED: (&str, &str) = ("stream.opened", "what happens from now on is told here");

const RESYNC: (&str, &str) = (
    "stream.resync",
    "what happened since that id is not known here any more; list the runs again, then go on from here",
);

/// A look is followed by a pause of as many times its length, however many runs are open and whoever nudges: so the
/// store is looked at for a quarter of the time at most.
const REST: u32 = 3;

/// A seat at the tenant's hub.
pub(super) async fn seat<S: Store>(
    streams: &Arc<Inner>,
    handle: &TenantHandle<S>,
) -> Result<Seat<Turn>, EngineError> {
    streams.tenants.seat(handle.tenant_id(), || open(streams, handle)).await
}

async fn open<S: Store>(
    streams: &Arc<Inner>,
    handle: &TenantHandle<S>,
) -> Result<Arc<Hub<Turn>>, EngineError> {
    // Looked at before anybody is told that they listen, so that nothing is missed from then on.
    let lookout = Lookout::begin(handle.clone()).await?;
    let at = Turn { epoch: epoch(), seq: 0 };
    let hub = Hub::new(Feed::new(Some(at), streams.settings.lines_max));
    let watch = Watch { streams: Arc::clone(streams), lookout, hub: Arc::clone(&hub), at };
    tokio::spawn(watch.run(handle.tenant_id().clone()));
    Ok(hub)
}

/// A number that no other hub has, here or elsewhere.
fn epoch() -> u64 {
    getrandom::u64().unwrap_or_else(|error| {
        // Then an id of another server may be taken for one of this one; it would be told as far as that goes.
        tracing::warn!(%error, "there is no randomness");
        0
    })
}

/// Where a listener begins that has seen `last`, if it has seen anything.
pub(super) fn start<S: Store>(
    seat: &Seat<Turn>,
    handle: &TenantHandle<S>,
    last: Option<&str>,
) -> Start<Turn> {
    let here = last.and_then(|id| id.parse().ok()).filter(|turn| seat.feed().reaches(*turn));
    if here.is_some() {
        return Start { last: here, first: None };
    }
    let newest = seat.feed().newest();
    let said = if last.is_some() { RESYNC } else { OPENED };
    Start { last: newest, first: newest.map(|turn| of_stream(turn, handle.now(), said)) }
}

/// Looks at a tenant's runs, and tells what is new.
struct Watch<S> {
    streams: Arc<Inner>,
    lookout: Lookout<S>,
    hub: Arc<Hub<Turn>>,
    at: Turn,
}

impl<S: Store> Watch<S> {
    async fn run(mut self, tenant: TenantId) {
        let settings = self.streams.settings.clone();
        let mut nudged = self.streams.nudge.subscribe();
        let mut rest = LOOK_LEAST;
        loop {
            self.streams.pause(&mut nudged, settings.look_every.max(rest), rest).await;
            if self.hub.is_gone_after(settings.linger) || self.streams.is_closing() {
                break;
            }
            let begun = Instant::now();
            if let Err(error) = self.look().await {
                tracing::warn!(%tenant, %error, "a tenant's runs were not all looked at");
            }
            rest = LOOK_LEAST.max(begun.elapsed().saturating_mul(REST));
        }
        self.streams.tenants.forget(&tenant, &self.hub);
    }

    async fn look(&mut self) -> Result<(), EngineError> {
        let news = match self.lookout.look().await {
            Ok(news) => news,
            Err(Overlooked::Engine(error)) => return Err(error),
            Err(Overlooked::TooMany) => return self.begin_again().await,
        };
        for record in news {
            // What cannot be told of one run is tried again at the next look, and keeps nobody from the others.
            if let Err(error) = self.tell(&record).await {
                tracing::warn!(run = %record.key, error = %engine::told(&error), "a run's events were not told");
            }
        }
        Ok(())
    }

    async fn tell(&mut self, record: &RunRecord) -> Result<(), EngineError> {
        let plan = self.lookout.handle().plan_of(record).await?;
        let plan: &Plan = plan.plan();
        loop {
            let events = self.lookout.tell(record).await?;
            if events.is_empty() {
                return Ok(());
            }
            let mut lines = Vec::new();
            for event in &events {
                lines.extend(of_event((record, plan), event, |_| {
                    self.at.seq += 1;
                    self.at
                }));
            }
            self.hub.feed.push(lines);
        }
    }

    /// Tells everybody that something was left out, and goes on from here.
    async fn begin_again(&mut self) -> Result<(), EngineError> {
        self.lookout = Lookout::begin(self.lookout.handle().clone()).await?;
        self.at.seq += 1;
        self.hub.feed.push(vec![(self.at, of_stream(self.at, self.lookout.handle().now(), RESYNC))]);
        Ok(())
    }
}
