//! A listener: one place in a feed, and what is to be told from there.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::envelope::Line;
use super::feed::Behind;
use super::hub::Seat;
use super::{Inner, Ticket};

/// How many envelopes are taken from a feed at once.
const BATCH: usize = 64;

/// What a feed no longer holds.
pub(super) trait History<P> {
    /// The envelopes behind `last` up to `gone`, or the first of them; `None` if nobody has them.
    fn between(&self, last: Option<P>, gone: P) -> impl Future<Output = Option<Vec<(P, Line)>>> + Send;
}

/// Nobody has what a feed no longer holds.
pub(super) struct Forgotten;

impl<P: Send> History<P> for Forgotten {
    async fn between(&self, _last: Option<P>, _gone: P) -> Option<Vec<(P, Line)>> {
        None
    }
}

/// What a listener is told next.
pub(super) enum Told {
    /// An envelope.
    Line(Line),
    /// That the server is still there.
    Beat,
    /// Nothing more.
    End(End),
}

/// Why a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The listener left.
    Left,
    /// The listener sent something, and there is nobody to hear it.
    Spoke,
    /// The listener does not read as fast as things happen.
    Slow,
    /// The listener's credential does not hold any more.
    Unwelcome,
    /// The server leaves.
    Closing,
}

impl End {
    /// How a WebSocket is closed; nothing is said to whoever has left.
    pub(super) fn close(self) -> Option<(u16, &'static str)> {
        match self {
            Self::Left => None,
            Self::Closing => Some((1001, "the server leaves; come back with last_event_id")),
            Self::Spoke => Some((1003, "this stream only tells")),
            Self::Unwelcome => Some((1008, "the credential does not hold any more")),
            Self::Slow => Some((1013, "too slow; come back with last_event_id")),
        }
    }
}

/// One place in a feed, and what is to be told from there.
pub(super) struct Listener<P, H> {
    streams: Arc<Inner>,
    seat: Seat<P>,
    history: H,
    last: Option<P>,
    ready: VecDeque<(P, Line)>,
    news: watch::Receiver<()>,
    closing: watch::Receiver<bool>,
    beat: Interval,
    _ticket: Ticket,
}

/// Where a listener begins.
pub(super) struct Start<P> {
    /// Behind this place; at the beginning, if absent.
    pub(super) last: Option<P>,
    /// What it is told before anything else.
    pub(super) first: Option<Line>,
}

impl<P: Copy + Ord, H: History<P>> Listener<P, H> {
    pub(super) fn new(
        streams: &Arc<Inner>,
        (seat, ticket): (Seat<P>, Ticket),
        history: H,
        start: Start<P>,
    ) -> Self {
        let every = streams.settings.beat_every;
        let mut beat = interval_at(Instant::now() + every, every);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let first = start.first.and_then(|line| start.last.map(|place| (place, line)));
        Self {
            news: seat.feed().news(),
            closing: streams.closing.subscribe(),
            streams: Arc::clone(streams),
            seat,
            history,
            last: start.last,
            ready: first.into_iter().collect(),
            beat,
            _ticket: ticket,
        }
    }

    /// What it is told next. Nothing is lost if nobody waits for the answer.
    pub(super) async fn next(&mut self) -> Told {
        loop {
            if let Some((place, line)) = self.ready.pop_front() {
                self.last = Some(place);
                return Told::Line(line);
            }
            match self.seat.feed().behind(self.last, BATCH) {
                Behind::Lines(lines) if lines.is_empty() => {
                    if let Some(told) = self.wait().await {
                        return told;
                    }
                }
                Behind::Lines(lines) => self.ready.extend(lines),
                Behind::Gone(gone) => match self.history.between(self.last, gone).await {
                    // Nothing is missing up to there.
                    Some(lines) if lines.is_empty() => self.last = Some(gone),
                    Some(lines) => self.ready.extend(lines),
                    None => return Told::End(End::Slow),
                },
            }
        }
    }

    /// Waits for news; or there is something else to tell.
    async fn wait(&mut self) -> Option<Told> {
        tokio::select! {
            _ = self.news.changed() => None,
            _ = self.beat.tick() => Some(Told::Beat),
            _ = self.closing.wait_for(|closing| *closing) => Some(Told::End(End::Closing)),
        }
    }

    /// How long it may take to hand on what it is told.
    pub(super) fn patience(&self) -> tokio::time::Duration {
        self.streams.settings.stall_max
    }
}
