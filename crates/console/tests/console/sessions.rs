//! Login, sessions and logout.

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use domain::Role;

use crate::env::{ConsoleEnv, PAGES, form};

#[tokio::test]
async fn login_redirects_back_to_the_requested_page() {
    let env = ConsoleEnv::new();
    for path in PAGES {
        let page = env.get(path, "").await;
        assert_eq!(page.status, StatusCode::SEE_OTHER, "{path}");
        assert!(page.location().starts_with("/login?next=/"), "{}", page.location());
    }
    let key = env.put_key("acme", "ada", &[Role::Viewer]).await;
    let page = env.send("/login", "", &[("key", &key), ("next", "/approvals")]).await;
    assert_eq!((page.status, page.location()), (StatusCode::SEE_OTHER, "/approvals"));
    assert_eq!(env.get("/approvals", &page.cookie()).await.status, StatusCode::OK);
}

#[tokio::test]
async fn form_with_an_expired_session_changes_nothing() {
    let env = ConsoleEnv::new();
    for (action, form_page) in [
        ("/runs/run-1/cancel", "/runs/run-1"),
        ("/workflows/w/start", "/workflows/w"),
        ("/health/stop", "/health"),
        ("/approvals/a-1", "/approvals/a-1"),
    ] {
        let page = env.send(action, "", &[("reason", "enough")]).await;
        assert_eq!(page.status, StatusCode::UNAUTHORIZED, "{action}");
        assert!(page.body.contains("nothing was changed"), "{}", page.body);
        assert!(page.body.contains(&format!("href=\"/login?next={form_page}\"")), "{}", page.body);
    }
}

#[tokio::test]
async fn invalid_keys_get_the_same_response() {
    let env = ConsoleEnv::new();
    let key = env.put_key("acme", "ada", &[Role::Viewer]).await;
    let wrong = key.replace('0', "1");
    let keys = ["", "nonsense", &wrong, &key.replace("acme", "umbrella")].map(str::to_owned);
    let mut bodies = Vec::new();
    for key in keys {
        let page = env.send("/login", "", &[("key", &key), ("next", "/")]).await;
        assert_eq!(page.status, StatusCode::UNAUTHORIZED, "{key}");
        assert!(!page.headers.contains_key(header::SET_COOKIE));
        assert!(key.is_empty() || !page.body.contains(&key));
        bodies.push(page.body);
    }
    assert!(bodies.windows(2).all(|two| two[0] == two[1]));
}

#[tokio::test]
async fn login_does_not_redirect_to_another_server() {
    let env = ConsoleEnv::new();
    let key = env.put_key("acme", "ada", &[Role::Viewer]).await;
    for next in ["https://evil.example/", "//evil.example/", "/\\evil.example"] {
        let page = env.send("/login", "", &[("key", &key), ("next", next)]).await;
        assert_eq!(page.location(), "/", "{next}");
    }
}

#[tokio::test]
async fn revoked_key_ends_its_sessions_at_once() {
    let env = ConsoleEnv::new();
    let ada = env.log_in("acme", "ada", &[Role::Admin]).await;
    assert_eq!(env.get("/runs", &ada).await.status, StatusCode::OK);
    env.revoke("acme").await;
    assert_eq!(env.get("/runs", &ada).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn live_update_without_a_session_redirects_to_login() {
    let env = ConsoleEnv::new();
    let request = Request::get("/runs").header("hx-request", "true").body(Body::empty()).unwrap();
    let page = env.send_request(request).await;
    assert_eq!(
        (page.status, &page.headers["hx-redirect"]),
        (StatusCode::UNAUTHORIZED, &"/login".parse().unwrap())
    );
}

#[tokio::test]
async fn cross_site_link_is_repeated_from_this_server() {
    let env = ConsoleEnv::new();
    let navigation = Request::get("/approvals")
        .header("sec-fetch-site", "cross-site")
        .header("sec-fetch-mode", "navigate");
    let page = env.send_request(navigation.body(Body::empty()).unwrap()).await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.body.contains("0;url=/approvals"), "{}", page.body);
}

#[tokio::test]
async fn logout_removes_the_cookie() {
    let env = ConsoleEnv::new();
    let ada = env.log_in("acme", "ada", &[Role::Viewer]).await;
    let token = env.get("/runs", &ada).await.token();
    let page = env.send("/logout", &ada, &[("token", &token)]).await;
    assert_eq!(page.location(), "/login");
    assert!(page.headers[header::SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
}

#[tokio::test]
async fn logout_invalidates_copies_of_the_cookie() {
    let env = ConsoleEnv::new();
    let ada = env.log_in("acme", "ada", &[Role::Admin]).await;
    let elsewhere = env.log_in("acme", "ada", &[Role::Admin]).await;
    let token = env.get("/runs", &ada).await.token();
    env.send("/logout", &ada, &[("token", &token)]).await;
    for path in PAGES {
        let page = env.get(path, &ada).await;
        assert_eq!(page.status, StatusCode::SEE_OTHER, "{path}");
        assert!(page.location().starts_with("/login"), "{}", page.location());
    }
    let done = env.send("/health/stop", &ada, &[("token", &token), ("reason", "mine")]).await;
    assert_eq!(done.status, StatusCode::UNAUTHORIZED);
    assert!(!env.engine.operations().dispatch(&"acme".parse().unwrap()).await.unwrap().is_stopped());
    assert_eq!(env.get("/runs", &elsewhere).await.status, StatusCode::OK);
}

#[tokio::test]
async fn cross_site_login_is_refused() {
    let env = ConsoleEnv::new();
    let key = env.put_key("acme", "ada", &[Role::Viewer]).await;
    let request = Request::post("/login")
        .header(header::HOST, "console.example")
        .header(header::ORIGIN, "https://evil.example")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    let page = env.send_request(request.body(Body::from(form(&[("key", &key)]))).unwrap()).await;
    assert_eq!(page.status, StatusCode::FORBIDDEN);
    assert!(!page.headers.contains_key(header::SET_COOKIE));
}
