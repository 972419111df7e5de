//! What a process has counted, where Prometheus can ask for it.
//!
//! What is counted is settled in `engine::metrics`. It is counted by each process for itself and forgotten with it, as
//! Prometheus expects; the ledger knows how things stand. The answer names tenants, and whoever can reach it may read it:
//! it belongs on an address that only the operator's network reaches.

use std::net::SocketAddr;
use std::time::Duration;

use crate::metrics;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Where it is asked.
const PATH: &str = "/metrics";

/// Version 0.0.4 of the text format, which everything that scrapes reads.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How often single durations are put into their buckets, so that they do not pile up where nobody asks.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Nothing can be counted: most likely because the process counts already.
#[derive(Debug, thiserror::Error)]
#[error("what is counted cannot be kept")]
pub struct NotCounting(#[from] BuildError);

/// Keeps what is counted in this process. There is one of them.
#[derive(Debug)]
pub struct Meter {
    kept: PrometheusHandle,
    upkeep: JoinHandle<()>,
}

impl Meter {
    /// Counts from now on. To be called within a runtime.
    pub fn start() -> Result<Self, NotCounting> {
        let durations = Matcher::Full(metrics::RUN_DURATION.to_owned());
        let builder =
            PrometheusBuilder::new().set_buckets_for_metric(durations, &metrics::DURATION_BOUNDS)?;
        let kept = builder.install_recorder()?;
        metrics::describe();
        let tidied = kept.clone();
        let upkeep = tokio::spawn(async move {
            loop {
                sleep(UPKEEP_EVERY).await;
                tidied.run_upkeep();
            }
        });
        Ok(Self { kept, upkeep })
    }

    /// Tells it at an address of its own, as long as what this returns lives.
    pub fn serve(self, listener: TcpListener) -> std::io::Result<Serving> {
        let address = listener.local_addr()?;
        let kept = self.kept.clone();
        let routes = Router::new().route(PATH, get(async move || ([(CONTENT_TYPE, TEXT)], kept.render())));
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, routes).await {
                tracing::error!(%error, "nobody can ask what is counted any more");
            }
        });
        Ok(Serving { address, task, _meter: self })
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.upkeep.abort();
    }
}

/// Answers as long as this lives.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    task: JoinHandle<()>,
    _meter: Meter,
}

impl Serving {
    /// Where it is asked.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}
