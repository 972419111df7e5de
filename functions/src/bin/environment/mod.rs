//! The environment variables of the functions. Nothing else in this crate reads them.

use std::env;

use store::aws::AwsSettings;

/// The variable `name`, if it is set and not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

/// The variable `name`, which must be set.
pub(crate) fn required(name: &str) -> Result<String, String> {
    variable(name).ok_or_else(|| format!("environment variable {name} is not set"))
}

pub(crate) fn settings() -> Result<AwsSettings, String> {
    AwsSettings::from_env(required)
}
