//! `slack.post`, against as much of Slack as it needs: posting, and a history with metadata.

use std::sync::{Arc, Mutex};

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::routing::{get, post};
use axum::{Json, Router};
use connectors::{Allow, Credential, LookUp, Settings, Toolbox, standard};
use domain::{EffectClass, ToolName};
use fakes::server::{Fault, Faults, Server};
use serde_json::{Value, json};

use crate::engine::{attempt, failure, gist, look_up, propose, propose_in, run};

const TOKEN: &str = "xoxb-token-1";

/// A Slack with one channel.
pub(crate) struct Slack {
    server: Server,
    faults: Faults,
    world: Arc<Mutex<World>>,
}

#[derive(Default)]
struct World {
    messages: Vec<Value>,
    /// What it says no with, if it does.
    says_no: Option<&'static str>,
}

type Shared = State<Arc<Mutex<World>>>;

impl Slack {
    pub(crate) async fn start() -> Self {
        let world = Arc::new(Mutex::new(World::default()));
        let router = Router::new()
            .route("/api/chat.postMessage", post(post_message))
            .route("/api/conversations.history", get(history))
            .route("/api/conversations.replies", get(replies))
            .with_state(Arc::clone(&world));
        let faults = Faults::default();
        Self { server: Server::start(router, &faults).await.unwrap(), faults, world }
    }

    pub(crate) fn tools(&self) -> Toolbox {
        let base = format!("{}/api", self.server.url()).parse().unwrap();
        let slack = Some(connectors::slack::Settings { base, credential: Credential::Bearer(TOKEN.into()) });
        standard(Allow::default(), Settings { slack, ..Settings::default() })
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    pub(crate) fn messages(&self) -> Vec<Value> {
        self.world.lock().unwrap().messages.clone()
    }
}

async fn post_message(
    State(world): Shared,
    headers: HeaderMap,
    Json(mut message): Json<Value>,
) -> Json<Value> {
    let mut world = world.lock().unwrap();
    if let Some(word) = world.says_no {
        return Json(json!({ "ok": false, "error": word }));
    }
    if headers.get("authorization").is_none_or(|given| given != format!("Bearer {TOKEN}").as_str()) {
        return Json(json!({ "ok": false, "error": "invalid_auth" }));
    }
    let ts = format!("1700000000.{:06}", world.messages.len() + 1);
    message["ts"] = json!(ts);
    world.messages.push(message);
    Json(json!({ "ok": true, "channel": "C024BE91L", "ts": ts }))
}

async fn history(State(world): Shared) -> Json<Value> {
    let mut messages = world.lock().unwrap().messages.clone();
    messages.reverse();
    Json(json!({ "ok": true, "messages": messages }))
}

#[derive(serde::Deserialize)]
struct Thread {
    ts: String,
}

async fn replies(State(world): Shared, Query(thread): Query<Thread>) -> Json<Value> {
    let messages = world.lock().unwrap().messages.clone();
    let in_thread = messages.into_iter().filter(|message| message["thread_ts"] == thread.ts.as_str());
    Json(json!({ "ok": true, "messages": in_thread.collect::<Value>() }))
}

fn with(text: &str) -> Value {
    json!({ "channel": "C024BE91L", "text": text, "thread_ts": "1700000000.000100" })
}

async fn tool() -> (Slack, Toolbox, ToolName) {
    let slack = Slack::start().await;
    let tools = slack.tools();
    (slack, tools, ToolName::new("slack.post").unwrap())
}

#[tokio::test]
async fn a_post_says_what_was_proposed_and_mentions_nobody() {
    let (slack, tools, name) = tool().await;
    let tool = tools.get(&name).unwrap().as_ref();
    let action = propose(tool, &with("<!channel> & <http://a|b>")).await.unwrap();
    assert_eq!(action.class, EffectClass::Opaque);
    let escaped = "&lt;!channel&gt; &amp; &lt;http://a|b&gt;";
    assert_eq!(action.changes[0].after, escaped);
    assert!(action.key.as_str().starts_with("slack:post:C024BE91L:1700000000.000100:"), "{}", action.key);
    assert_eq!(gist(&attempt(tool, &action, false).await), "done");
    let posted = &slack.messages()[0];
    assert_eq!(posted["blocks"][0]["text"], json!({ "type": "plain_text", "text": escaped, "emoji": false }));
    assert_eq!((&posted["text"], &posted["mrkdwn"]), (&json!(escaped), &json!(false)));
    assert_eq!(posted["thread_ts"], "1700000000.000100");
}

#[tokio::test]
async fn two_runs_may_say_the_same_in_a_thread_and_one_run_says_it_once() {
    let (slack, tools, name) = tool().await;
    let tool = tools.get(&name).unwrap().as_ref();
    let first = propose(tool, &with("Done.")).await.unwrap();
    let second = propose_in(&run("run-2"), tool, &with("Done."), false).await.unwrap();
    assert_ne!(first.key, second.key);
    for action in [&first, &second, &first, &second] {
        assert_eq!(gist(&attempt(tool, action, true).await), "done");
    }
    assert_eq!(slack.messages().len(), 2);
}

#[tokio::test]
async fn found_is_certain_and_not_found_is_not() {
    let (_slack, tools, name) = tool().await;
    let tool = tools.get(&name).unwrap().as_ref();
    let action = propose(tool, &with("Done.")).await.unwrap();
    assert!(matches!(look_up(tool, &action).await, LookUp::Unclear(_)));
    let outcome = attempt(tool, &action, false).await;
    let LookUp::Found(found) = look_up(tool, &action).await else { panic!("not found") };
    let connectors::Outcome::Done(done) = outcome else { panic!("{outcome:?}") };
    assert_eq!(found.output, done.output);
}

#[tokio::test]
async fn slack_says_no_with_a_word() {
    for (word, expected) in [
        ("channel_not_found", "terminal"),
        ("invalid_auth", "terminal"),
        ("ratelimited", "did not happen"),
        ("internal_error", "may have happened"),
    ] {
        let (slack, tools, name) = tool().await;
        let tool = tools.get(&name).unwrap().as_ref();
        slack.world.lock().unwrap().says_no = Some(word);
        let action = propose(tool, &with("Done.")).await.unwrap();
        let outcome = attempt(tool, &action, false).await;
        assert_eq!(gist(&outcome), expected, "{word}");
        assert!(failure(&outcome).0.message.contains(word));
    }
}

#[tokio::test]
async fn a_reply_that_is_lost_while_nobody_can_look_is_left_to_a_person() {
    let (slack, tools, name) = tool().await;
    let tool = tools.get(&name).unwrap().as_ref();
    let action = propose(tool, &with("Done.")).await.unwrap();
    slack.faults().on_write(Fault::ReplyLost);
    for _ in 0..3 {
        slack.faults().on_read(Fault::Status(500));
    }
    assert_eq!(gist(&attempt(tool, &action, false).await), "may have happened");
    assert_eq!(gist(&attempt(tool, &action, true).await), "done");
    assert_eq!(slack.messages().len(), 1);
}

#[tokio::test]
async fn what_slack_would_refuse_is_never_proposed() {
    let (_slack, tools, name) = tool().await;
    let tool = tools.get(&name).unwrap().as_ref();
    assert!(propose(tool, &with(&"x".repeat(3_000))).await.is_ok());
    assert!(propose(tool, &with(&"x".repeat(3_001))).await.is_err());
    assert!(propose(tool, &with(&"<".repeat(1_000))).await.is_err(), "escapes count");
    for bad in [
        json!({ "channel": "#general", "text": "x" }),
        json!({ "channel": "C1", "text": " " }),
        json!({ "channel": "C1", "text": "x", "thread_ts": "yesterday" }),
        json!({ "channel": "C1", "text": "x", "blocks": [] }),
    ] {
        assert_eq!(propose(tool, &bad).await.unwrap_err().code, "TOOL_FIELDS", "{bad}");
    }
}

#[tokio::test]
async fn a_post_is_one_that_the_simulated_slack_takes() {
    let slack = fakes::slack::SimulatedSlack::start().await.unwrap();
    let base = format!("{}/api", slack.url()).parse().unwrap();
    let credential = Credential::Bearer("xoxb-simulated".into());
    let settings = Some(connectors::slack::Settings { base, credential });
    let tools = standard(Allow::default(), Settings { slack: settings, ..Settings::default() });
    let tool = tools.get(&ToolName::new("slack.post").unwrap()).unwrap().as_ref();
    let action = propose(tool, &json!({ "channel": "C0APPROVALS", "text": "Done." })).await.unwrap();
    assert_eq!(gist(&attempt(tool, &action, false).await), "done");
    assert_eq!(slack.messages()[0].text, "Done.");
    // Its replies break off after the head, and a head says nothing where refusals have status 200 too.
    slack.trouble(fakes::slack::Trouble::LostReply);
    assert_eq!(gist(&attempt(tool, &action, false).await), "may have happened");
}
