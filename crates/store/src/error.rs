//! Store errors, classified by what the caller can do.

use std::error::Error;

use domain::dispatch::RECORD_FORMAT;

/// Why a store call failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written. A retry will succeed later.
    #[error("{doing}: the store is busy")]
    Busy {
        /// The operation: an imperative verb and its object, such as "load a run".
        doing: &'static str,
    },
    /// The reply was lost, so the write may or may not have been applied. The caller reads to find out.
    #[error("{doing}: no reply; the write may have been applied")]
    Unknown {
        /// The operation.
        doing: &'static str,
    },
    /// Nothing was written, and a retry fails too until an operator fixes the store or its configuration.
    #[error("{doing}")]
    Broken {
        /// The operation.
        doing: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

impl StoreError {
    /// A [`StoreError::Broken`] with its cause.
    pub fn broken(doing: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Broken { doing, source: source.into() }
    }
}

/// Why a record is [`StoreError::Broken`] for this program: a newer program has written it. This one would drop what it does
/// not know, if it wrote the record back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the record has format {format}; this program supports formats up to {RECORD_FORMAT}")]
pub struct NewerFormat {
    /// The format of the record.
    pub format: u32,
}

/// Renders an error and its causes in one line, separated by `: `.
pub fn error_chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
