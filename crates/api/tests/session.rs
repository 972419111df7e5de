//! Browser sessions on the API.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, Uri, header};
use countersign_api::auth::session::{CookieSecurity, SessionOrigin, Sessions};
use countersign_api::{Api, Authenticator, CursorSecret, router};
use domain::Role;
use store::SqliteStore;
use testkit::TestEnv;
use tower::ServiceExt as _;

struct SessionEnv {
    env: TestEnv,
    sessions: Arc<Sessions>,
    cookie: String,
    key: String,
}

impl SessionEnv {
    /// A session of a user with every role.
    async fn new() -> Self {
        let env = testkit::engine().env();
        let key = env.put_key("acme", "ada", &Role::ALL).await;
        let origin = SessionOrigin::Key(testkit::api_key("acme", "ada", &[]).id);
        let sessions = Arc::new(Sessions::new([1; 32], CookieSecurity::Https));
        let set = sessions.start(&testkit::acme(), origin, env.engine.now(), [0; 16]);
        let cookie = set.split(';').next().unwrap().to_owned();
        Self { env, sessions, cookie, key }
    }

    fn authenticator(&self) -> Authenticator<SqliteStore> {
        Authenticator::new(Arc::clone(&self.env.engine)).with_sessions(Arc::clone(&self.sessions))
    }

    /// The status of a request for an unknown run with these headers.
    async fn status(&self, headers: &[(&str, &str)]) -> StatusCode {
        let mut request = Request::get("/api/v1/runs/unknown").header(header::HOST, "console.example");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let router = router(Arc::new(Api::new(self.authenticator(), CursorSecret::new([0; 32]))));
        router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status()
    }
}

#[tokio::test]
async fn session_may_only_read() {
    let env = SessionEnv::new().await;
    assert_eq!(env.status(&[("cookie", &env.cookie)]).await, StatusCode::NOT_FOUND);
    let headers: HeaderMap = [(header::COOKIE, env.cookie.parse().unwrap())].into_iter().collect();
    let authenticator = env.authenticator();
    let caller = authenticator.authenticate(&headers, &Uri::from_static("/api/v1/runs")).await.unwrap();
    assert_eq!(
        Role::ALL.map(|role| authenticator.handle(&caller, role).is_ok()),
        [true, false, false, false]
    );
    let (caller, _) = authenticator.session_caller(&headers).await.unwrap();
    assert!(caller.roles.allow(Role::Admin), "the console requires the token of the session as well");
}

#[tokio::test]
async fn ended_session_is_rejected_and_its_key_is_not() {
    let env = SessionEnv::new().await;
    let headers: HeaderMap = [(header::COOKIE, env.cookie.parse().unwrap())].into_iter().collect();
    let authenticator = env.authenticator();
    let (_, session) = authenticator.session_caller(&headers).await.unwrap();
    env.sessions.end(&session, env.env.engine.now());
    assert_eq!(env.status(&[("cookie", &env.cookie)]).await, StatusCode::UNAUTHORIZED);
    // A stream authenticates again at every heartbeat.
    assert!(authenticator.authenticate(&headers, &Uri::from_static("/api/v1/stream")).await.is_err());
    assert!(authenticator.session_caller(&headers).await.is_err());
    let bearer = format!("Bearer {}", env.key);
    assert_eq!(env.status(&[("authorization", &bearer)]).await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn foreign_page_cannot_use_a_session() {
    let env = SessionEnv::new().await;
    let cookie = ("cookie", env.cookie.as_str());
    assert_eq!(env.status(&[cookie, ("origin", "https://console.example")]).await, StatusCode::NOT_FOUND);
    for foreign in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site"), ("origin", "null")]
    {
        assert_eq!(env.status(&[cookie, foreign]).await, StatusCode::UNAUTHORIZED, "{foreign:?}");
    }
}

#[tokio::test]
async fn key_takes_precedence_over_a_session() {
    let env = SessionEnv::new().await;
    let bearer = format!("Bearer {}", env.key);
    assert_eq!(env.status(&[("authorization", &bearer)]).await, StatusCode::NOT_FOUND);
    let wrong = [("authorization", "Bearer nonsense"), ("cookie", env.cookie.as_str())];
    assert_eq!(env.status(&wrong).await, StatusCode::UNAUTHORIZED);
    assert_eq!(env.status(&[("cookie", "__Host-countersign=nonsense")]).await, StatusCode::UNAUTHORIZED);
}
