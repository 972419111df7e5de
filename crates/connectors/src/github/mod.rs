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
//! # What each promises
//! * Labels are a set: GitHub adds one only if it is absent and removes one only if it is there. That is a
//!   precondition which the effect makes false, so both are compare-and-set, and asking again is safe. The
//!   inverse names only the labels that were not there, or were there, when the survey looked. Whoever adds
//!   the same label between the survey and our write sees it go when ours is undone.
//! * A comment is deleted by its id, which is never given out again; deleting it again finds nothing to
//!   delete. Compare-and-set, and irreversible. A comment that was edited since the survey is left alone.
//! * A comment is said once, with a hidden mark: see [`saying`](crate::saying). Its inverse deletes it.

mod comment;
mod delete_comment;
mod get;
mod issue;
mod label;

use std::sync::Arc;
use std::time::Duration;

use domain::EffectClass::{CompareAndSet, Opaque, ReadOnly};

use crate::absent::Absent;
use crate::api::{Api, Base, Credential};
use crate::tool::Toolbox;

/// GitHub itself gives up on a request after ten seconds.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The version of the API that the shapes here are of.
const HEADERS: &[(&str, &str)] = &[("x-github-api-version", "2022-11-28")];

/// Where GitHub is, and who we are there.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `https://api.github.com`, or `https://github.example.com/api/v3`.
    pub base: Base,
    /// A token that may read and write the issues of the repositories that workflows name.
    pub credential: Credential,
}

/// `toolbox` with the tools for GitHub.
pub(crate) fn add(toolbox: Toolbox, settings: Option<Settings>) -> Toolbox {
    let Some(Settings { base, credential }) = settings else { return add_absent(toolbox) };
    let api = Arc::new(Api::new(base, credential, TIMEOUT).with_headers(HEADERS));
    toolbox
        .with(get::Get(Arc::clone(&api)))
        .with(label::Labels { api: Arc::clone(&api), kind: label::Kind::Add })
        .with(label::Labels { api: Arc::clone(&api), kind: label::Kind::Remove })
        .with(comment::Comment(Arc::clone(&api)))
        .with(delete_comment::DeleteComment(api))
}

fn add_absent(toolbox: Toolbox) -> Toolbox {
    let absent = |name, class| Absent { name, class, setting: "github" };
    toolbox
        .with(absent(get::NAME, ReadOnly))
        .with(absent(label::LABEL, CompareAndSet))
        .with(absent(label::UNLABEL, CompareAndSet))
        .with(absent(comment::NAME, Opaque))
        .with(absent(delete_comment::NAME, CompareAndSet))
}
