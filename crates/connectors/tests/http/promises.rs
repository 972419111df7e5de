//! Every tool's call made twice, failed once, and with its reply lost once: what its class promises, counted
//! by a server that knows what each effect did.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use connectors::{Outcome, Tool, Transform};
use domain::command::Certainty::{DidNotHappen, MayHaveHappened};
use domain::{Action, EffectClass};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::answer;
use crate::support::{Server, attempt, header, propose, tool};

/// More than any call here needs; a call that goes on for ever is a flaw of its own.
const ATTEMPTS_MAX: u32 = 4;

/// What goes wrong with the first request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// It is turned away before anything happens.
    TurnedAway,
    /// It has its effect, and the reply is lost.
    ReplyLost,
}

/// What the other side remembers.
#[derive(Debug, Default)]
struct World {
    requests: u32,
    effects: u32,
    keys: BTreeSet<String>,
    version: u32,
}

impl World {
    /// Has the effect of `request`, the way an endpoint of its class would; the status that tells it.
    fn take(&mut self, request: &str) -> u16 {
        let key = header(request, "idempotency-key").unwrap_or_default();
        match request.split(' ').nth(1) {
            Some("/search") => return 200,
            Some("/keyed") if !self.keys.insert(key) => return 200,
            Some("/versioned") if header(request, "if-match") != Some(format!("\"v{}\"", self.version)) => {
                return 412;
            }
            _ => {}
        }
        self.effects += 1;
        self.version += 1;
        200
    }
}

async fn endpoint(fault: Fault) -> (Server, Arc<Mutex<World>>) {
    let world = Arc::new(Mutex::new(World::default()));
    let shared = Arc::clone(&world);
    let server =
        Server::start(move |request, stream| serve(Arc::clone(&shared), fault, request, stream)).await;
    (server, world)
}

async fn serve(world: Arc<Mutex<World>>, fault: Fault, request: String, stream: TcpStream) {
    let (status, lost) = {
        let mut world = world.lock().unwrap();
        world.requests += 1;
        match (fault, world.requests) {
            (Fault::TurnedAway, 1) => (429, false),
            (fault, requests) => (world.take(&request), fault == Fault::ReplyLost && requests == 1),
        }
    };
    if !lost {
        answer::reply(stream, status, "", "ok").await;
    }
}

/// Repeats a call the way the engine does: as long as something may be mended, and acting again is safe.
async fn persist(tool: &dyn Tool, action: &Action) -> (Vec<Outcome>, bool) {
    let (mut outcomes, mut open) = (Vec::new(), false);
    for _ in 0..ATTEMPTS_MAX {
        let outcome = attempt(tool, action, Duration::from_mins(1), open).await;
        outcomes.push(outcome.clone());
        match outcome {
            Outcome::Done(_) | Outcome::Terminal(_) => return (outcomes, false),
            Outcome::Retryable { certainty, .. } => open = certainty == MayHaveHappened,
        }
        if open && action.class == EffectClass::Opaque {
            break;
        }
    }
    (outcomes, open)
}

/// How a call ended.
#[derive(Debug, PartialEq)]
struct Ending {
    done: bool,
    /// Nobody can tell, and a person is asked.
    unknown: bool,
    effects: u32,
}

const DONE_ONCE: Ending = Ending { done: true, unknown: false, effects: 1 };
const READ: Ending = Ending { done: true, unknown: false, effects: 0 };
const UNKNOWN_ONCE: Ending = Ending { done: false, unknown: true, effects: 1 };

fn with(server: &Server, path: &str, effect: &str) -> Value {
    let headers = json!({"if-match": "\"v0\""});
    json!({"method": method(effect), "url": server.url(path), "effect": effect, "headers": headers})
}

async fn ending(path: &str, effect: &str, fault: Fault) -> Ending {
    let (server, world) = endpoint(fault).await;
    let action = propose(tool(), with(&server, path, effect)).unwrap();
    let (outcomes, unknown) = persist(tool(), &action).await;
    let done = matches!(outcomes.last(), Some(Outcome::Done(_)));
    Ending { done, unknown, effects: world.lock().unwrap().effects }
}

#[tokio::test]
async fn every_class_has_its_effect_once_when_nothing_goes_wrong() {
    assert_eq!(ending("/search", "read_only", Fault::None).await, READ);
    assert_eq!(ending("/keyed", "native_key", Fault::None).await, DONE_ONCE);
    assert_eq!(ending("/versioned", "compare_and_set", Fault::None).await, DONE_ONCE);
    assert_eq!(ending("/mail", "opaque", Fault::None).await, DONE_ONCE);
}

#[tokio::test]
async fn every_class_has_its_effect_once_when_the_first_attempt_is_turned_away() {
    assert_eq!(ending("/search", "read_only", Fault::TurnedAway).await, READ);
    assert_eq!(ending("/keyed", "native_key", Fault::TurnedAway).await, DONE_ONCE);
    assert_eq!(ending("/versioned", "compare_and_set", Fault::TurnedAway).await, DONE_ONCE);
    assert_eq!(ending("/mail", "opaque", Fault::TurnedAway).await, DONE_ONCE);
}

#[tokio::test]
async fn a_lost_reply_never_makes_a_second_effect() {
    assert_eq!(ending("/search", "read_only", Fault::ReplyLost).await, READ);
    assert_eq!(ending("/keyed", "native_key", Fault::ReplyLost).await, DONE_ONCE);
    // The precondition has become false through our own write or a stranger's; nobody can tell which.
    assert_eq!(ending("/versioned", "compare_and_set", Fault::ReplyLost).await, UNKNOWN_ONCE);
    assert_eq!(ending("/mail", "opaque", Fault::ReplyLost).await, UNKNOWN_ONCE);
}

#[tokio::test]
async fn a_second_call_after_success_changes_nothing_where_the_class_says_so() {
    for (path, effect) in
        [("/search", "read_only"), ("/keyed", "native_key"), ("/versioned", "compare_and_set")]
    {
        let (server, world) = endpoint(Fault::None).await;
        let action = propose(tool(), with(&server, path, effect)).unwrap();
        persist(tool(), &action).await;
        let before = world.lock().unwrap().effects;
        // As after a worker that died between effect and commit.
        let second = attempt(tool(), &action, Duration::from_mins(1), true).await;
        assert_eq!(world.lock().unwrap().effects, before, "{effect}");
        let known_not =
            matches!(second, Outcome::Terminal(_) | Outcome::Retryable { certainty: DidNotHappen, .. });
        assert!(!known_not, "{effect} claims that nothing happened: {second:?}");
    }
}

#[tokio::test]
async fn a_transform_gives_the_same_however_often_it_is_made() {
    let action = propose(&Transform, json!({"value": {"a": [1, 2]}})).unwrap();
    let (first, _) = persist(&Transform, &action).await;
    let (second, _) = persist(&Transform, &action).await;
    assert_eq!(first, second);
    let [Outcome::Done(done)] = first.as_slice() else { panic!("{first:?}") };
    assert_eq!(done.output, json!({"a": [1, 2]}));
}

/// Only what reads can be called reading.
fn method(effect: &str) -> &'static str {
    if effect == "read_only" { "GET" } else { "POST" }
}
