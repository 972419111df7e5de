//! Names of records outside: what a run is about, in the words of the system that keeps it.

use serde::{Deserialize, Serialize};

use crate::text::checked_text;

/// A repository's name and its owner's have at most 140 characters together, a `sys_id` 32.
pub const RECORD_BYTES_MAX: usize = 256;

/// A record in a system outside: `servicenow:incident:9d38…`, `github:acme/shop#7`. The system comes first, so that
/// two systems never mean different things by one name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RecordName(String);

/// Why a text names no record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRecord {
    /// No system, or nothing in it.
    #[error("a record is named `SYSTEM:NAME`, such as `servicenow:incident:9d38` or `github:acme/shop#7`")]
    Shape,
    /// Longer than [`RECORD_BYTES_MAX`].
    #[error("the name of the record has {bytes} bytes; at most {RECORD_BYTES_MAX} are allowed")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// A character outside the charset.
    #[error(
        "the name of the record holds {found:?}; allowed are letters, digits and `.`, `_`, `-`, `:`, `/`, `#`, `@`, `+`, `=`"
    )]
    Charset {
        /// The character that is not allowed.
        found: char,
    },
}

impl RecordName {
    /// Checks `text` and takes it as the name of a record.
    pub fn new(text: &str) -> Result<Self, InvalidRecord> {
        if text.len() > RECORD_BYTES_MAX {
            return Err(InvalidRecord::TooLong { bytes: text.len() });
        }
        if let Some(found) = text.chars().find(|c| !is_record_char(*c)) {
            return Err(InvalidRecord::Charset { found });
        }
        match text.split_once(':') {
            Some((system, name)) if !system.is_empty() && !name.is_empty() => Ok(Self(text.to_owned())),
            Some(_) | None => Err(InvalidRecord::Shape),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What ids are made of, and what systems outside join them with. Nothing that a page, a shell or a query would
/// read as more than a name.
fn is_record_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':' | '/' | '#' | '@' | '+' | '=')
}

checked_text!(RecordName, InvalidRecord);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_named_by_its_system_and_its_name_there() {
        for good in ["servicenow:incident:9d38", "github:acme/shop#7", "mail:a+b@example.com", "s:x="] {
            assert_eq!(RecordName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "incident", ":incident", "servicenow:"] {
            assert_eq!(RecordName::new(bad), Err(InvalidRecord::Shape), "{bad:?}");
        }
    }

    #[test]
    fn the_name_of_a_record_is_bounded_and_holds_no_text_that_means_more() {
        for bad in ["s:a b", "s:<b>", "s:\"", "s:ä", "s:a\n", "s:a\0", "s:%2e", "s:a?b&c", "s:$(x)"] {
            assert!(matches!(RecordName::new(bad), Err(InvalidRecord::Charset { .. })), "{bad:?}");
        }
        let name = |bytes: usize| RecordName::new(&format!("s:{}", "x".repeat(bytes - 2)));
        assert!(name(RECORD_BYTES_MAX).is_ok());
        assert_eq!(name(RECORD_BYTES_MAX + 1), Err(InvalidRecord::TooLong { bytes: RECORD_BYTES_MAX + 1 }));
    }
}
