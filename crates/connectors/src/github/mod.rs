//! GitHub, through its REST API.
//!
//! ```yaml
//! tool: github.get
//! with: { repo: acme/shop, number: 7 }          # an issue or a pull request
//! tool: github.label
//! with: { repo: acme/shop, number: 7, labels: [incident] }
//! tool: github.unlabel
//! with: { repo: acme/shop, number: 7, labels: [incident] }
//! tool: github.comment
//! with: { repo: acme/shop, number: 7, text: Fixed by the restart. }
//! tool: github.delete_comment
//! with: { repo: acme/shop, comment_id: 1001 }
//! ```
//!
//! # Guarantees
//! * `github.label` and `github.unlabel` are compare-and-set. Labels are a set: GitHub adds a label only if it is
//!   absent and removes it only if it is present, so a second request changes nothing. The inverse names only the
//!   labels that `observe` found absent (or present). If a user adds the same label between `observe` and the
//!   write, undoing the step removes that label too.
//! * `github.delete_comment` is compare-and-set and irreversible. GitHub never reuses a comment id, so a second
//!   request finds nothing to delete. A comment that was edited since `observe` is not deleted.
//! * `github.comment` posts once, with a hidden mark: see [`marked_post`](crate::marked_post). Its inverse deletes
//!   the comment.

mod comment;
mod delete_comment;
mod get;
mod issue;
mod label;

use std::sync::Arc;
use std::time::Duration;

use domain::EffectClass::{CompareAndSet, Opaque, ReadOnly};

use crate::api::{Api, BaseUrl, Credential};
use crate::not_configured::NotConfiguredTool;
use crate::tool::ToolRegistry;

/// GitHub aborts a request after ten seconds.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The API version that this module is written for.
const HEADERS: &[(&str, &str)] = &[("x-github-api-version", "2022-11-28")];

#[derive(Debug, Clone)]
pub struct GitHubSettings {
    /// `https://api.github.com`, or `https://github.example.com/api/v3`.
    pub base: BaseUrl,
    /// A token that may read and write the issues of the repositories that workflows name.
    pub credential: Credential,
}

/// Registers the GitHub tools.
pub(crate) fn register(registry: ToolRegistry, settings: Option<GitHubSettings>) -> ToolRegistry {
    let Some(GitHubSettings { base, credential }) = settings else {
        return register_not_configured(registry);
    };
    let api = Arc::new(Api::new(base, credential, TIMEOUT).with_headers(HEADERS));
    registry
        .with(get::Get(Arc::clone(&api)))
        .with(label::Labels { api: Arc::clone(&api), kind: label::Kind::Add })
        .with(label::Labels { api: Arc::clone(&api), kind: label::Kind::Remove })
        .with(comment::Comment(Arc::clone(&api)))
        .with(delete_comment::DeleteComment(api))
}

fn register_not_configured(registry: ToolRegistry) -> ToolRegistry {
    let not_configured = |name, class| NotConfiguredTool { name, class, setting: "github" };
    registry
        .with(not_configured(get::NAME, ReadOnly))
        .with(not_configured(label::LABEL, CompareAndSet))
        .with(not_configured(label::UNLABEL, CompareAndSet))
        .with(not_configured(comment::NAME, Opaque))
        .with(not_configured(delete_comment::NAME, CompareAndSet))
}
