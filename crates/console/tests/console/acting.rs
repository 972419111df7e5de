//! What people do.

use axum::http::StatusCode;
use domain::{ApprovalStatus, Cause, Initiator, Role, RunKey, RunStatus};
use serde_json::json;
use store::Ledger as _;

use crate::scene::{Answer, CHANGE, Scene};

/// One run at a time for each ticket.
const ONE_AT_A_TIME: &str = "\
workflow: one-at-a-time
version: 1
ticket: { of: '${ trigger.ticket }', when_taken: queue }
steps:
  - { id: ask, tool: approval.gate, with: { message: \"Go on?\" } }
";

async fn stands(scene: &Scene, run: &RunKey) -> RunStatus {
    scene.engine.store().load(run).await.unwrap().unwrap().status
}

async fn answer(scene: &Scene, run: &RunKey, who: &str, fields: &[(&str, &str)]) -> Answer {
    let asked = scene.asked(run).await;
    let path = format!("/approvals/{}", asked.id);
    let token = scene.get("/runs", who).await.token();
    let subject = asked.subject.hash().to_string();
    let always = [("token", token.as_str()), ("subject", subject.as_str())];
    // What is said later stands.
    let mut sent: Vec<_> =
        always.iter().filter(|(name, _)| fields.iter().all(|(said, _)| said != name)).copied().collect();
    sent.extend_from_slice(fields);
    scene.send(&path, who, &sent).await
}

/// What a form holds under `name`, unseen.
fn hidden<'a>(page: &'a Answer, name: &str) -> &'a str {
    let field = format!("name=\"{name}\" value=\"");
    page.body.split_once(&field).unwrap().1.split_once('"').unwrap().0
}

#[tokio::test]
async fn a_run_is_started_by_a_form_which_sent_twice_starts_one() {
    let scene = Scene::new();
    scene.run("acme", "new").await;
    let otto = scene.enter("acme", "otto", &[Role::Operator]).await;
    let page = scene.get("/workflows/change-it", &otto).await;
    let (token, once) = (page.token(), hidden(&page, "once"));
    assert_eq!(
        page.body.matches("&quot;to&quot;: &quot;a sample&quot;").count(),
        2,
        "both forms begin with it"
    );
    let start = async |once: &str, input: &str, record: &str| {
        let fields = [("token", token.as_str()), ("once", once), ("input", input), ("record", record)];
        scene.send("/workflows/change-it/start", &otto, &fields).await
    };
    let (input, record) = ("{\"to\": \"newer\"}", "servicenow:incident:9d38");
    let first = start(once, input, record).await;
    assert_eq!(first.status, StatusCode::SEE_OTHER, "{}", first.body);
    let run = first.location().strip_prefix("/runs/").unwrap();
    let run = RunKey { tenant: "acme".parse().unwrap(), run: run.parse().unwrap() };
    let began = scene.engine.store().load(&run).await.unwrap().unwrap();
    assert_eq!((began.trigger.kind.as_str(), &began.trigger.record), ("console", &record.parse().ok()));
    assert_eq!(began.trigger.requester, "otto".parse().ok(), "who may not approve what it does");

    assert_eq!(start(once, input, record).await.location(), first.location());
    let other = start(once, "{\"to\": \"other\"}", record).await;
    assert_eq!(other.status, StatusCode::CONFLICT, "{}", other.body);
    let again = start(hidden(&other, "once"), input, "").await;
    assert_eq!(again.status, StatusCode::SEE_OTHER);
    assert_ne!(again.location(), first.location());
}

#[tokio::test]
async fn a_start_that_waits_for_its_ticket_says_behind_which_run_until_its_own_is_there() {
    let scene = Scene::new();
    let ticket = json!({ "ticket": "INC-7" });
    let first = scene.run_of(ONE_AT_A_TIME, "acme", ticket.clone()).await;
    let otto = scene.enter("acme", "otto", &[Role::Operator]).await;
    let page = scene.get("/workflows/one-at-a-time", &otto).await;
    let (token, once, input) = (page.token(), hidden(&page, "once"), ticket.to_string());
    let fields = [("token", token.as_str()), ("once", once), ("input", &input)];
    let start = async || scene.send("/workflows/one-at-a-time/start", &otto, &fields).await;

    let waits = start().await;
    assert_eq!(waits.status, StatusCode::ACCEPTED, "{}", waits.body);
    assert!(waits.body.contains(&format!("href=\"/runs/{}\"", first.run)), "{}", waits.body);
    assert!(waits.body.contains("Start a run"), "it is the workflow's page: {}", waits.body);
    let (_, named) = waits.body.split_once("Run <code>").unwrap();
    let run = named.split_once('<').unwrap().0.parse().unwrap();
    let run = RunKey { tenant: first.tenant.clone(), run };
    assert!(run != first && scene.engine.store().load(&run).await.unwrap().is_none());

    let by = Initiator::new(Cause::User, "otto");
    scene.engine.cancel(&first, &by, "enough").await.unwrap();
    scene.engine.begin(&run).await.unwrap();
    let begun = start().await;
    assert_eq!(begun.status, StatusCode::SEE_OTHER, "{}", begun.body);
    assert_eq!(begun.location(), format!("/runs/{}", run.run));
    assert_eq!(scene.get(begun.location(), &otto).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_start_that_joins_another_run_leads_to_that() {
    let scene = Scene::new();
    let joins = ONE_AT_A_TIME.replace("one-at-a-time", "joins").replace("queue", "join");
    let ticket = json!({ "ticket": "INC-7" });
    let first = scene.run_of(&joins, "acme", ticket.clone()).await;
    let otto = scene.enter("acme", "otto", &[Role::Operator]).await;
    let (token, input) = (scene.get("/runs", &otto).await.token(), ticket.to_string());
    let fields = [("token", token.as_str()), ("input", &input)];
    let joined = scene.send("/workflows/joins/start", &otto, &fields).await;
    assert_eq!(joined.status, StatusCode::SEE_OTHER, "{}", joined.body);
    assert_eq!(joined.location(), format!("/runs/{}", first.run));
}

#[tokio::test]
async fn what_cannot_start_a_run_is_shown_again_with_the_reason_and_starts_nothing() {
    let scene = Scene::new();
    scene.run("acme", "new").await;
    let otto = scene.enter("acme", "otto", &[Role::Operator]).await;
    let token = scene.get("/runs", &otto).await.token();
    let before = scene.get("/runs", &otto).await.body.matches("data-label=\"Run\"").count();
    for (input, record, says) in [
        ("{", "", "The input:"),
        ("{}", "incident", "SYSTEM:NAME"),
        ("{\"a\":1,\"a\":2}", "", "stands twice"),
    ] {
        let fields = [("token", token.as_str()), ("input", input), ("record", record)];
        let refused = scene.send("/workflows/change-it/start", &otto, &fields).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.body);
        assert!(refused.body.contains("role=\"alert\"") && refused.body.contains(says), "{}", refused.body);
    }
    let vera = scene.enter("acme", "vera", &[Role::Viewer]).await;
    assert!(!scene.get("/workflows/change-it", &vera).await.body.contains("Start a run"));
    let token = scene.get("/runs", &vera).await.token();
    let refused =
        scene.send("/workflows/change-it/start", &vera, &[("token", &token), ("input", "{}")]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert_eq!(scene.get("/runs", &vera).await.body.matches("data-label=\"Run\"").count(), before);
}

#[tokio::test]
async fn whoever_approves_sees_the_exact_action_and_its_hash_first() {
    let scene = Scene::new();
    let run = scene.run("acme", "new").await;
    let grace = scene.enter("acme", "grace", &[Role::Approver]).await;
    let asked = scene.asked(&run).await;
    let page = scene.get(&format!("/approvals/{}", asked.id), &grace).await;
    assert!(page.body.contains(&asked.subject.hash().to_string()));
    assert!(page.body.contains("&quot;target&quot;:&quot;the record&quot;"), "{}", page.body);
    assert!(
        page.body.contains("says: &quot;old&quot; → &quot;new&quot;"),
        "what Slack's card says: {}",
        page.body
    );
    let said = answer(&scene, &run, &grace, &[("answer", "approve"), ("reason", "fine")]).await;
    assert_eq!(said.status, StatusCode::SEE_OTHER, "{}", said.body);
    scene.advance(&run).await;
    assert_eq!(
        scene.asked(&run).await.step.as_str(),
        "ask",
        "the change is made and the next question asked"
    );
}

#[tokio::test]
async fn a_no_needs_a_reason_and_ends_the_run() {
    let scene = Scene::new();
    let run = scene.run("acme", "new").await;
    let grace = scene.enter("acme", "grace", &[Role::Approver]).await;
    let refused = answer(&scene, &run, &grace, &[("answer", "reject"), ("reason", "  ")]).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.body.contains("A no needs a reason"), "{}", refused.body);
    answer(&scene, &run, &grace, &[("answer", "reject"), ("reason", "not today")]).await;
    scene.advance(&run).await;
    assert_eq!(stands(&scene, &run).await, RunStatus::FailedTerminal);
    let page = scene.get(&format!("/runs/{}", run.run), &grace).await.body;
    assert!(page.contains("grace said no: not today"), "{page}");
}

#[tokio::test]
async fn whoever_asked_for_the_run_is_refused_in_words() {
    let scene = Scene::new();
    let run = scene.run("acme", "new").await;
    let ada = scene.enter("acme", "ada", &[Role::Approver]).await;
    let page = scene.get(&format!("/approvals/{}", scene.asked(&run).await.id), &ada).await.body;
    assert!(
        page.contains("whoever asked for the run does not approve it") && !page.contains("value=\"approve\""),
        "{page}"
    );
    let refused = answer(&scene, &run, &ada, &[("answer", "approve")]).await;
    assert!(refused.status.is_client_error() && refused.body.contains("role=\"alert\""), "{}", refused.body);
    assert_eq!(scene.asked(&run).await.status, ApprovalStatus::Requested);
}

#[tokio::test]
async fn an_answer_to_something_else_does_not_count() {
    let scene = Scene::new();
    let run = scene.run("acme", "new").await;
    let grace = scene.enter("acme", "grace", &[Role::Approver]).await;
    let other = "0".repeat(64);
    let refused = answer(&scene, &run, &grace, &[("answer", "approve"), ("subject", &other)]).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.body);
    assert_eq!(scene.asked(&run).await.status, ApprovalStatus::Requested);
}

#[tokio::test]
async fn each_role_has_its_buttons_and_no_others() {
    let scene = Scene::new();
    let run = scene.run("acme", "new").await;
    let (one, asked) = (format!("/runs/{}", run.run), format!("/approvals/{}", scene.asked(&run).await.id));
    for (person, role, steers, answers) in [
        ("vera", Role::Viewer, false, false),
        ("otto", Role::Operator, true, false),
        ("anne", Role::Approver, false, true),
    ] {
        let who = scene.enter("acme", person, &[role]).await;
        let page = scene.get(&one, &who).await;
        assert_eq!(page.body.contains("/cancel\""), steers, "{role}");
        assert_eq!(scene.get(&asked, &who).await.body.contains("value=\"approve\""), answers, "{role}");
        let health = scene.get("/health", &who).await.status;
        assert_eq!(health == StatusCode::OK, steers, "{role}");
        if !steers {
            let fields = [("token", page.token()), ("reason", "no".to_owned())];
            let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
            assert_eq!(
                scene.send(&format!("{one}/cancel"), &who, &fields).await.status,
                StatusCode::FORBIDDEN
            );
        }
    }
    assert_eq!(stands(&scene, &run).await, RunStatus::WaitingApproval);
}

#[tokio::test]
async fn an_operator_pauses_a_run_lets_it_go_on_and_cancels_it() {
    let scene = Scene::new();
    let run = scene.run("acme", "new").await;
    let otto = scene.enter("acme", "otto", &[Role::Operator]).await;
    let page = format!("/runs/{}", run.run);
    for (verb, status) in
        [("pause", RunStatus::Paused), ("resume", RunStatus::Queued), ("cancel", RunStatus::Canceled)]
    {
        let token = scene.get(&page, &otto).await.token();
        let fields = [("token", token.as_str()), ("reason", "because")];
        let answer = scene.send(&format!("{page}/{verb}"), &otto, &fields).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{verb}: {}", answer.body);
        let now = stands(&scene, &run).await;
        assert!(now == status || verb == "resume" && !now.is_terminal(), "{verb}: {now}");
    }
    let token = scene.get(&page, &otto).await.token();
    let again = scene.send(&format!("{page}/pause"), &otto, &[("token", &token), ("reason", "late")]).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    assert!(
        again.body.contains("role=\"alert\"") && again.body.contains("RUN_TERMINAL_STATE"),
        "{}",
        again.body
    );
}

async fn is_stopped(scene: &Scene) -> bool {
    scene.engine.dispatch(&"acme".parse().unwrap()).await.unwrap().is_stopped()
}

#[tokio::test]
async fn an_admin_stops_dispatch_with_a_reason_and_starts_it_again() {
    let scene = Scene::new();
    let adam = scene.enter("acme", "adam", &[Role::Admin]).await;
    let page = scene.get("/health", &adam).await;
    let token = page.token();
    assert!(
        page.body.contains("action=\"/health/stop\"") && !page.body.contains("/health/start"),
        "{}",
        page.body
    );
    let refused = scene.send("/health/stop", &adam, &[("token", &token), ("reason", "  ")]).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.body.contains("A stop needs a reason") && !is_stopped(&scene).await, "{}", refused.body);

    let stopped = scene.send("/health/stop", &adam, &[("token", &token), ("reason", "a fire")]).await;
    assert_eq!((stopped.status, stopped.location()), (StatusCode::SEE_OTHER, "/health"));
    assert!(is_stopped(&scene).await);
    let page = scene.get("/health", &adam).await.body;
    assert!(
        page.contains("adam stopped it") && page.contains("a fire") && page.contains("/health/start"),
        "{page}"
    );
    let umbrella = scene.engine.dispatch(&"umbrella".parse().unwrap()).await.unwrap();
    assert!(!umbrella.is_stopped(), "another tenant goes on");

    let started = scene.send("/health/start", &adam, &[("token", &token)]).await;
    assert_eq!(started.status, StatusCode::SEE_OTHER);
    assert!(!is_stopped(&scene).await);
    assert_eq!(scene.send("/health/turn", &adam, &[("token", &token)]).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn more_runs_than_one_request_tells_to_go_on_are_told_form_by_form() {
    let scene = Scene::new();
    for n in 0..230 {
        scene.started(None, CHANGE, "acme", json!({ "to": n.to_string() })).await;
    }
    let adam = scene.enter("acme", "adam", &[Role::Admin]).await;
    let token = scene.get("/health", &adam).await.token();
    let token = ("token", token.as_str());
    scene.send("/health/stop", &adam, &[token, ("reason", "a fire")]).await;

    let mut page = scene.send("/health/start", &adam, &[token]).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.body);
    assert!(page.body.contains("can go on so far") && !is_stopped(&scene).await, "{}", page.body);
    let made_up = scene.send("/health/start", &adam, &[token, ("rest", "made-up")]).await;
    assert_eq!(made_up.status, StatusCode::BAD_REQUEST);
    assert!(made_up.body.contains("role=\"alert\""), "{}", made_up.body);
    let mut forms = 1;
    while page.status == StatusCode::OK {
        let rest = hidden(&page, "rest").to_owned();
        page = scene.send("/health/start", &adam, &[token, ("rest", &rest)]).await;
        forms += 1;
        assert!(forms < 50, "it comes to an end: {}", page.body);
    }
    assert_eq!((page.status, page.location()), (StatusCode::SEE_OTHER, "/health"));
}

#[tokio::test]
async fn whoever_is_no_admin_or_brings_no_token_turns_no_switch() {
    let scene = Scene::new();
    let adam = scene.enter("acme", "adam", &[Role::Admin]).await;
    for (person, role) in [("vera", Role::Viewer), ("otto", Role::Operator), ("anne", Role::Approver)] {
        let who = scene.enter("acme", person, &[role]).await;
        let token = scene.get("/runs", &who).await.token();
        let fields = [("token", token.as_str()), ("reason", "no")];
        for verb in ["stop", "start"] {
            let refused = scene.send(&format!("/health/{verb}"), &who, &fields).await;
            assert_eq!(refused.status, StatusCode::FORBIDDEN, "{role} {verb}");
        }
        // A token of somebody else's session is as good as none.
        let stolen = scene.send("/health/stop", &adam, &fields).await;
        assert_eq!(stolen.status, StatusCode::FORBIDDEN, "{role}");
    }
    assert_eq!(scene.send("/health/stop", &adam, &[("reason", "no")]).await.status, StatusCode::FORBIDDEN);
    assert!(!is_stopped(&scene).await);
}
