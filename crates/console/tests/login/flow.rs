//! What becomes of somebody whom the provider knows.

use axum::http::StatusCode;
use domain::Millis;
use serde_json::json;

use crate::browser::Browser;
use crate::issuer::{Kind, Manner};
use crate::scene::Scene;

/// The cookie of a session.
const SESSION: &str = "countersign";

#[tokio::test]
async fn whoever_logs_in_with_their_provider_is_who_it_says_and_goes_on_where_they_were() {
    let scene = Scene::new().await;
    for kind in [Kind::Rs256, Kind::Es256] {
        scene.issuer.behave(Manner { kind, ..Manner::default() });
        let browser = Browser::new();
        let asked = browser.go(scene.at("/approvals?a=b")).await;
        assert_eq!(asked.url.path(), "/login");
        assert!(asked.body.contains("name=\"key\""), "the key stays: {}", asked.body);
        let (_, link) = asked.body.split_once("href=\"/login/oidc").unwrap();
        let (rest, text) = link.split_once("\">").unwrap();
        assert!(text.starts_with("Log in with Example &amp; Co<"), "{text}");
        let page = browser.go(scene.at(&format!("/login/oidc{rest}"))).await;
        assert_eq!((page.status, page.url.path()), (StatusCode::OK, "/approvals"), "{}", page.body);
        assert_eq!(page.url.query(), Some("a=b"));
        assert!(
            page.body.contains("grace at acme") && page.body.contains("viewer, approver"),
            "{}",
            page.body
        );
        assert_eq!(browser.get(scene.at("/health")).await.status, StatusCode::FORBIDDEN);
    }
}

#[tokio::test]
async fn the_session_is_this_hosts_alone_and_the_cookie_of_the_login_is_gone() {
    let scene = Scene::new().await;
    let browser = Browser::new();
    let begun = browser.get(scene.at("/login/oidc")).await;
    assert_eq!(begun.status, StatusCode::SEE_OTHER);
    let login = begun.given().concat();
    assert!(login.starts_with("countersign-login=") && login.contains("HttpOnly; SameSite=Lax"), "{login}");
    let to = begun.headers["location"].to_str().unwrap();
    for part in
        ["response_type=code", "code_challenge_method=S256", "scope=openid+profile", "nonce=", "state="]
    {
        assert!(to.contains(part), "{to}");
    }
    let back = browser.go_until(to, "/login/oidc/callback").await;
    let entered = browser.get(back).await;
    // A page of ours leads on, so that the browser does not keep the session back.
    assert_eq!(entered.status, StatusCode::OK);
    assert!(entered.body.contains("0;url=/\""), "{}", entered.body);
    let given = entered.given();
    assert!(
        given[0].starts_with("countersign=") && given[0].contains("HttpOnly; SameSite=Strict"),
        "{given:?}"
    );
    assert!(given[1].starts_with("countersign-login=; Max-Age=0;"), "{given:?}");
    assert_eq!(browser.cookie("countersign-login"), None);
}

#[tokio::test]
async fn a_session_ends_when_its_token_does() {
    let scene = Scene::new().await;
    let browser = Browser::new();
    browser.go(scene.at("/login/oidc")).await;
    assert_eq!(browser.get(scene.at("/runs")).await.status, StatusCode::OK);
    scene.watch.forward(Millis::mins(59));
    assert_eq!(browser.get(scene.at("/runs")).await.status, StatusCode::OK);
    scene.watch.forward(Millis::mins(3));
    assert_eq!(browser.go(scene.at("/runs")).await.url.path(), "/login");
}

#[tokio::test]
async fn on_the_api_such_a_session_looks_and_does_nothing_else() {
    let scene = Scene::new().await;
    scene.issuer.behave(Manner { instead: json!({ "roles": "admin" }), ..Manner::default() });
    let browser = Browser::new();
    browser.go(scene.at("/login/oidc")).await;
    let me = browser.get(scene.at("/api/v1/me")).await;
    assert_eq!(me.status, StatusCode::OK);
    assert!(
        me.body.contains("\"person\":\"grace\"") && me.body.contains("\"credential\":\"oidc:"),
        "{}",
        me.body
    );
    assert_eq!(browser.post(&scene.at("/api/v1/dispatch/start"), "").await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn whoever_logs_out_is_asked_to_log_in_again() {
    let scene = Scene::new().await;
    let browser = Browser::new();
    let page = browser.go(scene.at("/login/oidc?next=/runs")).await;
    let forged = browser.post(&scene.at("/logout"), "token=0").await;
    assert_eq!(forged.status, StatusCode::FORBIDDEN);
    let left = browser.post(&scene.at("/logout"), &format!("token={}", page.token())).await;
    assert_eq!(left.status, StatusCode::SEE_OTHER);
    assert_eq!(browser.cookie(SESSION), None);
    assert_eq!(browser.go(scene.at("/runs")).await.url.path(), "/login");
}

#[tokio::test]
async fn nobody_is_led_elsewhere_by_logging_in() {
    let scene = Scene::new().await;
    let long = format!("/{}", "a".repeat(5_000));
    for next in
        ["https://evil.example/", "//evil.example/", "/\\evil.example", "/%09/evil.example", "", &long]
    {
        let browser = Browser::new();
        let page = browser.go(scene.at(&format!("/login/oidc?next={next}"))).await;
        assert_eq!((page.url.as_str(), page.status), (scene.at("/").as_str(), StatusCode::OK), "{next}");
    }
}
