//! The same doors as functions on AWS Lambda, behind an HTTP API.
//!
//! Each function builds its clients once, when it is started, and then serves one request after the other.
//! None of them is fed by a queue, so there are no batches of which a part could fail: what comes in goes
//! through the engine into the queue, and the workers take it from there.

mod event;
mod sources;

use std::sync::Arc;

use ::slack::signature::{SIGNATURE_HEADER, TIMESTAMP_HEADER};
use config::{LookUp, Systems};
use connectors::Toolbox;
use domain::WorkerId;
use engine::{Engine, Parts, Swept, Timing};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde::de::IgnoredAny;
use serde_json::json;
use store::{Store, SystemClock};
use tracing_subscriber::EnvFilter;

use crate::sweep::sweep;
use ingress::described;
use ingress::http::Response;
use ingress::slack::{self, SlackInstallations};
use ingress::webhook::{self, WebhookAuth};

pub use event::{HttpEvent, HttpReply};
pub use ingress::described::InvalidSources;
pub use sources::doors;

/// What is logged if nobody says otherwise.
const FILTER: &str = "info";

/// Logs lines of JSON, which is what the log service can search. It adds the time itself.
pub fn log(filter: Option<&str>) {
    let filter = EnvFilter::new(filter.unwrap_or(FILTER));
    tracing_subscriber::fmt().json().without_time().with_env_filter(filter).init();
}

/// An engine that takes things in and acts on nothing outside. `name` and some chance make its own name: no
/// two processes may have the same.
pub fn engine<S: Store>(store: S, name: &str) -> Result<Engine<S>, Error> {
    let mut chance = [0; 8];
    getrandom::fill(&mut chance)?;
    let me = WorkerId::new(&format!("{name}-{:016x}", u64::from_be_bytes(chance)))?;
    Ok(Engine::new(Parts {
        store: Arc::new(store),
        tools: Toolbox::default(),
        clock: Arc::new(SystemClock),
        me,
        timing: Timing::default(),
        shows: None,
        sealing: None,
    }))
}

/// The doors of every tenant's Slack, as `systems` describes them.
pub fn slack_installations(systems: &Systems, look_up: LookUp<'_>) -> Result<SlackInstallations, Error> {
    systems.slack(look_up)?.ok_or("the systems have no Slack")?;
    Ok(described::slack_installations(systems, look_up)?)
}

/// Serves the webhook function.
pub async fn serve_webhook<S: Store>(engine: Engine<S>, doors: WebhookAuth) -> Result<(), Error> {
    let serve = async |event: LambdaEvent<HttpEvent>| {
        Ok::<_, Error>(HttpReply::from(Box::pin(on_webhook(&engine, &doors, &event.payload)).await))
    };
    run(service_fn(serve)).await
}

/// Serves the Slack function.
pub async fn serve_slack<S: Store>(engine: Engine<S>, doors: SlackInstallations) -> Result<(), Error> {
    let serve = async |event: LambdaEvent<HttpEvent>| {
        Ok::<_, Error>(HttpReply::from(Box::pin(on_slack(&engine, &doors, &event.payload)).await))
    };
    run(service_fn(serve)).await
}

/// Serves the sweep, whatever the schedule says beside the time.
pub async fn serve_sweep<S: Store>(engine: Engine<S>) -> Result<(), Error> {
    let serve = async |_: LambdaEvent<IgnoredAny>| {
        let Swept { sent, woken, scheduled } = Box::pin(sweep(&engine)).await?;
        Ok::<_, Error>(json!({ "sent": sent, "woken": woken, "scheduled": scheduled }))
    };
    run(service_fn(serve)).await
}

/// What the webhook function replies to one request.
pub async fn on_webhook<S: Store>(engine: &Engine<S>, doors: &WebhookAuth, event: &HttpEvent) -> Response {
    if event.bytes_min() > webhook::BODY_BYTES_MAX {
        return webhook::too_large();
    }
    let ([.., "webhook", source, tenant], Some(body)) = (&*event.path(), event.raw_body()) else {
        return webhook::unproved();
    };
    let request = webhook::Request { source, tenant, headers: event.headers(), body: &body };
    webhook::deliver(engine, doors, request).await
}

/// What the Slack function replies to one request.
pub async fn on_slack<S: Store>(
    engine: &Engine<S>,
    doors: &SlackInstallations,
    event: &HttpEvent,
) -> Response {
    let ([.., "slack", what, tenant], Some(body)) = (&*event.path(), event.raw_body()) else {
        return slack::unsigned();
    };
    let door = match doors.of(tenant) {
        Ok(door) => door,
        Err(response) => return response,
    };
    let headers = event.headers();
    let (timestamp, signature) = (headers.only(TIMESTAMP_HEADER), headers.only(SIGNATURE_HEADER));
    let request = slack::Request { timestamp, signature, body: &body };
    match *what {
        "interactions" => Box::pin(slack::interaction(engine, door, request)).await,
        "commands" => slack::command(engine, door, request).await,
        _ => slack::unsigned(),
    }
}
