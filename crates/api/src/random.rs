//! Random bytes for names and secrets.

use axum::http::StatusCode;

use crate::problem::ApiError;

pub fn random_bytes<const BYTES: usize>() -> Result<[u8; BYTES], ApiError> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| {
        tracing::error!(event = "random_source_failed", %error, "random source failed");
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "UNAVAILABLE",
            "the random source of the server failed",
        )
    })?;
    Ok(bytes)
}

/// `BYTES` random bytes as hex digits.
pub fn hex<const BYTES: usize>() -> Result<String, ApiError> {
    random_bytes::<BYTES>().map(::hex::encode)
}
