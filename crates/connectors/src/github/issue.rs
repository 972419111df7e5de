//! Repositories and issues. In GitHub's API a pull request is an issue.

use domain::Failure;
use serde_json::Value;
use tokio::time::Instant;

use crate::api::{Api, ApiError, ApiRequest, ApiResponse};
use crate::fields::{Fields, invalid};

/// GitHub's limit for the names of owners and repositories.
const NAME_BYTES_MAX: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Repo {
    pub(super) owner: String,
    pub(super) name: String,
}

impl Repo {
    /// Takes `repo` out of `fields`. The name is checked because it becomes part of a path and of a key.
    pub(super) fn take(fields: &mut Fields) -> Result<Self, Failure> {
        let repo = fields.required("repo")?;
        match repo.split_once('/') {
            Some((owner, name)) if is_name(owner) && is_name(name) => {
                Ok(Self { owner: owner.to_owned(), name: name.to_owned() })
            }
            Some(_) | None => Err(invalid("`repo` must be an owner and a name: `acme/shop`")),
        }
    }

    pub(super) fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [&["repos", &self.owner, &self.name], rest].concat()
    }

    /// Reads the repository after a 404, which means either that the object does not exist or that the credential
    /// cannot see the repository.
    pub(super) async fn check_visible(&self, api: &Api, until: Instant) -> Result<(), ApiError> {
        api.send(ApiRequest::get(&self.path(&[])), until).await.map(drop)
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Issue {
    pub(super) repo: Repo,
    pub(super) number: u64,
}

impl Issue {
    /// Takes `repo` and `number` out of `fields`.
    pub(super) fn take(fields: &mut Fields) -> Result<Self, Failure> {
        let repo = Repo::take(fields)?;
        let number = fields.positive_integer("number")?.ok_or_else(|| invalid("`number` is missing"))?;
        Ok(Self { repo, number })
    }

    pub(super) fn target(&self, api: &Api) -> String {
        format!("{}/{}/issues/{}", api.host(), self.repo, self.number)
    }

    /// Reads the issue, or the resource at `rest` below it.
    pub(super) async fn read(
        &self,
        api: &Api,
        rest: &[&str],
        until: Instant,
    ) -> Result<ApiResponse, ApiError> {
        api.send(self.request(rest), until).await
    }

    pub(super) fn request(&self, rest: &[&str]) -> ApiRequest {
        let number = self.number.to_string();
        let path = [&["issues", number.as_str()], rest].concat();
        ApiRequest::get(&self.repo.path(&path))
    }
}

pub(super) fn label_names(labels: &Value) -> Vec<String> {
    let labels = labels.as_array().map(Vec::as_slice).unwrap_or_default();
    labels.iter().filter_map(|label| Some(label.get("name")?.as_str()?.to_owned())).collect()
}
