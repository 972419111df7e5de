//! Chance, for names and secrets that nobody may guess.

use axum::http::StatusCode;

use crate::problem::Problem;

/// `BYTES` random bytes.
pub fn chance<const BYTES: usize>() -> Result<[u8; BYTES], Problem> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| {
        tracing::error!(%error, "the random source did not answer");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", "the server cannot make names now")
    })?;
    Ok(bytes)
}

/// `BYTES` random bytes as hex digits.
pub fn hex<const BYTES: usize>() -> Result<String, Problem> {
    let bytes = chance::<BYTES>()?;
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    Ok(digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect())
}
