//! The workflows in use, their versions, and what policy would say about them.

mod dry_run;
mod list;
mod show;
mod start;

use api::Problem;
use domain::Applied;
use serde_json::Value;

pub(crate) use list::list;
pub(crate) use show::{show, show_version, start, try_out, try_out_version};

/// What is typed or pasted into a form; the API takes whole inputs.
const TYPED_BYTES_MAX: usize = 64 * 1024;

/// What somebody typed as JSON. Nothing typed is an empty object.
fn json(what: &str, text: &str) -> Result<Value, Problem> {
    if text.len() > TYPED_BYTES_MAX {
        return Err(Problem::bad_request(format!("{what} has more than {TYPED_BYTES_MAX} bytes")));
    }
    let text = if text.trim().is_empty() { "{}" } else { text };
    domain::json::parse(text.as_bytes()).map_err(|error| Problem::bad_request(format!("{what}: {error}")))
}

/// What starts runs of a workflow.
fn started_by(workflow: &Applied) -> String {
    workflow.triggered_by.as_ref().map_or("people and programs".to_owned(), |by| by.source.to_string())
}
