//! The ingress handlers as AWS Lambda functions behind an API Gateway HTTP API.
//!
//! Each function builds its clients once at start and then serves one request at a time. No queue invokes them, so there
//! are no partial batch failures: the engine stores each event and sends a message, and the workers process it.

mod event;
mod sources;

use std::sync::Arc;

use connectors::ToolRegistry;
use domain::WorkerId;
use engine::{ConnectionParts, Engine, EngineParts, SweepResult, Timing};
use http::Response;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde::de::IgnoredAny;
use serde_json::json;
use store::{Store, SystemClock};
use tracing_subscriber::EnvFilter;

use crate::sweep;
use ingress::slack::{self, SlackInstallations};
use ingress::webhook::{self, WebhookAuth};

pub use event::{HttpEvent, HttpReply};
pub use ingress::configured::{InvalidSources, slack_installations};
pub use sources::webhook_auth;

const DEFAULT_FILTER: &str = "info";

/// Logs JSON lines, which `CloudWatch` can query. `CloudWatch` adds the time.
pub fn log(filter: Option<&str>) {
    let filter = EnvFilter::new(filter.unwrap_or(DEFAULT_FILTER));
    tracing_subscriber::fmt().json().without_time().with_env_filter(filter).init();
}

/// An engine without tools. Its worker id is `name` and a random suffix, because worker ids must be unique.
pub fn engine<S: Store>(store: S, name: &str) -> Result<Engine<S>, Error> {
    let mut random = [0; 8];
    getrandom::fill(&mut random)?;
    let me = WorkerId::new(&format!("{name}-{:016x}", u64::from_be_bytes(random)))?;
    Ok(Engine::new(EngineParts {
        store: Arc::new(store),
        tools: ToolRegistry::default(),
        connections: ConnectionParts::default(),
        clock: Arc::new(SystemClock),
        me,
        timing: Timing::default(),
        notifier: None,
        evidence_signer: None,
    }))
}

pub async fn serve_webhook<S: Store>(engine: Engine<S>, auth: WebhookAuth) -> Result<(), Error> {
    let serve = async |event: LambdaEvent<HttpEvent>| {
        Ok::<_, Error>(HttpReply::from(Box::pin(on_webhook(&engine, &auth, &event.payload)).await))
    };
    run(service_fn(serve)).await
}

pub async fn serve_slack<S: Store>(
    engine: Engine<S>,
    installations: SlackInstallations,
) -> Result<(), Error> {
    let serve = async |event: LambdaEvent<HttpEvent>| {
        Ok::<_, Error>(HttpReply::from(Box::pin(on_slack(&engine, &installations, &event.payload)).await))
    };
    run(service_fn(serve)).await
}

/// Serves the sweep function. The payload of the schedule is ignored.
pub async fn serve_sweep<S: Store>(engine: Engine<S>) -> Result<(), Error> {
    let serve = async |_: LambdaEvent<IgnoredAny>| {
        let SweepResult { sent, woken, scheduled } = Box::pin(sweep(&engine)).await?;
        Ok::<_, Error>(json!({ "sent": sent, "woken": woken, "scheduled": scheduled }))
    };
    run(service_fn(serve)).await
}

/// Handles one webhook request.
pub async fn on_webhook<S: Store>(
    engine: &Engine<S>,
    auth: &WebhookAuth,
    event: &HttpEvent,
) -> Response<String> {
    if event.bytes_min() > webhook::BODY_BYTES_MAX {
        return webhook::too_large(auth, event.path());
    }
    match event.to_request() {
        Some(request) => webhook::deliver(engine, auth, &request).await,
        None => webhook::unauthenticated(),
    }
}

/// Handles one Slack request.
pub async fn on_slack<S: Store>(
    engine: &Engine<S>,
    installations: &SlackInstallations,
    event: &HttpEvent,
) -> Response<String> {
    match event.to_request() {
        Some(request) => slack::handle(engine, installations, &request).await,
        None => slack::unsigned(),
    }
}
