//! A console with its API, and the issuer that they trust.

use std::sync::Arc;

use api::auth::login::{CALLBACK, Login, LoginSettings};
use api::auth::session::{CookieSecurity, Sessions};
use api::auth::{OidcSettings, TokenAlgorithm};
use api::{Api, Authenticator, CursorSecret};
use countersign_console::{Console, Parts, router};
use testkit::{TestClock, TestEnv};
use tokio::net::TcpListener;

use crate::issuer::{CLIENT, Issuer, SECRET};

pub(crate) struct LoginEnv {
    pub(crate) url: String,
    pub(crate) issuer: Arc<Issuer>,
    pub(crate) clock: TestClock,
}

impl LoginEnv {
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let issuer = Issuer::start("127.0.0.1", format!("{url}{CALLBACK}")).await;
        let TestEnv { engine, clock } = testkit::engine().env();
        let sessions = Arc::new(Sessions::new([1; 32], CookieSecurity::Loopback));
        let gate = Authenticator::new(Arc::clone(&engine)).with_sessions(Arc::clone(&sessions));
        let cursors = CursorSecret::new([2; 32]);
        let console = Console::new(Parts { engine, sessions, cursors: cursors.clone(), keys: None });
        let console = console.with_login(Login::new(settings(&url, &issuer.url)).unwrap());
        let api = api::router(Arc::new(Api::new(gate, cursors)));
        let routes = router(Arc::new(console)).merge(api);
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { url, issuer, clock }
    }

    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }
}

fn settings(url: &str, issuer: &str) -> LoginSettings {
    LoginSettings {
        oidc: OidcSettings {
            issuer: issuer.to_owned(),
            audience: CLIENT.to_owned(),
            jwks_url: None,
            signed: vec![TokenAlgorithm::Rs256, TokenAlgorithm::Es256],
            tenant_claim: "org".to_owned(),
            person_claim: "name".to_owned(),
            roles_claim: "roles".to_owned(),
        },
        name: "Example & Co".to_owned(),
        client_secret: Some(SECRET.into()),
        url: url.parse().unwrap(),
        scopes: vec!["profile".to_owned()],
    }
}
