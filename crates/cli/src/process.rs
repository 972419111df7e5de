//! The exit codes of the process, which scripts rely on and `--help` lists.

use std::process::ExitCode;

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
