//! Tenant isolation, CSRF protection, escaping and security headers.

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use domain::{Role, RunStatus};
use serde_json::json;
use store::Ledger as _;

use crate::env::{CHANGE, ConsoleEnv, PAGES, form};

const ADMIN: [Role; 1] = [Role::Admin];

#[tokio::test]
async fn every_response_has_the_security_headers() {
    let env = ConsoleEnv::new();
    let run = env.run("acme", "new").await;
    let ada = env.log_in("acme", "ada", &ADMIN).await;
    let one = format!("/runs/{}", run.run);
    let others =
        [one.as_str(), "/login", "/nowhere", "/runs/unknown", "/static/console.css", "/static/nothing"];
    for path in PAGES.into_iter().chain(others) {
        for cookie in [ada.as_str(), ""] {
            let page = env.get(path, cookie).await;
            let header =
                |name: &str| page.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default();
            let policy = header("content-security-policy");
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
            assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
            assert_eq!(header("referrer-policy"), "no-referrer", "{path}");
            assert_eq!(header("x-frame-options"), "DENY", "{path}");
            assert!(matches!(header("cache-control"), "no-store" | "no-cache"), "{path}");
        }
    }
}

#[tokio::test]
async fn pages_have_no_inline_code_and_no_other_hosts() {
    let env = ConsoleEnv::new();
    let run = env.run("acme", "new").await;
    let approval = env.approval(&run).await;
    let ada = env.log_in("acme", "ada", &ADMIN).await;
    let named = [
        format!("/runs/{}", run.run),
        format!("/approvals/{}", approval.id),
        "/workflows/change-it".to_owned(),
        "/workflows/change-it/versions/3".to_owned(),
    ];
    for path in PAGES.iter().map(ToString::to_string).chain(named) {
        let body = env.get(&path, &ada).await.body;
        for never in ["http://", "https://", "style=", "<style", "onclick", "onload", "javascript:"] {
            assert!(!body.contains(never), "{path} holds {never}");
        }
        assert_eq!(body.matches("<script").count(), body.matches("<script src=\"/static/").count(), "{path}");
    }
}

#[tokio::test]
async fn other_tenants_object_looks_like_an_unknown_one() {
    let env = ConsoleEnv::new();
    let theirs = env.run("umbrella", "new").await;
    let approval = env.approval(&theirs).await;
    env.run("acme", "mine").await;
    env.run_of(&CHANGE.replace("change-it", "only-theirs"), "umbrella", json!({ "to": "new" })).await;
    let ada = env.log_in("acme", "ada", &ADMIN).await;
    let token = env.get("/runs", &ada).await.token();
    let (run, approval) = (theirs.run.as_str(), approval.id.as_str());
    for (route, theirs) in [
        ("/runs/{}", run),
        ("/evidence/{}", run),
        ("/evidence/{}/bundle", run),
        ("/evidence/{}/report", run),
        ("/approvals/{}", approval),
        ("/workflows/{}", "only-theirs"),
        ("/workflows/{}/versions/3", "only-theirs"),
    ] {
        let others = env.get(&route.replace("{}", theirs), &ada).await;
        assert_eq!(others.status, StatusCode::NOT_FOUND, "{route}");
        assert!(!others.body.contains(theirs) && !others.body.contains("acme"), "{route}");
        for other in ["unknown", "not%20a%20name", "%00", "%FF", "..%2F.."] {
            let page = env.get(&route.replace("{}", other), &ada).await;
            assert_eq!((page.status, &page.headers), (others.status, &others.headers), "{route} {other}");
            assert_eq!(page.body, others.body, "{route} {other}");
        }
    }
    for verb in ["cancel", "pause", "resume", "rollback"] {
        let fields = [("token", token.as_str()), ("reason", "mine")];
        let others = env.send(&format!("/runs/{run}/{verb}"), &ada, &fields).await;
        let unknown = env.send(&format!("/runs/unknown/{verb}"), &ada, &fields).await;
        assert_eq!((others.status, others.body), (StatusCode::NOT_FOUND, unknown.body), "{verb}");
    }
    let sample = [("token", token.as_str()), ("input", "{}")];
    for page in ["/workflows/{}", "/workflows/{}/versions/3", "/workflows/{}/start"] {
        let others = env.send(&page.replace("{}", "only-theirs"), &ada, &sample).await;
        let unknown = env.send(&page.replace("{}", "unknown"), &ada, &sample).await;
        assert_eq!((others.status, others.body), (StatusCode::NOT_FOUND, unknown.body), "{page}");
    }
    for version in ["99", "x", "-1", "4294967296"] {
        let page = env.get(&format!("/workflows/change-it/versions/{version}"), &ada).await;
        assert_eq!(page.body, env.get("/workflows/unknown", &ada).await.body, "{version}");
    }
    let subject = env.approval(&theirs).await.subject.hash().to_string();
    let fields = [("token", token.as_str()), ("answer", "approve"), ("subject", &subject)];
    let others = env.send(&format!("/approvals/{approval}"), &ada, &fields).await;
    let unknown = env.send("/approvals/unknown", &ada, &fields).await;
    assert_eq!((others.status, others.body), (StatusCode::NOT_FOUND, unknown.body));
    let record = env.store().load(&theirs).await.unwrap().unwrap();
    assert_eq!((record.status, record.cancel), (RunStatus::WaitingApproval, None));
}

#[tokio::test]
async fn form_without_token_or_from_another_site_is_refused() {
    let env = ConsoleEnv::new();
    let run = env.run("acme", "new").await;
    let ada = env.log_in("acme", "ada", &ADMIN).await;
    let grace = env.log_in("acme", "grace", &ADMIN).await;
    let path = format!("/runs/{}/cancel", run.run);
    let (own, others) = (env.get("/runs", &ada).await.token(), env.get("/runs", &grace).await.token());
    for token in ["", "0", &others] {
        let page = env.send(&path, &ada, &[("token", token), ("reason", "no")]).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{token}");
    }
    for (name, value) in
        [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site"), ("origin", "null")]
    {
        let request = Request::post(&path)
            .header(header::COOKIE, &ada)
            .header(header::HOST, "console.example")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(name, value);
        let page = env
            .send_request(request.body(Body::from(form(&[("token", &own), ("reason", "no")]))).unwrap())
            .await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{name}: {value}");
    }
    let record = env.store().load(&run).await.unwrap().unwrap();
    assert_eq!((record.status, record.cancel), (RunStatus::WaitingApproval, None));
}

#[tokio::test]
async fn hostile_text_is_escaped_and_visible() {
    let env = ConsoleEnv::new();
    let hostile =
        "<script>alert(1)</script><img src=x onerror=alert(1)>\" onfocus=alert(1) \u{202e}txt.exe\u{200b}";
    let run = env.run("acme", hostile).await;
    let approval = env.approval(&run).await;
    let grace = env.log_in("acme", "grace", &ADMIN).await;
    let token = env.get("/runs", &grace).await.token();
    let reason = [("token", token.as_str()), ("reason", hostile)];
    env.send(&format!("/runs/{}/pause", run.run), &grace, &reason).await;
    for path in [format!("/approvals/{}", approval.id), format!("/runs/{}", run.run)] {
        let body = env.get(&path, &grace).await.body;
        assert!(!body.contains("<script>alert") && !body.contains("<img"), "{path}");
        assert!(!body.contains("\" onfocus"), "{path}");
        assert!(!body.contains(['\u{202e}', '\u{200b}']), "{path}");
        assert!(
            body.contains("&lt;script&gt;alert(1)") && body.contains("⟨U+202E⟩txt.exe⟨U+200B⟩"),
            "{path}: {body}"
        );
    }
    let samples = [("token", token.as_str()), ("input", "</textarea><script>alert(1)</script>")];
    let page = env.send("/workflows/change-it", &grace, &samples).await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    assert!(!page.body.contains("<script>alert"), "{}", page.body);
}

#[tokio::test]
async fn cached_static_file_is_not_sent_again() {
    let env = ConsoleEnv::new();
    for file in ["console.css", "live.js", "htmx.min.js", "mark.svg"] {
        let path = format!("/static/{file}");
        let page = env.get(&path, "").await;
        let tag = page.headers[header::ETAG].clone();
        let again = Request::get(&path).header(header::IF_NONE_MATCH, tag).body(Body::empty()).unwrap();
        let again = env.send_request(again).await;
        assert_eq!((again.status, again.body.as_str()), (StatusCode::NOT_MODIFIED, ""), "{file}");
    }
}
