//! What people see.

use axum::http::{StatusCode, header};
use domain::{Millis, Role, RunKey, WorkerRecord, WorkerReport};
use engine::{Reach, Reply};
use serde_json::json;
use store::WorkerRegistry as _;

use crate::scene::{CHANGE, ONCE, Scene};

const PLAIN: &str = "workflow: plain\nversion: 1\nsteps:\n  - { id: ask, tool: approval.gate, with: { message: \"Go on?\" } }\n";

/// Everybody says yes to everything, until the run is over and its evidence is there.
async fn finish(scene: &Scene, run: &RunKey) {
    for _ in 0..2 {
        let asked = scene.asked(run).await;
        let reply = Reply {
            approval: asked.id,
            subject: None,
            person: "grace".parse().unwrap(),
            approve: true,
            reason: String::new(),
            through: domain::Channel::CommandLine,
        };
        Box::pin(scene.engine.answer(&run.tenant, reply)).await.unwrap();
        scene.advance(run).await;
    }
    scene.engine.seal(run).await.unwrap();
}

#[tokio::test]
async fn a_run_shows_why_it_waits_its_timeline_its_verdicts_and_its_events() {
    let scene = Scene::new();
    let run = scene.run("acme", "new").await;
    let vera = scene.enter("acme", "vera", &[Role::Viewer]).await;
    let body = scene.get(&format!("/runs/{}", run.run), &vera).await.body;
    for expected in [
        "Why it waits",
        "people must agree first",
        "waiting approval",
        "<svg",
        "set: asks people for",
        "What policy said",
        ".rego",
        "started by ada: workflow change-it, version 3",
        &format!("data-stream=\"/api/v1/runs/{}/stream\"", run.run),
    ] {
        assert!(body.contains(expected), "{expected} is not in {body}");
    }
}

#[tokio::test]
async fn a_run_that_is_over_shows_what_it_did() {
    let scene = Scene::new();
    let run = scene.run("acme", "new").await;
    finish(&scene, &run).await;
    let vera = scene.enter("acme", "vera", &[Role::Viewer]).await;
    let body = scene.get(&format!("/runs/{}", run.run), &vera).await.body;
    for expected in
        ["succeeded", "set: worked on by w for", "grace said yes", "What it did outside", "the record"]
    {
        assert!(body.contains(expected), "{expected} is not in {body}");
    }
    assert!(!body.contains("Why it waits"));
}

#[tokio::test]
async fn evidence_is_verified_in_front_of_whoever_looks() {
    let scene = Scene::new();
    let run = scene.run("acme", "new").await;
    let vera = scene.enter("acme", "vera", &[Role::Viewer]).await;
    let page = format!("/evidence/{}", run.run);
    assert!(scene.get(&page, &vera).await.body.contains("not there yet"));
    finish(&scene, &run).await;
    let (evidence, bytes) = scene.engine.evidence(&run).await.unwrap();
    let shown = scene.get(&page, &vera).await.body;
    assert!(
        shown.contains("Verified just now") && shown.contains(&evidence.bundle.sha256.to_string()),
        "{shown}"
    );
    assert_eq!(shown.matches("✓").count(), evidence::Check::ALL.len() + 1, "{shown}");
    let bundle = scene.get(&format!("{page}/bundle"), &vera).await;
    assert_eq!(bundle.body.as_bytes(), bytes);
    assert!(bundle.headers[header::CONTENT_DISPOSITION].to_str().unwrap().starts_with("attachment"));
    let report = scene.get(&format!("{page}/report"), &vera).await;
    assert!(
        report.body.contains("Evidence of")
            && report.headers["content-security-policy"].to_str().unwrap().contains("sandbox")
    );
}

#[tokio::test]
async fn runs_are_found_by_status_and_by_a_word_of_the_workflow_page_by_page() {
    let scene = Scene::new();
    for n in 0..3 {
        scene.run_of(PLAIN, "acme", json!({ "n": n })).await;
    }
    let other = scene.run("acme", "new").await;
    let vera = scene.enter("acme", "vera", &[Role::Viewer]).await;
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
        let answer = scene.get(&format!("/runs{query}"), &vera).await;
        assert_eq!((answer.status, rows(&answer.body)), (StatusCode::OK, found), "{query}");
    }
    for n in 3..60 {
        scene.run_of(PLAIN, "acme", json!({ "n": n })).await;
    }
    let first = scene.get("/runs", &vera).await.body;
    let (_, next) = first.split_once("href=\"/runs?status=").unwrap();
    let next = next.split('"').next().unwrap().replace("&amp;", "&");
    let second = scene.get(&format!("/runs?status={next}"), &vera).await.body;
    assert_eq!((rows(&first), rows(&second)), (50, 11));
    let word = scene.get("/runs?workflow=change", &vera).await.body;
    assert!(word.contains(other.run.as_str()), "a word is looked for beyond the first page");
}

/// Where a list goes on, as the page says it.
fn next_page(body: &str) -> String {
    let (before, _) = body.split_once("\" rel=\"next\"").unwrap();
    before.rsplit_once("href=\"").unwrap().1.replace("&amp;", "&")
}

#[tokio::test]
async fn an_address_leads_on_in_its_own_list_alone_and_tells_nothing_of_the_store() {
    let scene = Scene::new();
    for n in 0..52 {
        scene.run_of(PLAIN, "acme", json!({ "n": n })).await;
    }
    let vera = scene.enter("acme", "vera", &[Role::Viewer]).await;
    let (runs, approvals) = (scene.get("/runs", &vera).await, scene.get("/approvals", &vera).await);
    let (runs, approvals) = (next_page(&runs.body), next_page(&approvals.body));
    let text = |next: &str| next.rsplit_once('=').unwrap().1.to_owned();
    for next in [&runs, &approvals] {
        assert_eq!(scene.get(next, &vera).await.status, StatusCode::OK, "{next}");
        assert!(text(next).len() > 40, "the number of a row is no address: {next}");
    }
    let mallory = scene.enter("umbrella", "mallory", &[Role::Viewer]).await;
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
        let answer = scene.get(&address, who).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{address}");
        assert!(answer.body.contains("role=\"alert\"") && !answer.body.contains("<td"), "{}", answer.body);
    }
}

#[tokio::test]
async fn what_a_run_tried_stays_its_own_when_another_run_has_done_it_since() {
    let scene = Scene::new();
    let failed = scene.run_of(ONCE, "acme", json!({ "n": 1 })).await;
    let did = scene.run_of(ONCE, "acme", json!({ "n": 2 })).await;
    let vera = scene.enter("acme", "vera", &[Role::Viewer]).await;
    for (run, outcome) in [(&failed, "failed: <code>NO_SUCH_FIELD</code>"), (&did, "done</td>")] {
        let body = scene.get(&format!("/runs/{}", run.run), &vera).await.body;
        assert!(body.contains(&format!("data-label=\"Outcome\">{outcome}")), "{outcome} is not in {body}");
        assert!(body.contains("the-one-update") && !body.contains("by run "), "{body}");
    }
}

#[tokio::test]
async fn runs_are_found_by_what_they_are_about_and_by_when_they_began() {
    let scene = Scene::new();
    let about = scene.run_about(Some("github:acme/shop#7"), PLAIN, "acme", json!({ "n": 1 })).await;
    scene.run_of(PLAIN, "acme", json!({ "n": 2 })).await;
    let vera = scene.enter("acme", "vera", &[Role::Viewer]).await;
    let rows = |body: &str| body.matches("<td data-label=\"Run\">").count();
    for (query, found) in [
        ("?record=github%3Aacme%2Fshop%237", 1),
        ("?record=github%3Aacme%2Fshop%238", 0),
        ("?since=1h", 2),
        ("?until=1h", 0),
        ("?since=2000-01-01T00%3A00%3A00Z&record=+github%3Aacme%2Fshop%237", 1),
        ("?record=&since=&until=", 2),
    ] {
        let answer = scene.get(&format!("/runs{query}"), &vera).await;
        assert_eq!((answer.status, rows(&answer.body)), (StatusCode::OK, found), "{query}");
    }
    // A filter that cannot be read does not show everything.
    for query in [
        "?record=%3Cb%3E",
        "?since=yesterday",
        "?until=%22%3E%3Cscript%3E",
        "?status=nonsense",
        "?status=succeeded&status=failed",
    ] {
        let answer = scene.get(&format!("/runs{query}"), &vera).await;
        assert_eq!((answer.status, rows(&answer.body)), (StatusCode::BAD_REQUEST, 0), "{query}");
        assert!(answer.body.contains("role=\"alert\"") && !answer.body.contains("<b>"), "{}", answer.body);
    }
    let page = scene.get(&format!("/runs/{}", about.run), &vera).await.body;
    assert!(page.contains("href=\"/runs?record=github%3Aacme/shop%237\""), "{page}");
}

#[tokio::test]
async fn a_dry_run_names_the_rule_its_file_and_its_line() {
    let scene = Scene::new();
    scene.run("acme", "new").await;
    let vera = scene.enter("acme", "vera", &[Role::Viewer]).await;
    let token = scene.get("/workflows/change-it", &vera).await.token();
    let fields = [("token", token.as_str()), ("input", "{\"to\": \"other\"}")];
    let body = scene.send("/workflows/change-it", &vera, &fields).await.body;
    assert!(body.contains("needs approval by") && body.contains(".rego:"), "{body}");
    assert!(body.contains("the workflow itself asks"), "{body}");
    assert!(body.contains("which ships with the program"), "{body}");
}

#[tokio::test]
async fn a_dry_run_is_about_one_step_if_one_is_chosen() {
    let scene = Scene::new();
    scene.run("acme", "new").await;
    let vera = scene.enter("acme", "vera", &[Role::Viewer]).await;
    let token = scene.get("/workflows/change-it", &vera).await.token();
    let send = async |step: &str, outputs: &str| {
        let fields = [("token", token.as_str()), ("step", step), ("input", "{}"), ("outputs", outputs)];
        scene.send("/workflows/change-it", &vera, &fields).await
    };
    let one = send("ask", "").await;
    assert_eq!(one.status, StatusCode::OK, "{}", one.body);
    assert!(
        one.body.contains("the workflow itself asks")
            && !one.body.contains("needs approval by one person, low")
    );
    assert_eq!(one.body.matches("data-label=\"What would come of it\"").count(), 1, "{}", one.body);
    // What the step reads is not there, and the page says so.
    assert!(send("set", "{}").await.body.contains("Not known"));
    for (step, outputs) in [("none", "{}"), ("ask", "[]"), ("ask", "{\"none\": 1}"), ("ask", "{")] {
        let refused = send(step, outputs).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{step} {outputs}");
        assert!(refused.body.contains("role=\"alert\""), "{}", refused.body);
    }
}

#[tokio::test]
async fn every_version_is_listed_newest_first_with_a_page_and_a_dry_run_of_its_own() {
    let scene = Scene::new();
    scene.run("acme", "new").await;
    let newer = CHANGE.replace("version: 3", "version: 4").replace("Was it right?", "Is it right?");
    scene.run_of(&newer, "acme", json!({ "to": "newer" })).await;
    let vera = scene.enter("acme", "vera", &[Role::Viewer]).await;
    let page = scene.get("/workflows/change-it", &vera).await;
    let at = |text: &str| page.body.find(text).unwrap_or_else(|| panic!("{text} is not in {}", page.body));
    assert!(at("/workflows/change-it/versions/4") < at("/workflows/change-it/versions/3"));
    assert!(page.body.contains("Is it right?") && !page.body.contains("Was it right?"), "{}", page.body);
    assert!(page.body.contains("<td data-label=\"By\">ada</td>"), "{}", page.body);

    let old = "/workflows/change-it/versions/3";
    let shown = scene.get(old, &vera).await.body;
    assert!(shown.contains("Was it right?") && shown.contains("An earlier version."), "{shown}");
    assert!(shown.contains(&format!("action=\"{old}#dry-run\"")), "{shown}");
    let token = page.token();
    let fields = [("token", token.as_str()), ("step", "set"), ("input", "{\"to\": \"other\"}")];
    let tried = scene.send(old, &vera, &fields).await.body;
    assert!(tried.contains("needs approval by") && tried.contains("Was it right?"), "{tried}");
}

#[tokio::test]
async fn a_canceled_run_says_who_stopped_it_and_why() {
    let scene = Scene::new();
    let run = scene.run("acme", "new").await;
    let by = domain::Initiator::new(domain::Cause::User, "otto");
    scene.engine.cancel(&run, &by, "the <wrong> record").await.unwrap();
    let vera = scene.enter("acme", "vera", &[Role::Viewer]).await;
    let body = scene.get(&format!("/runs/{}", run.run), &vera).await.body;
    assert!(body.contains("<dt>Canceled</dt><dd>by otto: the &lt;wrong&gt; record"), "{body}");
}

#[tokio::test]
async fn health_counts_what_waits() {
    let scene = Scene::new();
    scene.run("acme", "new").await;
    let otto = scene.enter("acme", "otto", &[Role::Operator]).await;
    let body = scene.get("/health", &otto).await.body;
    for expected in ["ingest", "decisions", "steps", "The oldest open request", "Dead letters"] {
        assert!(body.contains(expected), "{expected} is not in {body}");
    }
}

#[tokio::test]
async fn health_shows_the_workers_that_are_there_or_should_be() {
    let scene = Scene::new();
    let otto = scene.enter("acme", "otto", &[Role::Operator]).await;
    let none = scene.get("/health", &otto).await.body;
    assert!(none.contains("No worker has signed the roll."), "{none}");

    let now = scene.engine.now();
    let put_worker = async |name: &str, says, seen| {
        let worker = WorkerRecord::new(name.parse().unwrap(), says, seen);
        scene.engine.store().put_worker(worker).await.unwrap();
    };
    put_worker("busy", WorkerReport::Working { in_hand: 41 }, now).await;
    put_worker("sick", WorkerReport::Unwell { in_hand: 0, why: "a <b>store</b>".to_owned() }, now).await;
    put_worker("lost", WorkerReport::Working { in_hand: 1 }, now.earlier(Millis::mins(5))).await;
    put_worker("gone", WorkerReport::Left { finished: true }, now).await;
    put_worker("old", WorkerReport::Working { in_hand: 0 }, now).await;
    let by = domain::Initiator::new(domain::Cause::User, "root");
    scene.engine.request_drain(&"old".parse().unwrap(), &by, "a <i>release</i>").await.unwrap();

    let body = scene.get("/health", &otto).await.body;
    for expected in [
        "<code>busy</code>",
        "executing",
        ">41<",
        "errored",
        "a &lt;b&gt;store",
        "offline",
        "draining",
        "asked to leave by root: a &lt;i&gt;release",
    ] {
        assert!(body.contains(expected), "{expected} is not in {body}");
    }
    assert!(!body.contains("<code>gone</code>"), "{body}");
}

#[tokio::test]
async fn health_says_who_stopped_dispatch_when_and_why_for_the_tenant_and_for_all() {
    let scene = Scene::new();
    let otto = scene.enter("acme", "otto", &[Role::Operator]).await;
    let on = scene.get("/health", &otto).await.body;
    assert!(on.contains("Steps of tenant acme are begun.") && !on.contains("/health/stop"), "{on}");
    let by = |name: &str| domain::Initiator::new(domain::Cause::User, name);
    let acme = Reach::Tenant("acme".parse().unwrap());
    scene.engine.stop_dispatch(&acme, &by("adam"), "a <b>fire</b>").await.unwrap();
    let off = scene.get("/health", &otto).await.body;
    assert!(
        off.contains("Nothing is begun for tenant acme. adam stopped it") && off.contains("a &lt;b&gt;fire"),
        "{off}"
    );
    scene.engine.stop_dispatch(&Reach::All, &by("root"), "a flood").await.unwrap();
    scene.engine.start_dispatch(&acme, &by("adam")).await.unwrap();
    let all = scene.get("/health", &otto).await.body;
    assert!(
        all.contains("Nothing is begun for any tenant. root stopped it") && all.contains("a flood"),
        "{all}"
    );
}
