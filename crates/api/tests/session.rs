//! What a browser may do on the API with a session in place of a key.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, Uri, header};
use connectors::Toolbox;
use countersign_api::auth::session::{Begun, Over, Sessions};
use countersign_api::{Api, CursorSecret, Gate, router};
use domain::access::{ShownKey, secret_digest};
use domain::{ApiKey, KeyId, Role, TenantId, Timestamp};
use engine::{Engine, Parts, Timing};
use store::{Access as _, SqliteOptions, SqliteStore, SystemClock};
use tower::ServiceExt as _;

struct Scene {
    engine: Arc<Engine<SqliteStore>>,
    sessions: Arc<Sessions>,
    cookie: String,
    key: String,
}

impl Scene {
    /// Somebody with every role, at a browser.
    async fn new() -> Self {
        let engine = Arc::new(Engine::new(Parts {
            store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
            tools: Toolbox::default(),
            clock: Arc::new(SystemClock),
            me: "w".parse().unwrap(),
            timing: Timing::default(),
            shows: None,
            sealing: None,
        }));
        let (tenant, id): (TenantId, KeyId) = ("acme".parse().unwrap(), "00ff".parse().unwrap());
        let secret = "0123456789abcdef".repeat(4);
        let key = ApiKey {
            secret: secret_digest(&tenant, &id, &secret),
            tenant: tenant.clone(),
            id: id.clone(),
            person: "ada".parse().unwrap(),
            roles: Role::ALL.into_iter().collect(),
            note: String::new(),
            created_at: Timestamp(0),
            expires_at: None,
            revoked_at: None,
            revision: 0,
        };
        engine.store().put_key(key).await.unwrap();
        let sessions = Arc::new(Sessions::new([1; 32], Over::Https));
        let set = sessions.begin(&tenant, Begun::Key(id.clone()), engine.now(), [0; 16]);
        let cookie = set.split(';').next().unwrap().to_owned();
        Self { engine, sessions, cookie, key: ShownKey::write(&tenant, &id, &secret) }
    }

    fn gate(&self) -> Gate<SqliteStore> {
        Gate::new(Arc::clone(&self.engine)).with_sessions(Arc::clone(&self.sessions))
    }

    /// What the API says to a request for a run that there is not, with these headers.
    async fn asks(&self, headers: &[(&str, &str)]) -> StatusCode {
        let mut request = Request::get("/api/v1/runs/unknown").header(header::HOST, "console.example");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let router = router(Arc::new(Api::new(self.gate(), CursorSecret::new([0; 32]))));
        router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status()
    }
}

#[tokio::test]
async fn a_session_looks_and_does_nothing_else() {
    let scene = Scene::new().await;
    assert_eq!(scene.asks(&[("cookie", &scene.cookie)]).await, StatusCode::NOT_FOUND);
    let headers: HeaderMap = [(header::COOKIE, scene.cookie.parse().unwrap())].into_iter().collect();
    let gate = scene.gate();
    let caller = gate.enter(&headers, &Uri::from_static("/api/v1/runs")).await.unwrap();
    assert_eq!(Role::ALL.map(|role| gate.handle(&caller, role).is_ok()), [true, false, false, false]);
    let (visitor, _) = gate.visitor(&headers).await.unwrap();
    assert!(visitor.roles.allow(Role::Admin), "the console asks for the session's token besides");
}

#[tokio::test]
async fn a_session_that_was_ended_looks_at_nothing_and_its_key_still_does() {
    let scene = Scene::new().await;
    let headers: HeaderMap = [(header::COOKIE, scene.cookie.parse().unwrap())].into_iter().collect();
    let gate = scene.gate();
    let (_, session) = gate.visitor(&headers).await.unwrap();
    scene.sessions.end(&session, scene.engine.now());
    assert_eq!(scene.asks(&[("cookie", &scene.cookie)]).await, StatusCode::UNAUTHORIZED);
    // What a stream shows again at every beat.
    assert!(gate.enter(&headers, &Uri::from_static("/api/v1/stream")).await.is_err());
    assert!(gate.visitor(&headers).await.is_err());
    let bearer = format!("Bearer {}", scene.key);
    assert_eq!(scene.asks(&[("authorization", &bearer)]).await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_page_elsewhere_does_not_look_with_somebody_elses_session() {
    let scene = Scene::new().await;
    let cookie = ("cookie", scene.cookie.as_str());
    assert_eq!(scene.asks(&[cookie, ("origin", "https://console.example")]).await, StatusCode::NOT_FOUND);
    for foreign in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site"), ("origin", "null")]
    {
        assert_eq!(scene.asks(&[cookie, foreign]).await, StatusCode::UNAUTHORIZED, "{foreign:?}");
    }
}

#[tokio::test]
async fn a_key_counts_and_a_session_beside_it_does_not() {
    let scene = Scene::new().await;
    let bearer = format!("Bearer {}", scene.key);
    assert_eq!(scene.asks(&[("authorization", &bearer)]).await, StatusCode::NOT_FOUND);
    let wrong = [("authorization", "Bearer nonsense"), ("cookie", scene.cookie.as_str())];
    assert_eq!(scene.asks(&wrong).await, StatusCode::UNAUTHORIZED);
    assert_eq!(scene.asks(&[("cookie", "__Host-countersign=nonsense")]).await, StatusCode::UNAUTHORIZED);
}
