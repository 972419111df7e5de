//! The policy: read, apply and explain.

use countersign_contract::ContractEnv;
use domain::Role;
use serde_json::{Value, json};

const RULES: &str = r#"package countersign

allow contains {"rule": "posts", "message": "posts may be made"} if input.action.tool == "http.request"
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
async fn applied_policy_names_user_and_time() {
    let env = ContractEnv::new().await;
    let (admin, viewer) = (env.acme.key(Role::Admin), env.acme.key(Role::Viewer));
    let shipped = env.get(viewer, "/policy").await.json();
    assert_eq!((&shipped["origin"], &shipped["applied_by"]), (&json!("default"), &Value::Null));
    assert!(shipped["files"]["approval.rego"].as_str().unwrap().contains("package countersign"));

    let applied = env.post(admin, "/policy", &bundle(RULES)).await.json();
    assert_eq!((&applied["old"], &applied["changed"]), (&Value::Null, &json!(true)), "{applied}");
    let current = env.get(viewer, "/policy").await.json();
    assert_eq!((&current["hash"], &current["origin"]), (&applied["new"], &json!({ "tenant": "acme" })));
    assert_eq!(
        (&current["applied_by"], &current["rules"], &current["tests"]),
        (&json!("adam"), &json!(1), &json!(1))
    );
    assert!(current["applied_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(current["files"]["rules.rego"], RULES);
    assert_eq!(env.get(viewer, "/tenant").await.json()["policy"], applied["new"]);

    let again = env.post(admin, "/policy", &bundle(RULES)).await.json();
    assert_eq!((&again["changed"], &again["revision"]), (&json!(false), &applied["revision"]));
    assert_eq!(env.get(env.umbrella.key(Role::Viewer), "/policy").await.json()["origin"], "default");
}

#[tokio::test]
async fn invalid_policy_is_refused_with_its_location() {
    let env = ContractEnv::new().await;
    let admin = env.acme.key(Role::Admin);
    let before = env.get(admin, "/policy").await;
    let wrong = env.post(admin, "/policy", &bundle(&RULES.replace("action.tool", "action.tol"))).await;
    assert_eq!(wrong.status_and_code(), (400, "POLICY_INVALID".to_owned()));
    let location = &wrong.json()["location"];
    assert_eq!((&location["file"], &location["line"]), (&json!("rules.rego"), &json!(3)), "{}", wrong.text());

    let red = env.post(admin, "/policy", &bundle(&RULES.replace("\"posts\"", "\"puts\""))).await;
    assert_eq!(red.status_and_code(), (409, "POLICY_TESTS_FAILED".to_owned()));
    assert!(red.text().contains("test_posts (rules_test.rego:5)"), "{}", red.text());
    let untested = env.post(admin, "/policy", &json!({ "files": { "rules.rego": RULES } })).await;
    assert_eq!(untested.status_and_code(), (409, "POLICY_TESTS_FAILED".to_owned()));

    let many: serde_json::Map<String, Value> =
        (0..65).map(|n| (format!("f{n}.rego"), json!(RULES))).collect();
    let large = format!("{RULES}# {}", "x".repeat(256 * 1024));
    for files in [json!({}), json!({ "../out.rego": RULES }), json!(many), json!({ "large.rego": large })] {
        let reply = env.post(admin, "/policy", &json!({ "files": files })).await;
        assert_eq!(reply.status_and_code(), (400, "POLICY_INVALID".to_owned()), "{}", reply.text());
    }
    assert_eq!(env.get(admin, "/policy").await, before);
    assert_eq!(env.get(admin, "/tenant").await.json()["revision"], Value::Null);
}

#[tokio::test]
async fn viewer_explains_policy_without_a_run() {
    let env = ContractEnv::new().await;
    let (admin, viewer) = (env.acme.key(Role::Admin), env.acme.key(Role::Viewer));
    let before = env.get(viewer, "/runs").await;
    let ask = async |request: Value| env.post(viewer, "/policy/explain", &request).await;

    let sent = ask(json!({ "source": POSTS })).await.json();
    assert_eq!(sent["steps"][0]["outcome"], "wait", "{sent}");
    assert_eq!(
        (&sent["steps"][1]["outcome"], &sent["steps"][1]["missing"]),
        (&json!("missing_outputs"), &json!(["wait"]))
    );
    let judged = json!({ "source": POSTS, "step": "post", "outputs": { "wait": { "id": 7 } } });
    let judged = ask(judged).await.json();
    let [step] = judged["steps"].as_array().unwrap().as_slice() else { panic!("{judged}") };
    assert_eq!((&step["outcome"], &step["action"]["target"]), (&json!("evaluated"), &json!("example.com/7")));
    assert!(step["verdict"]["reasons"][0]["file"].as_str().unwrap().contains(".rego"), "{step}");
    assert_eq!(step["explanation"]["input"]["run"]["requester"], "vera");

    // An admin can evaluate another policy without applying it.
    let other = json!({ "source": POSTS, "step": "post", "outputs": { "wait": { "id": 7 } }, "policy": bundle(RULES)["files"] });
    assert_eq!(ask(other.clone()).await.status_and_code(), (403, "FORBIDDEN".to_owned()));
    let other = env.post(admin, "/policy/explain", &other).await.json();
    assert_eq!(
        (&other["policy"]["origin"], &other["steps"][0]["ruling"]),
        (&json!("request"), &json!("allow"))
    );
    assert_eq!(env.get(viewer, "/policy").await.json()["origin"], "default");

    // A single action without a workflow.
    let action = json!({ "tool": "http.request", "with": { "method": "POST", "url": "https://example.com/", "effect": "native_key" } });
    let single = ask(json!({ "action": action })).await.json();
    assert_eq!(single["steps"][0]["ruling"]["needs_approval"]["people"], "one", "{single}");

    env.post(admin, "/workflows", &json!({ "source": POSTS })).await;
    let named = ask(json!({ "workflow": "posts", "version": 1 })).await.json();
    assert_eq!((&named["workflow"], &named["steps"][0]["id"]), (&json!("posts"), &json!("wait")));
    assert_eq!(env.get(viewer, "/runs").await, before);
}

#[tokio::test]
async fn invalid_explain_request_is_refused() {
    let env = ContractEnv::new().await;
    let viewer = env.acme.key(Role::Viewer);
    let ask = async |request: Value| env.post(viewer, "/policy/explain", &request).await;
    for (request, text) in [
        (json!({}), "exactly one of"),
        (json!({ "workflow": "plain", "source": POSTS }), "exactly one of"),
        (json!({ "source": POSTS, "version": 1 }), "exactly one of"),
        (json!({ "source": POSTS, "step": "none" }), "its steps are wait, post"),
        (json!({ "source": POSTS, "outputs": { "none": 1 } }), "its steps are wait, post"),
        (json!({ "action": { "tool": "no.such" } }), "no.such"),
        (json!({ "action": { "tool": "http.request", "environment": "moon" } }), "moon"),
    ] {
        let reply = ask(request.clone()).await;
        assert_eq!(reply.status_and_code(), (400, "BAD_REQUEST".to_owned()), "{request}: {}", reply.text());
        assert!(reply.text().contains(text), "{request}: {}", reply.text());
    }
    let file =
        ask(json!({ "source": "workflow: w\nversion: 1\nsteps:\n  - { id: a, tool: no.such }\n" })).await;
    assert_eq!(file.status_and_code(), (400, "WORKFLOW_INVALID".to_owned()));
    assert_eq!(file.json()["location"]["line"], 4);
    let policy = json!({ "source": POSTS, "policy": { "a.rego": "package countersign\n" } });
    let policy = env.post(env.acme.key(Role::Admin), "/policy/explain", &policy).await;
    assert_eq!(policy.status_and_code(), (400, "POLICY_INVALID".to_owned()));
}

/// A workflow of another tenant looks like one that does not exist.
#[tokio::test]
async fn foreign_workflow_cannot_be_explained() {
    let env = ContractEnv::new().await;
    let viewer = env.acme.key(Role::Viewer);
    for version in [Value::Null, json!(1)] {
        let ask = async |name: &str| {
            let reply =
                env.post(viewer, "/policy/explain", &json!({ "workflow": name, "version": version })).await;
            assert_eq!(reply.status_and_code(), (404, "NO_WORKFLOW".to_owned()), "{name}");
            reply.text().replace(name, "NAME")
        };
        assert_eq!(ask("only-umbrella").await, ask("unknown").await);
        let own = json!({ "workflow": "only-acme", "version": version });
        assert_eq!(env.post(viewer, "/policy/explain", &own).await.status, 200);
    }
}
