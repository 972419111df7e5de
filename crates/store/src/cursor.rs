//! Pages of lists, and where they ended.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a page of a list ended, in the words of the store that gave it. Nobody else reads anything into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(String);

/// Which page of a list is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageQuery {
    /// Where the last page ended.
    pub after: Option<Cursor>,
    /// At most how many.
    pub limit: u32,
}

impl PageQuery {
    /// The first page.
    pub fn first(limit: u32) -> Self {
        Self { after: None, limit }
    }
}

/// The text is not a cursor of this store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not where a page of this list ended")]
pub struct UnknownCursor(pub(crate) String);

impl Cursor {
    /// A cursor that was given as `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The cursor as text, to be given back.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
