//! Where the runs of `countersign dev` are kept, and how commands reach them there.

use std::path::{Path, PathBuf};

use fakes::servicenow::INCIDENT;
use serde_json::json;
use views::hint::{Hints, quoted};

use super::people::Keys;
use crate::context::Context;

/// Where runs are kept.
#[derive(Clone)]
pub(super) enum Kept {
    /// In a file of the directory, which commands open themselves.
    File(PathBuf),
    /// In a table on AWS, by what it is called, which commands reach through the API.
    #[cfg(feature = "aws")]
    Table(String),
}

impl Kept {
    /// What to call it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::File(file) => file.display().to_string(),
            #[cfg(feature = "aws")]
            Self::Table(name) => name.clone(),
        }
    }

    /// Commands that reach what is kept, from the server at `url`.
    #[cfg_attr(not(feature = "aws"), expect(unused_variables, reason = "commands open the file themselves"))]
    pub(super) fn hints(&self, context: &Context, url: &str) -> Hints {
        match self {
            Self::File(_) => context.hints(),
            #[cfg(feature = "aws")]
            Self::Table(_) => Hints::of_server(&format!("--server {url}")),
        }
    }

    /// What must stand before a command for it to be let in.
    #[cfg_attr(not(feature = "aws"), expect(unused_variables, reason = "a file asks for no key"))]
    pub(super) fn entry(&self, keys: &Keys) -> String {
        match self {
            Self::File(_) => String::new(),
            #[cfg(feature = "aws")]
            Self::Table(_) => format!("export COUNTERSIGN_API_KEY={}; ", keys.of("ada")),
        }
    }

    /// The first thing to try: a run of the workflow in `sample`, which is called `name`.
    #[cfg_attr(not(feature = "aws"), expect(unused_variables, reason = "a file is started as it is"))]
    pub(super) fn first(&self, hints: &Hints, sample: &Path, name: &str) -> String {
        let input = quoted(&json!({ "incident": INCIDENT }).to_string());
        let file = quoted(&sample.to_string_lossy());
        match self {
            Self::File(_) => hints.line(&format!("run start {file} --input {input}")),
            #[cfg(feature = "aws")]
            Self::Table(_) => {
                let apply = hints.line(&format!("workflow apply {file}"));
                format!("{apply} && {}", hints.line(&format!("run start {name} --input {input}")))
            }
        }
    }
}
