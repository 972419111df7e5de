//! A simulated GitHub: issues, their labels and their comments, in the shapes of REST version 3.

mod issue;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::server::{Faults, Refused, Server, locked};

pub use issue::{Comment, Issue};

/// The token that may do everything.
pub const TOKEN: &str = "gh-token-1";
/// The one repository there is.
pub const REPO: &str = "acme/shop";
/// The number of its one issue, which is labelled `bug`.
pub const ISSUE: u64 = 7;

/// A running GitHub.
#[derive(Debug)]
pub struct GitHub {
    server: Server,
    world: Arc<Mutex<World>>,
    faults: Faults,
}

#[derive(Debug, Default)]
struct World {
    issues: BTreeMap<u64, Issue>,
    comments_ever: u64,
    requests: u32,
    writes: u32,
}

impl GitHub {
    /// Starts a GitHub with one issue.
    pub async fn start() -> io::Result<Self> {
        let mut world = World::default();
        world.issues.insert(ISSUE, Issue::new("Checkout fails", &["bug"]));
        let world = Arc::new(Mutex::new(world));
        let router = router().with_state(Arc::clone(&world));
        let faults = Faults::default();
        Ok(Self { server: Server::start(router, &faults).await?, world, faults })
    }

    /// Where it is.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// What goes wrong with the next requests.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// How many requests have reached it, and were not turned away by a fault.
    pub fn requests(&self) -> u32 {
        locked(&self.world).requests
    }

    /// How often something was really changed.
    pub fn writes(&self) -> u32 {
        locked(&self.world).writes
    }

    /// An issue as it stands.
    pub fn issue(&self, number: u64) -> Option<Issue> {
        locked(&self.world).issues.get(&number).cloned()
    }

    /// Somebody else changes an issue.
    pub fn change(&self, number: u64, change: impl FnOnce(&mut Issue)) {
        if let Some(issue) = locked(&self.world).issues.get_mut(&number) {
            change(issue);
        }
    }
}

fn router() -> Router<Arc<Mutex<World>>> {
    Router::new()
        .route("/repos/{owner}/{name}", get(repo))
        .route("/repos/{owner}/{name}/issues/comments/{id}", get(comment).delete(delete_comment))
        .route("/repos/{owner}/{name}/issues/{number}", get(issue))
        .route("/repos/{owner}/{name}/issues/{number}/labels", get(labels).post(add_labels))
        .route("/repos/{owner}/{name}/issues/{number}/labels/{label}", delete(remove_label))
        .route("/repos/{owner}/{name}/issues/{number}/comments", get(comments).post(add_comment))
}

type Shared = State<Arc<Mutex<World>>>;
type Numbered = Path<(String, String, u64)>;

impl World {
    /// Counts the request, and turns away who may not see `repo`, the way GitHub does: as if it were not there.
    fn admit(&mut self, headers: &HeaderMap, owner: &str, name: &str) -> Result<(), Refused> {
        self.requests += 1;
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        match given {
            Some(given) if given != format!("Bearer {TOKEN}") => {
                Err(Refused(StatusCode::UNAUTHORIZED, "Bad credentials"))
            }
            Some(_) if format!("{owner}/{name}") == REPO => Ok(()),
            Some(_) | None => Err(not_found()),
        }
    }

    fn issue(&mut self, number: u64) -> Result<&mut Issue, Refused> {
        self.issues.get_mut(&number).ok_or_else(not_found)
    }

    fn find_comment(&self, id: u64) -> Result<&Comment, Refused> {
        self.issues
            .values()
            .flat_map(|issue| &issue.comments)
            .find(|comment| comment.id == id)
            .ok_or_else(not_found)
    }
}

async fn repo(
    State(world): Shared,
    Path((owner, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    locked(&world).admit(&headers, &owner, &name)?;
    Ok(axum::Json(json!({ "full_name": REPO })).into_response())
}

async fn issue(
    State(world): Shared,
    Path((owner, name, number)): Numbered,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let mut world = locked(&world);
    world.admit(&headers, &owner, &name)?;
    Ok(axum::Json(world.issue(number)?.show(number)).into_response())
}

async fn labels(
    State(world): Shared,
    Path((owner, name, number)): Numbered,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let mut world = locked(&world);
    world.admit(&headers, &owner, &name)?;
    Ok(axum::Json(world.issue(number)?.show_labels()).into_response())
}

#[derive(Deserialize)]
struct Labels {
    labels: Vec<String>,
}

async fn add_labels(
    State(world): Shared,
    Path((owner, name, number)): Numbered,
    headers: HeaderMap,
    axum::Json(given): axum::Json<Labels>,
) -> Result<Response, Refused> {
    let mut world = locked(&world);
    world.admit(&headers, &owner, &name)?;
    let issue = world.issue(number)?;
    let before = issue.labels.len();
    issue.labels.extend(given.labels);
    let (changed, shown) = (issue.labels.len() != before, issue.show_labels());
    world.writes += u32::from(changed);
    Ok(axum::Json(shown).into_response())
}

async fn remove_label(
    State(world): Shared,
    Path((owner, name, number, label)): Path<(String, String, u64, String)>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let mut world = locked(&world);
    world.admit(&headers, &owner, &name)?;
    let issue = world.issue(number)?;
    if !issue.labels.remove(&label) {
        return Err(Refused(StatusCode::NOT_FOUND, "Label does not exist"));
    }
    let shown = issue.show_labels();
    world.writes += 1;
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
    State(world): Shared,
    Path((owner, name, number)): Numbered,
    Query(page): Query<Page>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let mut world = locked(&world);
    world.admit(&headers, &owner, &name)?;
    let all = world.issue(number)?.comments.iter();
    let shown = all.skip(page.per_page * page.page.saturating_sub(1)).take(page.per_page).map(Comment::show);
    Ok(axum::Json(shown.collect::<Value>()).into_response())
}

#[derive(Deserialize)]
struct Said {
    body: String,
}

async fn add_comment(
    State(world): Shared,
    Path((owner, name, number)): Numbered,
    headers: HeaderMap,
    axum::Json(said): axum::Json<Said>,
) -> Result<Response, Refused> {
    let mut world = locked(&world);
    world.admit(&headers, &owner, &name)?;
    let comment = Comment { id: world.comments_ever + 1_001, body: said.body };
    let shown = comment.show();
    world.issue(number)?.comments.push(comment);
    world.comments_ever += 1;
    world.writes += 1;
    Ok((StatusCode::CREATED, axum::Json(shown)).into_response())
}

async fn comment(
    State(world): Shared,
    Path((owner, name, id)): Numbered,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let mut world = locked(&world);
    world.admit(&headers, &owner, &name)?;
    Ok(axum::Json(world.find_comment(id)?.show()).into_response())
}

async fn delete_comment(
    State(world): Shared,
    Path((owner, name, id)): Numbered,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let mut world = locked(&world);
    world.admit(&headers, &owner, &name)?;
    world.find_comment(id)?;
    for issue in world.issues.values_mut() {
        issue.comments.retain(|comment| comment.id != id);
    }
    world.writes += 1;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn not_found() -> Refused {
    Refused(StatusCode::NOT_FOUND, "Not Found")
}
