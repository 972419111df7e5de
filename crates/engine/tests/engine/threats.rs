//! Named attacks on approvals and policy, with `http.request` and an external system that records its requests.

use std::collections::BTreeMap;

use countersign_engine::{SignalRun, StartRun, TenantUpdate};
use domain::command::VoteResult;
use domain::tenant::{Caps, Person};
use domain::{ParticipantRole, RunKey, RunStatus, Subject};
use serde_json::{Value, json};
use testkit::{HttpStub, StubReply};

use crate::http_env::HttpEnv;

/// The external system accepts every request except those for `/refused`.
fn http_env() -> HttpEnv {
    let external = HttpStub::start(|request| {
        StubReply::json(if request.line().ends_with(" /refused") { 403 } else { 200 }, "{}")
    });
    HttpEnv::new(testkit::engine(), external)
}

/// The fields of a step that changes `path`.
fn put(env: &HttpEnv, path: &str) -> String {
    put_url(&env.external.url(path))
}

fn put_url(url: &str) -> String {
    format!("tool: http.request, with: {{ method: PUT, url: '{url}', effect: native_key }}")
}

/// Ada starts a run in production.
async fn start(env: &HttpEnv, steps: &[String], input: Value) -> RunKey {
    let steps = steps.iter().map(|step| format!("  - {{ {step} }}\n")).collect::<Vec<_>>().concat();
    let source = format!("workflow: w\nversion: 1\nenvironment: prod\nsteps:\n{steps}");
    env.start_as(StartRun { input, ..env.request(&source, "k") }).await
}

async fn put_directory(env: &HttpEnv, people: &[&str]) {
    let handle = env.handle("ada");
    let seen = handle.tenant_settings().await.unwrap().map(|tenant| tenant.revision);
    let people = people.iter().map(|name| (name.parse().unwrap(), Person::default())).collect();
    let caps = Caps::default();
    let update = TenantUpdate { seen, caps, people, groups: BTreeMap::new(), redact: Vec::new() };
    handle.update_tenant(update).await.unwrap();
}

/// The author of the workflow lets the input choose what its rollback changes. The rollback starts when a later step
/// fails.
#[tokio::test]
async fn declared_rollback_hits_other_record() {
    let env = http_env();
    let rollback = put_url("${ trigger.other }");
    let steps = [
        format!("id: a, {}, rollback: {{ {rollback} }}", put(&env, "/accounts/1")),
        format!("id: b, {}", put(&env, "/refused")),
    ];
    let input = json!({ "other": env.external.url("/accounts/2") });
    let run = start(&env, &steps, input).await;

    assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
    let Subject::Action { rollback: Some(shown), .. } = env.approval(&run).await.subject else {
        panic!("the approver of the step sees its rollback")
    };
    assert_eq!(shown.with["url"], json!("${ trigger.other }"));
    env.approve(&run, "grace").await.unwrap();
    assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
    env.approve(&run, "grace").await.unwrap();

    assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval, "the rollback needs its own approval");
    let approval = env.approval(&run).await;
    let Subject::Action { action, .. } = &approval.subject else { panic!("{approval:?}") };
    assert!(
        approval.rollback && action.fields["url"] == json!(env.external.url("/accounts/2")),
        "{action:?}"
    );
    assert_eq!(env.requests(), ["PUT /accounts/1", "PUT /refused"]);
}

/// Linus may operate and approve. The rollback that he orders is an action that the workflow declares.
#[tokio::test]
async fn rollback_ordered_and_approved_by_one() {
    let env = http_env();
    let steps = [
        format!("id: a, {}, rollback: {{ {} }}", put(&env, "/accounts/1"), put(&env, "/accounts/1/close")),
        format!("id: b, {}", put(&env, "/accounts/2")),
    ];
    let run = start(&env, &steps, json!({})).await;
    env.advance(&run).await;
    env.approve(&run, "grace").await.unwrap();
    assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);

    env.handle("linus").roll_back(&run.run, "wrong account", None).await.unwrap();
    assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
    env.assert_excluded(&run, "linus", ParticipantRole::Canceler).await;
    assert_eq!(env.requests(), ["PUT /accounts/1"]);

    env.approve(&run, "grace").await.unwrap();
    assert_eq!(env.advance(&run).await, RunStatus::Canceled);
    assert_eq!(env.requests(), ["PUT /accounts/1", "PUT /accounts/1/close"]);
}

/// Mallory chooses the account with an event, before or while the run waits for it.
#[tokio::test]
async fn signal_payload_becomes_action_then_self_approved() {
    for early in [true, false] {
        let env = http_env();
        let steps = [
            "id: choice, tool: wait.event, with: { event: account.chosen }".to_owned(),
            format!("id: pay, {}", put(&env, "/accounts/${ steps.choice.account }")),
        ];
        let run = start(&env, &steps, json!({})).await;
        if !early {
            assert_eq!(env.advance(&run).await, RunStatus::WaitingEvent);
        }
        let signal = SignalRun {
            id: "s1".parse().unwrap(),
            event: "account.chosen".parse().unwrap(),
            payload: json!({ "account": "mallory" }),
        };
        env.handle("mallory").signal(&run.run, signal).await.unwrap();

        assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
        env.assert_excluded(&run, "mallory", ParticipantRole::Signaler).await;
        assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
        assert_eq!(env.requests(), [""; 0]);
        env.approve(&run, "grace").await.unwrap();
    }
}

/// Two approvers are needed. One of them leaves before the decision, or after it and before the change.
#[tokio::test]
async fn removed_person_vote() {
    let all = ["ada", "grace", "ben", "linus"];
    let without_grace = ["ada", "ben", "linus"];
    for leaves_before_the_decision in [true, false] {
        let env = http_env();
        put_directory(&env, &all).await;
        let steps = [format!("id: a, {}, blast_radius: high", put(&env, "/accounts/1"))];
        let run = start(&env, &steps, json!({})).await;
        assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);

        assert_eq!(env.approve(&run, "grace").await.unwrap(), VoteResult::Counted { missing: 1 });
        if leaves_before_the_decision {
            put_directory(&env, &without_grace).await;
            assert_eq!(env.approve(&run, "ben").await.unwrap(), VoteResult::Counted { missing: 1 });
        } else {
            assert!(matches!(env.approve(&run, "ben").await.unwrap(), VoteResult::Decided(_)));
            put_directory(&env, &without_grace).await;
        }
        assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
        assert_eq!(env.requests(), [""; 0], "before the decision: {leaves_before_the_decision}");

        if !leaves_before_the_decision {
            env.approve(&run, "ben").await.unwrap();
        }
        env.approve(&run, "linus").await.unwrap();
        assert_eq!(env.advance(&run).await, RunStatus::Succeeded);
    }
}

/// A GET can carry data out of the tenant in its query.
#[tokio::test]
async fn read_with_secret_in_query_under_deny_all() {
    const DENY_ALL: &str =
        "package countersign\ndeny contains {\"rule\": \"all\", \"message\": \"closed\"}\n";
    let env = http_env();
    env.put_policy(DENY_ALL).await;
    let url = env.external.url("/collect?data=${ trigger.secret }");
    let steps = [format!("id: a, tool: http.request, with: {{ url: '{url}' }}")];
    let run = start(&env, &steps, json!({ "secret": "hunter2" })).await;

    assert_eq!(env.advance(&run).await, RunStatus::FailedTerminal);

    assert_eq!(env.requests(), [""; 0]);
    let events = env.events(&run).await;
    assert!(!serde_json::to_string(&events).unwrap().contains("hunter2"), "{events:?}");
}
