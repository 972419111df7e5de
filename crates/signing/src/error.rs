//! Why a signature is rejected.

/// Why a signature is rejected. The texts contain nothing of the request or of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("the request has no timestamp")]
    TimestampMissing,
    #[error("the timestamp is not a whole number of seconds")]
    TimestampInvalid,
    #[error("the timestamp differs from the server's time by more than five minutes")]
    TimestampOutsideWindow,
    #[error("the request is not signed")]
    SignatureMissing,
    #[error("the version of the signature is not supported")]
    VersionUnknown,
    #[error("the signature is not 64 lower-case hex digits")]
    SignatureMalformed,
    /// Signed for another body, another time or with another secret.
    #[error("the signature does not match the request")]
    Forged,
}
