//! Deliveries that are refused although their sender is known. Each one is logged and counted, because the sender may
//! not show the reply to a person.

use domain::json::InvalidJson;
use domain::{Code, Source, TenantId};
use http::{Response, StatusCode};

use super::BODY_BYTES_MAX;
use super::parse::InvalidEvent;
use crate::response::problem;

/// Why a delivery is refused. The sender reads the text; the log contains only [`reason`](Self::reason), because the text
/// can quote the delivery.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RefusedDelivery {
    #[error("the limit is {BODY_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the content type must be application/json")]
    ContentType,
    #[error("{0}")]
    Json(InvalidJson),
    #[error("{0}")]
    Event(InvalidEvent),
    /// The key was used for other content.
    #[error("{0}")]
    Conflict(String),
}

impl RefusedDelivery {
    fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Json(_) | Self::Event(_) => StatusCode::BAD_REQUEST,
            Self::Conflict(_) => StatusCode::CONFLICT,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::TooLarge => "TOO_LARGE",
            Self::ContentType => "UNSUPPORTED_MEDIA_TYPE",
            Self::Json(_) | Self::Event(_) => "INVALID_EVENT",
            Self::Conflict(_) => Code::IdempotencyConflict.as_str(),
        }
    }

    /// The reason in the log and in the metrics. It contains nothing of the delivery.
    fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::ContentType => "content_type",
            Self::Json(_) => "invalid_json",
            // Not a mistake of GitHub: a captured body was probably sent again as another event.
            Self::Event(InvalidEvent::OtherEvent) => "event_mismatch",
            Self::Event(_) => "invalid_event",
            Self::Conflict(_) => "key_conflict",
        }
    }

    /// Logs and counts the delivery of `source` to `tenant`, and returns the response to it.
    pub(super) fn record(&self, tenant: &TenantId, source: Source) -> Response<String> {
        let (code, reason) = (self.code(), self.reason());
        engine::metrics::delivery_refused(Some(tenant), source.as_str(), reason);
        match self {
            Self::Event(error) => {
                tracing::warn!(event = "webhook_refused", %tenant, %source, code, reason, %error, "webhook refused");
            }
            Self::Json(InvalidJson::Syntax { line, column, .. }) => {
                tracing::warn!(event = "webhook_refused", %tenant, %source, code, reason, line, column, "webhook refused");
            }
            _ => {
                tracing::warn!(event = "webhook_refused", %tenant, %source, code, reason, "webhook refused");
            }
        }
        self.response()
    }

    pub(super) fn response(&self) -> Response<String> {
        problem(self.status(), self.code(), &self.to_string())
    }
}
