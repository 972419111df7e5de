//! What a connection waits for, and since when.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::ConnectionLimits;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Between two requests.
    Idle,
    /// A part of a request's head has arrived.
    Head,
    /// The head of a request has arrived, and a part of its body.
    Body,
    /// The server works on a request or sends its response.
    Serving,
}

struct State {
    phase: Phase,
    since: Instant,
    /// Since when the client has not read what the server writes.
    blocked: Option<Instant>,
    /// Whether the connection has left HTTP, as a WebSocket does.
    upgraded: bool,
}

pub(super) struct Connection {
    state: Mutex<State>,
    close: CancellationToken,
}

impl Connection {
    pub(super) fn new() -> Self {
        let state = State { phase: Phase::Idle, since: Instant::now(), blocked: None, upgraded: false };
        Self { state: Mutex::new(state), close: CancellationToken::new() }
    }

    /// Bytes have arrived. Returns whether they are HTTP.
    pub(super) fn on_read(&self) -> bool {
        let mut state = self.state.lock();
        if state.phase == Phase::Idle {
            (state.phase, state.since) = (Phase::Head, Instant::now());
        }
        !state.upgraded
    }

    /// The response switches to another protocol.
    pub(super) fn on_upgrade(&self) {
        self.state.lock().upgraded = true;
    }

    pub(super) fn on_body_start(&self) {
        self.enter(Phase::Body);
    }

    /// The request is complete, or the server does not read the rest of it.
    pub(super) fn on_request_complete(&self) {
        let mut state = self.state.lock();
        if state.phase != Phase::Serving {
            (state.phase, state.since) = (Phase::Serving, Instant::now());
        }
    }

    /// The response is complete.
    pub(super) fn on_response_complete(&self) {
        self.enter(Phase::Idle);
    }

    pub(super) fn on_write(&self, blocked: bool) {
        let mut state = self.state.lock();
        state.blocked = if blocked { state.blocked.or_else(|| Some(Instant::now())) } else { None };
    }

    /// Since when the connection has waited for its client; `None` while the server works on a request.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        if state.phase == Phase::Serving { state.blocked } else { Some(state.since) }
    }

    pub(super) fn is_overdue(&self, now: Instant, limits: &ConnectionLimits) -> bool {
        let state = self.state.lock();
        let passed = |since: Instant, limit| now.duration_since(since) > limit;
        let is_late = match state.phase {
            Phase::Idle => passed(state.since, limits.idle),
            Phase::Head => passed(state.since, limits.head),
            Phase::Body => passed(state.since, limits.body),
            Phase::Serving => false,
        };
        is_late || state.blocked.is_some_and(|since| passed(since, limits.write))
    }

    pub(super) fn close(&self) {
        self.close.cancel();
    }

    pub(super) fn closed(&self) -> WaitForCancellationFuture<'_> {
        self.close.cancelled()
    }

    fn enter(&self, phase: Phase) {
        let mut state = self.state.lock();
        (state.phase, state.since) = (phase, Instant::now());
    }
}

/// A body that calls `at_end` once, when it has ended or is dropped.
pub(super) struct WatchedBody<B, F: FnOnce()> {
    body: B,
    on_end: Option<F>,
}

impl<B, F: FnOnce()> WatchedBody<B, F> {
    pub(super) fn new(body: B, on_end: F) -> Self {
        Self { body, on_end: Some(on_end) }
    }

    fn end(&mut self) {
        if let Some(on_end) = self.on_end.take() {
            on_end();
        }
    }
}

impl<B, F: FnOnce()> Drop for WatchedBody<B, F> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<B: Body + Unpin, F: FnOnce() + Unpin> Body for WatchedBody<B, F> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) || self.body.is_end_stream() {
            self.end();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
