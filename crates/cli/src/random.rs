//! Random ids and secrets.

use std::io;

use crate::error::CliError;

pub(crate) fn bytes<const BYTES: usize>() -> Result<[u8; BYTES], CliError> {
    let mut bytes = [0_u8; BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| CliError::Start { what: "the random source", source: io::Error::other(error) })?;
    Ok(bytes)
}

/// `BYTES` random bytes as hex digits.
pub(crate) fn hex<const BYTES: usize>() -> Result<String, CliError> {
    bytes::<BYTES>().map(::hex::encode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ids_differ() {
        let (one, two) = (hex::<8>().unwrap(), hex::<8>().unwrap());
        assert_eq!(one.len(), 16);
        assert_ne!(one, two);
    }
}
