//! Cursors for paged lists.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The end of a page of a list. The text is opaque: only the store that issued it can read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(String);

/// The page of a list to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageQuery {
    /// The `next` cursor of the previous page; `None` reads the first page.
    pub after: Option<Cursor>,
    /// The maximum number of entries of the page.
    pub limit: u32,
}

impl PageQuery {
    /// A query for the first page.
    pub fn first(limit: u32) -> Self {
        Self { after: None, limit }
    }
}

/// The cursor was not issued by this store for this list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a cursor of this list: use the `next` value of a page")]
pub struct UnknownCursor(pub(crate) String);

impl Cursor {
    /// A cursor from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text of the cursor.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
