//! What happened in a run, and the proof of it.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use domain::{Event, RunId};
use serde::Deserialize;
use store::Store;
use views::event_document;

use crate::Shared;
use crate::at::Viewer;
use crate::extract::{Asked, Named};
use crate::page;
use crate::problem::Problem;
use api_types::{self, Events, Receipts, Verification};

/// What a bundle is: an envelope around a document, as DSSE has it.
pub(crate) const KIND: &str = "application/vnd.dsse+json";

/// Which part of a chain is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    after: Option<u32>,
    limit: Option<String>,
}

/// The chain, as it is stored.
pub(crate) async fn events<S: Store>(
    Viewer { handle, .. }: Viewer<S>,
    Named(run): Named<RunId>,
    Asked(part): Asked<Part>,
) -> Result<Json<Events>, Problem> {
    let limit = page::limit(part.limit.as_deref())?;
    let record = handle.record(&run).await?;
    let plan = handle.plan(&record).await?;
    let from = part.after.map_or(0, |after| after.saturating_add(1));
    let mut events = Vec::new();
    // The store counts from 0 to the largest number there is; nothing stands behind that.
    if from < record.events {
        for stored in handle.events(&run, from, limit).await? {
            let event: Event =
                serde_json::from_slice(&stored.canonical).map_err(|error| unreadable(&error))?;
            events.push(api_types::Event { hash: Some(stored.hash), ..event_document(plan.plan(), &event) });
        }
    }
    let last = events.last().map(|event| event.n);
    let next = last.filter(|last| last.saturating_add(1) < record.events);
    Ok(Json(Events { events, total: record.events, next }))
}

fn unreadable(error: &serde_json::Error) -> Problem {
    tracing::error!(%error, "an entry of a chain cannot be read");
    Problem::new(StatusCode::CONFLICT, "CHAIN_BROKEN", "an entry of the chain cannot be read")
        .remedy("somebody or something changed what was stored; the evidence of the run will not verify")
}

/// What was attempted outside.
pub(crate) async fn receipts<S: Store>(
    Viewer { handle, .. }: Viewer<S>,
    Named(run): Named<RunId>,
) -> Result<Json<Receipts>, Problem> {
    Ok(Json(Receipts { receipts: handle.receipts(&run).await? }))
}

/// The evidence, as it was recorded.
pub(crate) async fn download<S: Store>(
    Viewer { handle, .. }: Viewer<S>,
    Named(run): Named<RunId>,
) -> Result<Response, Problem> {
    let (evidence, bytes) = handle.evidence(&run).await?;
    let sha256 = evidence.bundle.sha256;
    let headers = [
        (header::CONTENT_TYPE, KIND.to_owned()),
        (header::ETAG, format!("\"{sha256}\"")),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{run}.bundle\"")),
    ];
    let digest = format!("sha-256=:{}:", BASE64.encode(sha256.as_bytes()));
    Ok((headers, [("repr-digest", digest)], bytes).into_response())
}

/// Whether the evidence is genuine.
pub(crate) async fn verification<S: Store>(
    State(api): State<Shared<S>>,
    Viewer { handle, .. }: Viewer<S>,
    Named(run): Named<RunId>,
) -> Result<Json<Verification>, Problem> {
    let (recorded, bytes) = handle.evidence(&run).await?;
    let Some(key) = &api.verifies else {
        return Err(Problem::new(
            StatusCode::CONFLICT,
            "NO_PUBLIC_KEY",
            "this server was given no public key to verify evidence with",
        )
        .remedy("download the evidence, and verify it with `countersign bundle verify --key …`"));
    };
    let found = evidence::verify(&bytes, key);
    Ok(Json(Verification {
        verified: found.is_ok(),
        summary: found.as_ref().ok().map(evidence::Verified::summary),
        fault: found.err().map(|fault| engine::told(&fault)),
        key: key.id(),
        sha256: recorded.bundle.sha256,
        index: recorded.index,
        run,
    }))
}
