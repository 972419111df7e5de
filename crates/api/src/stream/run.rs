//! The stream of one run. Its ids are places in the chain, so the ledger itself is what is replayed from.

use std::sync::Arc;

use domain::{Event, RunId, RunRecord};
use engine::{EngineError, TenantHandle};
use store::Store;
use tokio::time::Duration;

use super::envelope::{Line, of_event};
use super::feed::Feed;
use super::hub::Hub;
use super::listener::History;
use super::place::Place;
use super::{Inner, LOOK_LEAST};

/// How many entries of the chain are read at once.
const ENTRIES: u32 = 100;

/// More than anybody is behind who reads; whoever is further behind reads the ledger.
const LINES_MAX: usize = 256;

/// How often it is looked whether anybody still listens to a run that is over.
const OVER_EVERY: Duration = Duration::from_secs(5);

/// A hub for the run, from behind what `record` counts.
pub(super) fn open<S: Store>(
    streams: &Arc<Inner>,
    handle: TenantHandle<S>,
    record: &RunRecord,
) -> Arc<Hub<Place>> {
    let newest = record.events.checked_sub(1).map(Place::behind);
    let hub = Hub::new(Feed::new(newest, LINES_MAX));
    let watch = Watch {
        streams: Arc::clone(streams),
        handle,
        run: record.key.run.clone(),
        told: record.events,
        hub: Arc::clone(&hub),
    };
    tokio::spawn(watch.run());
    hub
}

/// Looks at one run, and tells what is new.
struct Watch<S> {
    streams: Arc<Inner>,
    handle: TenantHandle<S>,
    run: RunId,
    /// How many entries of the chain have been told.
    told: u32,
    hub: Arc<Hub<Place>>,
}

impl<S: Store> Watch<S> {
    async fn run(mut self) {
        let every = self.streams.settings.look_every;
        let mut nudged = self.streams.nudge.subscribe();
        let mut pause = every;
        loop {
            self.streams.pause(&mut nudged, pause, LOOK_LEAST).await;
            // What was told stands in the ledger, so nobody loses anything by a hub that goes at once.
            if self.hub.is_gone_after(Duration::ZERO) || self.streams.is_closing() {
                break;
            }
            pause = match self.look().await {
                Ok(over) => {
                    if over {
                        OVER_EVERY.max(every)
                    } else {
                        every
                    }
                }
                Err(error) => {
                    tracing::warn!(run = %self.run, error = %engine::told(&error), "a run was not looked at");
                    every.saturating_mul(4)
                }
            };
        }
        let key = (self.handle.tenant_id().clone(), self.run);
        self.streams.runs.forget(&key, &self.hub);
    }

    /// Tells what is new; says whether nothing more will come.
    async fn look(&mut self) -> Result<bool, EngineError> {
        let record = self.handle.record(&self.run).await?;
        while self.told < record.events {
            let lines = lines(&self.handle, &record, self.told, record.events - 1).await?;
            self.told = lines.read.max(self.told + 1);
            self.hub.feed.push(lines.lines);
        }
        Ok(record.status.is_terminal())
    }
}

/// Envelopes, and where the chain goes on behind them.
pub(super) struct Read {
    pub(super) lines: Vec<(Place, Line)>,
    pub(super) read: u32,
}

/// The envelopes of the entries `from` to `to`, or of the first of them.
pub(super) async fn lines<S: Store>(
    handle: &TenantHandle<S>,
    record: &RunRecord,
    from: u32,
    to: u32,
) -> Result<Read, EngineError> {
    let plan = handle.plan_of(record).await?;
    let limit = (to.saturating_sub(from)).saturating_add(1).min(ENTRIES);
    let events = events(handle, &record.key.run, from, limit).await?;
    let place = |n| move |part| Place { n, part };
    let lines = events.iter().flat_map(|event| of_event((record, plan.plan()), event, place(event.n)));
    Ok(Read { lines: lines.collect(), read: from.saturating_add(limit) })
}

/// The entries of a run's chain from `from` on. One that cannot be read is left out: the chain is verified where it is
/// proof of something.
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
            tracing::error!(%run, %error, "an entry of the chain cannot be read");
            None
        }
    };
    Ok(entries.iter().filter_map(|entry| read(&entry.canonical)).collect())
}

/// What a listener missed, from the ledger.
pub(super) struct Ledger<S> {
    pub(super) handle: TenantHandle<S>,
    pub(super) record: RunRecord,
}

impl<S: Store> History<Place> for Ledger<S> {
    async fn between(&self, last: Option<Place>, gone: Place) -> Option<Vec<(Place, Line)>> {
        let mut from = last.map_or(0, |last| last.n);
        loop {
            let read = match lines(&self.handle, &self.record, from, gone.n).await {
                Ok(read) => read,
                Err(error) => {
                    tracing::warn!(run = %self.record.key, error = %engine::told(&error), "a replay broke off");
                    return None;
                }
            };
            let missed = |place: &Place| Some(*place) > last && *place <= gone;
            let lines: Vec<_> = read.lines.into_iter().filter(|(place, _)| missed(place)).collect();
            // A page may hold nothing but what the listener has already.
            if !lines.is_empty() || read.read > gone.n {
                return Some(lines);
            }
            from = read.read;
        }
    }
}
