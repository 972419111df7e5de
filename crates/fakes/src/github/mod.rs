//! A fake GitHub: issues, labels and comments of the REST API v3.

mod issue;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::server::{ErrorReply, FakeFaults, Server};

pub use issue::{Comment, Issue};

/// The valid token.
pub const TOKEN: &str = "gh-token-1";
/// The only repository.
pub const REPO: &str = "acme/shop";
/// The number of the first issue, which has the label `bug`.
pub const ISSUE: u64 = 7;

#[derive(Debug)]
pub struct GitHub {
    server: Server,
    state: Arc<Mutex<GitHubState>>,
    faults: FakeFaults,
}

#[derive(Debug, Default)]
struct GitHubState {
    issues: BTreeMap<u64, Issue>,
    /// Every comment that was ever posted, deleted ones included.
    posted: Vec<Comment>,
    requests: u32,
    writes: u32,
}

impl GitHub {
    pub async fn start() -> io::Result<Self> {
        let mut state = GitHubState::default();
        state.issues.insert(ISSUE, Issue::new("Checkout fails", &["bug"]));
        let state = Arc::new(Mutex::new(state));
        let router = router().with_state(Arc::clone(&state));
        let faults = FakeFaults::default();
        Ok(Self { server: Server::start(router, &faults).await?, state, faults })
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Faults to inject into the next requests.
    pub fn faults(&self) -> &FakeFaults {
        &self.faults
    }

    /// The number of requests that no fault rejected.
    pub fn requests(&self) -> u32 {
        self.state.lock().requests
    }

    /// The number of real changes.
    pub fn writes(&self) -> u32 {
        self.state.lock().writes
    }

    pub fn issue(&self, number: u64) -> Option<Issue> {
        self.state.lock().issues.get(&number).cloned()
    }

    /// Opens an issue with this number, without labels.
    pub fn open_issue(&self, number: u64, title: &str) {
        self.state.lock().issues.insert(number, Issue::new(title, &[]));
    }

    /// Every comment that was ever posted, deleted ones included, oldest first.
    pub fn posted_comments(&self) -> Vec<Comment> {
        self.state.lock().posted.clone()
    }

    /// The ids of the comments that exist.
    pub fn comment_ids(&self) -> BTreeSet<u64> {
        let state = self.state.lock();
        state.issues.values().flat_map(|issue| &issue.comments).map(|comment| comment.id).collect()
    }

    /// Changes an issue as another user would.
    pub fn change(&self, number: u64, change: impl FnOnce(&mut Issue)) {
        if let Some(issue) = self.state.lock().issues.get_mut(&number) {
            change(issue);
        }
    }
}

fn router() -> Router<Arc<Mutex<GitHubState>>> {
    Router::new()
        .route("/repos/{owner}/{name}", get(repo))
        .route("/repos/{owner}/{name}/issues/comments/{id}", get(comment).delete(delete_comment))
        .route("/repos/{owner}/{name}/issues/{number}", get(issue))
        .route("/repos/{owner}/{name}/issues/{number}/labels", get(labels).post(add_labels))
        .route("/repos/{owner}/{name}/issues/{number}/labels/{label}", delete(remove_label))
        .route("/repos/{owner}/{name}/issues/{number}/comments", get(comments).post(add_comment))
}

type Shared = State<Arc<Mutex<GitHubState>>>;
type Numbered = Path<(String, String, u64)>;

impl GitHubState {
    /// Counts and authorizes the request. Like GitHub, it answers 404 for a repository that the caller may not see.
    fn authorize(&mut self, headers: &HeaderMap, owner: &str, name: &str) -> Result<(), ErrorReply> {
        self.requests += 1;
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        match given {
            Some(given) if given != format!("Bearer {TOKEN}") => {
                Err(ErrorReply(StatusCode::UNAUTHORIZED, "Bad credentials"))
            }
            Some(_) if format!("{owner}/{name}") == REPO => Ok(()),
            Some(_) | None => Err(not_found()),
        }
    }

    fn issue(&mut self, number: u64) -> Result<&mut Issue, ErrorReply> {
        self.issues.get_mut(&number).ok_or_else(not_found)
    }

    fn find_comment(&self, id: u64) -> Result<&Comment, ErrorReply> {
        self.issues
            .values()
            .flat_map(|issue| &issue.comments)
            .find(|comment| comment.id == id)
            .ok_or_else(not_found)
    }
}

async fn repo(
    State(state): Shared,
    Path((owner, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, ErrorReply> {
    state.lock().authorize(&headers, &owner, &name)?;
    Ok(axum::Json(json!({ "full_name": REPO })).into_response())
}

async fn issue(
    State(state): Shared,
    Path((owner, name, number)): Numbered,
    headers: HeaderMap,
) -> Result<Response, ErrorReply> {
    let mut state = state.lock();
    state.authorize(&headers, &owner, &name)?;
    Ok(axum::Json(state.issue(number)?.to_json(number)).into_response())
}

async fn labels(
    State(state): Shared,
    Path((owner, name, number)): Numbered,
    headers: HeaderMap,
) -> Result<Response, ErrorReply> {
    let mut state = state.lock();
    state.authorize(&headers, &owner, &name)?;
    Ok(axum::Json(state.issue(number)?.labels_json()).into_response())
}

#[derive(Deserialize)]
struct Labels {
    labels: Vec<String>,
}

async fn add_labels(
    State(state): Shared,
    Path((owner, name, number)): Numbered,
    headers: HeaderMap,
    axum::Json(given): axum::Json<Labels>,
) -> Result<Response, ErrorReply> {
    let mut state = state.lock();
    state.authorize(&headers, &owner, &name)?;
    let issue = state.issue(number)?;
    let before = issue.labels.len();
    issue.labels.extend(given.labels);
    let (changed, shown) = (issue.labels.len() != before, issue.labels_json());
    state.writes += u32::from(changed);
    Ok(axum::Json(shown).into_response())
}

async fn remove_label(
    State(state): Shared,
    Path((owner, name, number, label)): Path<(String, String, u64, String)>,
    headers: HeaderMap,
) -> Result<Response, ErrorReply> {
    let mut state = state.lock();
    state.authorize(&headers, &owner, &name)?;
    let issue = state.issue(number)?;
    if !issue.labels.remove(&label) {
        return Err(ErrorReply(StatusCode::NOT_FOUND, "Label does not exist"));
    }
    let shown = issue.labels_json();
    state.writes += 1;
    Ok(axum::Json(shown).into_response())
}

#[derive(Deserialize)]
#[serde(default)]
struct Page {
    per_page: usize,
    page: usize,
}

impl Default for Page {
    fn default() -> Self {
        Self { per_page: 30, page: 1 }
    }
}

async fn comments(
    State(state): Shared,
    Path((owner, name, number)): Numbered,
    Query(page): Query<Page>,
    headers: HeaderMap,
) -> Result<Response, ErrorReply> {
    let mut state = state.lock();
    state.authorize(&headers, &owner, &name)?;
    let all = state.issue(number)?.comments.iter();
    let shown =
        all.skip(page.per_page * page.page.saturating_sub(1)).take(page.per_page).map(Comment::to_json);
    Ok(axum::Json(shown.collect::<Value>()).into_response())
}

#[derive(Deserialize)]
struct NewComment {
    body: String,
}

async fn add_comment(
    State(state): Shared,
    Path((owner, name, number)): Numbered,
    headers: HeaderMap,
    axum::Json(new): axum::Json<NewComment>,
) -> Result<Response, ErrorReply> {
    let mut state = state.lock();
    state.authorize(&headers, &owner, &name)?;
    let id = 1_001 + u64::try_from(state.posted.len()).unwrap_or(u64::MAX);
    let comment = Comment { id, body: new.body };
    let shown = comment.to_json();
    state.issue(number)?.comments.push(comment.clone());
    state.posted.push(comment);
    state.writes += 1;
    Ok((StatusCode::CREATED, axum::Json(shown)).into_response())
}

async fn comment(
    State(state): Shared,
    Path((owner, name, id)): Numbered,
    headers: HeaderMap,
) -> Result<Response, ErrorReply> {
    let mut state = state.lock();
    state.authorize(&headers, &owner, &name)?;
    Ok(axum::Json(state.find_comment(id)?.to_json()).into_response())
}

async fn delete_comment(
    State(state): Shared,
    Path((owner, name, id)): Numbered,
    headers: HeaderMap,
) -> Result<Response, ErrorReply> {
    let mut state = state.lock();
    state.authorize(&headers, &owner, &name)?;
    state.find_comment(id)?;
    for issue in state.issues.values_mut() {
        issue.comments.retain(|comment| comment.id != id);
    }
    state.writes += 1;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn not_found() -> ErrorReply {
    ErrorReply(StatusCode::NOT_FOUND, "Not Found")
}
