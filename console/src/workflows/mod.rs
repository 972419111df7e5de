//! The workflows in use, their versions, and what policy would say about them.

mod dry_run;
mod list;
mod show;

use domain::Applied;

pub(crate) use list::list;
pub(crate) use show::{show, show_version, try_out, try_out_version};

/// What starts runs of a workflow.
fn started_by(workflow: &Applied) -> String {
    workflow.triggered_by.as_ref().map_or("people and programs".to_owned(), |by| by.source.to_string())
}
