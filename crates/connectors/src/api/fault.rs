//! Why there is no answer, and what that says about an effect.
//!
//! *Never* promises that nothing changed over there, and so is said only where the protocol says it to us.

use domain::command::Certainty::{self, DidNotHappen, MayHaveHappened};
use domain::{Failure, Millis};

use crate::http::outcome::{NO_REPLY, STATUS, UNREACHABLE};
use crate::http::reply::Reply;
use crate::http::wait::retry_after;
use crate::tool::{Outcome, Survey};

/// The other side does not know us, or does not let us.
const NOT_AUTHORISED: &str = "NOT_AUTHORISED";
/// There is no such thing over there, or we may not see it.
const NOT_FOUND: &str = "NOT_FOUND";
/// It changed under our hands.
pub(crate) const CONFLICT: &str = "CONFLICT";
/// We asked too often.
pub(crate) const RATE_LIMITED: &str = "RATE_LIMITED";
/// The reply makes no sense.
pub(crate) const REPLY_INVALID: &str = "REPLY_INVALID";

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fault {
    /// Another attempt may mend it.
    Later { failure: Failure, certainty: Certainty, retry_after: Option<Millis> },
    /// No attempt mends it, and nothing happened.
    Never(Failure),
}

impl Fault {
    pub(crate) fn not_sent(place: &str, why: &str) -> Self {
        let failure = Failure::new(UNREACHABLE, format!("{place} cannot be reached: {why}"));
        Self::Later { failure, certainty: DidNotHappen, retry_after: None }
    }

    pub(crate) fn no_reply(is_write: bool, place: &str, why: &str) -> Self {
        let failure = Failure::new(NO_REPLY, format!("no reply from {place}: {why}"));
        Self::Later { failure, certainty: certainty(is_write), retry_after: None }
    }

    /// What a reply that is no success means.
    pub(crate) fn said_no(reply: &Reply, is_write: bool, place: &str) -> Self {
        let failure =
            |code: &str, what: &str| Failure::new(code, format!("{place} answered {}{what}", reply.status));
        let later = |failure: Failure, certainty: Certainty| Self::Later {
            failure,
            certainty,
            retry_after: retry_after(reply),
        };
        match reply.status.as_u16() {
            401 => Self::Never(failure(NOT_AUTHORISED, "; the credential is missing or wrong")),
            // GitHub says so of its rate limits too.
            403 if is_rate_limit(reply) => later(failure(RATE_LIMITED, ""), DidNotHappen),
            403 => Self::Never(failure(NOT_AUTHORISED, "; the credential does not allow it")),
            404 | 410 => Self::Never(failure(NOT_FOUND, "")),
            409 | 412 => Self::Never(failure(CONFLICT, "; what was to be changed has changed")),
            425 | 429 => later(failure(RATE_LIMITED, ""), DidNotHappen),
            // After the other redirects something may have been taken.
            307 | 308 => Self::Never(failure(STATUS, "; redirects are not followed")),
            300..=399 => later(failure(STATUS, "; redirects are not followed"), certainty(is_write)),
            408 | 500.. => later(failure(STATUS, ""), certainty(is_write)),
            _ => Self::Never(failure(STATUS, "")),
        }
    }

    /// Whether the request may have had its effect.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Later { certainty: MayHaveHappened, .. })
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.failure().code == NOT_FOUND
    }

    pub(crate) fn failure(&self) -> &Failure {
        match self {
            Self::Later { failure, .. } | Self::Never(failure) => failure,
        }
    }
}

impl From<Fault> for Outcome {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Later { failure, certainty, retry_after } => {
                Self::Retryable { failure, certainty, retry_after }
            }
            Fault::Never(failure) => Self::Terminal(failure),
        }
    }
}

impl From<Fault> for Survey {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Later { failure, retry_after, .. } => Self::Later { failure, retry_after },
            Fault::Never(failure) => Self::Never(failure),
        }
    }
}

fn certainty(is_write: bool) -> Certainty {
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

    fn gist(status: u16, header: Option<&'static str>, is_write: bool) -> (&'static str, String) {
        let headers = header.map(|name| (name.parse().unwrap(), "0".parse().unwrap()));
        let headers = headers.into_iter().collect();
        let reply = Reply { status: StatusCode::from_u16(status).unwrap(), headers, body: Body::Unread };
        match Fault::said_no(&reply, is_write, "a/b") {
            Fault::Never(failure) => ("never", failure.code),
            Fault::Later { failure, certainty: DidNotHappen, .. } => ("did not happen", failure.code),
            Fault::Later { failure, .. } => ("may have happened", failure.code),
        }
    }

    #[test]
    fn a_status_says_what_it_says_and_no_more() {
        for (status, header, kind, code) in [
            (401, None, "never", "NOT_AUTHORISED"),
            (403, None, "never", "NOT_AUTHORISED"),
            (403, Some("x-ratelimit-remaining"), "did not happen", "RATE_LIMITED"),
            (403, Some("retry-after"), "did not happen", "RATE_LIMITED"),
            (404, None, "never", "NOT_FOUND"),
            (409, None, "never", "CONFLICT"),
            (412, None, "never", "CONFLICT"),
            (422, None, "never", "HTTP_STATUS"),
            (429, None, "did not happen", "RATE_LIMITED"),
            (302, None, "may have happened", "HTTP_STATUS"),
            (308, None, "never", "HTTP_STATUS"),
            (408, None, "may have happened", "HTTP_STATUS"),
            (500, None, "may have happened", "HTTP_STATUS"),
            (503, None, "may have happened", "HTTP_STATUS"),
        ] {
            assert_eq!(gist(status, header, true), (kind, code.to_owned()), "{status}");
        }
    }

    #[test]
    fn a_request_that_only_reads_did_nothing() {
        for status in [302, 408, 500, 503] {
            assert_eq!(gist(status, None, false).0, "did not happen", "{status}");
        }
    }
}
