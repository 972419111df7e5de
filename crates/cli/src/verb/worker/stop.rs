//! What makes a worker leave: a signal, or nothing left to do.

use store::SqliteStore;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::CliError;

use super::idle::idle;

/// Hears what makes a worker leave.
pub(super) struct Stop {
    terminate: Signal,
    interrupt: Signal,
    until_idle: Option<SqliteStore>,
}

impl Stop {
    /// Listens to signals, and looks into `until_idle` for whether anything is left to do, if that counts.
    pub(super) fn listen(until_idle: Option<SqliteStore>) -> Result<Self, CliError> {
        let hear =
            |kind| signal(kind).map_err(|source| CliError::Start { what: "listening to signals", source });
        Ok(Self {
            terminate: hear(SignalKind::terminate())?,
            interrupt: hear(SignalKind::interrupt())?,
            until_idle,
        })
    }

    /// Returns, with the reason, when the worker should leave.
    pub(super) async fn asked(&mut self) -> &'static str {
        let until_idle = self.until_idle.clone();
        let nothing_left = async {
            match until_idle {
                Some(store) => idle(&store).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            () = nothing_left => "nothing is left to do",
        }
    }

    /// Returns when a signal says not to wait any longer.
    pub(super) async fn asked_again(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
