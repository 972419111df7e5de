//! Fault injection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::RETRY_AFTER;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;

use super::wire::Cut;

/// A fault for one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FakeFault {
    /// Status 429 with this `Retry-After`. The request is not processed.
    RateLimited {
        /// Seconds or a date.
        retry_after: String,
    },
    /// This status. The request is not processed.
    Status(u16),
    /// The request is processed, and then answered with status 500.
    ErrorAfterEffect,
    /// The request is processed, and the connection is closed before the reply.
    LostReply,
    /// The request is processed after this delay.
    Slow(Duration),
    /// The request is processed, and the reply is sent after this delay.
    DelayedReply(Duration),
}

/// Queued faults, separately for reads (GET) and writes.
#[derive(Debug, Clone, Default)]
pub struct FakeFaults(Arc<Mutex<Queues>>);

#[derive(Debug, Default)]
struct Queues {
    reads: VecDeque<FakeFault>,
    writes: VecDeque<FakeFault>,
}

impl FakeFaults {
    /// Queues a fault for a GET request.
    pub fn on_read(&self, fault: FakeFault) {
        self.0.lock().reads.push_back(fault);
    }

    /// Queues a fault for a request with another method.
    pub fn on_write(&self, fault: FakeFault) {
        self.0.lock().writes.push_back(fault);
    }

    fn take(&self, method: &Method) -> Option<FakeFault> {
        let mut queues = self.0.lock();
        if *method == Method::GET { queues.reads.pop_front() } else { queues.writes.pop_front() }
    }
}

/// Applies the next queued fault, if any.
pub(super) async fn inject(
    State(faults): State<FakeFaults>,
    ConnectInfo(cut): ConnectInfo<Cut>,
    request: Request,
    next: Next,
) -> Response {
    match faults.take(request.method()) {
        None => next.run(request).await,
        Some(FakeFault::RateLimited { retry_after }) => {
            (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, retry_after)]).into_response()
        }
        Some(FakeFault::Status(status)) => {
            StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR).into_response()
        }
        Some(FakeFault::ErrorAfterEffect) => {
            next.run(request).await;
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
        Some(FakeFault::LostReply) => {
            let response = next.run(request).await;
            cut.now();
            response
        }
        Some(FakeFault::Slow(pause)) => {
            tokio::time::sleep(pause).await;
            next.run(request).await
        }
        Some(FakeFault::DelayedReply(pause)) => {
            let response = next.run(request).await;
            tokio::time::sleep(pause).await;
            response
        }
    }
}
