//! The named cases of *governance* that users of the API try; those about tokens are in `oidc`, the click of a viewer is in
//! `slack_roles`, and a removed directory is in `tenant`.

use axum::http::Method;
use countersign_contract::ContractEnv;
use domain::Role;
use serde_json::{Map, Value, json};

/// An API key of `person`, which the admin makes.
struct MadeKey {
    id: String,
    secret: String,
}

async fn make_key(env: &ContractEnv, person: &str, role: &str) -> MadeKey {
    let body = json!({ "person": person, "roles": [role] });
    let made = env.post(env.acme.key(Role::Admin), "/keys", &body).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    MadeKey { id: text(&made.json()["key"]["id"]), secret: text(&made.json()["secret"]) }
}

/// Replaces the users of acme, except the admin.
async fn put_people(env: &ContractEnv, people: &[&str]) -> (u16, String) {
    let admin = env.acme.key(Role::Admin);
    let people: Map<String, Value> =
        [&["adam"], people].concat().into_iter().map(|name| (name.to_owned(), json!({}))).collect();
    let revision = env.get(admin, "/tenant").await.json()["revision"].clone();
    let caps = json!({ "max_writes_per_run": 3 });
    let mut people = people.clone();
    people["adam"] = json!({});
    let body = json!({ "people": people, "groups": {}, "caps": caps, "revision": revision });
    let reply = env.json(&Method::PUT, admin, "/tenant", &body).await;
    (reply.status, reply.text())
}

/// The path of the approval that a new run of the holder of `key` waits for.
async fn request_approval(env: &ContractEnv, key: &str) -> String {
    let started = env.post(key, "/runs", &json!({ "workflow": "asks" })).await;
    assert_eq!(started.status, 201, "{}", started.text());
    let run = started.json()["run"].as_str().unwrap().to_owned();
    env.advance(&env.acme, &run.parse().unwrap()).await;
    let open = env.get(env.acme.key(Role::Viewer), "/approvals").await.json();
    let approvals = open["approvals"].as_array().unwrap();
    let own = approvals.iter().find(|approval| approval["run"] == run.as_str()).unwrap();
    format!("/approvals/{}", own["approval"].as_str().unwrap())
}

async fn assert_cannot_approve(env: &ContractEnv, key: &str, approval: &str) {
    let refused = env.post(key, &format!("{approval}/approve"), &json!({})).await;
    assert_eq!(refused.status_and_code(), (403, "APPROVAL_REFUSED".to_owned()), "{}", refused.text());
    assert_eq!(env.get(key, approval).await.json()["votes"], json!([]));
}

/// One person has keys under several spellings of their name.
#[tokio::test]
async fn requester_name_other_case() {
    let env = ContractEnv::new().await;
    let operator = make_key(&env, "Mallory", "operator").await;
    for directory in [None, Some(["mallory", "anna"]), Some(["MALLORY", "anna"])] {
        if let Some(people) = directory {
            let (status, text) = put_people(&env, &people).await;
            assert_eq!(status, 200, "{text}");
        }
        let approval = request_approval(&env, &operator.secret).await;
        for name in ["Mallory", "mallory", "MALLORY", "malloRy"] {
            let approver = make_key(&env, name, "approver").await;
            assert_cannot_approve(&env, &approver.secret, &approval).await;
        }
    }
    let (status, text) = put_people(&env, &["mallory", "Mallory"]).await;
    assert_eq!(status, 400, "{text}");
}

/// Names that look like `mallory`, of which a second person could be made.
#[tokio::test]
async fn requester_name_confusable() {
    let env = ContractEnv::new().await;
    let admin = env.acme.key(Role::Admin);
    let cases = [
        // A Cyrillic letter, a wide one, a mathematical one, a ligature, and a dotless i.
        "m\u{430}llory",
        "\u{ff4d}allory",
        "\u{1d426}allory",
        "ma\u{fb02}ory",
        "mallor\u{131}",
        // Characters that are not visible.
        "mallory\u{200b}",
        "mallory\u{ad}",
        "mallory\u{202e}",
        "mallory\u{301}",
        "mallory ",
        "mallory\u{a0}",
    ];
    for name in cases {
        let key = env.post(admin, "/keys", &json!({ "person": name, "roles": ["approver"] })).await;
        assert_eq!(key.status_and_code(), (400, "BAD_REQUEST".to_owned()), "{name:?}");
        let (status, text) = put_people(&env, &["mallory", name]).await;
        assert_eq!(status, 400, "{name:?}: {text}");
        let source = format!(
            "workflow: w\nversion: 1\nauthor: \"{name}\"\n\
             steps:\n  - {{ id: a, tool: transform, with: {{ value: 1 }} }}\n"
        );
        let applied = env.post(admin, "/workflows", &json!({ "source": source })).await;
        assert_eq!(applied.status / 100, 4, "{name:?}: {}", applied.text());
    }
    assert_eq!(env.get(admin, "/tenant").await.json()["people"], json!({}));
    let keys = env.get(admin, "/keys").await.text();
    assert!(!keys.contains("allor"), "{keys}");
}

/// An admin makes a key in the name of Grace, approves with it, and revokes it. The audit log and the vote show it.
#[tokio::test]
async fn key_minted_for_other_person() {
    let env = ContractEnv::new().await;
    let admin = env.acme.key(Role::Admin);
    let (status, text) = put_people(&env, &["grace"]).await;
    assert_eq!(status, 200, "{text}");
    let approval = request_approval(&env, admin).await;
    assert_cannot_approve(&env, admin, &approval).await;

    let MadeKey { id, secret } = make_key(&env, "grace", "approver").await;
    let approved = env.post(&secret, &format!("{approval}/approve"), &json!({})).await;
    assert_eq!(approved.status, 200, "{}", approved.text());
    assert_eq!(env.json(&Method::DELETE, admin, &format!("/keys/{id}"), &json!({})).await.status, 200);

    let log = env.get(admin, "/audit").await.json();
    let credential = env.get(admin, "/me").await.json()["credential"].clone();
    for (entry, text) in [
        (&log["changes"][0], format!("revoked key {id} of grace")),
        (&log["changes"][1], format!("created key {id} of grace (approver)")),
    ] {
        assert_eq!((&entry["by"], &entry["credential"]), (&json!("adam"), &credential), "{entry}");
        assert_eq!(entry["text"], json!(text));
    }
    let id_of_approval = approval.rsplit('/').next().unwrap().parse().unwrap();
    let votes = env.handle(&env.acme, "anna").approval(&id_of_approval).await.unwrap().votes;
    let named = domain::Channel::Api { credential: format!("key:{id}") };
    assert_eq!((votes.len(), &votes[0].through), (1, &named));
}
