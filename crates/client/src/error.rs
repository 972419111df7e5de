//! Why something was not done, or could not be found out.

use std::fmt;

use api_types::Place;
use serde::Deserialize;

/// A no of the server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// Names the kind of problem for programs.
    pub code: String,
    /// What is wrong, in a sentence.
    pub detail: String,
    /// What to do about it; empty if that goes without saying.
    #[serde(default)]
    pub remedy: String,
    /// Where in a file it is wrong.
    #[serde(default)]
    pub place: Option<Place>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server said no.
    #[error("{0}")]
    Refused(Problem),
    /// The server cannot be spoken to in this way.
    #[error("{url} cannot be used: {why}")]
    BadServer {
        /// Its address.
        url: String,
        /// Why not.
        why: &'static str,
    },
    /// No connection came to stand; nothing was sent.
    #[error("{server} cannot be reached")]
    Unreachable {
        /// Which server.
        server: String,
        /// Why not.
        #[source]
        source: reqwest::Error,
    },
    /// It was sent, and no answer came: nobody knows whether it was done.
    #[error("{server} did not answer, and nobody knows whether it was done")]
    NoAnswer {
        /// Which server.
        server: String,
        /// What happened instead.
        #[source]
        source: reqwest::Error,
    },
    /// What stands before the server answered in its place: nobody knows whether it was done.
    #[error(
        "what stands before {server} answered with HTTP status {status}, and nobody knows whether it was done"
    )]
    Between {
        /// Which server.
        server: String,
        /// What it answered with.
        status: u16,
    },
    /// What answered does not speak this API.
    #[error("the answer is none of this API: {0}")]
    Unreadable(String),
}

impl ClientError {
    pub(crate) fn unreadable(why: String) -> Self {
        Self::Unreadable(why)
    }

    /// The server's no, if it was one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused(problem) => Some(problem),
            _ => None,
        }
    }

    /// Whether nobody of ours answered.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::NoAnswer { .. } | Self::Between { .. })
    }

    /// Whether it may have been done all the same.
    pub fn leaves_open(&self) -> bool {
        match self {
            Self::Refused(problem) => problem.status >= 500,
            Self::NoAnswer { .. } | Self::Between { .. } | Self::Unreadable(_) => true,
            Self::BadServer { .. } | Self::Unreachable { .. } => false,
        }
    }

    /// Whether the server said no with this code.
    pub fn is(&self, code: &str) -> bool {
        self.problem().is_some_and(|problem| problem.code == code)
    }
}
