//! Who gets in.

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use domain::Role;

use crate::scene::{PAGES, Scene, form};

#[tokio::test]
async fn whoever_has_no_session_is_asked_to_log_in_and_led_back() {
    let scene = Scene::new();
    for page in PAGES {
        let answer = scene.get(page, "").await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{page}");
        assert!(answer.location().starts_with("/login?next=/"), "{}", answer.location());
    }
    let key = scene.key("acme", "ada", &[Role::Viewer]).await;
    let answer = scene.send("/login", "", &[("key", &key), ("next", "/approvals")]).await;
    assert_eq!((answer.status, answer.location()), (StatusCode::SEE_OTHER, "/approvals"));
    assert_eq!(scene.get("/approvals", &answer.cookie()).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_form_that_is_sent_after_the_login_has_ended_is_not_done_and_says_so() {
    let scene = Scene::new();
    for (sent, page) in [
        ("/runs/run-1/cancel", "/runs/run-1"),
        ("/workflows/w/start", "/workflows/w"),
        ("/health/stop", "/health"),
        ("/approvals/a-1", "/approvals/a-1"),
    ] {
        let answer = scene.send(sent, "", &[("reason", "enough")]).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{sent}");
        assert!(answer.body.contains("nothing was done"), "{}", answer.body);
        assert!(answer.body.contains(&format!("href=\"/login?next={page}\"")), "{}", answer.body);
    }
}

#[tokio::test]
async fn a_key_that_opens_nothing_is_refused_in_the_same_words_whatever_is_wrong_with_it() {
    let scene = Scene::new();
    let key = scene.key("acme", "ada", &[Role::Viewer]).await;
    let wrong = key.replace('0', "1");
    let pages = ["", "nonsense", &wrong, &key.replace("acme", "umbrella")].map(str::to_owned);
    let mut bodies = Vec::new();
    for shown in pages {
        let answer = scene.send("/login", "", &[("key", &shown), ("next", "/")]).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{shown}");
        assert!(!answer.headers.contains_key(header::SET_COOKIE));
        assert!(shown.is_empty() || !answer.body.contains(&shown));
        bodies.push(answer.body);
    }
    assert!(bodies.windows(2).all(|two| two[0] == two[1]));
}

#[tokio::test]
async fn nobody_is_led_elsewhere_by_logging_in() {
    let scene = Scene::new();
    let key = scene.key("acme", "ada", &[Role::Viewer]).await;
    for next in ["https://evil.example/", "//evil.example/", "/\\evil.example"] {
        let answer = scene.send("/login", "", &[("key", &key), ("next", next)]).await;
        assert_eq!(answer.location(), "/", "{next}");
    }
}

#[tokio::test]
async fn a_key_that_is_taken_back_ends_its_sessions_at_once() {
    let scene = Scene::new();
    let ada = scene.enter("acme", "ada", &[Role::Admin]).await;
    assert_eq!(scene.get("/runs", &ada).await.status, StatusCode::OK);
    scene.revoke("acme").await;
    assert_eq!(scene.get("/runs", &ada).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn a_script_that_fetches_a_page_again_is_told_to_log_in() {
    let scene = Scene::new();
    let request = Request::get("/runs").header("hx-request", "true").body(Body::empty()).unwrap();
    let answer = scene.ask(request).await;
    assert_eq!(
        (answer.status, &answer.headers["hx-redirect"]),
        (StatusCode::UNAUTHORIZED, &"/login".parse().unwrap())
    );
}

#[tokio::test]
async fn a_link_from_elsewhere_is_followed_once_more_from_here_because_browsers_keep_the_session_back() {
    let scene = Scene::new();
    let led = Request::get("/approvals")
        .header("sec-fetch-site", "cross-site")
        .header("sec-fetch-mode", "navigate");
    let answer = scene.ask(led.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.body.contains("0;url=/approvals"), "{}", answer.body);
}

#[tokio::test]
async fn logging_out_takes_the_cookie_away() {
    let scene = Scene::new();
    let ada = scene.enter("acme", "ada", &[Role::Viewer]).await;
    let token = scene.get("/runs", &ada).await.token();
    let answer = scene.send("/logout", &ada, &[("token", &token)]).await;
    assert_eq!(answer.location(), "/login");
    assert!(answer.headers[header::SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
}

#[tokio::test]
async fn a_copy_of_the_cookie_is_worth_nothing_after_logging_out_and_other_sessions_go_on() {
    let scene = Scene::new();
    let ada = scene.enter("acme", "ada", &[Role::Admin]).await;
    let elsewhere = scene.enter("acme", "ada", &[Role::Admin]).await;
    let token = scene.get("/runs", &ada).await.token();
    scene.send("/logout", &ada, &[("token", &token)]).await;
    for page in PAGES {
        let answer = scene.get(page, &ada).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{page}");
        assert!(answer.location().starts_with("/login"), "{}", answer.location());
    }
    let done = scene.send("/health/stop", &ada, &[("token", &token), ("reason", "mine")]).await;
    assert_eq!(done.status, StatusCode::UNAUTHORIZED);
    assert!(!scene.engine.dispatch(&"acme".parse().unwrap()).await.unwrap().is_stopped());
    assert_eq!(scene.get("/runs", &elsewhere).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_login_that_another_page_sends_is_refused() {
    let scene = Scene::new();
    let key = scene.key("acme", "ada", &[Role::Viewer]).await;
    let request = Request::post("/login")
        .header(header::HOST, "console.example")
        .header(header::ORIGIN, "https://evil.example")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    let answer = scene.ask(request.body(Body::from(form(&[("key", &key)]))).unwrap()).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(!answer.headers.contains_key(header::SET_COOKIE));
}
