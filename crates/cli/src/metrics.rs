//! What a process has counted, told at an address of its own if somebody wants it.

use std::io;
use std::net::SocketAddr;

use engine::metrics::exporter::{Meter, Serving};

use crate::error::CliError;
use crate::front::listen::bound;

/// What could not be started, if it could not.
const WHAT: &str = "the metrics";

/// Where it is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Metrics {
    /// Tell what is counted at http://ADDR:PORT/metrics, as Prometheus reads it. It names tenants and asks for no
    /// key: name an address that only your network reaches
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
}

impl Metrics {
    /// Tells it as long as what this returns lives, if somebody wants it.
    pub(crate) async fn start(&self) -> Result<Option<Serving>, CliError> {
        let Some(address) = self.metrics else { return Ok(None) };
        let listener = bound(address, "--metrics", WHAT).await?;
        let failed = |source| CliError::Start { what: WHAT, source };
        let meter = Meter::start().map_err(|error| failed(io::Error::other(error)))?;
        let serving = meter.serve(listener).map_err(failed)?;
        tracing::info!(url = serving.url(), "what is counted is told");
        Ok(Some(serving))
    }
}
