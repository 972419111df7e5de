//! The classification of DynamoDB, SQS and S3 errors.

use std::error::Error;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};

use crate::error::StoreError;

/// What an error says about the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Nothing was written. A retry will succeed later.
    Busy,
    /// Nothing was written: a condition failed, or the write was applied before.
    Superseded,
    /// The write may or may not have been applied.
    Unknown,
    /// Nothing was written, and a retry fails too.
    Broken,
}

/// A failed AWS request.
#[derive(Debug)]
pub(super) struct AwsError {
    pub(super) class: Class,
    pub(super) code: Option<String>,
    pub(super) source: Box<dyn Error + Send + Sync>,
}

impl AwsError {
    /// Classifies an SDK error.
    pub(super) fn from_sdk<E>(error: SdkError<E, HttpResponse>) -> Self
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let class = match &error {
            // The request was never sent.
            SdkError::ConstructionFailure(_) => Class::Broken,
            SdkError::DispatchFailure(failure) if failure.is_user() => Class::Broken,
            // The request may have been applied before the connection failed or the timeout passed.
            SdkError::DispatchFailure(_) | SdkError::TimeoutError(_) | SdkError::ResponseError(_) => {
                Class::Unknown
            }
            SdkError::ServiceError(response) => {
                classify(response.err().code(), response.raw().status().is_server_error())
            }
            _ => Class::Unknown,
        };
        let code = error.as_service_error().and_then(|error| error.code()).map(str::to_owned);
        Self { class, code, source: error.into() }
    }

    /// Whether the service returned this error code.
    pub(super) fn is(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }

    /// An error found before the request is sent.
    pub(super) fn broken(source: impl Error + Send + Sync + 'static) -> Self {
        Self { class: Class::Broken, code: None, source: source.into() }
    }

    /// The error of a canceled transaction, classified by its cancellation reasons.
    #[must_use]
    pub(super) fn with_cancellation_reasons<'r>(
        self,
        reasons: impl IntoIterator<Item = Option<&'r str>>,
    ) -> Self {
        Self { class: classify_cancellation(reasons), ..self }
    }

    /// The store error of a read. A read writes nothing, so a retry is always safe.
    pub(super) fn into_read_error(self, doing: &'static str) -> StoreError {
        match self.class {
            Class::Busy | Class::Unknown => StoreError::Busy { doing },
            Class::Superseded | Class::Broken => StoreError::Broken { doing, source: self.source },
        }
    }

    /// The store error of a write that is not conditional, or whose condition held.
    pub(super) fn into_write_error(self, doing: &'static str) -> StoreError {
        match self.class {
            Class::Busy => StoreError::Busy { doing },
            Class::Unknown => StoreError::Unknown { doing },
            Class::Superseded | Class::Broken => StoreError::Broken { doing, source: self.source },
        }
    }
}

/// A condition failed, or the write was applied before.
const SUPERSEDED: [&str; 6] = [
    // DynamoDB. A token identifies one decision, so a token mismatch means that this decision was already
    // committed.
    "ConditionalCheckFailedException",
    "IdempotentParameterMismatchException",
    // SQS: the message was delivered again, or is deleted.
    "ReceiptHandleIsInvalid",
    "MessageNotInflight",
    "AWS.SimpleQueueService.MessageNotInflight",
    // S3: the object exists.
    "PreconditionFailed",
];

/// Throttling and conflicts: nothing was written, and a retry will succeed later.
const BUSY: [&str; 18] = [
    // DynamoDB: throttling, or a conflict with another write.
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ThrottlingException",
    "Throttling",
    "LimitExceededException",
    "ReplicatedWriteConflictException",
    "TransactionConflictException",
    // SQS: throttling of requests, of messages in flight, or of the KMS key.
    "RequestThrottled",
    "OverLimit",
    "KMS.ThrottlingException",
    "KmsThrottled",
    // S3: throttling, a conflict with another write, or a body that was damaged in transit and rejected.
    "SlowDown",
    "ConditionalRequestConflict",
    "OperationAborted",
    "RequestTimeout",
    "BadDigest",
    "XAmzContentChecksumMismatch",
    "IncompleteBody",
];

/// The write may have been applied, or may still be.
const UNKNOWN: [&str; 5] = [
    "InternalServerError",
    "InternalFailure",
    "InternalError",
    "ServiceUnavailable",
    // DynamoDB: an earlier attempt of the same transaction is still in progress.
    "TransactionInProgressException",
];

/// Classifies an error code.
fn classify(code: Option<&str>, server_error: bool) -> Class {
    let is_in = |codes: &[&str]| code.is_some_and(|code| codes.contains(&code));
    let classes = [
        (is_in(&SUPERSEDED), Class::Superseded),
        (is_in(&BUSY), Class::Busy),
        (is_in(&UNKNOWN) || server_error, Class::Unknown),
    ];
    classes.into_iter().find(|(applies, _)| *applies).map_or(Class::Broken, |(_, class)| class)
}

/// Classifies a canceled transaction. A failed condition is final only if no item had a conflict: next to a
/// conflict, another transaction is still being applied, and the condition may hold afterwards.
fn classify_cancellation<'r>(reasons: impl IntoIterator<Item = Option<&'r str>>) -> Class {
    let classes = reasons.into_iter().flatten().filter_map(|reason| match reason {
        "None" => None,
        "ConditionalCheckFailed" => Some(Class::Superseded),
        "TransactionConflict" | "ThrottlingError" | "ProvisionedThroughputExceeded" => Some(Class::Busy),
        _ => Some(Class::Broken),
    });
    let severity = |class: &Class| match class {
        Class::Broken => 3,
        Class::Busy => 2,
        Class::Superseded => 1,
        Class::Unknown => 0,
    };
    // Without a reason, the caller has to read to find out.
    classes.max_by_key(severity).unwrap_or(Class::Unknown)
}

#[cfg(test)]
impl AwsError {
    /// An error with this code.
    pub(super) fn of_code(code: &str) -> Self {
        Self { class: classify(Some(code), false), code: Some(code.to_owned()), source: code.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_are_classified() {
        for (code, server_error, class) in [
            (Some("ConditionalCheckFailedException"), false, Class::Superseded),
            (Some("IdempotentParameterMismatchException"), false, Class::Superseded),
            (Some("ProvisionedThroughputExceededException"), false, Class::Busy),
            (Some("ThrottlingException"), false, Class::Busy),
            (Some("RequestLimitExceeded"), false, Class::Busy),
            (Some("TransactionInProgressException"), false, Class::Unknown),
            (Some("TransactionConflictException"), false, Class::Busy),
            (Some("ReceiptHandleIsInvalid"), false, Class::Superseded),
            (Some("AWS.SimpleQueueService.MessageNotInflight"), false, Class::Superseded),
            (Some("RequestThrottled"), false, Class::Busy),
            (Some("OverLimit"), false, Class::Busy),
            (Some("KMS.ThrottlingException"), false, Class::Busy),
            (Some("AWS.SimpleQueueService.NonExistentQueue"), false, Class::Broken),
            (Some("InvalidMessageContents"), false, Class::Broken),
            (Some("InvalidParameterValue"), false, Class::Broken),
            (Some("PreconditionFailed"), false, Class::Superseded),
            (Some("ConditionalRequestConflict"), false, Class::Busy),
            (Some("SlowDown"), true, Class::Busy),
            (Some("BadDigest"), false, Class::Busy),
            (Some("RequestTimeout"), false, Class::Busy),
            (Some("NoSuchBucket"), false, Class::Broken),
            (Some("AccessDenied"), false, Class::Broken),
            (Some("InternalError"), true, Class::Unknown),
            (Some("InternalServerError"), true, Class::Unknown),
            (Some("SomethingNew"), true, Class::Unknown),
            (None, true, Class::Unknown),
            (Some("ValidationException"), false, Class::Broken),
            (Some("ResourceNotFoundException"), false, Class::Broken),
            (Some("AccessDeniedException"), false, Class::Broken),
            (None, false, Class::Broken),
        ] {
            assert_eq!(classify(code, server_error), class, "{code:?}");
        }
    }

    #[test]
    fn failed_condition_is_final_without_a_conflict() {
        for (reasons, class) in [
            (vec!["None", "ConditionalCheckFailed"], Class::Superseded),
            (vec!["TransactionConflict", "ConditionalCheckFailed"], Class::Busy),
            (vec!["ConditionalCheckFailed", "ThrottlingError"], Class::Busy),
            (vec!["ConditionalCheckFailed", "ValidationError"], Class::Broken),
            (vec!["TransactionConflict", "None"], Class::Busy),
            (vec!["ThrottlingError"], Class::Busy),
            (vec!["ProvisionedThroughputExceeded", "TransactionConflict"], Class::Busy),
            (vec!["ValidationError", "TransactionConflict"], Class::Broken),
            (vec!["ItemCollectionSizeLimitExceeded"], Class::Broken),
            (vec!["None", "None"], Class::Unknown),
            (vec![], Class::Unknown),
        ] {
            assert_eq!(
                classify_cancellation(reasons.iter().map(|reason| Some(*reason))),
                class,
                "{reasons:?}"
            );
        }
    }
}
