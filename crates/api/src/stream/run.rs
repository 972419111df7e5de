//! The stream of one run. Its ids are numbers in the chain, so a replay reads the ledger.

use std::sync::Arc;

use domain::{Event, RunId, RunRecord};
use engine::{EngineError, TenantHandle};
use store::Store;
use tokio::time::Duration;

use super::envelope::{Encoded, event_envelopes};
use super::feed::Feed;
use super::hub::Hub;
use super::ids::RunEventId;
use super::listener::History;
use super::{Inner, POLL_MIN};

/// The number of events of the chain to read at once.
const ENTRIES: u32 = 100;

/// The number of buffered envelopes. A listener that is further behind reads the ledger.
const ENVELOPES_MAX: usize = 256;

/// How often the hub of a finished run checks for listeners.
const FINISHED_EVERY: Duration = Duration::from_secs(5);

/// A hub for the run, after the events that `record` counts.
pub(super) fn open<S: Store>(
    streams: &Arc<Inner>,
    handle: TenantHandle<S>,
    record: &RunRecord,
) -> Arc<Hub<RunEventId>> {
    let newest = record.events.checked_sub(1).map(RunEventId::last_of);
    let hub = Hub::new(Feed::new(newest, ENVELOPES_MAX));
    let poller = RunPoller {
        streams: Arc::clone(streams),
        handle,
        run: record.key.run.clone(),
        sent: record.events,
        hub: Arc::clone(&hub),
    };
    tokio::spawn(poller.run());
    hub
}

/// Polls one run and sends its new events.
struct RunPoller<S> {
    streams: Arc<Inner>,
    handle: TenantHandle<S>,
    run: RunId,
    /// The number of events that were sent.
    sent: u32,
    hub: Arc<Hub<RunEventId>>,
}

impl<S: Store> RunPoller<S> {
    async fn run(mut self) {
        let every = self.streams.settings.poll_every;
        let mut nudged = self.streams.nudge.subscribe();
        let mut pause = every;
        loop {
            self.streams.pause(&mut nudged, pause, POLL_MIN).await;
            // Everything sent is in the ledger, so the hub can close at once.
            if self.hub.close_if_idle(Duration::ZERO) || self.streams.is_closing() {
                break;
            }
            pause = match self.poll().await {
                Ok(finished) => {
                    if finished {
                        FINISHED_EVERY.max(every)
                    } else {
                        every
                    }
                }
                Err(error) => {
                    tracing::warn!(event = "stream_poll_failed", run = %self.run, error = %engine::error_chain(&error), "stream poll failed");
                    every.saturating_mul(4)
                }
            };
        }
        let key = (self.handle.tenant_id().clone(), self.run);
        self.streams.runs.remove_closed(&key, &self.hub);
    }

    /// Sends new events. Returns whether the run has finished.
    async fn poll(&mut self) -> Result<bool, EngineError> {
        let record = self.handle.record(&self.run).await?;
        while self.sent < record.events {
            let read = envelopes(&self.handle, &record, self.sent, record.events - 1).await?;
            self.sent = read.next.max(self.sent + 1);
            self.hub.feed.push(read.envelopes);
        }
        Ok(record.status.is_terminal())
    }
}

/// Envelopes, and the number of the next event.
pub(super) struct EnvelopePage {
    pub(super) envelopes: Vec<(RunEventId, Encoded)>,
    pub(super) next: u32,
}

/// The envelopes of the events `from` to `to`, or of the first of them.
pub(super) async fn envelopes<S: Store>(
    handle: &TenantHandle<S>,
    record: &RunRecord,
    from: u32,
    to: u32,
) -> Result<EnvelopePage, EngineError> {
    let plan = handle.plan_of(record).await?;
    let limit = (to.saturating_sub(from)).saturating_add(1).min(ENTRIES);
    let events = events(handle, &record.key.run, from, limit).await?;
    let id = |n| move |part| RunEventId { n, part };
    let envelopes =
        events.iter().flat_map(|event| event_envelopes((record, plan.plan()), event, id(event.n)));
    Ok(EnvelopePage { envelopes: envelopes.collect(), next: from.saturating_add(limit) })
}

/// The events of a run from `from` on. An unreadable event is skipped: the stream does not verify the chain.
pub(super) async fn events<S: Store>(
    handle: &TenantHandle<S>,
    run: &RunId,
    from: u32,
    limit: u32,
) -> Result<Vec<Event>, EngineError> {
    let entries = handle.events(run, from, limit).await?;
    let read = |canonical: &[u8]| match serde_json::from_slice(canonical) {
        Ok(event) => Some(event),
        Err(error) => {
            tracing::error!(event = "chain_unreadable", %run, %error, "event of a chain cannot be read");
            None
        }
    };
    Ok(entries.iter().filter_map(|entry| read(&entry.canonical)).collect())
}

/// Replays missed events from the ledger.
pub(super) struct Ledger<S> {
    pub(super) handle: TenantHandle<S>,
    pub(super) record: RunRecord,
}

impl<S: Store> History<RunEventId> for Ledger<S> {
    async fn between(
        &self,
        last: Option<RunEventId>,
        dropped: RunEventId,
    ) -> Option<Vec<(RunEventId, Encoded)>> {
        let mut from = last.map_or(0, |last| last.n);
        loop {
            let read = match envelopes(&self.handle, &self.record, from, dropped.n).await {
                Ok(read) => read,
                Err(error) => {
                    tracing::warn!(event = "stream_replay_failed", run = %self.record.key, error = %engine::error_chain(&error), "replay failed");
                    return None;
                }
            };
            let missed = |id: &RunEventId| Some(*id) > last && *id <= dropped;
            let envelopes: Vec<_> = read.envelopes.into_iter().filter(|(id, _)| missed(id)).collect();
            // A page can consist of envelopes that the listener already has.
            if !envelopes.is_empty() || read.next > dropped.n {
                return Some(envelopes);
            }
            from = read.next;
        }
    }
}
