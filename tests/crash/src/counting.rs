//! A service that honors idempotency keys and counts requests and effects.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use testkit::{HttpStub, StubReply};

#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Requests by key.
    pub requests: BTreeMap<String, u32>,
    /// Keys whose effect happened. A caller that repeats an effect under another key adds a second entry.
    pub effects: BTreeSet<String>,
}

impl Counts {
    /// Counts a request; returns the number of requests for its key. A repeated key gets the same reply as the first
    /// request.
    fn add(&mut self, key: &str) -> u32 {
        self.effects.insert(key.to_owned());
        let requests = self.requests.entry(key.to_owned()).or_default();
        *requests += 1;
        *requests
    }
}

/// The service. It serves until the process ends.
#[derive(Debug, Clone)]
pub struct CountingService {
    stub: HttpStub,
    counts: Arc<Mutex<Counts>>,
}

impl CountingService {
    /// Serves on a free port of the loopback interface.
    pub fn serve() -> Self {
        Self::serve_with(|_| ())
    }

    /// Like `serve`, but calls `on_request` with the number of requests for the key, after the effect and before the
    /// reply.
    pub fn serve_with(on_request: impl Fn(u32) + Send + Sync + 'static) -> Self {
        let counts = Arc::new(Mutex::new(Counts::default()));
        let counted = Arc::clone(&counts);
        let stub = HttpStub::start(move |request| {
            let requests = counted.lock().add(request.header("idempotency-key").unwrap_or_default());
            on_request(requests);
            StubReply::json(200, "{\"ok\":true}")
        });
        Self { stub, counts }
    }

    pub fn address(&self) -> SocketAddr {
        self.stub.address()
    }

    pub fn counts(&self) -> Counts {
        self.counts.lock().clone()
    }
}
