//! The API rejects what Slack rejects, and the page sends signed callbacks.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::callback::client;
use super::*;

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

fn message(channel: &str) -> Value {
    let text = json!({ "type": "plain_text", "text": "go &lt;on&gt;? <script>" });
    let button = json!({ "type": "button", "action_id": "yes", "text": text, "value": "v" });
    json!({
        "channel": channel,
        "text": "go on?",
        "blocks": [{ "type": "section", "text": text }, { "type": "actions", "elements": [button] }],
    })
}

async fn call(slack: &FakeSlack, method: &str, token: &str, body: &Value) -> Value {
    let request = client().unwrap().post(format!("{}/api/{method}", slack.url()));
    let request = request.header("authorization", format!("Bearer {token}")).body(body.to_string());
    serde_json::from_str(&request.send().await.unwrap().text().await.unwrap()).unwrap()
}

async fn posted(slack: &FakeSlack) -> String {
    let reply = call(slack, "chat.postMessage", "xoxb-fake", &message("C0APPROVALS")).await;
    assert_eq!(reply["ok"], true, "{reply}");
    slack.messages().last().unwrap().place()
}

async fn page(slack: &FakeSlack) -> String {
    client().unwrap().get(slack.url()).send().await.unwrap().text().await.unwrap()
}

/// Submits the page's form from a page at `origin`.
async fn send_form(slack: &FakeSlack, path: &str, origin: &str, fields: &[(&str, &str)]) -> u16 {
    let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let request = client().unwrap().post(format!("{}{path}", slack.url())).header("origin", origin);
    request.body(form).send().await.unwrap().status().as_u16()
}

type Received = Arc<Mutex<Vec<(String, Value)>>>;

/// An app that records the signature and payload of every callback.
async fn app() -> (String, Received) {
    let received = Received::default();
    let take = |State(received): State<Received>, headers: HeaderMap, body: String| async move {
        let text = |name| headers[name].to_str().unwrap().to_owned();
        let (timestamp, signature) = (text("x-slack-request-timestamp"), text("x-slack-signature"));
        let sent = Callback { timestamp, signature, body: body.into_bytes() };
        let payload = sent.payload();
        let again = Callback::signed(&payload, "fake-signing-secret", sent.timestamp.parse().unwrap());
        assert_eq!(sent, again);
        received.lock().unwrap().push((sent.signature, payload));
    };
    let router = Router::new().route("/slack", post(take)).with_state(Arc::clone(&received));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/slack", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, received)
}

#[test]
fn post_needs_the_token_and_a_known_channel() {
    run(async {
        let slack = FakeSlack::start().await.unwrap();
        let refused = call(&slack, "chat.postMessage", "wrong", &message("C0APPROVALS")).await;
        assert_eq!(refused, json!({ "ok": false, "error": "invalid_auth" }));
        let refused = call(&slack, "chat.postMessage", "xoxb-fake", &message("C0OTHER")).await;
        assert_eq!(refused["error"], "channel_not_found");
        let mut update = message("C0APPROVALS");
        update["ts"] = json!("1.2");
        let refused = call(&slack, "chat.update", "xoxb-fake", &update).await;
        assert_eq!(refused["error"], "message_not_found");
        assert!(slack.messages().is_empty());
    });
}

#[test]
fn page_escapes_messages() {
    run(async {
        let slack = FakeSlack::start().await.unwrap();
        assert!(page(&slack).await.contains("No messages yet."));
        posted(&slack).await;
        let page = page(&slack).await;
        assert!(page.contains("go &lt;on&gt;? &lt;script&gt;"), "{page}");
        assert!(!page.contains("<script>"), "{page}");
        assert!(page.contains(r#"<option value="U0ANNA">Anna</option>"#), "{page}");
    });
}

#[test]
fn press_on_the_page_sends_signed_callback() {
    run(async {
        let (slack, (url, received)) = (FakeSlack::start().await.unwrap(), app().await);
        slack.set_callback(&url);
        let place = posted(&slack).await;
        let fields = [("place", place.as_str()), ("action_id", "yes"), ("user", "U0BEN")];
        // The redirect is followed back to the page.
        assert_eq!(send_form(&slack, "/pane/press", &slack.url(), &fields).await, 200);
        assert!(page(&slack).await.contains("status 200"));
        let (_, payload) = received.lock().unwrap().pop().unwrap();
        assert_eq!(payload["user"]["id"], "U0BEN");
        assert_eq!(payload["actions"][0]["value"], "v");
    });
}

#[test]
fn press_from_another_origin_is_rejected() {
    run(async {
        let (slack, (url, received)) = (FakeSlack::start().await.unwrap(), app().await);
        slack.set_callback(&url);
        let place = posted(&slack).await;
        let fields = [("place", place.as_str()), ("action_id", "yes"), ("user", "U0BEN")];
        for origin in ["http://evil.example", "null"] {
            assert_eq!(send_form(&slack, "/pane/press", origin, &fields).await, 403);
        }
        assert!(received.lock().unwrap().is_empty());
    });
}

#[test]
fn modal_opens_once_and_only_its_user_submits_it() {
    run(async {
        let slack = FakeSlack::start().await.unwrap();
        let place = posted(&slack).await;
        let press = ButtonPress { place: &place, action_id: "yes", user: "U0BEN", team: "T0SIM", at_secs: 7 };
        let trigger = slack.press(&press).unwrap().payload()["trigger_id"].clone();
        let text = json!({ "type": "plain_text", "text": "Why?" });
        let input =
            json!({ "type": "input", "block_id": "b", "label": text, "element": { "action_id": "i" } });
        let view = json!({
            "type": "modal", "private_metadata": "m", "title": text, "submit": text, "close": text,
            "blocks": [input],
        });
        let open = json!({ "trigger_id": trigger, "view": view });
        assert_eq!(call(&slack, "views.open", "xoxb-fake", &open).await["ok"], true);
        assert_eq!(call(&slack, "views.open", "xoxb-fake", &open).await["error"], "exchanged_trigger_id");
        assert!(page(&slack).await.contains("Why? (U0BEN)"));
        let id = slack.views()[0].id.clone();
        let by = |user| Submission { view: &id, user, team: "T0SIM", text: "no", choice: None, at_secs: 8 };
        assert_eq!(slack.submit_view(&by("U0ANNA")), None);
        let payload = slack.submit_view(&by("U0BEN")).unwrap().payload();
        assert_eq!(payload["view"]["state"]["values"]["b"]["i"]["value"], "no");
        assert_eq!(payload["view"]["private_metadata"], "m");
        assert!(slack.views().is_empty());
    });
}
