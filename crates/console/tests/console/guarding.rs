//! What no page gives away, and what every answer forbids the browser.

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use domain::{Role, RunStatus};
use serde_json::json;
use store::Ledger as _;

use crate::scene::{CHANGE, PAGES, Scene, form};

const EVERYTHING: [Role; 1] = [Role::Admin];

#[tokio::test]
async fn every_answer_forbids_the_browser_what_it_does_not_need() {
    let scene = Scene::new();
    let run = scene.run("acme", "new").await;
    let ada = scene.enter("acme", "ada", &EVERYTHING).await;
    let one = format!("/runs/{}", run.run);
    let others =
        [one.as_str(), "/login", "/nowhere", "/runs/unknown", "/static/console.css", "/static/nothing"];
    for path in PAGES.into_iter().chain(others) {
        for cookie in [ada.as_str(), ""] {
            let answer = scene.get(path, cookie).await;
            let says = |name: &str| {
                answer.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
            };
            let policy = says("content-security-policy");
            for part in [
                "default-src 'none'",
                "script-src 'self'",
                "form-action 'self'",
                "frame-ancestors 'none'",
                "base-uri 'none'",
            ] {
                assert!(policy.contains(part), "{path}: {policy}");
            }
            assert!(!policy.contains("unsafe"), "{path}: {policy}");
            assert_eq!(says("x-content-type-options"), "nosniff", "{path}");
            assert_eq!(says("referrer-policy"), "no-referrer", "{path}");
            assert_eq!(says("x-frame-options"), "DENY", "{path}");
            assert!(matches!(says("cache-control"), "no-store" | "no-cache"), "{path}");
        }
    }
}

#[tokio::test]
async fn no_page_names_another_host_or_holds_a_script_or_a_style() {
    let scene = Scene::new();
    let run = scene.run("acme", "new").await;
    let asked = scene.asked(&run).await;
    let ada = scene.enter("acme", "ada", &EVERYTHING).await;
    let named = [
        format!("/runs/{}", run.run),
        format!("/approvals/{}", asked.id),
        "/workflows/change-it".to_owned(),
        "/workflows/change-it/versions/3".to_owned(),
    ];
    for path in PAGES.iter().map(ToString::to_string).chain(named) {
        let body = scene.get(&path, &ada).await.body;
        for never in ["http://", "https://", "style=", "<style", "onclick", "onload", "javascript:"] {
            assert!(!body.contains(never), "{path} holds {never}");
        }
        assert_eq!(body.matches("<script").count(), body.matches("<script src=\"/static/").count(), "{path}");
    }
}

#[tokio::test]
async fn what_belongs_to_another_tenant_is_the_page_of_what_there_is_not_byte_for_byte() {
    let scene = Scene::new();
    let of_tenant = scene.run("umbrella", "new").await;
    let asked = scene.asked(&of_tenant).await;
    scene.run("acme", "mine").await;
    scene.run_of(&CHANGE.replace("change-it", "only-of_tenant"), "umbrella", json!({ "to": "new" })).await;
    let ada = scene.enter("acme", "ada", &EVERYTHING).await;
    let token = scene.get("/runs", &ada).await.token();
    let (run, asked) = (of_tenant.run.as_str(), asked.id.as_str());
    for (route, of_tenant) in [
        ("/runs/{}", run),
        ("/evidence/{}", run),
        ("/evidence/{}/bundle", run),
        ("/evidence/{}/report", run),
        ("/approvals/{}", asked),
        ("/workflows/{}", "only-of_tenant"),
        ("/workflows/{}/versions/3", "only-of_tenant"),
    ] {
        let own_kind = scene.get(&route.replace("{}", of_tenant), &ada).await;
        assert_eq!(own_kind.status, StatusCode::NOT_FOUND, "{route}");
        assert!(!own_kind.body.contains(of_tenant) && !own_kind.body.contains("acme"), "{route}");
        for other in ["unknown", "not%20a%20name", "%00", "%FF", "..%2F.."] {
            let answer = scene.get(&route.replace("{}", other), &ada).await;
            assert_eq!(
                (answer.status, &answer.headers),
                (own_kind.status, &own_kind.headers),
                "{route} {other}"
            );
            assert_eq!(answer.body, own_kind.body, "{route} {other}");
        }
    }
    for verb in ["cancel", "pause", "resume", "rollback"] {
        let fields = [("token", token.as_str()), ("reason", "mine")];
        let own_kind = scene.send(&format!("/runs/{run}/{verb}"), &ada, &fields).await;
        let unknown = scene.send(&format!("/runs/unknown/{verb}"), &ada, &fields).await;
        assert_eq!((own_kind.status, own_kind.body), (StatusCode::NOT_FOUND, unknown.body), "{verb}");
    }
    let sample = [("token", token.as_str()), ("input", "{}")];
    for page in ["/workflows/{}", "/workflows/{}/versions/3", "/workflows/{}/start"] {
        let own_kind = scene.send(&page.replace("{}", "only-of_tenant"), &ada, &sample).await;
        let unknown = scene.send(&page.replace("{}", "unknown"), &ada, &sample).await;
        assert_eq!((own_kind.status, own_kind.body), (StatusCode::NOT_FOUND, unknown.body), "{page}");
    }
    for version in ["99", "x", "-1", "4294967296"] {
        let answer = scene.get(&format!("/workflows/change-it/versions/{version}"), &ada).await;
        assert_eq!(answer.body, scene.get("/workflows/unknown", &ada).await.body, "{version}");
    }
    let subject = scene.asked(&of_tenant).await.subject.hash().to_string();
    let fields = [("token", token.as_str()), ("answer", "approve"), ("subject", &subject)];
    let own_kind = scene.send(&format!("/approvals/{asked}"), &ada, &fields).await;
    let unknown = scene.send("/approvals/unknown", &ada, &fields).await;
    assert_eq!((own_kind.status, own_kind.body), (StatusCode::NOT_FOUND, unknown.body));
    let record = scene.engine.store().load(&of_tenant).await.unwrap().unwrap();
    assert_eq!((record.status, record.cancel), (RunStatus::WaitingApproval, None));
}

#[tokio::test]
async fn a_form_without_its_sessions_token_or_from_another_page_changes_nothing() {
    let scene = Scene::new();
    let run = scene.run("acme", "new").await;
    let ada = scene.enter("acme", "ada", &EVERYTHING).await;
    let grace = scene.enter("acme", "grace", &EVERYTHING).await;
    let path = format!("/runs/{}/cancel", run.run);
    let (own, others) = (scene.get("/runs", &ada).await.token(), scene.get("/runs", &grace).await.token());
    for token in ["", "0", &others] {
        let answer = scene.send(&path, &ada, &[("token", token), ("reason", "no")]).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{token}");
    }
    for (name, value) in
        [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site"), ("origin", "null")]
    {
        let request = Request::post(&path)
            .header(header::COOKIE, &ada)
            .header(header::HOST, "console.example")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(name, value);
        let answer =
            scene.ask(request.body(Body::from(form(&[("token", &own), ("reason", "no")]))).unwrap()).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{name}: {value}");
    }
    let record = scene.engine.store().load(&run).await.unwrap().unwrap();
    assert_eq!((record.status, record.cancel), (RunStatus::WaitingApproval, None));
}

#[tokio::test]
async fn nothing_that_a_stranger_wrote_is_markup_or_unseen() {
    let scene = Scene::new();
    let hostile =
        "<script>alert(1)</script><img src=x onerror=alert(1)>\" onfocus=alert(1) \u{202e}txt.exe\u{200b}";
    let run = scene.run("acme", hostile).await;
    let asked = scene.asked(&run).await;
    let grace = scene.enter("acme", "grace", &EVERYTHING).await;
    let token = scene.get("/runs", &grace).await.token();
    let reason = [("token", token.as_str()), ("reason", hostile)];
    scene.send(&format!("/runs/{}/pause", run.run), &grace, &reason).await;
    for path in [format!("/approvals/{}", asked.id), format!("/runs/{}", run.run)] {
        let body = scene.get(&path, &grace).await.body;
        assert!(!body.contains("<script>alert") && !body.contains("<img"), "{path}");
        assert!(!body.contains("\" onfocus"), "{path}");
        assert!(!body.contains(['\u{202e}', '\u{200b}']), "{path}");
        assert!(
            body.contains("&lt;script&gt;alert(1)") && body.contains("⟨U+202E⟩txt.exe⟨U+200B⟩"),
            "{path}: {body}"
        );
    }
    let samples = [("token", token.as_str()), ("input", "</textarea><script>alert(1)</script>")];
    let answer = scene.send("/workflows/change-it", &grace, &samples).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert!(!answer.body.contains("<script>alert"), "{}", answer.body);
}

#[tokio::test]
async fn a_file_that_the_browser_has_is_not_sent_again() {
    let scene = Scene::new();
    for file in ["console.css", "live.js", "htmx.min.js", "mark.svg"] {
        let path = format!("/static/{file}");
        let answer = scene.get(&path, "").await;
        let tag = answer.headers[header::ETAG].clone();
        let again = Request::get(&path).header(header::IF_NONE_MATCH, tag).body(Body::empty()).unwrap();
        let again = scene.ask(again).await;
        assert_eq!((again.status, again.body.as_str()), (StatusCode::NOT_MODIFIED, ""), "{file}");
    }
}
