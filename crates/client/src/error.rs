//! Errors of the client.

use api_types::Problem;

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server returned an error response.
    #[error("{0}")]
    Refused(Problem),
    #[error("server URL {url} cannot be used: {why}")]
    BadServer { url: String, why: &'static str },
    /// The connection failed, so nothing was sent.
    #[error("{server} cannot be reached")]
    Unreachable {
        server: String,
        #[source]
        source: reqwest::Error,
    },
    /// The request was sent, but no response arrived.
    #[error("{server} did not respond; it is unknown whether the request was processed")]
    NoResponse {
        server: String,
        #[source]
        source: reqwest::Error,
    },
    /// A proxy or load balancer responded in place of the server.
    #[error(
        "a proxy in front of {server} returned HTTP status {status}; it is unknown whether the request was processed"
    )]
    ProxyResponse { server: String, status: u16 },
    /// The response does not belong to this API.
    #[error("the response is not valid for this API: {0}")]
    InvalidResponse(String),
}

impl ClientError {
    pub(crate) fn invalid_response(why: String) -> Self {
        Self::InvalidResponse(why)
    }

    /// The error response of the server, if there is one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused(problem) => Some(problem),
            _ => None,
        }
    }

    /// Whether the server did not respond.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::NoResponse { .. } | Self::ProxyResponse { .. })
    }

    /// Whether the server may have processed the request.
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::Refused(problem) => problem.status >= 500,
            Self::NoResponse { .. } | Self::ProxyResponse { .. } | Self::InvalidResponse(_) => true,
            Self::BadServer { .. } | Self::Unreachable { .. } => false,
        }
    }

    /// Whether the server returned an error response with this code.
    pub fn is(&self, code: &str) -> bool {
        self.problem().is_some_and(|problem| problem.code == code)
    }
}
