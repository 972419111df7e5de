//! What a function is told by its environment. Nothing else in this crate looks at it.

use std::env;

use store::aws::AwsSettings;

/// The variable `name`, if it is set.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

/// The variable `name`, which must be set.
pub(crate) fn need(name: &str) -> Result<String, String> {
    variable(name).ok_or_else(|| format!("{name} is not set"))
}

/// Where the store keeps things.
pub(crate) fn settings() -> Result<AwsSettings, String> {
    AwsSettings::told(need)
}
