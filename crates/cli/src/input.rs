//! What a person hands in: JSON on the command line, from a file or from standard input, and workflow files.
//! Each is read up to its bound and not a byte further.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use connectors::Toolbox;
use domain::{Plan, ToolName, json};
use serde_json::Value;
use workflow::SOURCE_BYTES_MAX;

use crate::error::CliError;

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
    /// The value; `what` names it in errors.
    pub(crate) fn read(&self, what: &str) -> Result<Value, CliError> {
        let (what, bytes) = match self {
            Self::Literal(text) => (what.to_owned(), text.clone().into_bytes()),
            Self::File(path) => {
                let what = format!("{what}, {},", path.display());
                (what.clone(), read_file(path, &what, json::BYTES_MAX)?)
            }
            Self::Stdin => {
                let what = format!("{what}, standard input,");
                let read = bounded(io::stdin().lock(), json::BYTES_MAX);
                let read = read.map_err(|source| CliError::Read { path: "standard input".into(), source })?;
                (what.clone(), read.ok_or(CliError::TooLarge { what, most: json::BYTES_MAX })?)
            }
        };
        json::parse(&bytes).map_err(|source| CliError::BadJson { what, source })
    }
}

/// Reads the workflow at `path`; its steps may call `tools`.
pub(crate) fn read_workflow(path: &Path, tools: &Toolbox) -> Result<Plan, CliError> {
    let source = read_source(path)?;
    let names: BTreeSet<ToolName> = tools.names().cloned().collect();
    workflow::parse(&source, &names).map_err(|error| CliError::NotAWorkflow {
        path: path.into(),
        place: error.place,
        shown: error.render(&source),
    })
}

/// Reads the text of the workflow at `path`.
pub(crate) fn read_source(path: &Path) -> Result<String, CliError> {
    let bytes = read_file(path, &path.display().to_string(), SOURCE_BYTES_MAX)?;
    String::from_utf8(bytes).map_err(|_| CliError::NotText { path: path.into() })
}

pub(crate) fn read_file(path: &Path, what: &str, most: usize) -> Result<Vec<u8>, CliError> {
    let failed = |source| CliError::Read { path: path.into(), source };
    let bytes = File::open(path).and_then(|file| bounded(file, most)).map_err(failed)?;
    bytes.ok_or_else(|| CliError::TooLarge { what: what.to_owned(), most })
}

/// All of `from`, if that is at most `most` bytes.
fn bounded(from: impl Read, most: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    from.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() <= most).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn source(text: &str) -> JsonSource {
        text.parse().unwrap()
    }

    #[test]
    fn a_value_comes_from_the_line_a_file_or_standard_input() {
        assert_eq!(source("{}"), JsonSource::Literal("{}".into()));
        assert_eq!(source("@a.json"), JsonSource::File("a.json".into()));
        assert_eq!(source("-"), JsonSource::Stdin);
        assert_eq!(source("-1").read("the input").unwrap(), json!(-1));
    }

    #[test]
    fn what_is_not_json_is_named_with_its_place() {
        let error = source("{\"a\": }").read("the run's input").unwrap_err();
        assert_eq!(error.to_string(), "the run's input cannot be used");
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("line 1 column 7"), "{cause}");
    }

    #[test]
    fn nothing_is_read_past_the_bound() {
        assert_eq!(bounded(&[7_u8; 4][..], 4).unwrap(), Some(vec![7; 4]));
        assert_eq!(bounded(io::repeat(7), 4).unwrap(), None);
    }
}
