//! Logs on standard error, as text or as JSON, and the Prometheus endpoint.

use std::io;
use std::net::SocketAddr;

use engine::metrics::exporter::{Meter, Serving};
use tracing_subscriber::EnvFilter;

use crate::error::CliError;
use crate::http_server::listen::bind;

const FILTER_DEFAULT: &str = "info";

/// The name of the metrics endpoint in errors.
const METRICS: &str = "the metrics endpoint";

/// Starts logging. `filter` has the syntax of `RUST_LOG`.
pub(crate) fn start_logging(filter: Option<&str>, json: bool) -> Result<(), CliError> {
    let filter = filter.unwrap_or(FILTER_DEFAULT);
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| CliError::Usage(format!("RUST_LOG={filter:?} is invalid: {error}")))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false);
    let started = if json { lines.json().flatten_event(true).try_init() } else { lines.try_init() };
    started.map_err(|source| CliError::Start { what: "logging", source: io::Error::other(source) })
}

#[derive(Debug, clap::Args)]
pub(crate) struct Metrics {
    /// Serve Prometheus metrics at http://ADDR:PORT/metrics. They name tenants and need no key, so use an address that
    /// only your network reaches
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
}

impl Metrics {
    /// Starts the endpoint, if an address is set. It stops when the returned value is dropped.
    pub(crate) async fn start(&self) -> Result<Option<Serving>, CliError> {
        let Some(address) = self.metrics else { return Ok(None) };
        let listener = bind(address, "--metrics", METRICS).await?;
        let failed = |source| CliError::Start { what: METRICS, source };
        let meter = Meter::start().map_err(|error| failed(io::Error::other(error)))?;
        let serving = meter.serve(listener).map_err(failed)?;
        tracing::info!(event = "metrics_started", url = serving.url(), "metrics endpoint started");
        Ok(Some(serving))
    }
}
