//! A listener: a position in a feed, and the next envelope.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::envelope::Encoded;
use super::feed::FeedRead;
use super::hub::Subscription;
use super::{Inner, ListenerSlot};

/// The number of envelopes to read from a feed at once.
const BATCH: usize = 64;

/// Envelopes that a feed has dropped.
pub(super) trait History<P> {
    /// The envelopes after `last` up to `dropped`, or the first of them; `None` if they are lost.
    fn between(&self, last: Option<P>, dropped: P) -> impl Future<Output = Option<Vec<(P, Encoded)>>> + Send;
}

/// Dropped envelopes are lost.
pub(super) struct NoHistory;

impl<P: Send> History<P> for NoHistory {
    async fn between(&self, _last: Option<P>, _dropped: P) -> Option<Vec<(P, Encoded)>> {
        None
    }
}

/// The next message for a listener.
pub(super) enum Next {
    Envelope(Encoded),
    Heartbeat,
    End(End),
}

/// Why a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The client disconnected.
    Left,
    /// The client sent a message.
    Spoke,
    /// The client does not read fast enough.
    Slow,
    /// The credential is no longer valid.
    Unauthenticated,
    /// The server shuts down.
    Closing,
}

impl End {
    /// The close code and reason of a WebSocket; none if the client disconnected.
    pub(super) fn close(self) -> Option<(u16, &'static str)> {
        match self {
            Self::Left => None,
            Self::Closing => Some((1001, "the server is shutting down; reconnect with last_event_id")),
            Self::Spoke => Some((1003, "the stream accepts no messages")),
            Self::Unauthenticated => Some((1008, "the credential is no longer valid")),
            Self::Slow => Some((1013, "too slow; reconnect with last_event_id")),
        }
    }
}

/// A position in a feed.
pub(super) struct Listener<P, H> {
    streams: Arc<Inner>,
    subscription: Subscription<P>,
    history: H,
    last: Option<P>,
    ready: VecDeque<(P, Encoded)>,
    updates: watch::Receiver<()>,
    closing: watch::Receiver<bool>,
    heartbeat: Interval,
    _slot: ListenerSlot,
}

/// The start of a listener.
pub(super) struct Start<P> {
    /// The last received id; none to start at the first envelope.
    pub(super) last: Option<P>,
    /// An envelope to send first.
    pub(super) first: Option<Encoded>,
}

impl<P: Copy + Ord, H: History<P>> Listener<P, H> {
    pub(super) fn new(
        streams: &Arc<Inner>,
        (subscription, slot): (Subscription<P>, ListenerSlot),
        history: H,
        start: Start<P>,
    ) -> Self {
        let every = streams.settings.heartbeat_every;
        let mut heartbeat = interval_at(Instant::now() + every, every);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let first = start.first.and_then(|line| start.last.map(|id| (id, line)));
        Self {
            updates: subscription.feed().updates(),
            closing: streams.closing.subscribe(),
            streams: Arc::clone(streams),
            subscription,
            history,
            last: start.last,
            ready: first.into_iter().collect(),
            heartbeat,
            _slot: slot,
        }
    }

    /// The next message. Cancel safe.
    pub(super) async fn next(&mut self) -> Next {
        loop {
            if let Some((id, line)) = self.ready.pop_front() {
                self.last = Some(id);
                return Next::Envelope(line);
            }
            match self.subscription.feed().after(self.last, BATCH) {
                FeedRead::Envelopes(lines) if lines.is_empty() => {
                    if let Some(next) = self.wait().await {
                        return next;
                    }
                }
                FeedRead::Envelopes(lines) => self.ready.extend(lines),
                FeedRead::Dropped(dropped) => match self.history.between(self.last, dropped).await {
                    // No envelope is missing up to there.
                    Some(lines) if lines.is_empty() => self.last = Some(dropped),
                    Some(lines) => self.ready.extend(lines),
                    None => return Next::End(End::Slow),
                },
            }
        }
    }

    /// Waits for new envelopes. Returns another message if one is due first.
    async fn wait(&mut self) -> Option<Next> {
        tokio::select! {
            _ = self.updates.changed() => None,
            _ = self.heartbeat.tick() => Some(Next::Heartbeat),
            _ = self.closing.wait_for(|closing| *closing) => Some(Next::End(End::Closing)),
        }
    }

    /// The timeout for sending a message.
    pub(super) fn send_timeout(&self) -> tokio::time::Duration {
        self.streams.settings.stall_max
    }
}
