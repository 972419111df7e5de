//! Errors of requests to Slack and `PagerDuty`. No message contains a secret or a URL with a secret.

use domain::approval::Card;
use domain::{ApprovalId, Millis};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlackError {
    /// The settings are invalid; a retry does not help.
    #[error("{0}")]
    Settings(&'static str),
    /// The address is not allowed, or the credential cannot be sent; a retry does not help.
    #[error("the request is not allowed: {0}")]
    Refused(String),
    #[error("the request was not sent: {0}")]
    NotSent(String),
    /// The request may have been received.
    #[error("no reply: {0}")]
    NoReply(String),
    #[error("rate limited; retry in {retry_after}")]
    RateLimited { retry_after: Millis },
    #[error("the reply has status {0}")]
    Status(u16),
    /// Slack's error code, such as `invalid_auth`.
    #[error("Slack returned the error `{0}`")]
    Api(String),
    #[error("the reply does not match the documented format")]
    Unreadable,
}

impl SlackError {
    /// Whether a retry may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::NotSent(_) | Self::NoReply(_) | Self::RateLimited { .. } | Self::Unreadable => true,
            Self::Status(status) => *status >= 500,
            // Failures inside Slack; every other code means that the request is wrong.
            Self::Api(code) => matches!(
                code.as_str(),
                "internal_error" | "fatal_error" | "service_unavailable" | "request_timeout" | "ratelimited"
            ),
            Self::Settings(_) | Self::Refused(_) => false,
        }
    }
}

/// The card of an approval could not be brought up to date, or not completely.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation} of approval {approval}")]
pub struct NotifyError {
    pub approval: ApprovalId,
    /// The operation that failed.
    pub operation: &'static str,
    /// The card so far. Store it before a retry, or a second card is posted.
    pub so_far: Option<Card>,
    #[source]
    pub source: SlackError,
}
