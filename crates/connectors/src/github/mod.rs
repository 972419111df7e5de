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

use domain::ConnectionKind;
use domain::EffectClass::{CompareAndSet, Opaque, ReadOnly};

use crate::api::Api;
use crate::connection::{ToolConnection, Unconnected};
use crate::tool::ToolRegistry;

/// GitHub aborts a request after ten seconds.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The API version that this module is written for.
const HEADERS: &[(&str, &str)] = &[("x-github-api-version", "2022-11-28")];

/// Registers the GitHub tools.
pub(crate) fn register(registry: ToolRegistry) -> ToolRegistry {
    let tool = |name, class, connect| Unconnected { name, kind: ConnectionKind::GitHub, class, connect };
    registry
        .with(tool(get::NAME, ReadOnly, |on| Arc::new(get::Get(api(on)))))
        .with(tool(label::LABEL, CompareAndSet, |on| {
            Arc::new(label::Labels { api: api(on), kind: label::Kind::Add })
        }))
        .with(tool(label::UNLABEL, CompareAndSet, |on| {
            Arc::new(label::Labels { api: api(on), kind: label::Kind::Remove })
        }))
        .with(tool(comment::NAME, Opaque, |on| Arc::new(comment::Comment(api(on)))))
        .with(tool(delete_comment::NAME, CompareAndSet, |on| {
            Arc::new(delete_comment::DeleteComment(api(on)))
        }))
}

fn api(connection: &ToolConnection) -> Arc<Api> {
    Arc::new(Api::new(connection, TIMEOUT).with_headers(HEADERS))
}
