//! A newer rusqlite under an older name.

pub use newer::*;
