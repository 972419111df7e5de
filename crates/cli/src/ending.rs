//! How the program ends: the exit codes, which scripts rely on.

use std::process::ExitCode;

/// How the program ends. The numbers stand in `--help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It was done.
    Done,
    /// It was refused, or what was watched did not end well.
    NotDone,
    /// What was typed, or a file it names, is wrong.
    BadInput,
    /// The store could not be used.
    NoStore,
    /// The watched run waits for an operator.
    Paused,
}

impl Ending {
    /// The number that a shell sees.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::NotDone => 1,
            Self::BadInput => 2,
            Self::NoStore => 3,
            Self::Paused => 4,
        }
    }

    /// Done if `holds`, else not.
    pub(crate) fn done_if(holds: bool) -> Self {
        if holds { Self::Done } else { Self::NotDone }
    }
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        ending.number().into()
    }
}
