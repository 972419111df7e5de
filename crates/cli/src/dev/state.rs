//! The store of `countersign dev`, and the options with which other commands reach it.

use std::path::{Path, PathBuf};

use fakes::servicenow::INCIDENT;
use serde_json::json;
use views::hint::{CommandHints, quoted};

use super::api_keys::Keys;
use crate::context::Context;

#[derive(Clone)]
pub(super) enum DevState {
    /// A file in the directory, which commands open directly.
    File(PathBuf),
    /// A table on AWS, by name, which commands reach through the API.
    Table(String),
}

impl DevState {
    pub(super) fn name(&self) -> String {
        match self {
            Self::File(file) => file.display().to_string(),
            Self::Table(name) => name.clone(),
        }
    }

    /// Renders commands that reach the store, or the server at `url`.
    pub(super) fn hints(&self, context: &Context, url: &str) -> CommandHints {
        match self {
            Self::File(_) => context.hints(),
            Self::Table(_) => CommandHints::for_server(&format!("--server {url}")),
        }
    }

    /// The shell prefix that sets the API key, if commands need one.
    pub(super) fn key_prefix(&self, keys: &Keys) -> String {
        match self {
            Self::File(_) => String::new(),
            Self::Table(_) => format!("export COUNTERSIGN_API_KEY={}; ", keys.key_of("ada")),
        }
    }

    /// The first command to try: it starts a run of the workflow `name` in the file `sample`.
    pub(super) fn first_command(&self, hints: &CommandHints, sample: &Path, name: &str) -> String {
        let input = quoted(&json!({ "incident": INCIDENT }).to_string());
        let file = quoted(&sample.to_string_lossy());
        match self {
            Self::File(_) => hints.line(&format!("run start {file} --input {input}")),
            Self::Table(_) => {
                let apply = hints.line(&format!("workflow apply {file}"));
                format!("{apply} && {}", hints.line(&format!("run start {name} --input {input}")))
            }
        }
    }
}
