//! Texts that are checked once, where they enter.

/// Implements parsing, display and serde conversions for a checked text type. The type has `new`, which checks, and
/// `as_str`.
macro_rules! checked_text {
    ($name:ident, $refused:ty) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $refused;
            fn from_str(text: &str) -> Result<Self, $refused> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $refused;
            fn try_from(text: String) -> Result<Self, $refused> {
                Self::new(&text)
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> String {
                text.as_str().to_owned()
            }
        }
    };
}

pub(crate) use checked_text;
