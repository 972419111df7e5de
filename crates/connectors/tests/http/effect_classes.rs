//! The guarantee of each effect class: calls are repeated, failed and lose their reply, and the server counts effects.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use connectors::{Tool, ToolOutcome, Transform};
use domain::command::EffectOutcome::{DidNotHappen, MayHaveHappened};
use domain::{Action, EffectClass};
use serde_json::{Value, json};
use testkit::{HttpStub, StubReply, StubRequest};

use crate::support::{attempt, propose, tool};

/// More attempts than any call here needs.
const ATTEMPTS_MAX: u32 = 4;

/// The fault of the first request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum FirstRequest {
    None,
    /// Rejected before it is processed.
    Rejected,
    /// Processed, and the reply is lost.
    ReplyLost,
}

/// The server's state.
#[derive(Debug, Default)]
struct ServerState {
    requests: u32,
    effects: u32,
    keys: BTreeSet<String>,
    version: u32,
}

impl ServerState {
    /// Processes `request` as an endpoint of its class would, and returns the status.
    fn process(&mut self, request: &StubRequest) -> u16 {
        let key = request.header("idempotency-key").unwrap_or_default().to_owned();
        match request.line().split(' ').nth(1) {
            Some("/search") => return 200,
            Some("/keyed") if !self.keys.insert(key) => return 200,
            Some("/versioned") if request.header("if-match") != Some(&format!("\"v{}\"", self.version)) => {
                return 412;
            }
            _ => {}
        }
        self.effects += 1;
        self.version += 1;
        200
    }
}

fn endpoint(fault: FirstRequest) -> (HttpStub, Arc<Mutex<ServerState>>) {
    let state = Arc::new(Mutex::new(ServerState::default()));
    let shared = Arc::clone(&state);
    (HttpStub::start(move |request| serve(&mut shared.lock().unwrap(), fault, request)), state)
}

fn serve(state: &mut ServerState, fault: FirstRequest, request: &StubRequest) -> StubReply {
    state.requests += 1;
    if fault == FirstRequest::Rejected && state.requests == 1 {
        return StubReply::new(429, "", "ok");
    }
    let status = state.process(request);
    let lost = fault == FirstRequest::ReplyLost && state.requests == 1;
    if lost { StubReply::none() } else { StubReply::new(status, "", "ok") }
}

/// Retries a call as the engine does: while a retry may succeed and is safe.
async fn retry(tool: &dyn Tool, action: &Action) -> (Vec<ToolOutcome>, bool) {
    let (mut outcomes, mut open) = (Vec::new(), false);
    for _ in 0..ATTEMPTS_MAX {
        let outcome = attempt(tool, action, Duration::from_mins(1), open).await;
        outcomes.push(outcome.clone());
        match outcome {
            ToolOutcome::Done(_) | ToolOutcome::Terminal(_) => return (outcomes, false),
            ToolOutcome::Retryable { certainty, .. } => open = certainty == MayHaveHappened,
        }
        if open && action.class == EffectClass::Opaque {
            break;
        }
    }
    (outcomes, open)
}

#[derive(Debug, PartialEq)]
struct Ending {
    done: bool,
    /// The outcome is unknown and an operator must decide.
    unknown: bool,
    effects: u32,
}

const DONE_ONCE: Ending = Ending { done: true, unknown: false, effects: 1 };
const READ: Ending = Ending { done: true, unknown: false, effects: 0 };
const UNKNOWN_ONCE: Ending = Ending { done: false, unknown: true, effects: 1 };

fn with(server: &HttpStub, path: &str, effect: &str) -> Value {
    let headers = json!({"if-match": "\"v0\""});
    json!({"method": method(effect), "url": server.url(path), "effect": effect, "headers": headers})
}

async fn ending(path: &str, effect: &str, fault: FirstRequest) -> Ending {
    let (server, state) = endpoint(fault);
    let action = propose(tool(), with(&server, path, effect)).unwrap();
    let (outcomes, unknown) = retry(tool(), &action).await;
    let done = matches!(outcomes.last(), Some(ToolOutcome::Done(_)));
    Ending { done, unknown, effects: state.lock().unwrap().effects }
}

#[tokio::test]
async fn effect_happens_once_without_faults() {
    assert_eq!(ending("/search", "read_only", FirstRequest::None).await, READ);
    assert_eq!(ending("/keyed", "native_key", FirstRequest::None).await, DONE_ONCE);
    assert_eq!(ending("/versioned", "compare_and_set", FirstRequest::None).await, DONE_ONCE);
    assert_eq!(ending("/mail", "opaque", FirstRequest::None).await, DONE_ONCE);
}

#[tokio::test]
async fn effect_happens_once_after_a_rejection() {
    assert_eq!(ending("/search", "read_only", FirstRequest::Rejected).await, READ);
    assert_eq!(ending("/keyed", "native_key", FirstRequest::Rejected).await, DONE_ONCE);
    assert_eq!(ending("/versioned", "compare_and_set", FirstRequest::Rejected).await, DONE_ONCE);
    assert_eq!(ending("/mail", "opaque", FirstRequest::Rejected).await, DONE_ONCE);
}

#[tokio::test]
async fn lost_reply_never_causes_a_second_effect() {
    assert_eq!(ending("/search", "read_only", FirstRequest::ReplyLost).await, READ);
    assert_eq!(ending("/keyed", "native_key", FirstRequest::ReplyLost).await, DONE_ONCE);
    // The precondition is false because of this write or another one; the tool cannot tell which.
    assert_eq!(ending("/versioned", "compare_and_set", FirstRequest::ReplyLost).await, UNKNOWN_ONCE);
    assert_eq!(ending("/mail", "opaque", FirstRequest::ReplyLost).await, UNKNOWN_ONCE);
}

#[tokio::test]
async fn second_call_after_success_changes_nothing() {
    for (path, effect) in
        [("/search", "read_only"), ("/keyed", "native_key"), ("/versioned", "compare_and_set")]
    {
        let (server, state) = endpoint(FirstRequest::None);
        let action = propose(tool(), with(&server, path, effect)).unwrap();
        retry(tool(), &action).await;
        let before = state.lock().unwrap().effects;
        // As after a worker crash between effect and commit.
        let second = attempt(tool(), &action, Duration::from_mins(1), true).await;
        assert_eq!(state.lock().unwrap().effects, before, "{effect}");
        let known_not = matches!(
            second,
            ToolOutcome::Terminal(_) | ToolOutcome::Retryable { certainty: DidNotHappen, .. }
        );
        assert!(!known_not, "{effect} claims that nothing happened: {second:?}");
    }
}

#[tokio::test]
async fn transform_is_deterministic() {
    let action = propose(&Transform, json!({"value": {"a": [1, 2]}})).unwrap();
    let (first, _) = retry(&Transform, &action).await;
    let (second, _) = retry(&Transform, &action).await;
    assert_eq!(first, second);
    let [ToolOutcome::Done(done)] = first.as_slice() else { panic!("{first:?}") };
    assert_eq!(done.output, json!({"a": [1, 2]}));
}

/// Only GET and HEAD can be read-only.
fn method(effect: &str) -> &'static str {
    if effect == "read_only" { "GET" } else { "POST" }
}
