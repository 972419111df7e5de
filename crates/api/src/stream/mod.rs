//! The live stream of events of a run, or of all runs of a tenant.
//!
//! The stream is a WebSocket on request, and otherwise server-sent events, with the same envelopes. A listener that
//! reconnects sends its last id and resumes without gaps or duplicates: for a run always, because the ids are numbers in
//! its chain; for a tenant as far back as the buffer of this server. `docs/stream.md` lists the event types.

mod envelope;
mod feed;
mod hub;
mod ids;
pub mod kind;
mod listener;
mod poller;
mod request;
mod run;
mod tenant;
mod transport;

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use domain::{RunId, TenantId};
use parking_lot::Mutex;
use store::Store;
use tokio::sync::watch;
use tokio::time::{Duration, sleep, timeout};

use crate::Shared;
use crate::extract::PathParam;
use crate::problem::ApiError;
use crate::role_guard::Viewer;

use hub::Hubs;
use ids::{RunEventId, TenantEventId};
use listener::{History, Listener, NoHistory, Start};
use request::StreamRequest;
use transport::StreamSession;

/// The settings of streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSettings {
    /// How often the store is polled while there are listeners.
    pub poll_every: Duration,
    /// The interval of heartbeats.
    pub heartbeat_every: Duration,
    /// The timeout for sending a message. A slower listener is disconnected.
    pub stall_max: Duration,
    /// How long the stream of a tenant continues without listeners, so that one that reconnects misses nothing.
    pub linger: Duration,
    /// The number of buffered envelopes of a tenant. A listener that is further behind is disconnected.
    pub envelopes_max: usize,
    /// The maximum number of listeners of a tenant.
    pub listeners_max: usize,
    /// The maximum number of listeners of all tenants together.
    pub listeners_total_max: usize,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            // An approval must be visible within two seconds.
            poll_every: Duration::from_millis(250),
            // Proxies close connections that are idle for a minute, some for 30 seconds.
            heartbeat_every: Duration::from_secs(15),
            stall_max: Duration::from_secs(5),
            linger: Duration::from_mins(1),
            // About 8 MB.
            envelopes_max: 4_096,
            // Each takes a connection and about 20 KB.
            listeners_max: 2_000,
            listeners_total_max: 2_000,
        }
    }
}

/// Half of the connections of a server remain for requests.
const STREAMS_SHARE: usize = 2;

/// A tenant gets an eighth of the connections of a server, so that one tenant cannot take the streams of all others.
const TENANT_SHARE: usize = 8;

/// The browser of one user has a stream for each open page.
const TENANT_LISTENERS_MIN: usize = 4;

impl StreamSettings {
    /// Limits the listeners to their share of the connections of a server. A stream holds its connection until it ends,
    /// and cannot be closed in favor of another client: without this limit, the streams of one API key lock out webhooks,
    /// health checks and all tenants.
    #[must_use]
    pub fn for_connections(self, connections: usize) -> Self {
        let total = (connections / STREAMS_SHARE).max(1);
        let of_a_tenant = (connections / TENANT_SHARE).max(TENANT_LISTENERS_MIN).min(total);
        Self {
            listeners_max: self.listeners_max.min(of_a_tenant),
            listeners_total_max: self.listeners_total_max.min(total),
            ..self
        }
    }
}

/// The content type of server-sent events.
pub(crate) const KIND: &str = "text/event-stream";

/// The minimum time between two polls, regardless of nudges.
const POLL_MIN: Duration = Duration::from_millis(20);

/// The open streams.
#[derive(Clone)]
pub struct Streams(Arc<Inner>);

pub(crate) struct Inner {
    settings: StreamSettings,
    runs: Hubs<(TenantId, RunId), RunEventId>,
    tenants: Hubs<TenantId, TenantEventId>,
    listeners: Arc<Mutex<HashMap<TenantId, usize>>>,
    nudge: watch::Sender<()>,
    closing: watch::Sender<bool>,
}

impl Default for Streams {
    fn default() -> Self {
        Self::new(StreamSettings::default())
    }
}

impl Streams {
    pub fn new(settings: StreamSettings) -> Self {
        Self(Arc::new(Inner {
            settings,
            runs: Hubs::default(),
            tenants: Hubs::default(),
            listeners: Arc::default(),
            nudge: watch::Sender::new(()),
            closing: watch::Sender::new(false),
        }))
    }

    /// The number of listeners.
    pub fn listeners(&self) -> usize {
        self.0.listeners.lock().values().sum()
    }

    /// Polls the store early, after a commit in this process.
    pub fn nudge(&self) {
        self.0.nudge.send_replace(());
    }

    /// Ends every stream for a shutdown. Clients are asked to reconnect.
    pub fn close(&self) {
        self.0.closing.send_replace(true);
        self.nudge();
    }
}

impl Inner {
    /// Waits until the next poll: for `length`, or until a nudge after `least`.
    async fn pause(&self, nudged: &mut watch::Receiver<()>, length: Duration, least: Duration) {
        sleep(least.min(length)).await;
        let _ = timeout(length.saturating_sub(least), nudged.changed()).await;
    }

    fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Counts one more listener of a tenant.
    fn admit(&self, tenant: &TenantId) -> Result<ListenerSlot, ApiError> {
        if self.is_closing() {
            return Err(ApiError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "UNAVAILABLE",
                "the server is shutting down",
            )
            .remedy("reconnect with `last_event_id`"));
        }
        let mut listeners = self.listeners.lock();
        if listeners.get(tenant).is_some_and(|count| *count >= self.settings.listeners_max) {
            return Err(too_many_listeners("the tenant has reached its maximum of open streams"));
        }
        if listeners.values().sum::<usize>() >= self.settings.listeners_total_max {
            return Err(too_many_listeners("the server has reached its maximum of open streams"));
        }
        *listeners.entry(tenant.clone()).or_default() += 1;
        Ok(ListenerSlot { tenant: tenant.clone(), listeners: Arc::clone(&self.listeners) })
    }
}

fn too_many_listeners(detail: &'static str) -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "TOO_MANY_LISTENERS", detail)
        .remedy("close an unused stream, or try again later")
}

/// A counted listener of a tenant, until it is dropped.
struct ListenerSlot {
    tenant: TenantId,
    listeners: Arc<Mutex<HashMap<TenantId, usize>>>,
}

impl Drop for ListenerSlot {
    fn drop(&mut self) {
        let mut listeners = self.listeners.lock();
        if let Some(count) = listeners.get_mut(&self.tenant) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                listeners.remove(&self.tenant);
            }
        }
    }
}

/// The stream of one run, from its start or from the last received id.
pub(crate) async fn run_stream<S: Store>(
    State(api): State<Shared<S>>,
    Viewer { handle, caller }: Viewer<S>,
    PathParam(run): PathParam<RunId>,
    request: StreamRequest,
) -> Result<Response, ApiError> {
    let record = handle.record(&run).await?;
    let last = request.last.as_deref().map(|id| run_event_id(record.events, id)).transpose()?;
    let streams = Arc::clone(&api.streams.0);
    let slot = streams.admit(&caller.tenant)?;
    let open = || std::future::ready(Ok::<_, ApiError>(run::open(&streams, handle.clone(), &record)));
    let subscription = streams.runs.subscribe(&(caller.tenant.clone(), run), open).await?;
    let history = run::Ledger { handle, record: record.clone() };
    let listener = Listener::new(&streams, (subscription, slot), history, Start { last, first: None });
    Ok(respond(api, caller, request, listener))
}

/// Parses `id` as an id in a chain with `events` events.
fn run_event_id(events: u32, id: &str) -> Result<RunEventId, ApiError> {
    let id = id.parse::<RunEventId>().ok().filter(|id| id.n < events);
    id.ok_or_else(|| {
        ApiError::bad_request("`last_event_id` is not the id of an envelope of this run")
            .remedy("send the id of the last received envelope, or omit it to start at the first event")
    })
}

/// The stream of all runs of the tenant, from now on or from the last received id.
pub(crate) async fn tenant_stream<S: Store>(
    State(api): State<Shared<S>>,
    Viewer { handle, caller }: Viewer<S>,
    request: StreamRequest,
) -> Result<Response, ApiError> {
    let streams = Arc::clone(&api.streams.0);
    let slot = streams.admit(&caller.tenant)?;
    let subscription = tenant::subscribe(&streams, &handle).await?;
    let start = tenant::start(&subscription, &handle, request.last.as_deref());
    let listener = Listener::new(&streams, (subscription, slot), NoHistory, start);
    Ok(respond(api, caller, request, listener))
}

fn respond<S, P, H>(
    api: Shared<S>,
    caller: crate::Caller,
    request: StreamRequest,
    listener: Listener<P, H>,
) -> Response
where
    S: Store,
    P: Copy + Ord + Send + Sync + 'static,
    H: History<P> + Send + Sync + 'static,
{
    let StreamRequest { socket, headers, uri, .. } = request;
    let session = StreamSession { api, caller, headers, uri };
    match socket {
        Some(socket) => socket.on_upgrade(|socket| transport::over_socket(socket, session, listener)),
        None => transport::server_sent_events(session, listener),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_leave_connections_for_requests() {
        for (connections, of_a_tenant, total) in
            [(4_096, 512, 2_000), (160, 20, 80), (16, 4, 8), (4, 2, 2), (1, 1, 1), (1_000_000, 2_000, 2_000)]
        {
            let settings = StreamSettings::default().for_connections(connections);
            assert_eq!(
                (settings.listeners_max, settings.listeners_total_max),
                (of_a_tenant, total),
                "{connections}"
            );
        }
        let fewer = StreamSettings { listeners_max: 3, listeners_total_max: 5, ..StreamSettings::default() };
        assert_eq!(fewer.clone().for_connections(4_096), fewer);
    }
}
