//! Forms: starting runs, decisions, actions on runs, and the dispatch switch.

use axum::http::StatusCode;
use domain::{ApprovalStatus, Cause, Initiator, Role, RunKey, RunStatus};
use serde_json::json;
use store::Ledger as _;

use crate::env::{CHANGE, ConsoleEnv, Page};

/// One run at a time for each concurrency key.
const ONE_AT_A_TIME: &str = "\
workflow: one-at-a-time
version: 1
concurrency: { key: '${ trigger.ticket }', on_conflict: queue }
steps:
  - { id: ask, tool: approval.gate, with: { message: \"Go on?\" } }
";

async fn run_status(env: &ConsoleEnv, run: &RunKey) -> RunStatus {
    env.store().load(run).await.unwrap().unwrap().status
}

async fn decide(env: &ConsoleEnv, run: &RunKey, who: &str, fields: &[(&str, &str)]) -> Page {
    let approval = env.approval(run).await;
    let path = format!("/approvals/{}", approval.id);
    let token = env.get("/runs", who).await.token();
    let subject = approval.subject.hash().to_string();
    let always = [("token", token.as_str()), ("subject", subject.as_str())];
    // A field of the test replaces the default.
    let mut sent: Vec<_> =
        always.iter().filter(|(name, _)| fields.iter().all(|(given, _)| given != name)).copied().collect();
    sent.extend_from_slice(fields);
    env.send(&path, who, &sent).await
}

/// The value of a hidden field.
fn hidden<'a>(page: &'a Page, name: &str) -> &'a str {
    let field = format!("name=\"{name}\" value=\"");
    page.body.split_once(&field).unwrap().1.split_once('"').unwrap().0
}

#[tokio::test]
async fn start_form_sent_twice_starts_one_run() {
    let env = ConsoleEnv::new();
    env.run("acme", "new").await;
    let otto = env.log_in("acme", "otto", &[Role::Operator]).await;
    let page = env.get("/workflows/change-it", &otto).await;
    let (token, once) = (page.token(), hidden(&page, "once"));
    assert_eq!(
        page.body.matches("&quot;to&quot;: &quot;a sample&quot;").count(),
        2,
        "both forms start with the sample"
    );
    let start = async |once: &str, input: &str, record: &str| {
        let fields = [("token", token.as_str()), ("once", once), ("input", input), ("record", record)];
        env.send("/workflows/change-it/start", &otto, &fields).await
    };
    let (input, record) = ("{\"to\": \"newer\"}", "servicenow:incident:9d38");
    let first = start(once, input, record).await;
    assert_eq!(first.status, StatusCode::SEE_OTHER, "{}", first.body);
    let run = first.location().strip_prefix("/runs/").unwrap();
    let run = RunKey { tenant: "acme".parse().unwrap(), run: run.parse().unwrap() };
    let started = env.store().load(&run).await.unwrap().unwrap();
    assert_eq!((started.trigger.kind.as_str(), &started.trigger.record), ("console", &record.parse().ok()));
    assert_eq!(started.trigger.requester, "otto".parse().ok(), "the user becomes the requester");

    assert_eq!(start(once, input, record).await.location(), first.location());
    let other = start(once, "{\"to\": \"other\"}", record).await;
    assert_eq!(other.status, StatusCode::CONFLICT, "{}", other.body);
    let again = start(hidden(&other, "once"), input, "").await;
    assert_eq!(again.status, StatusCode::SEE_OTHER);
    assert_ne!(again.location(), first.location());
}

#[tokio::test]
async fn queued_start_names_the_run_it_waits_for() {
    let env = ConsoleEnv::new();
    let ticket = json!({ "ticket": "INC-7" });
    let first = env.run_of(ONE_AT_A_TIME, "acme", ticket.clone()).await;
    let otto = env.log_in("acme", "otto", &[Role::Operator]).await;
    let page = env.get("/workflows/one-at-a-time", &otto).await;
    let (token, once, input) = (page.token(), hidden(&page, "once"), ticket.to_string());
    let fields = [("token", token.as_str()), ("once", once), ("input", &input)];
    let start = async || env.send("/workflows/one-at-a-time/start", &otto, &fields).await;

    let waits = start().await;
    assert_eq!(waits.status, StatusCode::ACCEPTED, "{}", waits.body);
    assert!(waits.body.contains(&format!("href=\"/runs/{}\"", first.run)), "{}", waits.body);
    assert!(waits.body.contains("Start a run"), "expected the workflow's page: {}", waits.body);
    let (_, rest) = waits.body.split_once("Run <code>").unwrap();
    let run = rest.split_once('<').unwrap().0.parse().unwrap();
    let run = RunKey { tenant: first.tenant.clone(), run };
    assert!(run != first && env.store().load(&run).await.unwrap().is_none());

    let by = Initiator::new(Cause::User, "otto");
    env.engine.tenant_handle(&first.tenant, &by).cancel(&first.run, "enough").await.unwrap();
    env.engine.admission().process_entry(&run).await.unwrap();
    let started = start().await;
    assert_eq!(started.status, StatusCode::SEE_OTHER, "{}", started.body);
    assert_eq!(started.location(), format!("/runs/{}", run.run));
    assert_eq!(env.get(started.location(), &otto).await.status, StatusCode::OK);
}

#[tokio::test]
async fn joined_start_redirects_to_the_other_run() {
    let env = ConsoleEnv::new();
    let joins = ONE_AT_A_TIME.replace("one-at-a-time", "joins").replace("queue", "join");
    let ticket = json!({ "ticket": "INC-7" });
    let first = env.run_of(&joins, "acme", ticket.clone()).await;
    let otto = env.log_in("acme", "otto", &[Role::Operator]).await;
    let (token, input) = (env.get("/runs", &otto).await.token(), ticket.to_string());
    let fields = [("token", token.as_str()), ("input", &input)];
    let joined = env.send("/workflows/joins/start", &otto, &fields).await;
    assert_eq!(joined.status, StatusCode::SEE_OTHER, "{}", joined.body);
    assert_eq!(joined.location(), format!("/runs/{}", first.run));
}

#[tokio::test]
async fn invalid_start_form_is_shown_with_the_error() {
    let env = ConsoleEnv::new();
    env.run("acme", "new").await;
    let otto = env.log_in("acme", "otto", &[Role::Operator]).await;
    let token = env.get("/runs", &otto).await.token();
    let before = env.get("/runs", &otto).await.body.matches("data-label=\"Run\"").count();
    for (input, record, expected) in [
        ("{", "", "The input:"),
        ("{}", "incident", "SYSTEM:NAME"),
        ("{\"a\":1,\"a\":2}", "", "appears twice"),
    ] {
        let fields = [("token", token.as_str()), ("input", input), ("record", record)];
        let refused = env.send("/workflows/change-it/start", &otto, &fields).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.body);
        assert!(
            refused.body.contains("role=\"alert\"") && refused.body.contains(expected),
            "{}",
            refused.body
        );
    }
    let vera = env.log_in("acme", "vera", &[Role::Viewer]).await;
    assert!(!env.get("/workflows/change-it", &vera).await.body.contains("Start a run"));
    let token = env.get("/runs", &vera).await.token();
    let refused = env.send("/workflows/change-it/start", &vera, &[("token", &token), ("input", "{}")]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert_eq!(env.get("/runs", &vera).await.body.matches("data-label=\"Run\"").count(), before);
}

#[tokio::test]
async fn approver_sees_the_exact_action_and_its_hash() {
    let env = ConsoleEnv::new();
    let run = env.run("acme", "new").await;
    let grace = env.log_in("acme", "grace", &[Role::Approver]).await;
    let approval = env.approval(&run).await;
    let page = env.get(&format!("/approvals/{}", approval.id), &grace).await;
    assert!(page.body.contains(&approval.subject.hash().to_string()));
    assert!(page.body.contains("&quot;target&quot;:&quot;the record&quot;"), "{}", page.body);
    assert!(
        page.body.contains("value: &quot;old&quot; → &quot;new&quot;"),
        "the text of the Slack card: {}",
        page.body
    );
    let decided = decide(&env, &run, &grace, &[("answer", "approve"), ("reason", "fine")]).await;
    assert_eq!(decided.status, StatusCode::SEE_OTHER, "{}", decided.body);
    env.advance(&run).await;
    assert_eq!(
        env.approval(&run).await.step.as_str(),
        "ask",
        "the change is made and the next approval requested"
    );
}

#[tokio::test]
async fn rejection_needs_a_reason_and_ends_the_run() {
    let env = ConsoleEnv::new();
    let run = env.run("acme", "new").await;
    let grace = env.log_in("acme", "grace", &[Role::Approver]).await;
    let refused = decide(&env, &run, &grace, &[("answer", "reject"), ("reason", "  ")]).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.body.contains("A rejection needs a reason"), "{}", refused.body);
    decide(&env, &run, &grace, &[("answer", "reject"), ("reason", "not today")]).await;
    env.advance(&run).await;
    assert_eq!(run_status(&env, &run).await, RunStatus::FailedTerminal);
    let page = env.get(&format!("/runs/{}", run.run), &grace).await.body;
    assert!(page.contains("rejected by grace: not today"), "{page}");
}

#[tokio::test]
async fn requester_cannot_approve_in_the_console() {
    let env = ConsoleEnv::new();
    let run = env.run("acme", "new").await;
    let ada = env.log_in("acme", "ada", &[Role::Approver]).await;
    let page = env.get(&format!("/approvals/{}", env.approval(&run).await.id), &ada).await.body;
    assert!(
        page.contains("the user who requested a run cannot approve it")
            && !page.contains("value=\"approve\""),
        "{page}"
    );
    let refused = decide(&env, &run, &ada, &[("answer", "approve")]).await;
    assert!(refused.status.is_client_error() && refused.body.contains("role=\"alert\""), "{}", refused.body);
    assert_eq!(env.approval(&run).await.status, ApprovalStatus::Requested);
}

#[tokio::test]
async fn approval_of_another_subject_is_refused() {
    let env = ConsoleEnv::new();
    let run = env.run("acme", "new").await;
    let grace = env.log_in("acme", "grace", &[Role::Approver]).await;
    let other = "0".repeat(64);
    let refused = decide(&env, &run, &grace, &[("answer", "approve"), ("subject", &other)]).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.body);
    assert_eq!(env.approval(&run).await.status, ApprovalStatus::Requested);
}

#[tokio::test]
async fn each_role_sees_only_its_buttons() {
    let env = ConsoleEnv::new();
    let run = env.run("acme", "new").await;
    let (one, approval) =
        (format!("/runs/{}", run.run), format!("/approvals/{}", env.approval(&run).await.id));
    for (person, role, can_act, can_decide) in [
        ("vera", Role::Viewer, false, false),
        ("otto", Role::Operator, true, false),
        ("anne", Role::Approver, false, true),
    ] {
        let who = env.log_in("acme", person, &[role]).await;
        let page = env.get(&one, &who).await;
        assert_eq!(page.body.contains("/cancel\""), can_act, "{role}");
        assert_eq!(env.get(&approval, &who).await.body.contains("value=\"approve\""), can_decide, "{role}");
        let health = env.get("/health", &who).await.status;
        assert_eq!(health == StatusCode::OK, can_act, "{role}");
        if !can_act {
            let fields = [("token", page.token()), ("reason", "no".to_owned())];
            let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
            assert_eq!(env.send(&format!("{one}/cancel"), &who, &fields).await.status, StatusCode::FORBIDDEN);
        }
    }
    assert_eq!(run_status(&env, &run).await, RunStatus::WaitingApproval);
}

#[tokio::test]
async fn operator_can_pause_resume_and_cancel_a_run() {
    let env = ConsoleEnv::new();
    let run = env.run("acme", "new").await;
    let otto = env.log_in("acme", "otto", &[Role::Operator]).await;
    let page = format!("/runs/{}", run.run);
    for (verb, status) in
        [("pause", RunStatus::Paused), ("resume", RunStatus::Queued), ("cancel", RunStatus::Canceled)]
    {
        let token = env.get(&page, &otto).await.token();
        let fields = [("token", token.as_str()), ("reason", "because")];
        let answer = env.send(&format!("{page}/{verb}"), &otto, &fields).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{verb}: {}", answer.body);
        let now = run_status(&env, &run).await;
        assert!(now == status || verb == "resume" && !now.is_terminal(), "{verb}: {now}");
    }
    let token = env.get(&page, &otto).await.token();
    let again = env.send(&format!("{page}/pause"), &otto, &[("token", &token), ("reason", "late")]).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    assert!(
        again.body.contains("role=\"alert\"") && again.body.contains("RUN_TERMINAL_STATE"),
        "{}",
        again.body
    );
}

async fn is_stopped(env: &ConsoleEnv) -> bool {
    env.engine.operations().dispatch(&"acme".parse().unwrap()).await.unwrap().is_stopped()
}

#[tokio::test]
async fn admin_can_stop_and_start_dispatch() {
    let env = ConsoleEnv::new();
    let adam = env.log_in("acme", "adam", &[Role::Admin]).await;
    let page = env.get("/health", &adam).await;
    let token = page.token();
    assert!(
        page.body.contains("action=\"/health/stop\"") && !page.body.contains("/health/start"),
        "{}",
        page.body
    );
    let refused = env.send("/health/stop", &adam, &[("token", &token), ("reason", "  ")]).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.body.contains("A stop needs a reason") && !is_stopped(&env).await, "{}", refused.body);

    let stopped = env.send("/health/stop", &adam, &[("token", &token), ("reason", "a fire")]).await;
    assert_eq!((stopped.status, stopped.location()), (StatusCode::SEE_OTHER, "/health"));
    assert!(is_stopped(&env).await);
    let page = env.get("/health", &adam).await.body;
    assert!(
        page.contains("Stopped by adam") && page.contains("a fire") && page.contains("/health/start"),
        "{page}"
    );
    let umbrella = env.engine.operations().dispatch(&"umbrella".parse().unwrap()).await.unwrap();
    assert!(!umbrella.is_stopped(), "another tenant is not affected");

    let started = env.send("/health/start", &adam, &[("token", &token)]).await;
    assert_eq!(started.status, StatusCode::SEE_OTHER);
    assert!(!is_stopped(&env).await);
    assert_eq!(env.send("/health/other", &adam, &[("token", &token)]).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn start_dispatch_notifies_many_runs_in_several_forms() {
    let env = ConsoleEnv::new();
    for n in 0..230 {
        env.started(None, CHANGE, "acme", json!({ "to": n.to_string() })).await;
    }
    let adam = env.log_in("acme", "adam", &[Role::Admin]).await;
    let token = env.get("/health", &adam).await.token();
    let token = ("token", token.as_str());
    env.send("/health/stop", &adam, &[token, ("reason", "a fire")]).await;

    let mut page = env.send("/health/start", &adam, &[token]).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.body);
    assert!(page.body.contains("continued so far") && !is_stopped(&env).await, "{}", page.body);
    let made_up = env.send("/health/start", &adam, &[token, ("rest", "made-up")]).await;
    assert_eq!(made_up.status, StatusCode::BAD_REQUEST);
    assert!(made_up.body.contains("role=\"alert\""), "{}", made_up.body);
    let mut forms = 1;
    while page.status == StatusCode::OK {
        let rest = hidden(&page, "rest").to_owned();
        page = env.send("/health/start", &adam, &[token, ("rest", &rest)]).await;
        forms += 1;
        assert!(forms < 50, "the start does not finish: {}", page.body);
    }
    assert_eq!((page.status, page.location()), (StatusCode::SEE_OTHER, "/health"));
}

#[tokio::test]
async fn only_an_admin_with_a_token_can_switch_dispatch() {
    let env = ConsoleEnv::new();
    let adam = env.log_in("acme", "adam", &[Role::Admin]).await;
    for (person, role) in [("vera", Role::Viewer), ("otto", Role::Operator), ("anne", Role::Approver)] {
        let who = env.log_in("acme", person, &[role]).await;
        let token = env.get("/runs", &who).await.token();
        let fields = [("token", token.as_str()), ("reason", "no")];
        for verb in ["stop", "start"] {
            let refused = env.send(&format!("/health/{verb}"), &who, &fields).await;
            assert_eq!(refused.status, StatusCode::FORBIDDEN, "{role} {verb}");
        }
        // A token of another session is not valid.
        let stolen = env.send("/health/stop", &adam, &fields).await;
        assert_eq!(stolen.status, StatusCode::FORBIDDEN, "{role}");
    }
    assert_eq!(env.send("/health/stop", &adam, &[("reason", "no")]).await.status, StatusCode::FORBIDDEN);
    assert!(!is_stopped(&env).await);
}
