//! The signals that end a long-running command.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::CliError;

/// SIGTERM and Ctrl-C, which end a long-running command.
pub(crate) struct ShutdownSignal {
    terminate: Signal,
    interrupt: Signal,
}

impl ShutdownSignal {
    /// Handles the signals from now on.
    pub(crate) fn listen() -> Result<Self, CliError> {
        let handle =
            |kind| signal(kind).map_err(|source| CliError::Start { what: "the signal handler", source });
        Ok(Self { terminate: handle(SignalKind::terminate())?, interrupt: handle(SignalKind::interrupt())? })
    }

    /// Waits for the next signal and returns its name.
    pub(crate) async fn recv(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
