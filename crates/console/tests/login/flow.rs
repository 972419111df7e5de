//! Successful logins.

use axum::http::StatusCode;
use domain::Millis;
use serde_json::json;

use crate::browser::Browser;
use crate::env::LoginEnv;
use crate::issuer::{Behavior, Kind};

const SESSION: &str = "countersign";

#[tokio::test]
async fn oidc_login_returns_to_the_requested_page() {
    let env = LoginEnv::new().await;
    for kind in [Kind::Rs256, Kind::Es256] {
        env.issuer.behave(Behavior { kind, ..Behavior::default() });
        let browser = Browser::new();
        let login = browser.go(env.at("/approvals?a=b")).await;
        assert_eq!(login.url.path(), "/login");
        assert!(login.body.contains("name=\"key\""), "no field for a key: {}", login.body);
        let (_, link) = login.body.split_once("href=\"/login/oidc").unwrap();
        let (rest, text) = link.split_once("\">").unwrap();
        assert!(text.starts_with("Log in with Example &amp; Co<"), "{text}");
        let page = browser.go(env.at(&format!("/login/oidc{rest}"))).await;
        assert_eq!((page.status, page.url.path()), (StatusCode::OK, "/approvals"), "{}", page.body);
        assert_eq!(page.url.query(), Some("a=b"));
        assert!(
            page.body.contains("grace at acme") && page.body.contains("viewer, approver"),
            "{}",
            page.body
        );
        assert_eq!(browser.get(env.at("/health")).await.status, StatusCode::FORBIDDEN);
    }
}

#[tokio::test]
async fn session_cookie_is_strict_and_login_cookie_removed() {
    let env = LoginEnv::new().await;
    let browser = Browser::new();
    let started = browser.get(env.at("/login/oidc")).await;
    assert_eq!(started.status, StatusCode::SEE_OTHER);
    let login = started.set_cookies().concat();
    assert!(login.starts_with("countersign-login=") && login.contains("HttpOnly; SameSite=Lax"), "{login}");
    let to = started.headers["location"].to_str().unwrap();
    for part in
        ["response_type=code", "code_challenge_method=S256", "scope=openid+profile", "nonce=", "state="]
    {
        assert!(to.contains(part), "{to}");
    }
    let back = browser.go_until(to, "/login/oidc/callback").await;
    let callback = browser.get(back).await;
    // A page of this server redirects, so that the browser sends the `SameSite=Strict` cookie.
    assert_eq!(callback.status, StatusCode::OK);
    assert!(callback.body.contains("0;url=/\""), "{}", callback.body);
    let given = callback.set_cookies();
    assert!(
        given[0].starts_with("countersign=") && given[0].contains("HttpOnly; SameSite=Strict"),
        "{given:?}"
    );
    assert!(given[1].starts_with("countersign-login=; Max-Age=0;"), "{given:?}");
    assert_eq!(browser.cookie("countersign-login"), None);
}

#[tokio::test]
async fn session_ends_when_its_token_expires() {
    let env = LoginEnv::new().await;
    let browser = Browser::new();
    browser.go(env.at("/login/oidc")).await;
    assert_eq!(browser.get(env.at("/runs")).await.status, StatusCode::OK);
    env.clock.advance(Millis::mins(59));
    assert_eq!(browser.get(env.at("/runs")).await.status, StatusCode::OK);
    env.clock.advance(Millis::mins(3));
    assert_eq!(browser.go(env.at("/runs")).await.url.path(), "/login");
}

#[tokio::test]
async fn session_can_only_read_on_the_api() {
    let env = LoginEnv::new().await;
    env.issuer.behave(Behavior { instead: json!({ "roles": "admin" }), ..Behavior::default() });
    let browser = Browser::new();
    browser.go(env.at("/login/oidc")).await;
    let me = browser.get(env.at("/api/v1/me")).await;
    assert_eq!(me.status, StatusCode::OK);
    assert!(
        me.body.contains("\"person\":\"grace\"") && me.body.contains("\"credential\":\"oidc:"),
        "{}",
        me.body
    );
    assert_eq!(browser.post(&env.at("/api/v1/dispatch/start"), "").await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn logout_requires_a_new_login() {
    let env = LoginEnv::new().await;
    let browser = Browser::new();
    let page = browser.go(env.at("/login/oidc?next=/runs")).await;
    let forged = browser.post(&env.at("/logout"), "token=0").await;
    assert_eq!(forged.status, StatusCode::FORBIDDEN);
    let left = browser.post(&env.at("/logout"), &format!("token={}", page.token())).await;
    assert_eq!(left.status, StatusCode::SEE_OTHER);
    assert_eq!(browser.cookie(SESSION), None);
    assert_eq!(browser.go(env.at("/runs")).await.url.path(), "/login");
}

#[tokio::test]
async fn login_does_not_redirect_to_another_server() {
    let env = LoginEnv::new().await;
    let long = format!("/{}", "a".repeat(5_000));
    for next in
        ["https://evil.example/", "//evil.example/", "/\\evil.example", "/%09/evil.example", "", &long]
    {
        let browser = Browser::new();
        let page = browser.go(env.at(&format!("/login/oidc?next={next}"))).await;
        assert_eq!((page.url.as_str(), page.status), (env.at("/").as_str(), StatusCode::OK), "{next}");
    }
}
