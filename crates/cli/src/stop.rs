//! What ends a program that keeps running: SIGTERM, or Ctrl-C.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::CliError;

/// Hears the signals that end it.
pub(crate) struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    /// Listens from now on.
    pub(crate) fn listen() -> Result<Self, CliError> {
        let hear =
            |kind| signal(kind).map_err(|source| CliError::Start { what: "listening to signals", source });
        Ok(Self { terminate: hear(SignalKind::terminate())?, interrupt: hear(SignalKind::interrupt())? })
    }

    /// Returns at the next signal.
    pub(crate) async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
