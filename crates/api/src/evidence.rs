//! Events, receipts and evidence of a run.

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
use crate::extract::{PathParam, QueryParams};
use crate::page;
use crate::problem::ApiError;
use crate::role_guard::Viewer;
use api_types::{self, Events, Receipts, Verification};

/// The content type of an evidence bundle: a DSSE envelope.
pub(crate) const KIND: &str = "application/vnd.dsse+json";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    after: Option<u32>,
    limit: Option<String>,
}

/// The chain as it is stored.
pub(crate) async fn events<S: Store>(
    Viewer { handle, .. }: Viewer<S>,
    PathParam(run): PathParam<RunId>,
    QueryParams(part): QueryParams<Part>,
) -> Result<Json<Events>, ApiError> {
    let limit = page::limit(part.limit.as_deref())?;
    let record = handle.record(&run).await?;
    let plan = handle.plan_of(&record).await?;
    let from = part.after.map_or(0, |after| after.saturating_add(1));
    let mut events = Vec::new();
    // `from` saturates at the largest number, which the store would accept.
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

fn unreadable(error: &serde_json::Error) -> ApiError {
    tracing::error!(event = "chain_unreadable", %error, "event of a chain cannot be read");
    ApiError::new(StatusCode::CONFLICT, "CHAIN_BROKEN", "an event of the chain cannot be read").remedy(
        "stored data was altered; restore the store from a backup. The evidence of the run will not verify",
    )
}

/// The attempted effects.
pub(crate) async fn receipts<S: Store>(
    Viewer { handle, .. }: Viewer<S>,
    PathParam(run): PathParam<RunId>,
) -> Result<Json<Receipts>, ApiError> {
    Ok(Json(Receipts { receipts: handle.receipts(&run).await? }))
}

/// The evidence file.
pub(crate) async fn download<S: Store>(
    Viewer { handle, .. }: Viewer<S>,
    PathParam(run): PathParam<RunId>,
) -> Result<Response, ApiError> {
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

/// Verifies the evidence.
pub(crate) async fn verification<S: Store>(
    State(api): State<Shared<S>>,
    Viewer { handle, .. }: Viewer<S>,
    PathParam(run): PathParam<RunId>,
) -> Result<Json<Verification>, ApiError> {
    let (recorded, bytes) = handle.evidence(&run).await?;
    let Some(keys) = &api.trusted_keys else {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "NO_PUBLIC_KEY",
            "the server has no public key to verify evidence with",
        )
        .remedy("download the evidence and verify it with `countersign bundle verify --key …`"));
    };
    let key = keys.signer_of(&bytes);
    let result = evidence::verify(&bytes, key);
    Ok(Json(Verification {
        verified: result.is_ok(),
        summary: result.as_ref().ok().map(evidence::Verified::summary),
        error: result.err().map(|error| engine::error_chain(&error)),
        key_id: key.id(),
        sha256: recorded.bundle.sha256,
        index: recorded.index,
        run,
    }))
}
