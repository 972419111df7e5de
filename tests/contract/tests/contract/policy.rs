//! The policy that counts: seen, asked, replaced, and never by another tenant.

use countersign_contract::House;
use domain::Role;
use serde_json::{Value, json};

const RULES: &str = r#"package countersign

allow contains {"rule": "posts", "says": "posts may be made"} if input.action.tool == "http.request"
"#;

const TESTS: &str = r#"package countersign_test

import data.countersign

test_posts if {
	some member in countersign.allow with input as {"action": {"tool": "http.request"}}
	member.rule == "posts"
}
"#;

const POSTS: &str = "
workflow: posts
version: 1
environment: dev
steps:
  - { id: wait, tool: wait.event, with: { event: news.came } }
  - { id: post, tool: http.request, with: { method: POST, url: 'https://example.com/${ steps.wait.id }', effect: native_key } }
";

fn bundle(rules: &str) -> Value {
    json!({ "files": { "rules.rego": rules, "rules_test.rego": TESTS } })
}

#[tokio::test]
async fn a_policy_is_settled_on_and_says_who_did_and_when() {
    let house = House::new().await;
    let (admin, viewer) = (house.acme.key(Role::Admin), house.acme.key(Role::Viewer));
    let shipped = house.get(viewer, "/policy").await.json();
    assert_eq!((&shipped["from"], &shipped["settled_by"]), (&json!("shipped"), &Value::Null));
    assert!(shipped["files"]["approval.rego"].as_str().unwrap().contains("package countersign"));

    let applied = house.post(admin, "/policy", &bundle(RULES)).await.json();
    assert_eq!((&applied["old"], &applied["changed"]), (&Value::Null, &json!(true)), "{applied}");
    let stands = house.get(viewer, "/policy").await.json();
    assert_eq!((&stands["hash"], &stands["from"]), (&applied["new"], &json!({ "tenant": "acme" })));
    assert_eq!(
        (&stands["settled_by"], &stands["rules"], &stands["tests"]),
        (&json!("adam"), &json!(1), &json!(1))
    );
    assert!(stands["settled_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(stands["files"]["rules.rego"], RULES);
    assert_eq!(house.get(viewer, "/tenant").await.json()["policy"], applied["new"]);

    let again = house.post(admin, "/policy", &bundle(RULES)).await.json();
    assert_eq!((&again["changed"], &again["revision"]), (&json!(false), &applied["revision"]));
    assert_eq!(house.get(house.umbrella.key(Role::Viewer), "/policy").await.json()["from"], "shipped");
}

#[tokio::test]
async fn what_is_no_policy_is_refused_with_its_place_and_changes_nothing() {
    let house = House::new().await;
    let admin = house.acme.key(Role::Admin);
    let before = house.get(admin, "/policy").await;
    let wrong = house.post(admin, "/policy", &bundle(&RULES.replace("action.tool", "action.tol"))).await;
    assert_eq!(wrong.told(), (400, "POLICY_INVALID".to_owned()));
    let place = &wrong.json()["place"];
    assert_eq!((&place["file"], &place["line"]), (&json!("rules.rego"), &json!(3)), "{}", wrong.text());

    let red = house.post(admin, "/policy", &bundle(&RULES.replace("\"posts\"", "\"puts\""))).await;
    assert_eq!(red.told(), (409, "POLICY_NOT_GREEN".to_owned()));
    assert!(red.text().contains("test_posts (rules_test.rego:5)"), "{}", red.text());
    let untested = house.post(admin, "/policy", &json!({ "files": { "rules.rego": RULES } })).await;
    assert_eq!(untested.told(), (409, "POLICY_NOT_GREEN".to_owned()));

    let many: serde_json::Map<String, Value> =
        (0..65).map(|n| (format!("f{n}.rego"), json!(RULES))).collect();
    let large = format!("{RULES}# {}", "x".repeat(256 * 1024));
    for files in [json!({}), json!({ "../out.rego": RULES }), json!(many), json!({ "large.rego": large })] {
        let reply = house.post(admin, "/policy", &json!({ "files": files })).await;
        assert_eq!(reply.told(), (400, "POLICY_INVALID".to_owned()), "{}", reply.text());
    }
    assert_eq!(house.get(admin, "/policy").await, before);
    assert_eq!(house.get(admin, "/tenant").await.json()["revision"], Value::Null);
}

#[tokio::test]
async fn a_viewer_asks_what_policy_would_say_and_nothing_is_run() {
    let house = House::new().await;
    let (admin, viewer) = (house.acme.key(Role::Admin), house.acme.key(Role::Viewer));
    let before = house.get(viewer, "/runs").await;
    let ask = async |wish: Value| house.post(viewer, "/policy/explain", &wish).await;

    let sent = ask(json!({ "source": POSTS })).await.json();
    assert_eq!(sent["steps"][0]["outcome"], "waits", "{sent}");
    assert_eq!(
        (&sent["steps"][1]["outcome"], &sent["steps"][1]["missing"]),
        (&json!("reads_outputs"), &json!(["wait"]))
    );
    let judged = json!({ "source": POSTS, "step": "post", "outputs": { "wait": { "id": 7 } } });
    let judged = ask(judged).await.json();
    let [step] = judged["steps"].as_array().unwrap().as_slice() else { panic!("{judged}") };
    assert_eq!((&step["outcome"], &step["action"]["target"]), (&json!("judged"), &json!("example.com/7")));
    assert!(step["verdict"]["because"][0]["file"].as_str().unwrap().contains(".rego"), "{step}");
    assert_eq!(step["explanation"]["input"]["run"]["requester"], "vera");

    // Another policy is asked without being settled on, by those who might settle on it.
    let other = json!({ "source": POSTS, "step": "post", "outputs": { "wait": { "id": 7 } }, "policy": bundle(RULES)["files"] });
    assert_eq!(ask(other.clone()).await.told(), (403, "FORBIDDEN".to_owned()));
    let other = house.post(admin, "/policy/explain", &other).await.json();
    assert_eq!((&other["policy"]["from"], &other["steps"][0]["ruling"]), (&json!("sent"), &json!("allow")));
    assert_eq!(house.get(viewer, "/policy").await.json()["from"], "shipped");

    // A single action, without a workflow around it; what must be done before it may happen is told.
    let action = json!({ "tool": "http.request", "with": { "method": "POST", "url": "https://example.com/", "effect": "native_key" } });
    let single = ask(json!({ "action": action })).await.json();
    assert_eq!(single["steps"][0]["ruling"]["needs_approval"]["people"], "one", "{single}");

    house.post(admin, "/workflows", &json!({ "source": POSTS })).await;
    let named = ask(json!({ "workflow": "posts", "version": 1 })).await.json();
    assert_eq!((&named["workflow"], &named["steps"][0]["id"]), (&json!("posts"), &json!("wait")));
    assert_eq!(house.get(viewer, "/runs").await, before);
}

#[tokio::test]
async fn a_question_that_makes_no_sense_is_refused_in_words() {
    let house = House::new().await;
    let viewer = house.acme.key(Role::Viewer);
    let ask = async |wish: Value| house.post(viewer, "/policy/explain", &wish).await;
    for (wish, says) in [
        (json!({}), "in one of three ways"),
        (json!({ "workflow": "plain", "source": POSTS }), "in one of three ways"),
        (json!({ "source": POSTS, "version": 1 }), "in one of three ways"),
        (json!({ "source": POSTS, "step": "none" }), "there are wait, post"),
        (json!({ "source": POSTS, "outputs": { "none": 1 } }), "there are wait, post"),
        (json!({ "action": { "tool": "no.such" } }), "no.such"),
        (json!({ "action": { "tool": "http.request", "environment": "moon" } }), "moon"),
    ] {
        let reply = ask(wish.clone()).await;
        assert_eq!(reply.told(), (400, "BAD_REQUEST".to_owned()), "{wish}: {}", reply.text());
        assert!(reply.text().contains(says), "{wish}: {}", reply.text());
    }
    let file =
        ask(json!({ "source": "workflow: w\nversion: 1\nsteps:\n  - { id: a, tool: no.such }\n" })).await;
    assert_eq!(file.told(), (400, "WORKFLOW_INVALID".to_owned()));
    assert_eq!(file.json()["place"]["line"], 4);
    let policy = json!({ "source": POSTS, "policy": { "a.rego": "package countersign\n" } });
    let policy = house.post(house.acme.key(Role::Admin), "/policy/explain", &policy).await;
    assert_eq!(policy.told(), (400, "POLICY_INVALID".to_owned()));
}

/// What another tenant has put to use, in whichever version, is told in the bytes of what nobody has.
#[tokio::test]
async fn another_tenants_workflow_cannot_be_asked_about() {
    let house = House::new().await;
    let viewer = house.acme.key(Role::Viewer);
    for version in [Value::Null, json!(1)] {
        let ask = async |name: &str| {
            let reply =
                house.post(viewer, "/policy/explain", &json!({ "workflow": name, "version": version })).await;
            assert_eq!(reply.told(), (404, "NO_WORKFLOW".to_owned()), "{name}");
            reply.text().replace(name, "NAME")
        };
        assert_eq!(ask("only-umbrella").await, ask("nobody-has-it").await);
        let own = json!({ "workflow": "only-acme", "version": version });
        assert_eq!(house.post(viewer, "/policy/explain", &own).await.status, 200);
    }
}
