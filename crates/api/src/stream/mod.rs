//! The live stream: what happens to a run, or to all runs of a tenant, as it happens.
//!
//! Over a WebSocket where one is asked for, else as server-sent events; the envelopes are the same. A listener that
//! was away says which it saw last and gets what came since, without gap or repeat: of a run for ever, since the ids
//! are places in its chain; of a tenant as far back as this server remembers. `docs/stream.md` has the types.

mod asked;
mod envelope;
mod feed;
mod hub;
pub mod kind;
mod listener;
mod lookout;
mod place;
mod run;
mod tenant;
mod told;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use domain::{RunId, TenantId};
use store::Store;
use tokio::sync::watch;
use tokio::time::{Duration, sleep, timeout};

use crate::Shared;
use crate::at::Viewer;
use crate::extract::Named;
use crate::problem::Problem;

use asked::Asked;
use hub::Hubs;
use listener::{Forgotten, History, Listener, Start};
use place::{Place, Turn};
use told::Pass;

/// How streams behave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSettings {
    /// How often the store is looked at while somebody listens.
    pub look_every: Duration,
    /// How often a listener hears that the server is still there.
    pub beat_every: Duration,
    /// How long a listener may take to read what it is sent, before its stream is ended.
    pub stall_max: Duration,
    /// For how long a tenant's stream goes on without listeners, so that one who comes back misses nothing.
    pub linger: Duration,
    /// How many envelopes of a tenant are remembered. A listener that is further behind is too slow.
    pub lines_max: usize,
    /// How many may listen at once, of each tenant.
    pub listeners_max: usize,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            // An approval is to be seen within two seconds; a quarter of one is not felt.
            look_every: Duration::from_millis(250),
            // Proxies cut what is silent for a minute, some for half of one.
            beat_every: Duration::from_secs(15),
            stall_max: Duration::from_secs(5),
            linger: Duration::from_mins(1),
            // About 8 MB.
            lines_max: 4_096,
            // Each takes a connection and some 20 KB.
            listeners_max: 2_000,
        }
    }
}

/// What a stream is, where it is no WebSocket.
pub(crate) const KIND: &str = "text/event-stream";

/// However often somebody nudges, the store is left in peace for so long.
const LOOK_LEAST: Duration = Duration::from_millis(20);

/// Who listens to what.
#[derive(Clone)]
pub struct Streams(Arc<Inner>);

pub(crate) struct Inner {
    settings: StreamSettings,
    runs: Hubs<(TenantId, RunId), Place>,
    tenants: Hubs<TenantId, Turn>,
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
    /// Streams to which nobody listens yet.
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

    /// How many listen, to anything.
    pub fn listeners(&self) -> usize {
        self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    /// Something was committed in this process: whoever listens need not wait for the next look.
    pub fn nudge(&self) {
        self.0.nudge.send_replace(());
    }

    /// Ends every stream, so that a server can leave. Listeners are told to come back.
    pub fn close(&self) {
        self.0.closing.send_replace(true);
        self.nudge();
    }
}

impl Inner {
    /// Waits until the store should be looked at again: for so long, or until somebody nudges after the first part
    /// of that.
    async fn pause(&self, nudged: &mut watch::Receiver<()>, length: Duration, least: Duration) {
        sleep(least.min(length)).await;
        let _ = timeout(length.saturating_sub(least), nudged.changed()).await;
    }

    fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Room for one more listener of a tenant.
    fn admit(&self, tenant: &TenantId) -> Result<Ticket, Problem> {
        if self.is_closing() {
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", "the server leaves")
                .remedy("come back in a moment, with `last_event_id`"));
        }
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let count = listeners.entry(tenant.clone()).or_default();
        if *count >= self.settings.listeners_max {
            let detail = "as many listen to this tenant as this server has room for";
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "TOO_MANY_LISTENERS", detail)
                .remedy("close a stream that nobody looks at, or come back later"));
        }
        *count += 1;
        Ok(Ticket { tenant: tenant.clone(), listeners: Arc::clone(&self.listeners) })
    }
}

/// One listener of a tenant, counted for as long as it is there.
struct Ticket {
    tenant: TenantId,
    listeners: Arc<Mutex<HashMap<TenantId, usize>>>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = listeners.get_mut(&self.tenant) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                listeners.remove(&self.tenant);
            }
        }
    }
}

/// What happens to one run, from its beginning or from behind what was seen last.
pub(crate) async fn of_run<S: Store>(
    State(api): State<Shared<S>>,
    Viewer { handle, caller }: Viewer<S>,
    Named(run): Named<RunId>,
    asked: Asked,
) -> Result<Response, Problem> {
    let record = handle.record(&run).await?;
    let last = asked.last.as_deref().map(|id| place_in(record.events, id)).transpose()?;
    let streams = Arc::clone(&api.streams.0);
    let ticket = streams.admit(&caller.tenant)?;
    let open = || std::future::ready(Ok::<_, Problem>(run::open(&streams, handle.clone(), &record)));
    let seat = streams.runs.seat(&(caller.tenant.clone(), run), open).await?;
    let history = run::Ledger { handle, record: record.clone() };
    let listener = Listener::new(&streams, (seat, ticket), history, Start { last, first: None });
    Ok(respond(api, caller, asked, listener))
}

/// The place that `id` names in a chain of so many entries.
fn place_in(events: u32, id: &str) -> Result<Place, Problem> {
    let place = id.parse::<Place>().ok().filter(|place| place.n < events);
    place.ok_or_else(|| {
        Problem::bad_request("`last_event_id` is not the id of an envelope of this run")
            .remedy("send the id as it came, or none to begin at the beginning")
    })
}

/// What happens to all runs of the tenant, from now on or from behind what was seen last.
pub(crate) async fn of_tenant<S: Store>(
    State(api): State<Shared<S>>,
    Viewer { handle, caller }: Viewer<S>,
    asked: Asked,
) -> Result<Response, Problem> {
    let streams = Arc::clone(&api.streams.0);
    let ticket = streams.admit(&caller.tenant)?;
    let seat = tenant::seat(&streams, &handle).await?;
    let start = tenant::start(&seat, &handle, asked.last.as_deref());
    let listener = Listener::new(&streams, (seat, ticket), Forgotten, start);
    Ok(respond(api, caller, asked, listener))
}

fn respond<S, P, H>(api: Shared<S>, caller: crate::Caller, asked: Asked, listener: Listener<P, H>) -> Response
where
    S: Store,
    P: Copy + Ord + Send + Sync + 'static,
    H: History<P> + Send + Sync + 'static,
{
    let Asked { socket, headers, uri, .. } = asked;
    let pass = Pass { api, caller, headers, uri };
    match socket {
        Some(socket) => socket.on_upgrade(|socket| told::over_socket(socket, pass, listener)),
        None => told::as_events(pass, listener),
    }
}
