//! Accepts connections, and limits what slow clients can hold.
//!
//! A connection is in one phase at a time: it is idle, it receives the head or the body of a request, or the server
//! works on the request. Each phase that waits for the client has a deadline. When all connections are taken, the one
//! that has waited for its client the longest is closed, so a flood of half requests cannot lock other clients out.

mod head;
mod phase;
mod socket;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use hyper::Request;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use phase::{Connection, WatchedBody};
use socket::Socket;

/// File descriptors that connections leave for the store, the log and requests to other systems.
const DESCRIPTORS_RESERVED: u64 = 64;

/// More connections than one server needs; each one takes some memory.
const CONNECTIONS_MAX: u64 = 4096;

/// How often deadlines are checked. A deadline may pass by this much.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Accepting fails when file descriptors run out; wait until one is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A flood logs one event per this time.
const LOG_EVERY: Duration = Duration::from_mins(1);

/// What one server grants its clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    pub(crate) connections: usize,
    /// Between two requests. Longer than the idle timeout of an AWS load balancer (60 s), which reuses connections.
    pub(crate) idle: Duration,
    /// For the head of a request.
    pub(crate) head: Duration,
    /// For the body of a request.
    pub(crate) body: Duration,
    /// For a client that does not read its response.
    pub(crate) write: Duration,
}

impl ConnectionLimits {
    /// As many connections as the file descriptors of this process allow.
    pub(crate) fn of_process() -> Self {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        // With few descriptors, half of them remain.
        let free = descriptors.saturating_sub(DESCRIPTORS_RESERVED).max(descriptors / 2);
        Self {
            connections: usize::try_from(free.clamp(1, CONNECTIONS_MAX)).unwrap_or(usize::MAX),
            idle: Duration::from_secs(75),
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            write: Duration::from_secs(30),
        }
    }
}

/// Serves until `shutdown`, and then until no request is open.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    shutdown: CancellationToken,
) {
    let pool = Arc::new(Pool::new(limits));
    tokio::select! {
        () = Arc::clone(&pool).accept_all(listener, router, shutdown) => {}
        () = pool.close_overdue() => {}
    }
}

struct Pool {
    limits: ConnectionLimits,
    slots: Arc<Semaphore>,
    /// By the order in which they were accepted.
    open: Mutex<BTreeMap<u64, Arc<Connection>>>,
    logged: Mutex<Option<Instant>>,
}

impl Pool {
    fn new(limits: ConnectionLimits) -> Self {
        Self {
            limits,
            slots: Arc::new(Semaphore::new(limits.connections)),
            open: Mutex::default(),
            logged: Mutex::default(),
        }
    }

    async fn accept_all(self: Arc<Self>, listener: TcpListener, router: Router, shutdown: CancellationToken) {
        let tasks = TaskTracker::new();
        for id in 0.. {
            let accepted = async {
                let stream = accept(&listener).await;
                (stream, self.slot().await)
            };
            let (stream, slot) = tokio::select! {
                () = shutdown.cancelled() => break,
                accepted = accepted => accepted,
            };
            let connection = Arc::new(Connection::new());
            self.open.lock().insert(id, Arc::clone(&connection));
            let socket = Socket::new(stream, slot, Arc::clone(&connection));
            let served = serve_connection(socket, connection, router.clone(), shutdown.clone());
            let pool = Arc::clone(&self);
            tasks.spawn(async move {
                served.await;
                pool.open.lock().remove(&id);
            });
        }
        drop(listener);
        tasks.close();
        tasks.wait().await;
    }

    /// A free slot. If there is none, closes the connection that has waited for its client the longest.
    async fn slot(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Some(slot);
        }
        loop {
            self.evict();
            let free = Arc::clone(&self.slots).acquire_owned();
            // A connection may have become idle in the meantime.
            if let Ok(slot) = timeout(CHECK_EVERY, free).await {
                return slot.ok();
            }
        }
    }

    fn evict(&self) {
        let mut open = self.open.lock();
        let waiting = open.iter().filter_map(|(id, one)| one.waiting_since().map(|since| (since, *id)));
        // A connection that is being closed is not chosen again, so it leaves the map at once.
        if let Some(longest) = waiting.min().and_then(|(_, id)| open.remove(&id)) {
            longest.close();
        }
        let now = Instant::now();
        let mut logged = self.logged.lock();
        if logged.is_none_or(|last| now.duration_since(last) >= LOG_EVERY) {
            *logged = Some(now);
            let connections = self.limits.connections;
            tracing::warn!(event = "connections_exhausted", connections, "closing the slowest connections");
        }
    }

    /// Closes connections whose deadline has passed. Never ends.
    async fn close_overdue(&self) {
        let mut check = interval(CHECK_EVERY);
        loop {
            check.tick().await;
            let now = Instant::now();
            for connection in self.open.lock().values().filter(|one| one.is_overdue(now, &self.limits)) {
                connection.close();
            }
        }
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve_connection(
    socket: Socket,
    connection: Arc<Connection>,
    router: Router,
    shutdown: CancellationToken,
) {
    let watched = Arc::clone(&connection);
    let service = service_fn(move |request| respond(request, router.clone(), Arc::clone(&watched)));
    let serving = http1::Builder::new().serve_connection(TokioIo::new(socket), service).with_upgrades();
    tokio::pin!(serving);
    let mut draining = false;
    loop {
        tokio::select! {
            // A client that breaks the protocol gets its response from hyper.
            _ended = &mut serving => return,
            () = connection.closed() => return,
            () = shutdown.cancelled(), if !draining => {
                draining = true;
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}

async fn respond(
    request: Request<Incoming>,
    router: Router,
    connection: Arc<Connection>,
) -> Result<Response, Infallible> {
    let request = if request.body().is_end_stream() {
        connection.received();
        request.map(Body::new)
    } else {
        connection.receives_body();
        let received = Arc::clone(&connection);
        request.map(|body| Body::new(WatchedBody::new(body, move || received.received())))
    };
    let response = router.oneshot(request).await?;
    Ok(response.map(|body| Body::new(WatchedBody::new(body, move || connection.responded()))))
}

#[cfg(test)]
mod tests;
