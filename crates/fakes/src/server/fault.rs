//! What goes wrong with the next request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::RETRY_AFTER;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::locked;
use super::wire::Cut;

/// What goes wrong with one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// 429 with this `Retry-After`, before anything happens.
    TurnedAway {
        /// Seconds, or a date.
        retry_after: String,
    },
    /// This status, before anything happens.
    Status(u16),
    /// It is worked on, and then answered with 500.
    BrokenAfterwards,
    /// It is worked on, and the connection is cut before the reply.
    ReplyLost,
    /// It is worked on after this long.
    Slow(Duration),
    /// It is worked on, and the reply is held back for this long.
    Held(Duration),
}

/// The faults to come, for requests that read and for those that write.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<Queues>>);

#[derive(Debug, Default)]
struct Queues {
    reads: VecDeque<Fault>,
    writes: VecDeque<Fault>,
}

impl Faults {
    /// The next GET that has no fault yet gets this one.
    pub fn on_read(&self, fault: Fault) {
        locked(&self.0).reads.push_back(fault);
    }

    /// The next request other than a GET that has no fault yet gets this one.
    pub fn on_write(&self, fault: Fault) {
        locked(&self.0).writes.push_back(fault);
    }

    fn take(&self, method: &Method) -> Option<Fault> {
        let mut queues = locked(&self.0);
        if *method == Method::GET { queues.reads.pop_front() } else { queues.writes.pop_front() }
    }
}

/// Lets a request through, or does with it what a fault says.
pub(super) async fn inject(
    State(faults): State<Faults>,
    ConnectInfo(cut): ConnectInfo<Cut>,
    request: Request,
    next: Next,
) -> Response {
    match faults.take(request.method()) {
        None => next.run(request).await,
        Some(Fault::TurnedAway { retry_after }) => {
            (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, retry_after)]).into_response()
        }
        Some(Fault::Status(status)) => {
            StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR).into_response()
        }
        Some(Fault::BrokenAfterwards) => {
            next.run(request).await;
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
        Some(Fault::ReplyLost) => {
            let response = next.run(request).await;
            cut.now();
            response
        }
        Some(Fault::Slow(pause)) => {
            tokio::time::sleep(pause).await;
            next.run(request).await
        }
        Some(Fault::Held(pause)) => {
            let response = next.run(request).await;
            tokio::time::sleep(pause).await;
            response
        }
    }
}
