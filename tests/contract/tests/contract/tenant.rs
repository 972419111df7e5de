//! Tenant settings and API keys.

use axum::http::Method;
use countersign_contract::ContractEnv;
use domain::Role;
use domain::audit_chain::{self, AuditChainError, AuditRecord};
use regex::Regex;
use serde_json::{Value, json};

fn put(revision: &Value) -> Value {
    json!({
        "people": { "adam": {}, "grace": { "slack": "T1:U1" } },
        "groups": { "leads": ["grace"] },
        "caps": { "max_writes_per_run": 3 },
        "revision": revision,
    })
}

#[tokio::test]
async fn tenant_update_needs_the_current_revision() {
    let env = ContractEnv::new().await;
    let key = env.acme.key(Role::Admin);
    assert_eq!(env.get(key, "/tenant").await.json()["revision"], json!(null));
    let first = env.json(&Method::PUT, key, "/tenant", &put(&json!(null))).await;
    assert_eq!((first.status, &first.json()["revision"]), (200, &json!(0)), "{}", first.text());
    // A second update without the revision is refused.
    let late = env.json(&Method::PUT, key, "/tenant", &put(&json!(null))).await;
    assert_eq!(late.status_and_code(), (409, "TENANT_CHANGED".to_owned()));
    let second = env.json(&Method::PUT, key, "/tenant", &put(&json!(0))).await;
    assert_eq!(second.json()["revision"], json!(1));
    assert_eq!(env.get(key, "/tenant").await.json(), second.json());
    assert_eq!(env.get(env.umbrella.key(Role::Admin), "/tenant").await.json()["people"], json!({}));
}

#[tokio::test]
async fn inconsistent_users_are_refused() {
    let env = ContractEnv::new().await;
    let key = env.acme.key(Role::Admin);
    let first = env.json(&Method::PUT, key, "/tenant", &put(&json!(null))).await;
    assert_eq!(first.status, 200, "{}", first.text());
    let before = env.get(key, "/tenant").await;
    for (people, groups, text) in [
        (
            json!({ "adam": {}, "ada": { "slack": "T1:U1" }, "zed": { "slack": "T1:U1" } }),
            json!({ "leads": ["ada"] }),
            "`ada` and `zed` have the same Slack user T1:U1",
        ),
        (
            json!({ "adam": {}, "ada": {} }),
            json!({ "leads": ["ada", "eve"] }),
            "group `leads` contains `eve`, who is not in `people`",
        ),
        (
            json!({ "adam": {}, "ada": { "slack": "U1" } }),
            json!({}),
            "`slack` of `ada` is \"U1\"; write TEAM:USER",
        ),
    ] {
        let mut body = put(&json!(0));
        (body["people"], body["groups"]) = (people, groups);
        let reply = env.json(&Method::PUT, key, "/tenant", &body).await;
        assert_eq!(reply.status_and_code(), (400, "BAD_REQUEST".to_owned()), "{}", reply.text());
        let problem = reply.json();
        assert!(problem["detail"].as_str().unwrap().contains(text), "{problem}");
        assert!(problem["remedy"].as_str().unwrap().contains("nothing was changed"), "{problem}");
        assert_eq!(env.get(key, "/tenant").await, before);
    }
}

#[tokio::test]
async fn directory_emptied() {
    let env = ContractEnv::new().await;
    let key = env.acme.key(Role::Admin);
    let none = |revision: Value| json!({ "people": {}, "groups": {}, "caps": { "max_writes_per_run": 3 }, "revision": revision });
    assert_eq!(env.json(&Method::PUT, key, "/tenant", &none(json!(null))).await.status, 200);
    assert_eq!(env.json(&Method::PUT, key, "/tenant", &put(&json!(0))).await.status, 200);
    let refused = env.json(&Method::PUT, key, "/tenant", &none(json!(1))).await;
    assert_eq!(refused.status_and_code(), (400, "BAD_REQUEST".to_owned()), "{}", refused.text());
    assert_eq!(env.get(key, "/tenant").await.json()["people"], put(&json!(0))["people"]);
}

#[tokio::test]
async fn administrative_changes_name_their_author() {
    let env = ContractEnv::new().await;
    let admin = env.acme.key(Role::Admin);
    let request = json!({ "person": "grace", "roles": ["approver"] });
    let made = env.post(admin, "/keys", &request).await.json();
    let id = made["key"]["id"].as_str().unwrap();
    assert_eq!(env.json(&Method::DELETE, admin, &format!("/keys/{id}"), &json!({})).await.status, 200);
    for (revision, slack) in [(json!(null), "T1:U1"), (json!(0), "T1:U2"), (json!(1), "T1:U1")] {
        let mut body = put(&revision);
        body["people"]["grace"]["slack"] = json!(slack);
        assert_eq!(env.json(&Method::PUT, admin, "/tenant", &body).await.status, 200);
    }
    assert_eq!(env.post(admin, "/dispatch/stop", &json!({ "reason": "fire" })).await.status, 200);
    assert_eq!(env.post(admin, "/dispatch/start", &json!({})).await.status, 200);

    let log = env.get(admin, "/audit").await.json();
    let changes = log["changes"].as_array().unwrap();
    let texts: Vec<&str> = changes.iter().take(7).map(|change| change["text"].as_str().unwrap()).collect();
    assert_eq!(
        texts[..4],
        [
            "started dispatch",
            "stopped dispatch: fire",
            "changed people.grace: T1:U2 -> T1:U1",
            "changed people.grace: T1:U1 -> T1:U2"
        ]
    );
    assert!(
        texts[4].contains("people.grace: none -> T1:U1") && texts[4].contains("groups.leads"),
        "{texts:?}"
    );
    assert_eq!(texts[5], format!("revoked key {id} of grace"));
    assert_eq!(texts[6], format!("created key {id} of grace (approver)"));
    let credential = env.get(admin, "/me").await.json()["credential"].clone();
    for change in &changes[..7] {
        assert_eq!((&change["by"], &change["credential"]), (&json!("adam"), &credential), "{change}");
    }
    let keys = env.get(admin, "/keys").await.json();
    let key = keys["keys"].as_array().unwrap().iter().find(|key| key["id"] == id).unwrap();
    assert_eq!((&key["created_by"], &key["revoked_by"]), (&json!("adam"), &json!("adam")));
    assert!(key["revoked_at"].is_string(), "{key}");
    let other = env.get(env.umbrella.key(Role::Admin), "/audit").await.text();
    assert!(!other.contains(id) && !other.contains("T1:U2"), "{other}");
    assert_eq!(env.get(env.acme.key(Role::Operator), "/audit").await.status, 403);
}

#[tokio::test]
async fn keys_of_a_departed_user_are_revoked() {
    let env = ContractEnv::new().await;
    let admin = env.acme.key(Role::Admin);
    let mut both = put(&json!(null));
    both["people"]["eve"] = json!({});
    assert_eq!(env.json(&Method::PUT, admin, "/tenant", &both).await.status, 200);
    let key = async |person: &str| {
        let made = env.post(admin, "/keys", &json!({ "person": person, "roles": ["approver"] })).await.json();
        made["secret"].as_str().unwrap().to_owned()
    };
    let (eve, grace, program) = (key("eve").await, key("grace").await, key("ci").await);
    assert_eq!(env.get(&eve, "/me").await.status, 200);
    assert_eq!(env.json(&Method::PUT, admin, "/tenant", &put(&json!(0))).await.status, 200);
    assert_eq!(env.get(&eve, "/me").await.status, 401);
    for stays in [&grace, &program] {
        assert_eq!(env.get(stays, "/me").await.status, 200);
    }
}

#[tokio::test]
async fn directory_must_list_the_caller_who_sets_it() {
    let env = ContractEnv::new().await;
    let admin = env.acme.key(Role::Admin);
    for revision in [json!(null), json!(0)] {
        let mut body = put(&revision);
        body["people"].as_object_mut().unwrap().remove("adam");
        let refused = env.json(&Method::PUT, admin, "/tenant", &body).await;
        assert_eq!(refused.status_and_code(), (400, "BAD_REQUEST".to_owned()), "{}", refused.text());
        assert!(refused.text().contains("add yourself to `people`"), "{}", refused.text());
        assert_eq!(env.json(&Method::PUT, admin, "/tenant", &put(&revision)).await.status, 200);
    }
}

/// A user has an entry in the directory, and an API key under another name.
#[tokio::test]
async fn key_of_an_unlisted_user_may_only_read() {
    let env = ContractEnv::new().await;
    let admin = env.acme.key(Role::Admin);
    let made = env.post(admin, "/keys", &json!({ "person": "grace.2", "roles": ["admin"] })).await.json();
    let key = made["secret"].as_str().unwrap();
    let start = json!({ "workflow": "plain" });
    assert_eq!(env.post(key, "/runs", &start).await.status, 201, "a tenant without a directory");

    assert_eq!(env.json(&Method::PUT, admin, "/tenant", &put(&json!(null))).await.status, 200);
    let me = env.get(key, "/me").await.json();
    assert_eq!((&me["person"], &me["roles"]), (&json!("grace.2"), &json!(["viewer"])));
    let approve = format!("/approvals/{}/approve", env.acme.runs.approval);
    for (path, body) in [("/runs", &start), (approve.as_str(), &json!({})), ("/keys", &json!({}))] {
        let refused = env.post(key, path, body).await;
        assert_eq!(refused.status_and_code(), (403, "FORBIDDEN".to_owned()), "{path}");
        let remedy = refused.json()["remedy"].clone();
        assert_eq!(remedy, json!("ask an admin of the tenant to add the user to `people`"), "{path}");
    }
}

/// A client can verify the log without trusting the server: it has every entry and the head.
#[tokio::test]
async fn audit_log_is_a_chain_that_a_client_verifies() {
    let env = ContractEnv::new().await;
    let admin = env.acme.key(Role::Admin);
    assert_eq!(env.post(admin, "/dispatch/stop", &json!({ "reason": "fire" })).await.status, 200);
    let (mut records, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = env.get(admin, &format!("/audit?limit=3{cursor}")).await.json();
        let page: api_types::AuditedChanges = serde_json::from_value(page).unwrap();
        records.extend(page.changes.into_iter().map(AuditRecord::from));
        let Some(next) = page.next else { break };
        cursor = format!("&cursor={next}");
    }
    records.reverse();
    let head: api_types::AuditLogHead =
        serde_json::from_value(env.get(admin, "/audit/head").await.json()).unwrap();
    assert_eq!(records.len() as u64, head.sequence);
    assert_eq!(audit_chain::verify(Some(&env.acme.tenant), &records, &head.clone().into()), Ok(()));
    let newest = env.get(admin, &format!("/audit/{}", head.sequence)).await.json();
    assert_eq!((&newest["text"], &newest["hash"]), (&json!("stopped dispatch: fire"), &json!(head.hash)));
    records[1].entry["by"]["id"] = json!("eve");
    let verified = audit_chain::verify(Some(&env.acme.tenant), &records, &head.into());
    assert_eq!(verified, Err(AuditChainError::Altered { sequence: 2 }));
}

#[tokio::test]
async fn audit_log_is_filtered_by_kind() {
    let env = ContractEnv::new().await;
    let admin = env.acme.key(Role::Admin);
    for _ in 0..2 {
        assert_eq!(env.post(admin, "/dispatch/stop", &json!({ "reason": "fire" })).await.status, 200);
        assert_eq!(env.post(admin, "/dispatch/start", &json!({})).await.status, 200);
    }
    let first = env.get(admin, "/audit?kind=dispatch_stopped&limit=1").await.json();
    let next = first["next"].as_str().unwrap();
    let second = env.get(admin, &format!("/audit?kind=dispatch_stopped&limit=1&cursor={next}")).await.json();
    let sequence = |page: &Value| page["changes"][0]["sequence"].as_u64().unwrap();
    assert_eq!(sequence(&first), sequence(&second) + 2);
    assert_eq!((&first["changes"][0]["kind"], &second["next"]), (&json!("dispatch_stopped"), &json!(null)));
    // A cursor is valid for its filter only.
    let other = env.get(admin, &format!("/audit?limit=1&cursor={next}")).await;
    assert_eq!(other.status_and_code(), (400, "BAD_REQUEST".to_owned()));
    let unknown = env.get(admin, "/audit?kind=coffee_made").await;
    assert_eq!(unknown.status_and_code(), (400, "BAD_REQUEST".to_owned()));
    for missing in ["0", "99999", "99999999999999999999999", "+1", "-1", "1x"] {
        assert_eq!(env.get(admin, &format!("/audit/{missing}")).await.status, 404, "{missing}");
    }
}

#[tokio::test]
async fn audit_entry_of_a_backout_has_the_credential() {
    let env = ContractEnv::new().await;
    let admin = env.acme.key(Role::Admin);
    let credential = env.get(admin, "/me").await.json()["credential"].clone();
    let backout = env.post(admin, "/backout", &json!({ "reason": "fire" })).await;
    assert_eq!(backout.status, 200, "{}", backout.text());
    let newest = env.get(admin, "/audit").await.json()["changes"][0].clone();
    assert_eq!((&newest["by"], &newest["credential"]), (&json!("adam"), &credential), "{newest}");
}

#[tokio::test]
async fn key_expires_after_90_days_by_default() {
    let env = ContractEnv::new().await;
    let admin = env.acme.key(Role::Admin);
    let key = async |request: Value| env.post(admin, "/keys", &request).await.json()["key"].clone();
    let days = |key: &Value| {
        let at = |name: &str| key[name].as_str().map(|text| views::time::parse(text).unwrap().0);
        at("expires_at").map(|end| (end - at("created_at").unwrap()) / 86_400_000)
    };
    assert_eq!(days(&key(json!({ "person": "ci", "roles": ["viewer"] })).await), Some(90));
    let never = json!({ "person": "ci", "roles": ["viewer"], "expires_in": "never" });
    assert_eq!(days(&key(never).await), None);
}

#[tokio::test]
async fn key_text_is_returned_once() {
    let env = ContractEnv::new().await;
    let admin = env.acme.key(Role::Admin);
    let request = json!({ "person": "ci", "roles": ["operator"], "note": "nightly", "expires_in": "90d" });
    let made = env.post(admin, "/keys", &request).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let text = made.json()["secret"].as_str().unwrap().to_owned();
    let me = env.get(&text, "/me").await.json();
    assert_eq!((&me["tenant"], &me["person"]), (&json!("acme"), &json!("ci")));
    assert_eq!(env.post(&text, "/runs", &json!({ "workflow": "plain" })).await.status, 201);
    assert_eq!(env.get(&text, "/keys").await.status, 403);
    let listed = env.get(admin, "/keys").await;
    let secret = text.rsplit('_').next().unwrap();
    assert!(listed.text().contains("nightly") && !listed.text().contains(secret));
    assert!(!listed.text().contains("secret"), "not even its digest");
}

#[tokio::test]
async fn key_list_is_paged() {
    let env = ContractEnv::new().await;
    let admin = env.acme.key(Role::Admin);
    let whole = env.get(admin, "/keys").await.json();
    let (mut listed, mut path) = (Vec::new(), "/keys?limit=1".to_owned());
    let cursor = loop {
        let page = env.get(admin, &path).await.json();
        listed.extend(page["keys"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else {
            break path.split_once("cursor=").unwrap().1.to_owned();
        };
        path = format!("/keys?limit=1&cursor={next}");
    };
    assert_eq!((&json!(listed), &whole["next"]), (&whole["keys"], &json!(null)));
    assert!(listed.len() > 1);
    let stranger = env.umbrella.key(Role::Admin);
    for (key, path) in [
        (stranger, format!("/keys?cursor={cursor}")),
        (admin, format!("/runs?cursor={cursor}")),
        (admin, "/keys?cursor=made-up".to_owned()),
        (admin, "/keys?limit=0".to_owned()),
    ] {
        assert_eq!(env.get(key, &path).await.status_and_code(), (400, "BAD_REQUEST".to_owned()), "{path}");
    }
}

#[tokio::test]
async fn invalid_key_request_is_refused() {
    let env = ContractEnv::new().await;
    let admin = env.acme.key(Role::Admin);
    for request in [
        json!({ "person": "ci", "roles": [] }),
        json!({ "person": "ci", "roles": ["root"] }),
        json!({ "person": "a b", "roles": ["viewer"] }),
        json!({ "person": "ci", "roles": ["viewer"], "expires_in": "0s" }),
        json!({ "person": "ci", "roles": ["viewer"], "expires_in": "soon" }),
        json!({ "person": "ci", "roles": ["viewer"], "expires_in": "999999d" }),
        json!({ "person": "ci", "roles": ["viewer"], "note": "x".repeat(201) }),
    ] {
        assert_eq!(
            env.post(admin, "/keys", &request).await.status_and_code(),
            (400, "BAD_REQUEST".to_owned()),
            "{request}"
        );
    }
}

#[tokio::test]
async fn documented_key_lifetimes_are_the_accepted_ones() {
    let env = ContractEnv::new().await;
    let admin = env.acme.key(Role::Admin);
    let document = env.get(admin, "/openapi.json").await.json();
    let schema = &document["components"]["schemas"]["CreateKey"]["properties"]["expires_in"];
    let documented = Regex::new(schema["pattern"].as_str().unwrap()).unwrap();
    let mut texts: Vec<String> = ["", "never", "Never", "d", "1", "1.5h", "-1d", "1w", "999999s", "999999m"]
        .map(str::to_owned)
        .to_vec();
    for (unit, most) in [("s", 10), ("m", 10), ("h", 87_600), ("d", 3_650)] {
        for number in [0, 1, 9, 10, most - 1, most] {
            texts.push(format!("{number}{unit}"));
        }
    }
    for (unit, most) in [("h", 87_600), ("d", 3_650)] {
        for number in [most + 1, most + 10, most + 100, most * 10, 999_999] {
            texts.push(format!("{number}{unit}"));
        }
    }
    for text in texts {
        let request = json!({ "person": "ci", "roles": ["viewer"], "expires_in": text });
        let accepted = env.post(admin, "/keys", &request).await.status == 201;
        assert_eq!(accepted, documented.is_match(&text), "{text}");
    }
}

#[tokio::test]
async fn older_workflow_version_is_refused() {
    let env = ContractEnv::new().await;
    let admin = env.acme.key(Role::Admin);
    let file = |version: u32, value: &str| {
        json!({ "source": format!(
            "workflow: w\nversion: {version}\nsteps:\n  - {{ id: a, tool: transform, with: {{ value: {value} }} }}\n"
        ) })
    };
    assert_eq!(env.post(admin, "/workflows", &file(2, "b")).await.status, 200);
    assert_eq!(
        env.post(admin, "/workflows", &file(2, "b")).await.status,
        200,
        "a repeated request changes nothing"
    );
    assert_eq!(env.post(admin, "/workflows", &file(1, "a")).await.status, 409);
    let shown = env.get(admin, "/workflows/w").await.json();
    assert_eq!((&shown["workflow"]["version"], &shown["definition"]["version"]), (&json!(2), &json!(2)));
}

/// `item_over_400KB`: settings that do not fit into one record are refused before the write.
#[tokio::test]
#[expect(non_snake_case, reason = "the name of the case")]
async fn item_over_400KB() {
    let env = ContractEnv::new().await;
    let key = env.acme.key(Role::Admin);
    let slack = |n: u32| json!({ "slack": format!("TEAM00:USER{n}") });
    let mut people: serde_json::Map<String, Value> =
        (0..9000).map(|n| (format!("person-number-{n}"), slack(n))).collect();
    people.insert("adam".to_owned(), json!({}));
    let mut body = put(&json!(null));
    body["people"] = Value::Object(people);
    body["groups"] = json!({});
    let reply = env.json(&Method::PUT, key, "/tenant", &body).await;
    assert_eq!(reply.status_and_code(), (413, "TOO_LARGE".to_owned()), "{}", reply.text());
    assert_eq!(env.get(key, "/tenant").await.json()["revision"], json!(null));
}

#[tokio::test]
async fn responses_are_not_cached() {
    let env = ContractEnv::new().await;
    for (key, path) in [(env.acme.key(Role::Viewer), "/me"), ("", "/me"), ("", "/nowhere"), ("", "/health")] {
        let reply = env.get(key, path).await;
        assert_eq!(reply.header("cache-control"), "no-store", "{path}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
    }
}

#[tokio::test]
async fn secret_names_are_listed_for_admins_only() {
    let env = ContractEnv::new().await;
    let named = env.get(env.acme.key(Role::Admin), "/tenant/secrets").await.json();
    let previous = json!({ "id": "ACME_OLD", "until": "2030-01-01T00:00:00.000Z" });
    let servicenow =
        json!({ "source": "servicenow", "scheme": "hmac", "id": "ACME_NEW", "previous": previous });
    assert_eq!(named, json!({ "secrets": [servicenow] }));
    let other = env.get(env.umbrella.key(Role::Admin), "/tenant/secrets").await.json();
    assert_eq!(other, json!({ "secrets": [] }));
    let refused = env.get(env.acme.key(Role::Operator), "/tenant/secrets").await;
    assert_eq!(refused.status_and_code(), (403, "FORBIDDEN".to_owned()));
}
