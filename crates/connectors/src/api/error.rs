//! Why a request failed, and whether it may have had its effect.
//!
//! [`ApiError::Terminal`] guarantees that nothing changed in the external system, so it is used only where the
//! protocol guarantees that.

use domain::command::EffectOutcome::{self, DidNotHappen, MayHaveHappened};
use domain::{Charge, Failure, Millis};

use crate::http::outcome::{NO_REPLY, NOT_AUTHORIZED, STATUS, UNREACHABLE};
use crate::http::reply::Reply;
use crate::http::retry_after::retry_after;
use crate::tool::{Observed, ToolOutcome};

/// The object does not exist, or the credential cannot see it.
const NOT_FOUND: &str = "NOT_FOUND";
/// The object changed since the action was proposed.
pub(crate) const CONFLICT: &str = "CONFLICT";
pub(crate) const RATE_LIMITED: &str = "RATE_LIMITED";
pub(crate) const REPLY_INVALID: &str = "REPLY_INVALID";

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ApiError {
    /// Another attempt may succeed.
    Retryable { failure: Failure, certainty: EffectOutcome, retry_after: Option<Millis> },
    /// No attempt can succeed, and nothing changed.
    Terminal(Failure),
}

impl ApiError {
    pub(crate) fn not_sent(endpoint: &str, why: &str) -> Self {
        let failure = Failure::new(UNREACHABLE, format!("{endpoint} cannot be reached: {why}"));
        Self::Retryable { failure, certainty: DidNotHappen, retry_after: None }
    }

    pub(crate) fn no_reply(is_write: bool, endpoint: &str, why: &str) -> Self {
        let failure = Failure::new(NO_REPLY, format!("no reply from {endpoint}: {why}"));
        Self::Retryable { failure, certainty: certainty(is_write), retry_after: None }
    }

    /// The meaning of a response without a success status.
    pub(crate) fn from_status(reply: &Reply, is_write: bool, endpoint: &str) -> Self {
        let failure = |code: &str, what: &str| {
            Failure::new(code, format!("{endpoint} answered {}{what}{}", reply.status, reply.excerpt()))
        };
        let retryable = |failure: Failure, certainty: EffectOutcome| Self::Retryable {
            failure,
            certainty,
            retry_after: retry_after(reply),
        };
        match reply.status.as_u16() {
            401 => Self::Terminal(failure(NOT_AUTHORIZED, "; the credential is missing or wrong")),
            // GitHub also uses 403 for its rate limits.
            403 if is_rate_limit(reply) => retryable(failure(RATE_LIMITED, ""), DidNotHappen),
            403 => Self::Terminal(failure(NOT_AUTHORIZED, "; the credential lacks permission")),
            404 | 410 => Self::Terminal(failure(NOT_FOUND, "")),
            409 | 412 => {
                Self::Terminal(failure(CONFLICT, "; the object changed since the action was proposed"))
            }
            425 | 429 => retryable(failure(RATE_LIMITED, ""), DidNotHappen),
            // With any other redirect the server may have processed the request.
            307 | 308 => Self::Terminal(failure(STATUS, "; redirects are not followed")),
            300..=399 => retryable(failure(STATUS, "; redirects are not followed"), certainty(is_write)),
            408 | 500.. => retryable(failure(STATUS, ""), certainty(is_write)),
            _ => Self::Terminal(failure(STATUS, "")),
        }
    }

    /// Whether the request may have had its effect.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Retryable { certainty: MayHaveHappened, .. })
    }

    /// The error of an attempt with this cost.
    pub(crate) fn charged(self, charge: Charge) -> Self {
        match self {
            Self::Retryable { failure, certainty, retry_after } => {
                Self::Retryable { failure: failure.charged(charge), certainty, retry_after }
            }
            Self::Terminal(failure) => Self::Terminal(failure.charged(charge)),
        }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.failure().code == NOT_FOUND
    }

    pub(crate) fn failure(&self) -> &Failure {
        match self {
            Self::Retryable { failure, .. } | Self::Terminal(failure) => failure,
        }
    }
}

impl From<ApiError> for ToolOutcome {
    fn from(error: ApiError) -> Self {
        match error {
            ApiError::Retryable { failure, certainty, retry_after } => {
                Self::Retryable { failure, certainty, retry_after }
            }
            ApiError::Terminal(failure) => Self::Terminal(failure),
        }
    }
}

impl From<ApiError> for Observed {
    fn from(error: ApiError) -> Self {
        match error {
            ApiError::Retryable { failure, retry_after, .. } => Self::Retryable { failure, retry_after },
            ApiError::Terminal(failure) => Self::Terminal(failure),
        }
    }
}

fn certainty(is_write: bool) -> EffectOutcome {
    if is_write { MayHaveHappened } else { DidNotHappen }
}

fn is_rate_limit(reply: &Reply) -> bool {
    reply.header("retry-after").is_some() || reply.header("x-ratelimit-remaining").as_deref() == Some("0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::reply::Body;
    use reqwest::StatusCode;

    fn classify(status: u16, header: Option<&'static str>, is_write: bool) -> (&'static str, String) {
        let headers = header.map(|name| (name.parse().unwrap(), "0".parse().unwrap()));
        let headers = headers.into_iter().collect();
        let reply = Reply {
            status: StatusCode::from_u16(status).unwrap(),
            headers,
            body: Body::Excerpt(String::new()),
        };
        match ApiError::from_status(&reply, is_write, "a/b") {
            ApiError::Terminal(failure) => ("terminal", failure.code),
            ApiError::Retryable { failure, certainty: DidNotHappen, .. } => ("did not happen", failure.code),
            ApiError::Retryable { failure, .. } => ("may have happened", failure.code),
        }
    }

    #[test]
    fn status_decides_retry_and_certainty() {
        for (status, header, kind, code) in [
            (401, None, "terminal", "NOT_AUTHORIZED"),
            (403, None, "terminal", "NOT_AUTHORIZED"),
            (403, Some("x-ratelimit-remaining"), "did not happen", "RATE_LIMITED"),
            (403, Some("retry-after"), "did not happen", "RATE_LIMITED"),
            (404, None, "terminal", "NOT_FOUND"),
            (409, None, "terminal", "CONFLICT"),
            (412, None, "terminal", "CONFLICT"),
            (422, None, "terminal", "HTTP_STATUS"),
            (429, None, "did not happen", "RATE_LIMITED"),
            (302, None, "may have happened", "HTTP_STATUS"),
            (308, None, "terminal", "HTTP_STATUS"),
            (408, None, "may have happened", "HTTP_STATUS"),
            (500, None, "may have happened", "HTTP_STATUS"),
            (503, None, "may have happened", "HTTP_STATUS"),
        ] {
            assert_eq!(classify(status, header, true), (kind, code.to_owned()), "{status}");
        }
    }

    #[test]
    fn failed_read_has_no_effect() {
        for status in [302, 408, 500, 503] {
            assert_eq!(classify(status, None, false).0, "did not happen", "{status}");
        }
    }
}
