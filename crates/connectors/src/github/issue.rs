//! Repositories and issues, checked, and reading an issue. A pull request is an issue with more to it.

use domain::Failure;
use serde_json::Value;
use tokio::time::Instant;

use crate::api::{Answer, Api, Fault, Question};
use crate::fields::{Fields, invalid};

/// GitHub's own limit for the names of owners and repositories.
const NAME_BYTES_MAX: usize = 100;

/// A repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Repo {
    pub(super) owner: String,
    pub(super) name: String,
}

impl Repo {
    /// Takes `repo` out of `fields`. It becomes part of a path and of a key.
    pub(super) fn take(fields: &mut Fields) -> Result<Self, Failure> {
        let repo = fields.required("repo")?;
        match repo.split_once('/') {
            Some((owner, name)) if is_name(owner) && is_name(name) => {
                Ok(Self { owner: owner.to_owned(), name: name.to_owned() })
            }
            Some(_) | None => Err(invalid("`repo` must be an owner and a name: `acme/shop`")),
        }
    }

    /// The path of something in it.
    pub(super) fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [&["repos", &self.owner, &self.name], rest].concat()
    }

    /// A 404 may mean that the thing is gone, or that we see nothing here at all; which, the repository tells.
    pub(super) async fn check_seen(&self, api: &Api, until: Instant) -> Result<(), Fault> {
        api.ask(Question::get(&self.path(&[])), until).await.map(drop)
    }
}

impl std::fmt::Display for Repo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed) && text.bytes().any(|b| b != b'.')
}

/// An issue or a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Issue {
    pub(super) repo: Repo,
    pub(super) number: u64,
}

impl Issue {
    /// Takes `repo` and `number` out of `fields`.
    pub(super) fn take(fields: &mut Fields) -> Result<Self, Failure> {
        let repo = Repo::take(fields)?;
        let number = fields.number("number")?.ok_or_else(|| invalid("`number` is missing"))?;
        Ok(Self { repo, number })
    }

    pub(super) fn target(&self, api: &Api) -> String {
        format!("{}/{}/issues/{}", api.host(), self.repo, self.number)
    }

    /// Reads the issue, or what is at `rest` under it.
    pub(super) async fn read(&self, api: &Api, rest: &[&str], until: Instant) -> Result<Answer, Fault> {
        api.ask(self.question(rest), until).await
    }

    /// The question for what is at `rest` under the issue.
    pub(super) fn question(&self, rest: &[&str]) -> Question {
        let number = self.number.to_string();
        let path = [&["issues", number.as_str()], rest].concat();
        Question::get(&self.repo.path(&path))
    }
}

/// The names in a list of labels.
pub(super) fn label_names(labels: &Value) -> Vec<String> {
    let labels = labels.as_array().map(Vec::as_slice).unwrap_or_default();
    labels.iter().filter_map(|label| Some(label.get("name")?.as_str()?.to_owned())).collect()
}
