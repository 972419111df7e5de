//! What people see.

use axum::http::{StatusCode, header};
use domain::{Role, RunKey};
use engine::Reply;
use serde_json::json;

use crate::scene::Scene;

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
        scene.walk(run).await;
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
        ("?status=nonsense&workflow=%FF", 0),
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
