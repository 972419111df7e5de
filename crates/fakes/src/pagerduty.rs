//! A fake `PagerDuty` service with the Events API v2.
//!
//! It has one routing key, refuses every other one, and deduplicates events as `PagerDuty` does.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::server::{ErrorReply, FakeFaults, Server};

#[derive(Debug)]
pub struct FakePagerDuty {
    server: Server,
    state: Arc<PagerState>,
    faults: FakeFaults,
}

#[derive(Debug)]
struct PagerState {
    routing_key: String,
    is_down: AtomicBool,
    /// Whether the incident of each deduplication key is open.
    incidents: Mutex<BTreeMap<String, bool>>,
    events: Mutex<Vec<Value>>,
}

impl FakePagerDuty {
    /// Starts a service with this routing key on a free port.
    pub async fn start(routing_key: &str) -> io::Result<Self> {
        let state = Arc::new(PagerState {
            routing_key: routing_key.to_owned(),
            is_down: AtomicBool::new(false),
            incidents: Mutex::default(),
            events: Mutex::default(),
        });
        let router = Router::new().route("/v2/enqueue", post(enqueue)).with_state(Arc::clone(&state));
        let faults = FakeFaults::default();
        Ok(Self { server: Server::start(router, &faults).await?, state, faults })
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Faults to inject into the next requests.
    pub fn faults(&self) -> &FakeFaults {
        &self.faults
    }

    /// Answers every request with status 503 until it is up again.
    pub fn set_down(&self, is_down: bool) {
        self.state.is_down.store(is_down, Ordering::SeqCst);
    }

    /// The accepted events, oldest first.
    pub fn events(&self) -> Vec<Value> {
        self.state.events.lock().clone()
    }

    /// The deduplication keys of the open incidents.
    pub fn open_incidents(&self) -> Vec<String> {
        let incidents = self.state.incidents.lock();
        incidents.iter().filter(|(_, is_open)| **is_open).map(|(key, _)| key.clone()).collect()
    }
}

async fn enqueue(State(state): State<Arc<PagerState>>, Json(event): Json<Value>) -> Response {
    if state.is_down.load(Ordering::SeqCst) {
        return ErrorReply(StatusCode::SERVICE_UNAVAILABLE, "The service is down").into_response();
    }
    if event["routing_key"] != state.routing_key.as_str() {
        return ErrorReply(StatusCode::BAD_REQUEST, "Invalid routing key").into_response();
    }
    let (Some(action), Some(key)) = (event["event_action"].as_str(), event["dedup_key"].as_str()) else {
        return ErrorReply(StatusCode::BAD_REQUEST, "The event is invalid").into_response();
    };
    match action {
        "trigger" if event["payload"]["summary"].is_string() => {
            state.incidents.lock().insert(key.to_owned(), true);
        }
        // An unknown key is accepted.
        "resolve" => {
            state.incidents.lock().entry(key.to_owned()).and_modify(|is_open| *is_open = false);
        }
        _ => return ErrorReply(StatusCode::BAD_REQUEST, "The event is invalid").into_response(),
    }
    let reply = json!({ "status": "success", "dedup_key": key });
    state.events.lock().push(event);
    (StatusCode::ACCEPTED, Json(reply)).into_response()
}
