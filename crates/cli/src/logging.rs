//! What the worker says while it works: lines on standard error, as text or as JSON.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::error::CliError;

/// What is logged if nobody says otherwise.
const FILTER: &str = "info";

/// Starts logging. `filter` is in the form of `RUST_LOG`.
pub(crate) fn start(filter: Option<&str>, json: bool) -> Result<(), CliError> {
    let filter = filter.unwrap_or(FILTER);
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| CliError::Usage(format!("RUST_LOG is {filter:?}, which cannot be used: {error}")))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false);
    let started = if json { lines.json().flatten_event(true).try_init() } else { lines.try_init() };
    started.map_err(|source| CliError::Start { what: "logging", source: io::Error::other(source) })
}
