//! What can go wrong with a store, by what the caller may do about it.

use std::error::Error;

/// Why a store did not answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was done; asking again later will help.
    #[error("{doing}: the store is busy")]
    Busy {
        /// What was being done.
        doing: &'static str,
    },
    /// Nobody knows whether the write landed; reading will tell.
    #[error("{doing}: no reply; the write may have landed")]
    Unknown {
        /// What was being done.
        doing: &'static str,
    },
    /// Nothing was done, and asking again will not help before somebody mends the store.
    #[error("{doing}")]
    Broken {
        /// What was being done.
        doing: &'static str,
        /// What the store said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

impl StoreError {
    /// A broken store.
    pub fn broken(doing: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Broken { doing, source: source.into() }
    }
}

/// An error with what caused it, in one line.
pub fn told(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
