//! The content of the pages.

use axum::http::{StatusCode, header};
use domain::{Millis, Role, RunKey, WorkerRecord, WorkerReport};
use engine::{ConnectionUpdate, DispatchScope};
use serde_json::json;
use store::WorkerRegistry as _;

use crate::env::{CHANGE, ConsoleEnv, ONCE};

const PLAIN: &str = "workflow: plain\nversion: 1\nsteps:\n  - { id: ask, tool: approval.gate, with: { message: \"Go on?\" } }\n";

/// Approves everything until the run ends and its evidence is built.
async fn finish(env: &ConsoleEnv, run: &RunKey) {
    for _ in 0..2 {
        env.approve(run, "grace").await.unwrap();
        env.advance(run).await;
    }
    env.engine.operations().build_evidence(run).await.unwrap();
}

#[tokio::test]
async fn waiting_run_shows_reason_timeline_and_verdicts() {
    let env = ConsoleEnv::new();
    let run = env.run("acme", "new").await;
    let vera = env.log_in("acme", "vera", &[Role::Viewer]).await;
    let body = env.get(&format!("/runs/{}", run.run), &vera).await.body;
    for expected in [
        "Why it waits",
        "waits for approval of",
        "waiting approval",
        "<svg",
        "set: waits for approval for",
        "Policy verdicts",
        ".rego",
        "started by ada: workflow change-it, version 3",
        &format!("data-stream=\"/api/v1/runs/{}/stream\"", run.run),
    ] {
        assert!(body.contains(expected), "{expected} is not in {body}");
    }
}

#[tokio::test]
async fn finished_run_shows_its_effects() {
    let env = ConsoleEnv::new();
    let run = env.run("acme", "new").await;
    finish(&env, &run).await;
    let vera = env.log_in("acme", "vera", &[Role::Viewer]).await;
    let body = env.get(&format!("/runs/{}", run.run), &vera).await.body;
    for expected in
        ["succeeded", "set: executed by w for", "grace approved", "External effects", "the record"]
    {
        assert!(body.contains(expected), "{expected} is not in {body}");
    }
    assert!(!body.contains("Why it waits"));
}

#[tokio::test]
async fn evidence_is_verified_on_the_page() {
    let env = ConsoleEnv::new();
    let run = env.run("acme", "new").await;
    let vera = env.log_in("acme", "vera", &[Role::Viewer]).await;
    let page = format!("/evidence/{}", run.run);
    assert!(env.get(&page, &vera).await.body.contains("No evidence yet"));
    finish(&env, &run).await;
    let (evidence, bytes) = env.engine.operations().evidence(&run).await.unwrap();
    let shown = env.get(&page, &vera).await.body;
    assert!(
        shown.contains("Verified just now") && shown.contains(&evidence.bundle.sha256.to_string()),
        "{shown}"
    );
    assert_eq!(shown.matches("✓").count(), evidence::Check::ALL.len() + 1, "{shown}");
    let bundle = env.get(&format!("{page}/bundle"), &vera).await;
    assert_eq!(bundle.body.as_bytes(), bytes);
    assert!(bundle.headers[header::CONTENT_DISPOSITION].to_str().unwrap().starts_with("attachment"));
    let report = env.get(&format!("{page}/report"), &vera).await;
    assert!(
        report.body.contains("Evidence of")
            && report.headers["content-security-policy"].to_str().unwrap().contains("sandbox")
    );
}

#[tokio::test]
async fn runs_are_filtered_by_status_and_workflow_in_pages() {
    let env = ConsoleEnv::new();
    for n in 0..3 {
        env.run_of(PLAIN, "acme", json!({ "n": n })).await;
    }
    let other = env.run("acme", "new").await;
    let vera = env.log_in("acme", "vera", &[Role::Viewer]).await;
    let rows = |body: &str| body.matches("<td data-label=\"Run\">").count();
    for (query, found) in [
        ("", 4),
        ("?status=waiting_approval", 4),
        ("?status=succeeded", 0),
        ("?workflow=PLA", 3),
        ("?workflow=change&status=", 1),
        ("?workflow=%3Cb%3E", 0),
        ("?workflow=%FF", 0),
    ] {
        let page = env.get(&format!("/runs{query}"), &vera).await;
        assert_eq!((page.status, rows(&page.body)), (StatusCode::OK, found), "{query}");
    }
    for n in 3..60 {
        env.run_of(PLAIN, "acme", json!({ "n": n })).await;
    }
    let first = env.get("/runs", &vera).await.body;
    let (_, next) = first.split_once("href=\"/runs?status=").unwrap();
    let next = next.split('"').next().unwrap().replace("&amp;", "&");
    let second = env.get(&format!("/runs?status={next}"), &vera).await.body;
    assert_eq!((rows(&first), rows(&second)), (50, 11));
    let word = env.get("/runs?workflow=change", &vera).await.body;
    assert!(word.contains(other.run.as_str()), "the search continues beyond the first page");
}

/// The link to the next page.
fn next_page(body: &str) -> String {
    let (before, _) = body.split_once("\" rel=\"next\"").unwrap();
    before.rsplit_once("href=\"").unwrap().1.replace("&amp;", "&")
}

#[tokio::test]
async fn page_links_are_bound_to_their_list() {
    let env = ConsoleEnv::new();
    for n in 0..52 {
        env.run_of(PLAIN, "acme", json!({ "n": n })).await;
    }
    let vera = env.log_in("acme", "vera", &[Role::Viewer]).await;
    let (runs, approvals) = (env.get("/runs", &vera).await, env.get("/approvals", &vera).await);
    let (runs, approvals) = (next_page(&runs.body), next_page(&approvals.body));
    let text = |next: &str| next.rsplit_once('=').unwrap().1.to_owned();
    for next in [&runs, &approvals] {
        assert_eq!(env.get(next, &vera).await.status, StatusCode::OK, "{next}");
        assert!(text(next).len() > 40, "the link is not encrypted: {next}");
    }
    let mallory = env.log_in("umbrella", "mallory", &[Role::Viewer]).await;
    for (who, address) in [
        (&vera, "/runs?before=x".to_owned()),
        (&vera, "/runs?before=7".to_owned()),
        (&vera, "/approvals?after=7".to_owned()),
        (&vera, format!("/runs?before={}", text(&approvals))),
        (&vera, format!("/approvals?after={}", text(&runs))),
        (&vera, runs.replace("status=", "status=running")),
        (&vera, runs.replace("workflow=", "workflow=plain")),
        (&mallory, runs.clone()),
        (&mallory, approvals.clone()),
    ] {
        let page = env.get(&address, who).await;
        assert_eq!(page.status, StatusCode::BAD_REQUEST, "{address}");
        assert!(page.body.contains("role=\"alert\"") && !page.body.contains("<td"), "{}", page.body);
    }
}

#[tokio::test]
async fn run_shows_its_own_attempt_of_a_shared_effect() {
    let env = ConsoleEnv::new();
    let failed = env.run_of(ONCE, "acme", json!({ "n": 1 })).await;
    let succeeded = env.run_of(ONCE, "acme", json!({ "n": 2 })).await;
    let vera = env.log_in("acme", "vera", &[Role::Viewer]).await;
    for (run, outcome) in [(&failed, "failed: <code>NO_SUCH_FIELD</code>"), (&succeeded, "done</td>")] {
        let body = env.get(&format!("/runs/{}", run.run), &vera).await.body;
        assert!(body.contains(&format!("data-label=\"Outcome\">{outcome}")), "{outcome} is not in {body}");
        assert!(body.contains("the-one-update") && !body.contains("by run "), "{body}");
    }
}

#[tokio::test]
async fn runs_are_filtered_by_record_and_time() {
    let env = ConsoleEnv::new();
    let about = env.run_about(Some("github:acme/shop#7"), PLAIN, "acme", json!({ "n": 1 })).await;
    env.run_of(PLAIN, "acme", json!({ "n": 2 })).await;
    let vera = env.log_in("acme", "vera", &[Role::Viewer]).await;
    let rows = |body: &str| body.matches("<td data-label=\"Run\">").count();
    for (query, found) in [
        ("?record=github%3Aacme%2Fshop%237", 1),
        ("?record=github%3Aacme%2Fshop%238", 0),
        ("?since=1h", 2),
        ("?until=1h", 0),
        ("?since=2000-01-01T00%3A00%3A00Z&record=+github%3Aacme%2Fshop%237", 1),
        ("?record=&since=&until=", 2),
    ] {
        let page = env.get(&format!("/runs{query}"), &vera).await;
        assert_eq!((page.status, rows(&page.body)), (StatusCode::OK, found), "{query}");
    }
    // An invalid filter does not show all runs.
    for query in [
        "?record=%3Cb%3E",
        "?since=yesterday",
        "?until=%22%3E%3Cscript%3E",
        "?status=nonsense",
        "?status=succeeded&status=failed",
    ] {
        let page = env.get(&format!("/runs{query}"), &vera).await;
        assert_eq!((page.status, rows(&page.body)), (StatusCode::BAD_REQUEST, 0), "{query}");
        assert!(page.body.contains("role=\"alert\"") && !page.body.contains("<b>"), "{}", page.body);
    }
    let page = env.get(&format!("/runs/{}", about.run), &vera).await.body;
    assert!(page.contains("href=\"/runs?record=github%3Aacme/shop%237\""), "{page}");
}

#[tokio::test]
async fn dry_run_names_the_rule_its_file_and_line() {
    let env = ConsoleEnv::new();
    env.run("acme", "new").await;
    let vera = env.log_in("acme", "vera", &[Role::Viewer]).await;
    let token = env.get("/workflows/change-it", &vera).await.token();
    let fields = [("token", token.as_str()), ("input", "{\"to\": \"other\"}")];
    let body = env.send("/workflows/change-it", &vera, &fields).await.body;
    assert!(body.contains("needs approval by") && body.contains(".rego:"), "{body}");
    assert!(body.contains("the workflow requests approval"), "{body}");
    assert!(body.contains("the built-in policy"), "{body}");
}

#[tokio::test]
async fn dry_run_of_one_step_shows_only_that_step() {
    let env = ConsoleEnv::new();
    env.run("acme", "new").await;
    let vera = env.log_in("acme", "vera", &[Role::Viewer]).await;
    let token = env.get("/workflows/change-it", &vera).await.token();
    let send = async |step: &str, outputs: &str| {
        let fields = [("token", token.as_str()), ("step", step), ("input", "{}"), ("outputs", outputs)];
        env.send("/workflows/change-it", &vera, &fields).await
    };
    let one = send("ask", "").await;
    assert_eq!(one.status, StatusCode::OK, "{}", one.body);
    assert!(
        one.body.contains("the workflow requests approval")
            && !one.body.contains("needs approval by one person, low")
    );
    assert_eq!(one.body.matches("data-label=\"Result\"").count(), 1, "{}", one.body);
    // The step reads an output that is not given.
    assert!(send("set", "{}").await.body.contains("Unknown: "));
    for (step, outputs) in [("none", "{}"), ("ask", "[]"), ("ask", "{\"none\": 1}"), ("ask", "{")] {
        let refused = send(step, outputs).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{step} {outputs}");
        assert!(refused.body.contains("role=\"alert\""), "{}", refused.body);
    }
}

#[tokio::test]
async fn every_version_has_a_page_and_a_dry_run() {
    let env = ConsoleEnv::new();
    env.run("acme", "new").await;
    let newer = CHANGE.replace("version: 3", "version: 4").replace("Was it right?", "Is it right?");
    env.run_of(&newer, "acme", json!({ "to": "newer" })).await;
    let vera = env.log_in("acme", "vera", &[Role::Viewer]).await;
    let page = env.get("/workflows/change-it", &vera).await;
    let at = |text: &str| page.body.find(text).unwrap_or_else(|| panic!("{text} is not in {}", page.body));
    assert!(at("/workflows/change-it/versions/4") < at("/workflows/change-it/versions/3"));
    assert!(page.body.contains("Is it right?") && !page.body.contains("Was it right?"), "{}", page.body);
    assert!(page.body.contains("<td data-label=\"By\">ada</td>"), "{}", page.body);

    let old = "/workflows/change-it/versions/3";
    let page_3 = env.get(old, &vera).await.body;
    assert!(page_3.contains("Was it right?") && page_3.contains("An earlier version."), "{page_3}");
    assert!(page_3.contains(&format!("action=\"{old}#dry-run\"")), "{page_3}");
    let token = page.token();
    let fields = [("token", token.as_str()), ("step", "set"), ("input", "{\"to\": \"other\"}")];
    let dry_run = env.send(old, &vera, &fields).await.body;
    assert!(dry_run.contains("needs approval by") && dry_run.contains("Was it right?"), "{dry_run}");
}

#[tokio::test]
async fn canceled_run_shows_who_canceled_it_and_why() {
    let env = ConsoleEnv::new();
    let run = env.run("acme", "new").await;
    let by = domain::Initiator::new(domain::Cause::User, "otto");
    env.engine.tenant_handle(&run.tenant, &by).cancel(&run.run, "the <wrong> record").await.unwrap();
    let vera = env.log_in("acme", "vera", &[Role::Viewer]).await;
    let body = env.get(&format!("/runs/{}", run.run), &vera).await.body;
    assert!(body.contains("<dt>Canceled</dt><dd>by otto: the &lt;wrong&gt; record"), "{body}");
}

#[tokio::test]
async fn health_shows_queues_and_oldest_approval() {
    let env = ConsoleEnv::new();
    env.run("acme", "new").await;
    let otto = env.log_in("acme", "otto", &[Role::Operator]).await;
    let body = env.get("/health", &otto).await.body;
    for expected in ["ingest", "decisions", "steps", "Oldest pending approval", "Dead letters"] {
        assert!(body.contains(expected), "{expected} is not in {body}");
    }
}

#[tokio::test]
async fn health_shows_the_expected_workers() {
    let env = ConsoleEnv::new();
    let otto = env.log_in("acme", "otto", &[Role::Operator]).await;
    let none = env.get("/health", &otto).await.body;
    assert!(none.contains("No workers registered."), "{none}");

    let now = env.engine.now();
    let put_worker = async |name: &str, report, seen_at| {
        let worker = WorkerRecord::new(name.parse().unwrap(), report, seen_at);
        env.store().put_worker(worker).await.unwrap();
    };
    put_worker("busy", WorkerReport::Working { in_flight: 41 }, now).await;
    put_worker("sick", WorkerReport::Unhealthy { in_flight: 0, reason: "a <b>store</b>".to_owned() }, now)
        .await;
    put_worker("lost", WorkerReport::Working { in_flight: 1 }, now.earlier(Millis::mins(5))).await;
    put_worker("gone", WorkerReport::Stopped { drained: true }, now).await;
    put_worker("old", WorkerReport::Working { in_flight: 0 }, now).await;
    let by = domain::Initiator::new(domain::Cause::User, "root");
    env.engine.operations().request_drain(&"old".parse().unwrap(), &by, "a <i>release</i>").await.unwrap();

    let body = env.get("/health", &otto).await.body;
    for expected in [
        "<code>busy</code>",
        "executing",
        ">41<",
        "errored",
        "a &lt;b&gt;store",
        "offline",
        "draining",
        "drain requested by root: a &lt;i&gt;release",
    ] {
        assert!(body.contains(expected), "{expected} is not in {body}");
    }
    assert!(!body.contains("<code>gone</code>"), "{body}");
}

#[tokio::test]
async fn health_shows_who_stopped_dispatch_and_why() {
    let env = ConsoleEnv::new();
    let otto = env.log_in("acme", "otto", &[Role::Operator]).await;
    let on = env.get("/health", &otto).await.body;
    assert!(on.contains("Steps start for tenant acme.") && !on.contains("/health/stop"), "{on}");
    let by = |name: &str| domain::Initiator::new(domain::Cause::User, name);
    let acme = DispatchScope::Tenant("acme".parse().unwrap());
    env.engine.operations().stop_dispatch(&acme, &by("adam"), "a <b>fire</b>").await.unwrap();
    let off = env.get("/health", &otto).await.body;
    assert!(
        off.contains("No steps start for tenant acme. Stopped by adam") && off.contains("a &lt;b&gt;fire"),
        "{off}"
    );
    env.engine.operations().stop_dispatch(&DispatchScope::All, &by("root"), "a flood").await.unwrap();
    env.engine.operations().start_dispatch(&acme, &by("adam")).await.unwrap();
    let all = env.get("/health", &otto).await.body;
    assert!(
        all.contains("No steps start for any tenant. Stopped by root") && all.contains("a flood"),
        "{all}"
    );
}

#[tokio::test]
async fn connection_is_tested_and_removed() {
    let env = ConsoleEnv::new();
    let connection: domain::Connection = serde_json::from_value(json!({
        "kind": "http", "base_url": "https://deploy.invalid", "environment": "staging",
    }))
    .unwrap();
    let update = ConnectionUpdate { name: "deploy".parse().unwrap(), connection, seen: None };
    env.handle("ada").set_connection(update).await.unwrap();
    let olga = env.log_in("acme", "olga", &[Role::Operator]).await;
    let list = env.get("/connections", &olga).await.body;
    for expected in ["https://deploy.invalid", "staging", "every workspace", "/connections/deploy"] {
        assert!(list.contains(expected), "{expected} is not in {list}");
    }
    let page = env.get("/connections/deploy", &olga).await;
    assert!(
        page.body.contains("Test connection") && !page.body.contains("Remove connection"),
        "{}",
        page.body
    );
    let token = page.token();
    let form = [("token", token.as_str()), ("once", "form-1")];
    let test = env.send("/connections/deploy/test", &olga, &form).await;
    assert!(test.location().starts_with("/runs/"), "{:?}", test.headers);
    assert_eq!(env.send("/connections/deploy/test", &olga, &form).await.location(), test.location());
    let removal = env.send("/connections/deploy/remove", &olga, &form).await;
    assert_eq!(removal.status, StatusCode::FORBIDDEN);
    let ada = env.log_in("acme", "ada", &[Role::Admin]).await;
    let token = env.get("/connections/deploy", &ada).await.token();
    let removal = env.send("/connections/deploy/remove", &ada, &[("token", &token)]).await;
    assert_eq!(removal.location(), "/connections");
    assert_eq!(env.get("/connections/deploy", &ada).await.status, StatusCode::NOT_FOUND);
    let bea = env.log_in("other", "bea", &[Role::Admin]).await;
    assert!(env.get("/connections", &bea).await.body.contains("No connections"));
}

#[tokio::test]
async fn reference_to_a_secret_is_shown_to_admins_only() {
    let env = ConsoleEnv::new();
    let connection: domain::Connection = serde_json::from_value(json!({
        "kind": "http", "base_url": "https://deploy.invalid",
        "credential": { "type": "bearer", "token": "vault://kv/acme/deploy#token" },
    }))
    .unwrap();
    let update = ConnectionUpdate { name: "deploy".parse().unwrap(), connection, seen: None };
    env.handle("ada").set_connection(update).await.unwrap();
    let vera = env.log_in("acme", "vera", &[Role::Viewer]).await;
    let body = env.get("/connections/deploy", &vera).await.body;
    assert!(body.contains("bearer") && !body.contains("vault://"), "{body}");
    assert!(!body.contains("Test connection"), "{body}");
    let ada = env.log_in("acme", "ada", &[Role::Admin]).await;
    let body = env.get("/connections/deploy", &ada).await.body;
    assert!(body.contains("bearer vault://kv/acme/deploy#token"), "{body}");
}

#[tokio::test]
async fn audit_log_is_listed_and_filtered_in_pages() {
    let env = ConsoleEnv::new();
    let handle = env.engine.tenant_handle(&testkit::acme(), &testkit::ada());
    for number in 0..30 {
        handle.stop_dispatch(&format!("fire <{number}>")).await.unwrap();
        handle.start_part(None).await.unwrap();
    }
    let root = env.log_in("acme", "root", &[Role::Admin]).await;
    let first = env.get("/audit", &root).await.body;
    for expected in ["fire &lt;29&gt;", "started dispatch", "countersign audit verify", "Entries: 60."] {
        assert!(first.contains(expected), "{expected} is not in {first}");
    }
    assert!(!first.contains("fire &lt;1&gt;") && first.contains("Older changes"), "{first}");
    let next = page_link(&first);
    let second = env.get(&next, &root).await.body;
    assert!(second.contains("fire &lt;1&gt;") && !second.contains("Older changes"), "{second}");

    let stops = env.get("/audit?kind=dispatch_stopped", &root).await.body;
    assert!(stops.contains("fire &lt;0&gt;") && !stops.contains("started dispatch"), "{stops}");
    // A page link is valid for its filter only.
    let (_, cursor) = next.split_once("before=").unwrap();
    let other = env.get(&format!("/audit?kind=key_created&before={cursor}"), &root).await;
    assert_eq!(other.status, StatusCode::BAD_REQUEST);
    assert_eq!(env.get("/audit?kind=coffee_made", &root).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn audit_log_needs_the_role_admin() {
    let env = ConsoleEnv::new();
    let olga = env.log_in("acme", "olga", &[Role::Operator]).await;
    assert_eq!(env.get("/audit", &olga).await.status, StatusCode::FORBIDDEN);
    assert!(!env.get("/", &olga).await.body.contains("href=\"/audit\""));
}

/// The address of the next page.
fn page_link(body: &str) -> String {
    let (_, rest) = body.split_once("<p class=\"pages\"><a href=\"").unwrap();
    rest.split('"').next().unwrap().replace("&amp;", "&")
}

/// A session that was started with an API key sees why its vote would not count, and no form.
#[tokio::test]
async fn approval_page_states_the_required_assurance() {
    let env = ConsoleEnv::new();
    let rules = r#"package countersign
needs_approval contains {
	"rule": "idp",
	"message": "sign in",
	"tier": "high",
	"people": 1,
	"groups": [],
	"assurance": "identity_provider",
} if input.action.class != "read_only"
"#;
    let tests = r#"package countersign_test
import data.countersign
test_idp if count(countersign.needs_approval) == 1 with input as {"action": {"class": "opaque"}}
"#;
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let files = [file("rules.rego", rules), file("rules_test.rego", tests)].into();
    env.engine.tenant_handle(&testkit::acme(), &testkit::ada()).apply_policy(files).await.unwrap();
    let run = env.run("acme", "new").await;
    let grace = env.log_in("acme", "grace", &[Role::Approver]).await;
    let body = env.get(&format!("/approvals/{}", env.approval(&run).await.id), &grace).await.body;
    assert!(body.contains("requires approvers to sign in through the identity provider"), "{body}");
    assert!(!body.contains("value=\"approve\""), "{body}");
}
