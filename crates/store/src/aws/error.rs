//! What the errors of DynamoDB, SQS and S3 mean: one table.

use std::error::Error;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};

use crate::error::StoreError;

/// What became of a request that was not answered as hoped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Nothing was done; asking again later will help.
    Busy,
    /// Nothing was done: a condition did not hold, or a write of this name landed before.
    Superseded,
    /// Nobody knows.
    Unknown,
    /// Nothing was done, and asking again will not help.
    Broken,
}

/// A request that was not answered as hoped.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) class: Class,
    pub(super) code: Option<String>,
    pub(super) source: Box<dyn Error + Send + Sync>,
}

impl Fault {
    /// What `error` means.
    pub(super) fn of<E>(error: SdkError<E, HttpResponse>) -> Self
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let class = match &error {
            // It never left this process.
            SdkError::ConstructionFailure(_) => Class::Broken,
            SdkError::DispatchFailure(failure) if failure.is_user() => Class::Broken,
            // It may have arrived, and been done, before the line broke or the wait was over.
            SdkError::DispatchFailure(_) | SdkError::TimeoutError(_) | SdkError::ResponseError(_) => {
                Class::Unknown
            }
            SdkError::ServiceError(answer) => {
                answered(answer.err().code(), answer.raw().status().is_server_error())
            }
            _ => Class::Unknown,
        };
        let code = error.as_service_error().and_then(|answer| answer.code()).map(str::to_owned);
        Self { class, code, source: error.into() }
    }

    /// Whether the service called it `code`.
    pub(super) fn is(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }

    /// A request that must not be sent.
    pub(super) fn broken(source: impl Error + Send + Sync + 'static) -> Self {
        Self { class: Class::Broken, code: None, source: source.into() }
    }

    /// The error of a transaction, whose `reasons` say more than its code.
    #[must_use]
    pub(super) fn canceled<'r>(self, reasons: impl IntoIterator<Item = Option<&'r str>>) -> Self {
        Self { class: canceled(reasons), ..self }
    }

    /// The error of a read: whatever happened, nothing was done.
    pub(super) fn read(self, doing: &'static str) -> StoreError {
        match self.class {
            Class::Busy | Class::Unknown => StoreError::Busy { doing },
            Class::Superseded | Class::Broken => StoreError::Broken { doing, source: self.source },
        }
    }

    /// The error of a write without a condition, or of one whose condition held.
    pub(super) fn write(self, doing: &'static str) -> StoreError {
        match self.class {
            Class::Busy => StoreError::Busy { doing },
            Class::Unknown => StoreError::Unknown { doing },
            Class::Superseded | Class::Broken => StoreError::Broken { doing, source: self.source },
        }
    }
}

/// Nothing was done: somebody was faster, or it is done already.
const SUPERSEDED: [&str; 6] = [
    // DynamoDB. A mismatch, too: the name of a write stands for one decision, so what landed under it before is
    // that decision.
    "ConditionalCheckFailedException",
    "IdempotentParameterMismatchException",
    // SQS: the delivery was followed by another, or the message is gone.
    "ReceiptHandleIsInvalid",
    "MessageNotInflight",
    "AWS.SimpleQueueService.MessageNotInflight",
    // S3: what is to be written is there.
    "PreconditionFailed",
];

/// Nothing was done; asking again later will help.
const BUSY: [&str; 18] = [
    // DynamoDB: too much at once, or two at once.
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ThrottlingException",
    "Throttling",
    "LimitExceededException",
    "ReplicatedWriteConflictException",
    "TransactionConflictException",
    // SQS: too much at once, of requests, of messages in flight, or of the key that they are encrypted with.
    "RequestThrottled",
    "OverLimit",
    "KMS.ThrottlingException",
    "KmsThrottled",
    // S3: too much at once, two at once, or bytes that were lost or changed on the way and not taken.
    "SlowDown",
    "ConditionalRequestConflict",
    "OperationAborted",
    "RequestTimeout",
    "BadDigest",
    "XAmzContentChecksumMismatch",
    "IncompleteBody",
];

/// It may have been done before it went wrong, or may yet be.
const UNKNOWN: [&str; 5] = [
    "InternalServerError",
    "InternalFailure",
    "InternalError",
    "ServiceUnavailable",
    // DynamoDB: the same transaction, sent before and given up too soon, is still being worked on.
    "TransactionInProgressException",
];

/// What an answer with this code means.
fn answered(code: Option<&str>, server_error: bool) -> Class {
    let among = |codes: &[&str]| code.is_some_and(|code| codes.contains(&code));
    let meanings = [
        (among(&SUPERSEDED), Class::Superseded),
        (among(&BUSY), Class::Busy),
        (among(&UNKNOWN) || server_error, Class::Unknown),
    ];
    meanings.into_iter().find(|(applies, _)| *applies).map_or(Class::Broken, |(_, class)| class)
}

/// What a canceled transaction with these reasons means. A condition that failed is final where nothing was in the way:
/// beside a conflict it tells of one item while another's write is being applied to the next, and the next try knows more.
fn canceled<'r>(reasons: impl IntoIterator<Item = Option<&'r str>>) -> Class {
    let classes = reasons.into_iter().flatten().filter_map(|reason| match reason {
        "None" => None,
        "ConditionalCheckFailed" => Some(Class::Superseded),
        "TransactionConflict" | "ThrottlingError" | "ProvisionedThroughputExceeded" => Some(Class::Busy),
        _ => Some(Class::Broken),
    });
    let gravest = |class: &Class| match class {
        Class::Broken => 3,
        Class::Busy => 2,
        Class::Superseded => 1,
        Class::Unknown => 0,
    };
    // A cancellation without a reason is one that nobody can act on but by looking.
    classes.max_by_key(gravest).unwrap_or(Class::Unknown)
}

#[cfg(test)]
impl Fault {
    /// A request that was answered with `code`.
    pub(super) fn of_code(code: &str) -> Self {
        Self { class: answered(Some(code), false), code: Some(code.to_owned()), source: code.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_a_meaning() {
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
            assert_eq!(answered(code, server_error), class, "{code:?}");
        }
    }

    #[test]
    fn a_condition_that_failed_is_final_where_nothing_was_in_the_way() {
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
            assert_eq!(canceled(reasons.iter().map(|reason| Some(*reason))), class, "{reasons:?}");
        }
    }
}
