//! The external systems. They run in this process, which is never killed, and count every effect that reached them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, put};
use fakes::github::GitHub;
use fakes::server::{FakeFault, FakeFaults, Server};
use fakes::servicenow::{self, ServiceNow};
use fakes::slack::{FakeSlack, FakeSlackFault};
use parking_lot::Mutex;

use crate::rng::Rng;

/// One fault for this many requests to a system.
const REQUESTS_PER_FAULT: u64 = 30;

/// The length of a mark in a note, a comment or a message.
const MARK_CHARS: usize = 32;

pub(crate) struct ExternalSystems {
    pub(crate) servicenow: ServiceNow,
    github: GitHub,
    pub(crate) slack: FakeSlack,
    http: Server,
    http_faults: FakeFaults,
    service: Arc<Mutex<Service>>,
}

/// The state of the HTTP service.
#[derive(Default)]
struct Service {
    /// How often the effect of each idempotency key happened.
    effects: BTreeMap<String, u32>,
    things: BTreeSet<String>,
    requests: u64,
}

/// The effects that happened outside, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ExternalCounts {
    /// Requests with an effect, by idempotency key; notes, comments and messages, by mark.
    pub(crate) effects: BTreeMap<EffectName, u32>,
    /// Accepted writes by record, notes included.
    pub(crate) record_writes: BTreeMap<String, u32>,
    pub(crate) deleted_comments: BTreeSet<u64>,
    /// The labels of each issue.
    pub(crate) labels: BTreeMap<u64, BTreeSet<String>>,
}

/// What identifies an effect in the external system.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EffectName {
    HttpKey(String),
    /// A work note, by its mark.
    Note(String),
    /// A comment or a message, by its mark.
    Post(String),
}

impl ExternalSystems {
    pub(crate) async fn start() -> std::io::Result<Self> {
        let service = Arc::new(Mutex::new(Service::default()));
        let http_faults = FakeFaults::default();
        let router = Router::new()
            .route("/read", get(read))
            .route("/keyed", put(keyed))
            .route("/opaque", put(opaque))
            .route("/forbidden", put(opaque))
            .route("/broken", put(broken))
            .route("/things/{id}", put(create))
            .with_state(Arc::clone(&service));
        Ok(Self {
            servicenow: ServiceNow::start().await?,
            github: GitHub::start().await?,
            slack: FakeSlack::start().await?,
            http: Server::start(router, &http_faults).await?,
            http_faults,
            service,
        })
    }

    /// `127.0.0.1:…`
    pub(crate) fn http_address(&self) -> String {
        self.http.url().trim_start_matches("http://").to_owned()
    }

    pub(crate) fn http_url(&self) -> String {
        self.http.url()
    }

    /// The configuration of the workers and servers, and the variables that it names.
    pub(crate) fn config(&self) -> String {
        format!(
            "connections:\n\
             \x20 - {{ name: servicenow, kind: servicenow, base_url: '{servicenow}', environment: dev,\n\
             \x20     credential: {{ type: basic, user: {user}, password: 'env://SERVICENOW_PASSWORD' }} }}\n\
             \x20 - {{ name: github, kind: github, base_url: '{github}', environment: dev,\n\
             \x20     credential: {{ type: bearer, token: 'env://GITHUB_TOKEN' }} }}\n\
             \x20 - {{ name: slack, kind: slack, base_url: '{slack}/api', environment: dev,\n\
             \x20     credential: {{ type: bearer, token: 'env://SLACK_TOKEN' }}, options: {{ channel: C0APPROVALS }} }}\n\
             server: {{ session_secret_env: SESSION_SECRET }}\n",
            servicenow = self.servicenow.url(),
            user = servicenow::USER,
            github = self.github.url(),
            slack = self.slack.url(),
        )
    }

    /// With one secret for all servers, a cursor stays valid when its server is replaced.
    pub(crate) fn credentials() -> [(&'static str, &'static str); 4] {
        [
            ("SERVICENOW_PASSWORD", servicenow::PASSWORD),
            ("GITHUB_TOKEN", fakes::github::TOKEN),
            ("SLACK_TOKEN", "xoxb-fake"),
            ("SESSION_SECRET", "the-servers-of-the-soak-share-this-secret"),
        ]
    }

    /// Creates the record and the issue of one run.
    pub(crate) fn prepare(&self, sys_id: &str, issue: u64) {
        self.servicenow.report(sys_id, "INC", "before");
        self.github.open_issue(issue, "before");
    }

    /// The number of effects so far, for progress lines.
    pub(crate) fn total(&self) -> u64 {
        let http: u64 = self.service.lock().effects.values().map(|count| u64::from(*count)).sum();
        http + u64::from(self.github.writes())
    }

    pub(crate) fn counts(&self, issues: impl Iterator<Item = u64>) -> ExternalCounts {
        let mut counts = ExternalCounts::default();
        for (key, count) in &self.service.lock().effects {
            counts.effects.insert(EffectName::HttpKey(key.clone()), *count);
        }
        let posted = self.github.posted_comments();
        let messages = self.slack.messages();
        let message_marks =
            messages.iter().filter_map(|message| message.metadata["event_payload"]["mark"].as_str());
        let posts = posted
            .iter()
            .filter_map(|comment| mark_in(&comment.body))
            .chain(message_marks.map(str::to_owned));
        let notes = self.servicenow.all_work_notes();
        let notes = notes.iter().filter_map(|note| mark_in(note)).map(EffectName::Note);
        for name in posts.map(EffectName::Post).chain(notes) {
            *counts.effects.entry(name).or_default() += 1;
        }
        counts.record_writes = self.servicenow.accepted();
        let existing = self.github.comment_ids();
        counts.deleted_comments =
            posted.iter().map(|comment| comment.id).filter(|id| !existing.contains(id)).collect();
        counts.labels =
            issues.filter_map(|number| Some((number, self.github.issue(number)?.labels))).collect();
        counts
    }

    /// Injects faults in proportion to the requests since the last call.
    pub(crate) fn inject(&self, seen: &mut [u64; 4], rng: &mut Rng) -> u32 {
        let requests = [
            u64::from(self.servicenow.requests()),
            u64::from(self.github.requests()),
            self.slack.calls() as u64,
            self.service.lock().requests,
        ];
        let mut injected = 0;
        for (at, requests) in requests.into_iter().enumerate() {
            while requests >= seen[at] + REQUESTS_PER_FAULT {
                seen[at] += REQUESTS_PER_FAULT;
                injected += 1;
                match at {
                    0 => inject_into(self.servicenow.faults(), rng),
                    1 => inject_into(self.github.faults(), rng),
                    2 => self.slack.inject(slack_fault(rng)),
                    _ => inject_into(&self.http_faults, rng),
                }
            }
        }
        injected
    }
}

fn inject_into(faults: &FakeFaults, rng: &mut Rng) {
    let fault = match rng.below(7) {
        0 => FakeFault::RateLimited { retry_after: "1".to_owned() },
        1 => FakeFault::Status(503),
        2 => FakeFault::ErrorAfterEffect,
        3 | 4 => FakeFault::LostReply,
        5 => FakeFault::Slow(Duration::from_millis(rng.between(50, 1_500))),
        _ => FakeFault::DelayedReply(Duration::from_millis(rng.between(50, 1_500))),
    };
    if rng.percent(20) { faults.on_read(fault) } else { faults.on_write(fault) }
}

fn slack_fault(rng: &mut Rng) -> FakeSlackFault {
    match rng.below(4) {
        0 => FakeSlackFault::RateLimited { retry_after_secs: 1 },
        1 => FakeSlackFault::ServerError,
        2 => FakeSlackFault::Slow(Duration::from_millis(300)),
        _ => FakeSlackFault::LostReply,
    }
}

/// The mark that a tool adds to its text: `countersign:` and 32 characters.
fn mark_in(text: &str) -> Option<String> {
    let (_, mark) = text.rsplit_once("countersign:")?;
    mark.get(..MARK_CHARS).map(str::to_owned)
}

type Shared = State<Arc<Mutex<Service>>>;

fn key(headers: &HeaderMap) -> String {
    headers.get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or("none").to_owned()
}

const OK: (StatusCode, &str) = (StatusCode::OK, "{\"ok\":true}");

async fn read(State(service): Shared) -> (StatusCode, &'static str) {
    service.lock().requests += 1;
    OK
}

/// Acts once for each key.
async fn keyed(State(service): Shared, headers: HeaderMap) -> (StatusCode, &'static str) {
    let mut service = service.lock();
    service.requests += 1;
    service.effects.entry(key(&headers)).or_insert(1);
    OK
}

/// Acts for every request.
async fn opaque(State(service): Shared, headers: HeaderMap) -> (StatusCode, &'static str) {
    let mut service = service.lock();
    service.requests += 1;
    *service.effects.entry(key(&headers)).or_default() += 1;
    OK
}

async fn broken(State(service): Shared) -> StatusCode {
    service.lock().requests += 1;
    StatusCode::UNPROCESSABLE_ENTITY
}

/// Acts if the thing does not exist.
async fn create(State(service): Shared, Path(id): Path<String>, headers: HeaderMap) -> StatusCode {
    let mut service = service.lock();
    service.requests += 1;
    if headers.get("if-none-match").is_some() && service.things.contains(&id) {
        return StatusCode::PRECONDITION_FAILED;
    }
    service.things.insert(id);
    *service.effects.entry(key(&headers)).or_default() += 1;
    StatusCode::CREATED
}
