//! A user may do in Slack what the same role may do in the API.

use axum::http::{Method, Request};
use countersign_contract::ContractEnv;
use domain::Role;
use fakes::slack::Callback;
use ingress::slack::{SlackInstallation, command, interaction};
use serde_json::{Value, json};
use signing::{Secrets, sign};
use slack::card::{APPROVE, ButtonToken};
use slack::client::{Slack, SlackClientSettings};

const SECRET: &str = "the signing secret of acme";

/// The role, whether it may decide approvals, and whether it may start runs.
const ROLES: [(Option<Role>, bool, bool); 5] = [
    (None, false, false),
    (Some(Role::Viewer), false, false),
    (Some(Role::Operator), false, true),
    (Some(Role::Approver), true, false),
    (Some(Role::Admin), true, true),
];

/// Nora has `role` in Slack.
async fn put_directory(env: &ContractEnv, role: Option<Role>) {
    let roles: Vec<&str> = role.iter().map(|role| role.as_str()).collect();
    let body = json!({
        "people": { "adam": {}, "nora": { "slack": "T0ACME:U0NORA", "slack_roles": roles } },
        "groups": {},
        "caps": { "max_writes_per_run": 3 },
    });
    let reply = env.json(&Method::PUT, env.acme.key(Role::Admin), "/tenant", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

/// A key of Nora with `role`.
async fn key(env: &ContractEnv, role: Role) -> String {
    let body = json!({ "person": "nora", "roles": [role.as_str()] });
    let reply = env.post(env.acme.key(Role::Admin), "/keys", &body).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()["secret"].as_str().unwrap().to_owned()
}

fn installation() -> SlackInstallation {
    let settings = SlackClientSettings {
        // Replies to the user are not delivered.
        base_url: "http://127.0.0.1:9/api".parse().unwrap(),
        token: "xoxb-fake".into(),
        channel: "C0APPROVALS".to_owned(),
    };
    let secrets = Secrets::new(SECRET.into()).unwrap();
    SlackInstallation::new("acme".parse().unwrap(), secrets, Slack::new(settings).unwrap())
}

fn request(timestamp: &str, signature: &str, body: &[u8]) -> Request<bytes::Bytes> {
    Request::post("/")
        .header("x-slack-request-timestamp", timestamp)
        .header("x-slack-signature", signature)
        .body(bytes::Bytes::copy_from_slice(body))
        .unwrap()
}

/// Nora presses Approve.
async fn click(env: &ContractEnv) {
    let id = env.acme.runs.approval.parse().unwrap();
    let approval = env.handle(&env.acme, "nora").approval(&id).await.unwrap();
    let payload = json!({
        "type": "block_actions",
        "team": { "id": "T0ACME" },
        "user": { "id": "U0NORA", "team_id": "T0ACME" },
        "container": { "channel_id": "C0APPROVALS", "message_ts": "1700000000.000100" },
        "response_url": "http://127.0.0.1:9/actions/1",
        "trigger_id": "1.2.a",
        "actions": [{ "action_id": APPROVE, "value": ButtonToken::for_approval(&approval).to_string() }],
    });
    let Callback { timestamp, signature, body } =
        Callback::signed(&payload, SECRET, env.engine.now().0 / 1_000);
    let request = request(&timestamp, &signature, &body);
    let response = Box::pin(interaction(&env.engine, &installation(), &request)).await;
    assert_eq!(response.status(), 200, "{}", response.body());
}

/// Nora types `/countersign start plain`.
async fn start(env: &ContractEnv) -> String {
    let body = "team_id=T0ACME&user_id=U0NORA&command=%2Fcountersign&text=start+plain&trigger_id=1.2.b";
    let timestamp = (env.engine.now().0 / 1_000).to_string();
    let signature = sign(&SECRET.into(), &timestamp, body.as_bytes());
    let request = request(&timestamp, &signature, body.as_bytes());
    command(&env.engine, &installation(), &request).await.into_body()
}

async fn votes(env: &ContractEnv) -> usize {
    let id = env.acme.runs.approval.parse().unwrap();
    env.handle(&env.acme, "nora").approval(&id).await.unwrap().votes.len()
}

/// A viewer may not approve through the API, and presses the button instead.
#[tokio::test]
async fn viewer_role_click() {
    let env = ContractEnv::new().await;
    put_directory(&env, Some(Role::Viewer)).await;
    click(&env).await;
    assert_eq!(votes(&env).await, 0);
    let run = format!("/runs/{}", env.acme.runs.asking);
    assert_eq!(env.get(env.acme.key(Role::Viewer), &run).await.json()["status"], "waiting_approval");
}

#[tokio::test]
async fn slack_and_api_check_the_same_roles() {
    for (role, may_approve, may_start) in ROLES {
        let env = ContractEnv::new().await;
        put_directory(&env, role).await;
        click(&env).await;
        assert_eq!(votes(&env).await == 1, may_approve, "Slack, approve: {role:?}");
        let reply = start(&env).await;
        assert_eq!(reply.contains("was accepted"), may_start, "Slack, start: {role:?}: {reply}");

        let Some(role) = role else { continue };
        let env = ContractEnv::new().await;
        put_directory(&env, None).await;
        let key = key(&env, role).await;
        let path = format!("/approvals/{}/approve", env.acme.runs.approval);
        let approved = env.post(&key, &path, &json!({})).await;
        assert_eq!(approved.status, if may_approve { 200 } else { 403 }, "{role:?}: {}", approved.text());
        assert_eq!(votes(&env).await == 1, may_approve, "API, approve: {role:?}");
        let started = env.post(&key, "/runs", &json!({ "workflow": "plain", "input": Value::Null })).await;
        assert_eq!(started.status == 201, may_start, "API, start: {role:?}: {}", started.text());
    }
}
