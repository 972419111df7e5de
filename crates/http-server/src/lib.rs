//! The HTTP server of every port: it accepts connections, and limits what slow clients can hold.
//!
//! A connection is in one phase at a time: it is idle, it receives the head or the body of a request, or the server
//! works on the request. Each phase that waits for the client has a deadline. When all connections are taken, the one
//! that has waited for its client the longest is closed, so a flood of half requests cannot lock other clients out.

mod phase;
mod scan;
mod socket;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
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
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use phase::{Connection, WatchedBody};
use socket::Socket;

/// File descriptors that connections leave for the store, the log, requests to other systems, and the connections of a
/// monitoring port.
const DESCRIPTORS_RESERVED: u64 = 64 + MONITORING_CONNECTIONS_MAX;

/// More connections than one server needs; each one takes some memory.
const CONNECTIONS_MAX: u64 = 4096;

/// A scraper or a load balancer opens a few connections.
const MONITORING_CONNECTIONS_MAX: u64 = 32;

/// How often deadlines are checked. A deadline may pass by this much.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Accepting fails when file descriptors run out; wait until one is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A flood logs one event per this time.
const LOG_EVERY: Duration = Duration::from_mins(1);

/// What one server grants its clients.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    pub connections: usize,
    /// Between two requests. Longer than the idle timeout of an AWS load balancer (60 s), which reuses connections.
    pub idle: Duration,
    /// For the head of a request.
    pub head: Duration,
    /// For the body of a request.
    pub body: Duration,
    /// For a client that does not read its response.
    pub write: Duration,
}

impl ConnectionLimits {
    /// As many connections as the file descriptors of this process allow.
    pub fn for_process() -> Self {
        let descriptors = descriptors();
        // With few descriptors, half of them remain.
        let free = descriptors.saturating_sub(DESCRIPTORS_RESERVED).max(descriptors / 2);
        Self::with_connections(free.min(CONNECTIONS_MAX))
    }

    /// For a port with metrics or a health check, in a process that needs its file descriptors for other work.
    pub fn for_monitoring() -> Self {
        Self::with_connections(MONITORING_CONNECTIONS_MAX.min(descriptors() / 8))
    }

    fn with_connections(connections: u64) -> Self {
        Self {
            connections: usize::try_from(connections.max(1)).unwrap_or(usize::MAX),
            idle: Duration::from_secs(75),
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            write: Duration::from_secs(30),
        }
    }
}

/// The number of files that this process may open.
fn descriptors() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// A server in a task of its own. Dropping it closes the connections that are idle, and accepts no others.
#[derive(Debug)]
pub struct RunningServer {
    address: SocketAddr,
    _shutdown: DropGuard,
}

impl RunningServer {
    /// Serves at `listener`. Call it within a Tokio runtime.
    pub fn start(listener: TcpListener, router: Router, limits: ConnectionLimits) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let shutdown = CancellationToken::new();
        tokio::spawn(serve(listener, router, limits, shutdown.clone()));
        Ok(Self { address, _shutdown: shutdown.drop_guard() })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Serves until `shutdown`, and then until no request is open.
pub async fn serve(
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
    last_logged: Mutex<Option<Instant>>,
}

impl Pool {
    fn new(limits: ConnectionLimits) -> Self {
        Self {
            limits,
            slots: Arc::new(Semaphore::new(limits.connections)),
            open: Mutex::default(),
            last_logged: Mutex::default(),
        }
    }

    async fn accept_all(self: Arc<Self>, listener: TcpListener, router: Router, shutdown: CancellationToken) {
        let tasks = TaskTracker::new();
        for id in 0.. {
            let accepted = async {
                let stream = accept(&listener).await;
                (stream, self.acquire_slot().await)
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
    async fn acquire_slot(&self) -> Option<OwnedSemaphorePermit> {
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
        let mut logged = self.last_logged.lock();
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
        connection.on_request_complete();
        request.map(Body::new)
    } else {
        connection.on_body_start();
        let reading = Arc::clone(&connection);
        request.map(|body| Body::new(WatchedBody::new(body, move || reading.on_request_complete())))
    };
    let response = router.oneshot(request).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        connection.on_upgrade();
    }
    Ok(response.map(|body| Body::new(WatchedBody::new(body, move || connection.on_response_complete()))))
}

#[cfg(test)]
mod tests;
