//! Input from the user: JSON on the command line, from a file or from standard input, workflow files and the
//! configuration. Every read has a size limit.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use config::{ConfigError, SystemsConfig};
use connectors::ToolRegistry;
use domain::{Plan, json};
use serde_json::Value;
use workflow::SOURCE_BYTES_MAX;

use crate::error::CliError;

/// Looks up an environment variable.
pub(crate) type Variable = fn(&str) -> Option<String>;

/// Where a JSON value comes from: `JSON`, `@file`, or `-` for standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JsonSource {
    Literal(String),
    File(PathBuf),
    Stdin,
}

impl FromStr for JsonSource {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.strip_prefix('@') {
            Some(path) => Self::File(path.into()),
            None if text == "-" => Self::Stdin,
            None => Self::Literal(text.to_owned()),
        })
    }
}

impl JsonSource {
    /// Reads and parses the value; `what` names it in errors.
    pub(crate) fn read(&self, what: &str) -> Result<Value, CliError> {
        let (what, bytes) = match self {
            Self::Literal(text) => (what.to_owned(), text.clone().into_bytes()),
            Self::File(path) => {
                let what = format!("{what}, {},", path.display());
                (what.clone(), read_file(path, &what, json::BYTES_MAX)?)
            }
            Self::Stdin => {
                let what = format!("{what}, standard input,");
                let read = read_bounded(io::stdin().lock(), json::BYTES_MAX);
                let read = read.map_err(|source| CliError::Read { path: "standard input".into(), source })?;
                (what.clone(), read.ok_or(CliError::TooLarge { what, bytes_max: json::BYTES_MAX })?)
            }
        };
        json::parse(&bytes).map_err(|source| CliError::BadJson { what, source })
    }
}

/// Reads the configuration of the external systems; without a file there are none.
pub(crate) fn read_config(path: Option<&Path>) -> Result<SystemsConfig, CliError> {
    let Some(path) = path else { return Ok(SystemsConfig::default()) };
    let bytes = read_file(path, &path.display().to_string(), config::BYTES_MAX)?;
    let text = String::from_utf8(bytes).map_err(|_| CliError::NotText { path: path.into() })?;
    SystemsConfig::parse(&text)
        .map_err(|error| CliError::Usage(format!("{} is invalid: {error}", path.display())))
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        Self::Usage(error.to_string())
    }
}

/// Reads and parses the workflow at `path`; its steps may call `tools`.
pub(crate) fn read_workflow(path: &Path, tools: &ToolRegistry) -> Result<Plan, CliError> {
    let source = read_source(path)?;
    workflow::parse_for(&source, &tools.fields()).map_err(|error| CliError::InvalidWorkflow {
        path: path.into(),
        location: error.position,
        rendered: error.render(&source),
    })
}

pub(crate) fn read_source(path: &Path) -> Result<String, CliError> {
    let bytes = read_file(path, &path.display().to_string(), SOURCE_BYTES_MAX)?;
    String::from_utf8(bytes).map_err(|_| CliError::NotText { path: path.into() })
}

pub(crate) fn read_file(path: &Path, what: &str, bytes_max: usize) -> Result<Vec<u8>, CliError> {
    let failed = |source| CliError::Read { path: path.into(), source };
    let bytes = File::open(path).and_then(|file| read_bounded(file, bytes_max)).map_err(failed)?;
    bytes.ok_or_else(|| CliError::TooLarge { what: what.to_owned(), bytes_max })
}

/// Reads `from` to its end; `None` if it has more than `bytes_max` bytes.
fn read_bounded(from: impl Read, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    from.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() <= bytes_max).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn source(text: &str) -> JsonSource {
        text.parse().unwrap()
    }

    #[test]
    fn json_source_is_literal_file_or_stdin() {
        assert_eq!(source("{}"), JsonSource::Literal("{}".into()));
        assert_eq!(source("@a.json"), JsonSource::File("a.json".into()));
        assert_eq!(source("-"), JsonSource::Stdin);
        assert_eq!(source("-1").read("the input").unwrap(), json!(-1));
    }

    #[test]
    fn invalid_json_error_names_line_and_column() {
        let error = source("{\"a\": }").read("the run's input").unwrap_err();
        assert!(error.to_string().starts_with("the run's input is not valid JSON"), "{error}");
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("line 1 column 7"), "{cause}");
    }

    #[test]
    fn read_stops_at_the_limit() {
        assert_eq!(read_bounded(&[7_u8; 4][..], 4).unwrap(), Some(vec![7; 4]));
        assert_eq!(read_bounded(io::repeat(7), 4).unwrap(), None);
    }
}
