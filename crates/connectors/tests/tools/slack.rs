//! `slack.post` against a small Slack with a message history that includes metadata.

use std::sync::{Arc, Mutex};

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::routing::{get, post};
use axum::{Json, Router};
use connectors::{Credential, LookUpResult, ToolRegistry};
use domain::{ConnectionKind, EffectClass, ToolName};
use fakes::server::{FakeFault, FakeFaults, Server};
use serde_json::{Value, json};

use crate::driver::{attempt, classify, failure, look_up, propose, propose_in, run};
use crate::subject::tools_on;

const TOKEN: &str = "xoxb-token-1";

pub(crate) struct Slack {
    server: Server,
    faults: FakeFaults,
    state: Arc<Mutex<SlackState>>,
}

#[derive(Default)]
struct SlackState {
    messages: Vec<Value>,
    /// The error code of every post.
    error_code: Option<&'static str>,
}

type Shared = State<Arc<Mutex<SlackState>>>;

impl Slack {
    pub(crate) async fn start() -> Self {
        let state = Arc::new(Mutex::new(SlackState::default()));
        let router = Router::new()
            .route("/api/chat.postMessage", post(post_message))
            .route("/api/conversations.history", get(history))
            .route("/api/conversations.replies", get(replies))
            .with_state(Arc::clone(&state));
        let faults = FakeFaults::default();
        Self { server: Server::start(router, &faults).await.unwrap(), faults, state }
    }

    pub(crate) fn tools(&self) -> ToolRegistry {
        let url = format!("{}/api", self.server.url());
        tools_on(ConnectionKind::Slack, &url, Credential::Bearer(TOKEN.into()))
    }

    pub(crate) fn faults(&self) -> &FakeFaults {
        &self.faults
    }

    pub(crate) fn messages(&self) -> Vec<Value> {
        self.state.lock().unwrap().messages.clone()
    }
}

async fn post_message(
    State(state): Shared,
    headers: HeaderMap,
    Json(mut message): Json<Value>,
) -> Json<Value> {
    let mut state = state.lock().unwrap();
    if let Some(word) = state.error_code {
        return Json(json!({ "ok": false, "error": word }));
    }
    if headers.get("authorization").is_none_or(|given| given != format!("Bearer {TOKEN}").as_str()) {
        return Json(json!({ "ok": false, "error": "invalid_auth" }));
    }
    let ts = format!("1700000000.{:06}", state.messages.len() + 1);
    message["ts"] = json!(ts);
    state.messages.push(message);
    Json(json!({ "ok": true, "channel": "C024BE91L", "ts": ts }))
}

async fn history(State(state): Shared) -> Json<Value> {
    let mut messages = state.lock().unwrap().messages.clone();
    messages.reverse();
    Json(json!({ "ok": true, "messages": messages }))
}

#[derive(serde::Deserialize)]
struct Thread {
    ts: String,
}

async fn replies(State(state): Shared, Query(thread): Query<Thread>) -> Json<Value> {
    let messages = state.lock().unwrap().messages.clone();
    let in_thread = messages.into_iter().filter(|message| message["thread_ts"] == thread.ts.as_str());
    Json(json!({ "ok": true, "messages": in_thread.collect::<Value>() }))
}

fn with(text: &str) -> Value {
    json!({ "channel": "C024BE91L", "text": text, "thread_ts": "1700000000.000100" })
}

async fn tool() -> (Slack, ToolRegistry, ToolName) {
    let slack = Slack::start().await;
    let tools = slack.tools();
    (slack, tools, ToolName::new("slack.post").unwrap())
}

#[tokio::test]
async fn post_is_escaped_and_mentions_no_user() {
    let (slack, tools, name) = tool().await;
    let tool = tools.get(&name).unwrap().as_ref();
    let action = propose(tool, &with("<!channel> & <http://a|b>")).await.unwrap();
    assert_eq!(action.class, EffectClass::Opaque);
    let escaped = "&lt;!channel&gt; &amp; &lt;http://a|b&gt;";
    assert_eq!(action.changes[0].after, escaped);
    assert!(action.key.as_str().starts_with("slack:post:C024BE91L:1700000000.000100:"), "{}", action.key);
    assert_eq!(classify(&attempt(tool, &action, false).await), "done");
    let posted = &slack.messages()[0];
    assert_eq!(posted["blocks"][0]["text"], json!({ "type": "plain_text", "text": escaped, "emoji": false }));
    assert_eq!((&posted["text"], &posted["mrkdwn"]), (&json!(escaped), &json!(false)));
    assert_eq!(posted["thread_ts"], "1700000000.000100");
}

#[tokio::test]
async fn each_run_posts_a_message_once() {
    let (slack, tools, name) = tool().await;
    let tool = tools.get(&name).unwrap().as_ref();
    let first = propose(tool, &with("Done.")).await.unwrap();
    let second = propose_in(&run("run-2"), tool, &with("Done."), false).await.unwrap();
    assert_ne!(first.key, second.key);
    for action in [&first, &second, &first, &second] {
        assert_eq!(classify(&attempt(tool, action, true).await), "done");
    }
    assert_eq!(slack.messages().len(), 2);
}

#[tokio::test]
async fn look_up_never_answers_absent() {
    let (_slack, tools, name) = tool().await;
    let tool = tools.get(&name).unwrap().as_ref();
    let action = propose(tool, &with("Done.")).await.unwrap();
    assert!(matches!(look_up(tool, &action).await, LookUpResult::Unclear(_)));
    let outcome = attempt(tool, &action, false).await;
    let LookUpResult::Found(found) = look_up(tool, &action).await else { panic!("not found") };
    let connectors::ToolOutcome::Done(done) = outcome else { panic!("{outcome:?}") };
    assert_eq!(found.output, done.output);
}

#[tokio::test]
async fn error_code_decides_the_outcome() {
    for (word, expected) in [
        ("channel_not_found", "terminal"),
        ("invalid_auth", "terminal"),
        ("ratelimited", "did not happen"),
        ("internal_error", "may have happened"),
    ] {
        let (slack, tools, name) = tool().await;
        let tool = tools.get(&name).unwrap().as_ref();
        slack.state.lock().unwrap().error_code = Some(word);
        let action = propose(tool, &with("Done.")).await.unwrap();
        let outcome = attempt(tool, &action, false).await;
        assert_eq!(classify(&outcome), expected, "{word}");
        assert!(failure(&outcome).0.message.contains(word));
    }
}

#[tokio::test]
async fn lost_reply_without_search_is_unknown() {
    let (slack, tools, name) = tool().await;
    let tool = tools.get(&name).unwrap().as_ref();
    let action = propose(tool, &with("Done.")).await.unwrap();
    slack.faults().on_write(FakeFault::LostReply);
    for _ in 0..3 {
        slack.faults().on_read(FakeFault::Status(500));
    }
    assert_eq!(classify(&attempt(tool, &action, false).await), "may have happened");
    assert_eq!(classify(&attempt(tool, &action, true).await), "done");
    assert_eq!(slack.messages().len(), 1);
}

#[tokio::test]
async fn invalid_posts_are_never_proposed() {
    let (_slack, tools, name) = tool().await;
    let tool = tools.get(&name).unwrap().as_ref();
    assert!(propose(tool, &with(&"x".repeat(3_000))).await.is_ok());
    assert!(propose(tool, &with(&"x".repeat(3_001))).await.is_err());
    assert!(propose(tool, &with(&"<".repeat(1_000))).await.is_err(), "escapes count towards the limit");
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
async fn fake_slack_accepts_a_post() {
    let slack = fakes::slack::FakeSlack::start().await.unwrap();
    let url = format!("{}/api", slack.url());
    let tools = tools_on(ConnectionKind::Slack, &url, Credential::Bearer("xoxb-fake".into()));
    let tool = tools.get(&ToolName::new("slack.post").unwrap()).unwrap().as_ref();
    let action = propose(tool, &json!({ "channel": "C0APPROVALS", "text": "Done." })).await.unwrap();
    assert_eq!(classify(&attempt(tool, &action, false).await), "done");
    assert_eq!(slack.messages()[0].text, "Done.");
    // The reply is cut off after the head, and Slack uses status 200 for errors too.
    slack.inject(fakes::slack::FakeSlackFault::LostReply);
    assert_eq!(classify(&attempt(tool, &action, false).await), "may have happened");
}
