//! What a tenant settles, and the keys it hands out.

use axum::http::Method;
use countersign_contract::House;
use domain::Role;
use serde_json::{Value, json};

fn put(revision: &Value) -> Value {
    json!({
        "people": { "grace": { "slack": "T1:U1" } },
        "groups": { "leads": ["grace"] },
        "caps": { "max_writes_per_run": 3 },
        "revision": revision,
    })
}

#[tokio::test]
async fn whoever_settles_something_has_seen_what_stood_there() {
    let house = House::new().await;
    let key = house.acme.key(Role::Admin);
    assert_eq!(house.get(key, "/tenant").await.json()["revision"], json!(null));
    let first = house.json(&Method::PUT, key, "/tenant", &put(&json!(null))).await;
    assert_eq!((first.status, &first.json()["revision"]), (200, &json!(0)), "{}", first.text());
    // A second one who saw nothing is told that there is something now.
    let late = house.json(&Method::PUT, key, "/tenant", &put(&json!(null))).await;
    assert_eq!(late.told(), (409, "TENANT_CHANGED".to_owned()));
    let second = house.json(&Method::PUT, key, "/tenant", &put(&json!(0))).await;
    assert_eq!(second.json()["revision"], json!(1));
    assert_eq!(house.get(key, "/tenant").await.json(), second.json());
    assert_eq!(house.get(house.umbrella.key(Role::Admin), "/tenant").await.json()["people"], json!({}));
}

#[tokio::test]
async fn nobody_is_settled_as_two_people_or_asked_who_is_not_there() {
    let house = House::new().await;
    let key = house.acme.key(Role::Admin);
    let first = house.json(&Method::PUT, key, "/tenant", &put(&json!(null))).await;
    assert_eq!(first.status, 200, "{}", first.text());
    let stands = house.get(key, "/tenant").await;
    for (people, groups, says) in [
        (
            json!({ "ada": { "slack": "T1:U1" }, "zed": { "slack": "T1:U1" } }),
            json!({ "leads": ["ada"] }),
            "`ada` and `zed` are both the Slack user T1:U1",
        ),
        (
            json!({ "ada": {} }),
            json!({ "leads": ["ada", "eve"] }),
            "group `leads` names `eve`, who is not among `people`",
        ),
        (json!({ "ada": { "slack": "U1" } }), json!({}), "`slack` of `ada` is \"U1\"; write TEAM:USER"),
    ] {
        let mut body = put(&json!(0));
        (body["people"], body["groups"]) = (people, groups);
        let reply = house.json(&Method::PUT, key, "/tenant", &body).await;
        assert_eq!(reply.told(), (400, "BAD_REQUEST".to_owned()), "{}", reply.text());
        let told = reply.json();
        assert!(told["detail"].as_str().unwrap().contains(says), "{told}");
        assert!(told["remedy"].as_str().unwrap().contains("nothing was changed"), "{told}");
        assert_eq!(house.get(key, "/tenant").await, stands);
    }
}

#[tokio::test]
async fn a_key_is_shown_once_and_opens_what_its_role_opens() {
    let house = House::new().await;
    let admin = house.acme.key(Role::Admin);
    let wish = json!({ "person": "ci", "roles": ["operator"], "note": "nightly", "expires_in": "90d" });
    let made = house.post(admin, "/keys", &wish).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let text = made.json()["text"].as_str().unwrap().to_owned();
    let me = house.get(&text, "/me").await.json();
    assert_eq!((&me["tenant"], &me["person"]), (&json!("acme"), &json!("ci")));
    assert_eq!(house.post(&text, "/runs", &json!({ "workflow": "plain" })).await.status, 201);
    assert_eq!(house.get(&text, "/keys").await.status, 403);
    let listed = house.get(admin, "/keys").await;
    let secret = text.rsplit('_').next().unwrap();
    assert!(listed.text().contains("nightly") && !listed.text().contains(secret));
    assert!(!listed.text().contains("secret"), "not even its digest");
}

#[tokio::test]
async fn keys_are_listed_page_by_page_and_a_cursor_leads_into_no_other_list() {
    let house = House::new().await;
    let admin = house.acme.key(Role::Admin);
    let whole = house.get(admin, "/keys").await.json();
    let (mut listed, mut path) = (Vec::new(), "/keys?limit=1".to_owned());
    let cursor = loop {
        let page = house.get(admin, &path).await.json();
        listed.extend(page["keys"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else {
            break path.split_once("cursor=").unwrap().1.to_owned();
        };
        path = format!("/keys?limit=1&cursor={next}");
    };
    assert_eq!((&json!(listed), &whole["next"]), (&whole["keys"], &json!(null)));
    assert!(listed.len() > 1);
    let stranger = house.umbrella.key(Role::Admin);
    for (key, path) in [
        (stranger, format!("/keys?cursor={cursor}")),
        (admin, format!("/runs?cursor={cursor}")),
        (admin, "/keys?cursor=made-up".to_owned()),
        (admin, "/keys?limit=0".to_owned()),
    ] {
        assert_eq!(house.get(key, &path).await.told(), (400, "BAD_REQUEST".to_owned()), "{path}");
    }
}

#[tokio::test]
async fn a_wish_for_a_key_that_makes_no_sense_is_refused() {
    let house = House::new().await;
    let admin = house.acme.key(Role::Admin);
    for wish in [
        json!({ "person": "ci", "roles": [] }),
        json!({ "person": "ci", "roles": ["root"] }),
        json!({ "person": "a b", "roles": ["viewer"] }),
        json!({ "person": "ci", "roles": ["viewer"], "expires_in": "0s" }),
        json!({ "person": "ci", "roles": ["viewer"], "expires_in": "soon" }),
        json!({ "person": "ci", "roles": ["viewer"], "expires_in": "999999d" }),
        json!({ "person": "ci", "roles": ["viewer"], "note": "x".repeat(201) }),
    ] {
        assert_eq!(house.post(admin, "/keys", &wish).await.told(), (400, "BAD_REQUEST".to_owned()), "{wish}");
    }
}

#[tokio::test]
async fn a_workflow_is_put_to_use_and_an_older_one_does_not_take_its_place() {
    let house = House::new().await;
    let admin = house.acme.key(Role::Admin);
    let file = |version: u32, value: &str| {
        json!({ "source": format!(
            "workflow: w\nversion: {version}\nsteps:\n  - {{ id: a, tool: transform, with: {{ value: {value} }} }}\n"
        ) })
    };
    assert_eq!(house.post(admin, "/workflows", &file(2, "b")).await.status, 200);
    assert_eq!(
        house.post(admin, "/workflows", &file(2, "b")).await.status,
        200,
        "the same again is the same"
    );
    assert_eq!(house.post(admin, "/workflows", &file(1, "a")).await.status, 409);
    let shown = house.get(admin, "/workflows/w").await.json();
    assert_eq!((&shown["workflow"]["version"], &shown["definition"]["version"]), (&json!(2), &json!(2)));
}

/// `item_over_400KB`: what no store keeps in one record is refused before it is written.
#[tokio::test]
#[expect(non_snake_case, reason = "the case is known by this name")]
async fn item_over_400KB() {
    let house = House::new().await;
    let key = house.acme.key(Role::Admin);
    let slack = |n: u32| json!({ "slack": format!("TEAM00:USER{n}") });
    let people: serde_json::Map<String, Value> =
        (0..9000).map(|n| (format!("person-number-{n}"), slack(n))).collect();
    let mut body = put(&json!(null));
    body["people"] = Value::Object(people);
    body["groups"] = json!({});
    let reply = house.json(&Method::PUT, key, "/tenant", &body).await;
    assert_eq!(reply.told(), (413, "TOO_LARGE".to_owned()), "{}", reply.text());
    assert_eq!(house.get(key, "/tenant").await.json()["revision"], json!(null));
}

#[tokio::test]
async fn nobody_in_between_keeps_what_one_person_is_told() {
    let house = House::new().await;
    for (key, path) in [(house.acme.key(Role::Viewer), "/me"), ("", "/me"), ("", "/nowhere"), ("", "/health")]
    {
        let reply = house.get(key, path).await;
        assert_eq!(reply.header("cache-control"), "no-store", "{path}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
    }
}

#[tokio::test]
async fn secrets_are_named_to_admins_of_their_tenant_and_never_told() {
    let house = House::new().await;
    let named = house.get(house.acme.key(Role::Admin), "/tenant/secrets").await.json();
    let previous = json!({ "id": "ACME_OLD", "until": "2030-01-01T00:00:00.000Z" });
    let servicenow =
        json!({ "source": "servicenow", "scheme": "hmac", "id": "ACME_NEW", "previous": previous });
    assert_eq!(named, json!({ "secrets": [servicenow] }));
    let other = house.get(house.umbrella.key(Role::Admin), "/tenant/secrets").await.json();
    assert_eq!(other, json!({ "secrets": [] }));
    let refused = house.get(house.acme.key(Role::Operator), "/tenant/secrets").await;
    assert_eq!(refused.told(), (403, "FORBIDDEN".to_owned()));
}
