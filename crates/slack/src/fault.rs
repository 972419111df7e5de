//! What can go wrong while people are told. No secret and no address with a secret in it stands in any text.

use domain::approval::Card;
use domain::{ApprovalId, Millis};

/// Why a request to Slack or to a pager did not do what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The settings cannot work; trying again will not help.
    #[error("{0}")]
    Settings(&'static str),
    /// Nothing was sent.
    #[error("the request was not sent: {0}")]
    NotSent(String),
    /// It may have been received; no reply came.
    #[error("no reply came: {0}")]
    NoReply(String),
    /// We are to stay away for a while.
    #[error("too many requests; the next one is welcome in {retry_after}")]
    RateLimited {
        /// For how long.
        retry_after: Millis,
    },
    /// Something other than a success.
    #[error("the reply has status {0}")]
    Status(u16),
    /// A reply that says no, with a code such as `invalid_auth`.
    #[error("the reply says `{0}`")]
    Api(String),
    /// A reply that cannot be read.
    #[error("the reply is not what the documentation promises")]
    Unreadable,
}

impl Fault {
    /// Whether the same request may succeed later.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NotSent(_) | Self::NoReply(_) | Self::RateLimited { .. } | Self::Unreadable => true,
            Self::Status(status) => *status >= 500,
            // These are Slack's own troubles; every other code is about us.
            Self::Api(code) => matches!(
                code.as_str(),
                "internal_error" | "fatal_error" | "service_unavailable" | "request_timeout" | "ratelimited"
            ),
            Self::Settings(_) => false,
        }
    }
}

/// People could not be shown how an approval stands, or not all of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{doing}, for approval {approval}")]
pub struct NotifyError {
    /// Which approval.
    pub approval: ApprovalId,
    /// What was being done.
    pub doing: &'static str,
    /// What they see so far. It is to be kept before trying again, or a card would be posted twice.
    pub so_far: Option<Card>,
    /// What went wrong.
    #[source]
    pub fault: Fault,
}
