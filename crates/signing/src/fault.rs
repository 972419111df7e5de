//! Why a request is not believed.

/// Why a request is not believed. Nothing of the request or of a secret stands in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureFault {
    /// There is no time.
    #[error("the request says no time")]
    TimestampMissing,
    /// The time is no whole number of seconds.
    #[error("the request's time is no whole number of seconds")]
    TimestampInvalid,
    /// The time is too far from ours, on either side.
    #[error("the request's time is more than five minutes from ours")]
    TimestampOutsideWindow,
    /// There is no signature.
    #[error("the request is not signed")]
    SignatureMissing,
    /// The signature is of another kind or version than the one that is asked for.
    #[error("the signature is not of the version that is asked for")]
    VersionUnknown,
    /// The signature is not 64 lower-case hex digits.
    #[error("the signature is not 64 lower-case hex digits")]
    SignatureMalformed,
    /// The signature belongs to other bytes, another time or another secret.
    #[error("the signature does not fit the request")]
    Forged,
}
