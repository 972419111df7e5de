//! How the process ends: its exit codes, which scripts rely on and `--help` lists, and the signals.

use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::CliError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    Success,
    /// The command was refused, or the watched run did not succeed.
    Failure,
    /// The command line, a file or an input is invalid.
    BadInput,
    /// The store or the server is unavailable.
    Unavailable,
    /// The watched run is paused.
    Paused,
}

impl ExitStatus {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::BadInput => 2,
            Self::Unavailable => 3,
            Self::Paused => 4,
        }
    }

    pub(crate) fn success_if(condition: bool) -> Self {
        if condition { Self::Success } else { Self::Failure }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        status.code().into()
    }
}

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
