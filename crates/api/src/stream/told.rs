//! How a listener is told: over a WebSocket, or as server-sent events.
//!
//! The server never waits for a listener. One that does not take what it is told in time has its stream ended, and
//! can come back.

use std::convert::Infallible;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use domain::Role;
use futures_util::stream;
use store::Store;
use tokio::sync::mpsc;
use tokio::time::{Duration, timeout};

use super::listener::{End, History, Listener, Told};
use crate::{Caller, Shared};

/// How long a goodbye may take.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// After so many beats without a sign of life a WebSocket's other end is taken for dead.
const SILENT_BEATS_MAX: u32 = 3;

/// How many envelopes stand between a listener's place and its connection.
const ON_THE_WAY: usize = 16;

/// What a listener came in with. It is shown again at every beat: a key that is taken back ends the stream.
pub(super) struct Pass<S> {
    pub(super) api: Shared<S>,
    pub(super) caller: Caller,
    pub(super) headers: HeaderMap,
    pub(super) uri: Uri,
}

impl<S: Store> Pass<S> {
    async fn holds(&self) -> bool {
        match self.api.gate.enter(&self.headers, &self.uri).await {
            Ok(caller) => {
                caller.tenant == self.caller.tenant && self.api.gate.handle(&caller, Role::Viewer).is_ok()
            }
            // A store that does not answer has not said no.
            Err(problem) => problem.status == StatusCode::SERVICE_UNAVAILABLE.as_u16(),
        }
    }
}

/// Tells over a WebSocket, until either side has enough.
pub(super) async fn over_socket<S, P, H>(mut socket: WebSocket, pass: Pass<S>, mut listener: Listener<P, H>)
where
    S: Store,
    P: Copy + Ord,
    H: History<P>,
{
    let end = until_end(&mut socket, &pass, &mut listener).await;
    tracing::debug!(tenant = %pass.caller.tenant, ?end, "a stream ended");
    drop(listener);
    if let Some((code, reason)) = end.close() {
        let _ =
            timeout(GOODBYE_MAX, say_goodbye(&mut socket, CloseFrame { code, reason: reason.into() })).await;
    }
}

/// Says why, and lets the other end hear it.
async fn say_goodbye(socket: &mut WebSocket, frame: CloseFrame) {
    if socket.send(Message::Close(Some(frame))).await.is_ok() {
        while let Some(Ok(_)) = socket.recv().await {}
    }
}

async fn until_end<S, P, H>(socket: &mut WebSocket, pass: &Pass<S>, listener: &mut Listener<P, H>) -> End
where
    S: Store,
    P: Copy + Ord,
    H: History<P>,
{
    let mut silent_beats = 0;
    loop {
        let message = tokio::select! {
            heard = socket.recv() => match heard {
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {
                    silent_beats = 0;
                    continue;
                }
                Some(Ok(Message::Text(_) | Message::Binary(_))) => return End::Spoke,
                Some(Ok(Message::Close(_))) => {
                    // The answer to a goodbye goes out with the next read.
                    let _ = timeout(GOODBYE_MAX, socket.recv()).await;
                    return End::Left;
                }
                Some(Err(_)) | None => return End::Left,
            },
            told = listener.next() => match told {
                Told::Line(line) => Message::Text(line.json),
                Told::Beat if silent_beats == SILENT_BEATS_MAX => return End::Left,
                Told::Beat if !pass.holds().await => return End::Unwelcome,
                Told::Beat => {
                    silent_beats += 1;
                    Message::Ping(axum::body::Bytes::new())
                }
                Told::End(end) => return end,
            },
        };
        match timeout(listener.patience(), socket.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return End::Left,
            Err(_) => return End::Slow,
        }
    }
}

/// Tells as server-sent events, until either side has enough.
pub(super) fn as_events<S, P, H>(pass: Pass<S>, listener: Listener<P, H>) -> Response
where
    S: Store,
    P: Copy + Ord + Send + 'static,
    H: History<P> + Send + Sync + 'static,
{
    let (way, arrived) = mpsc::channel(ON_THE_WAY);
    tokio::spawn(feed_events(way, pass, listener));
    let events = stream::unfold(arrived, |mut arrived| async move {
        let event: Event = arrived.recv().await?;
        Some((Ok::<_, Infallible>(event), arrived))
    });
    let mut response = Sse::new(events).into_response();
    // What is kept anywhere on the way comes late or never.
    response.headers_mut().insert("cache-control", HeaderValue::from_static("no-store"));
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

async fn feed_events<S, P, H>(way: mpsc::Sender<Event>, pass: Pass<S>, mut listener: Listener<P, H>)
where
    S: Store,
    P: Copy + Ord,
    H: History<P>,
{
    loop {
        let told = tokio::select! {
            () = way.closed() => return,
            told = listener.next() => told,
        };
        let event = match told {
            Told::Line(line) => Event::default().id(line.id).data(line.json.as_str()),
            Told::Beat if !pass.holds().await => return,
            Told::Beat => Event::default().comment(""),
            Told::End(_) => return,
        };
        if way.send_timeout(event, listener.patience()).await.is_err() {
            return;
        }
    }
}
