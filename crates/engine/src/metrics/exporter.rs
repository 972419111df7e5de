//! Serves the metrics of this process for Prometheus.
//!
//! Each process counts for itself, and its counts end with it, as Prometheus expects. The metrics name tenants, and
//! the endpoint has no authentication: bind it to an address that only the operator's network reaches.

use std::time::Duration;

use crate::metrics;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use http_server::{ConnectionLimits, RunningServer};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::sleep;

const PATH: &str = "/metrics";

/// Version 0.0.4 of the text format, which every scraper reads.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How often single durations are moved into their buckets, so that they do not accumulate without a scraper.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// The recorder could not be installed; most likely one is installed already.
#[derive(Debug, thiserror::Error)]
#[error("the metrics recorder could not be installed")]
pub struct RecorderError(#[from] BuildError);

/// The metrics recorder of this process.
#[derive(Debug)]
pub struct Meter {
    handle: PrometheusHandle,
    upkeep: JoinHandle<()>,
}

impl Meter {
    /// Installs the recorder. Call it within a Tokio runtime.
    pub fn start() -> Result<Self, RecorderError> {
        let durations = Matcher::Full(metrics::RUN_DURATION.to_owned());
        let builder =
            PrometheusBuilder::new().set_buckets_for_metric(durations, &metrics::DURATION_BOUNDS)?;
        let handle = builder.install_recorder()?;
        metrics::describe();
        let upkeep_handle = handle.clone();
        let upkeep = tokio::spawn(async move {
            loop {
                sleep(UPKEEP_EVERY).await;
                upkeep_handle.run_upkeep();
            }
        });
        Ok(Self { handle, upkeep })
    }

    /// Serves the metrics at this listener until the result is dropped.
    pub fn serve(self, listener: TcpListener) -> std::io::Result<Serving> {
        let handle = self.handle.clone();
        let routes = Router::new().route(PATH, get(async move || ([(CONTENT_TYPE, TEXT)], handle.render())));
        let server = RunningServer::start(listener, routes, ConnectionLimits::for_monitoring())?;
        Ok(Serving { server, _meter: self })
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.upkeep.abort();
    }
}

#[derive(Debug)]
pub struct Serving {
    server: RunningServer,
    _meter: Meter,
}

impl Serving {
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.server.address())
    }
}
