//! Workflows: their versions, starting runs, and dry runs of policy.

mod dry_run;
mod list;
mod show;
mod start;

use api::ApiError;
use domain::AppliedWorkflow;
use serde_json::Value;

pub(crate) use list::list;
pub(crate) use show::{dry_run_form, dry_run_version, show, show_version, start};

/// The size limit of JSON in a form. The API accepts larger inputs.
const JSON_BYTES_MAX: usize = 64 * 1024;

/// Parses JSON from a form. An empty field is an empty object.
fn json(name: &str, text: &str) -> Result<Value, ApiError> {
    if text.len() > JSON_BYTES_MAX {
        return Err(ApiError::bad_request(format!("{name} has more than {JSON_BYTES_MAX} bytes")));
    }
    let text = if text.trim().is_empty() { "{}" } else { text };
    domain::json::parse(text.as_bytes()).map_err(|error| ApiError::bad_request(format!("{name}: {error}")))
}

/// The trigger of a workflow.
fn trigger(workflow: &AppliedWorkflow) -> String {
    workflow.triggered_by.as_ref().map_or("manual or API".to_owned(), |by| by.source.to_string())
}
