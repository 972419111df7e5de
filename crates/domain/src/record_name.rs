//! Names of records in external systems.

use serde::{Deserialize, Serialize};

use crate::text::checked_text;

/// A GitHub repository name with its owner has at most 140 characters, a ServiceNow `sys_id` 32.
pub const RECORD_BYTES_MAX: usize = 256;

/// A record in an external system: `servicenow:incident:9d38…`, `github:acme/shop#7`. The system comes first, so that
/// names of different systems never collide.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RecordName(String);

/// Why a text is not a record name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRecord {
    /// No system, or no name.
    #[error("a record name is `SYSTEM:NAME`, such as `servicenow:incident:9d38` or `github:acme/shop#7`")]
    Shape,
    /// Longer than [`RECORD_BYTES_MAX`].
    #[error("the record name has {bytes} bytes; the maximum is {RECORD_BYTES_MAX}")]
    TooLong {
        /// The length.
        bytes: usize,
    },
    /// A character that is not allowed.
    #[error(
        "the record name contains {found:?}; allowed are letters, digits and `.`, `_`, `-`, `:`, `/`, `#`, `@`, `+`, `=`"
    )]
    Charset {
        /// The character.
        found: char,
    },
}

impl RecordName {
    /// Checks `text`.
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

/// Characters of ids, and those that external systems join them with. None has a special meaning in a page, a shell or
/// a query.
fn is_record_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':' | '/' | '#' | '@' | '+' | '=')
}

checked_text!(RecordName, InvalidRecord);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_name_needs_system_and_name() {
        for good in ["servicenow:incident:9d38", "github:acme/shop#7", "mail:a+b@example.com", "s:x="] {
            assert_eq!(RecordName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "incident", ":incident", "servicenow:"] {
            assert_eq!(RecordName::new(bad), Err(InvalidRecord::Shape), "{bad:?}");
        }
    }

    #[test]
    fn record_name_is_bounded_and_has_safe_characters() {
        for bad in ["s:a b", "s:<b>", "s:\"", "s:ä", "s:a\n", "s:a\0", "s:%2e", "s:a?b&c", "s:$(x)"] {
            assert!(matches!(RecordName::new(bad), Err(InvalidRecord::Charset { .. })), "{bad:?}");
        }
        let name = |bytes: usize| RecordName::new(&format!("s:{}", "x".repeat(bytes - 2)));
        assert!(name(RECORD_BYTES_MAX).is_ok());
        assert_eq!(name(RECORD_BYTES_MAX + 1), Err(InvalidRecord::TooLong { bytes: RECORD_BYTES_MAX + 1 }));
    }
}
