//! Sends a stream over a WebSocket or as server-sent events.
//!
//! The server does not wait for a slow listener: its stream ends, and the client can reconnect.

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

use super::listener::{End, History, Listener, Next};
use crate::{Caller, Shared};

/// The timeout of the close handshake.
const CLOSE_MAX: Duration = Duration::from_secs(1);

/// A WebSocket client that does not answer this many heartbeats counts as disconnected.
const MISSED_HEARTBEATS_MAX: u32 = 3;

/// The number of envelopes queued for a connection.
const QUEUED_MAX: usize = 16;

/// The request that opened the stream. It is authenticated again at every heartbeat: a revoked key ends the stream.
pub(super) struct StreamSession<S> {
    pub(super) api: Shared<S>,
    pub(super) caller: Caller,
    pub(super) headers: HeaderMap,
    pub(super) uri: Uri,
}

impl<S: Store> StreamSession<S> {
    async fn is_valid(&self) -> bool {
        match self.api.authenticator.authenticate(&self.headers, &self.uri).await {
            Ok(caller) => {
                caller.tenant == self.caller.tenant
                    && self.api.authenticator.handle(&caller, Role::Viewer).is_ok()
            }
            // A store that does not respond is no reason to disconnect.
            Err(problem) => problem.status == StatusCode::SERVICE_UNAVAILABLE.as_u16(),
        }
    }
}

/// Sends over a WebSocket until either side ends the stream.
pub(super) async fn over_socket<S, P, H>(
    mut socket: WebSocket,
    session: StreamSession<S>,
    mut listener: Listener<P, H>,
) where
    S: Store,
    P: Copy + Ord,
    H: History<P>,
{
    let end = send_until_end(&mut socket, &session, &mut listener).await;
    tracing::debug!(event = "stream_ended", tenant = %session.caller.tenant, ?end, "stream ended");
    drop(listener);
    if let Some((code, reason)) = end.close() {
        let _ = timeout(CLOSE_MAX, close(&mut socket, CloseFrame { code, reason: reason.into() })).await;
    }
}

/// Sends the close frame and waits until the client has received it.
async fn close(socket: &mut WebSocket, frame: CloseFrame) {
    if socket.send(Message::Close(Some(frame))).await.is_ok() {
        while let Some(Ok(_)) = socket.recv().await {}
    }
}

async fn send_until_end<S, P, H>(
    socket: &mut WebSocket,
    session: &StreamSession<S>,
    listener: &mut Listener<P, H>,
) -> End
where
    S: Store,
    P: Copy + Ord,
    H: History<P>,
{
    let mut missed = 0;
    loop {
        let message = tokio::select! {
            received = socket.recv() => match received {
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {
                    missed = 0;
                    continue;
                }
                Some(Ok(Message::Text(_) | Message::Binary(_))) => return End::Spoke,
                Some(Ok(Message::Close(_))) => {
                    // The next read sends the reply to the close frame.
                    let _ = timeout(CLOSE_MAX, socket.recv()).await;
                    return End::Left;
                }
                Some(Err(_)) | None => return End::Left,
            },
            next = listener.next() => match next {
                Next::Envelope(envelope) => Message::Text(envelope.json),
                Next::Heartbeat if missed == MISSED_HEARTBEATS_MAX => return End::Left,
                Next::Heartbeat if !session.is_valid().await => return End::Unauthenticated,
                Next::Heartbeat => {
                    missed += 1;
                    Message::Ping(axum::body::Bytes::new())
                }
                Next::End(end) => return end,
            },
        };
        match timeout(listener.send_timeout(), socket.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return End::Left,
            Err(_) => return End::Slow,
        }
    }
}

/// Sends server-sent events until either side ends the stream.
pub(super) fn server_sent_events<S, P, H>(session: StreamSession<S>, listener: Listener<P, H>) -> Response
where
    S: Store,
    P: Copy + Ord + Send + 'static,
    H: History<P> + Send + Sync + 'static,
{
    let (sender, receiver) = mpsc::channel(QUEUED_MAX);
    tokio::spawn(feed_events(sender, session, listener));
    let events = stream::unfold(receiver, |mut receiver| async move {
        let event: Event = receiver.recv().await?;
        Some((Ok::<_, Infallible>(event), receiver))
    });
    let mut response = Sse::new(events).into_response();
    // A buffering proxy would delay the events.
    response.headers_mut().insert("cache-control", HeaderValue::from_static("no-store"));
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

async fn feed_events<S, P, H>(
    sender: mpsc::Sender<Event>,
    session: StreamSession<S>,
    mut listener: Listener<P, H>,
) where
    S: Store,
    P: Copy + Ord,
    H: History<P>,
{
    loop {
        let next = tokio::select! {
            () = sender.closed() => return,
            next = listener.next() => next,
        };
        let event = match next {
            Next::Envelope(envelope) => Event::default().id(envelope.id).data(envelope.json.as_str()),
            Next::Heartbeat if !session.is_valid().await => return,
            Next::Heartbeat => Event::default().comment(""),
            Next::End(_) => return,
        };
        if sender.send_timeout(event, listener.send_timeout()).await.is_err() {
            return;
        }
    }
}
