//! The routes of a server: the API with its live stream, the console, and the endpoints for webhooks and Slack.

pub(crate) mod background;
pub(crate) mod health;
pub(crate) mod listen;

use std::sync::Arc;
use std::time::Duration;

use ::console::Console;
use api::auth::Oidc;
use api::auth::login::Login;
use api::auth::session::{CookieSecurity, Sessions};
use api::stream::{StreamSettings, Streams};
use api::{Api, Authenticator, CursorSecret};
use api_types::SecretName;
use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::STRICT_TRANSPORT_SECURITY;
use axum::middleware::map_response;
use axum::response::Response;
use domain::{Digest, TenantId};
use engine::Engine;
use evidence::TrustedKeys;
use http_server::ConnectionLimits;
use ingress::routes::{slack, webhooks};
use ingress::slack::SlackInstallations;
use ingress::webhook::WebhookAuth;
use secrecy::{ExposeSecret as _, SecretString};
use store::Store;

use crate::error::CliError;
use crate::random;

pub(crate) struct HttpServer<S> {
    pub(crate) engine: Arc<Engine<S>>,
    pub(crate) cookie_security: CookieSecurity,
    pub(crate) seeds: Seeds,
    /// The keys that verify evidence.
    pub(crate) trusted_keys: Option<TrustedKeys>,
    pub(crate) webhook_auth: WebhookAuth,
    pub(crate) slack: SlackInstallations,
    /// The names of the webhook and Slack secrets, for the API.
    pub(crate) secrets: Vec<(TenantId, SecretName)>,
    /// The identity provider whose tokens the API accepts.
    pub(crate) oidc: Option<Oidc>,
    /// The login of the console, in addition to API keys.
    pub(crate) login: Option<Login>,
    pub(crate) stream: StreamSettings,
}

/// On AWS, every poll for a live stream costs money, so it polls once a second.
pub(crate) fn aws_stream_settings() -> StreamSettings {
    StreamSettings { poll_every: Duration::from_secs(1), ..StreamSettings::default() }
}

/// The secrets that sign sessions and cursors.
pub(crate) struct Seeds {
    sessions: [u8; 32],
    cursors: [u8; 32],
}

impl Seeds {
    /// Random seeds: existing sessions end.
    pub(crate) fn random() -> Result<Self, CliError> {
        Ok(Self { sessions: random::bytes()?, cursors: random::bytes()? })
    }

    /// Seeds derived from `secret`, equal after a restart and on every server that has it.
    pub(crate) fn derive(secret: &SecretString) -> Self {
        let secret = [secret.expose_secret()];
        let seed = |tag| *Digest::of_parts(tag, &secret).as_bytes();
        Self {
            sessions: seed("countersign/server/sessions/v1"),
            cursors: seed("countersign/server/cursors/v1"),
        }
    }
}

impl<S: Store> HttpServer<S> {
    /// The routes of a server with these limits, and the streams that it must close when it shuts down.
    pub(crate) fn routes(self, limits: &ConnectionLimits) -> (Router, Streams) {
        let Self {
            engine,
            cookie_security,
            seeds,
            trusted_keys,
            webhook_auth,
            slack: slack_installations,
            secrets,
            oidc,
            login,
            stream,
        } = self;
        let sessions = Arc::new(Sessions::new(seeds.sessions, cookie_security));
        let authenticator = Authenticator::new(Arc::clone(&engine)).with_sessions(Arc::clone(&sessions));
        let authenticator = match oidc {
            Some(oidc) => authenticator.with_oidc(oidc),
            None => authenticator,
        };
        let streams = Streams::new(stream.for_connections(limits.connections));
        let cursors = CursorSecret::new(seeds.cursors);
        let api =
            Api::new(authenticator, cursors.clone()).with_streams(streams.clone()).with_secret_names(secrets);
        let api = match trusted_keys.clone() {
            Some(keys) => api.with_trusted_keys(keys),
            None => api,
        };
        let parts = ::console::Parts { engine: Arc::clone(&engine), sessions, cursors, keys: trusted_keys };
        let console = Console::new(parts);
        let console = match login {
            Some(login) => console.with_login(login),
            None => console,
        };
        let routes = api::router(Arc::new(api))
            .merge(::console::router(Arc::new(console)))
            .merge(webhooks(Arc::clone(&engine), webhook_auth))
            .merge(slack(Arc::clone(&engine), slack_installations))
            .merge(health::router(engine));
        let routes = match cookie_security {
            CookieSecurity::Https => routes.layer(map_response(require_https)),
            CookieSecurity::Loopback => routes,
        };
        (routes, streams)
    }
}

/// Tells browsers to use HTTPS for this host for a year, also if the user types `http://`.
async fn require_https(mut response: Response) -> Response {
    let year = HeaderValue::from_static("max-age=31536000");
    response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, year);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_depend_on_the_secret_and_differ() {
        let seeds = |secret: &str| Seeds::derive(&secret.to_owned().into());
        assert_eq!(seeds("one").sessions, seeds("one").sessions);
        assert_ne!(seeds("one").sessions, seeds("two").sessions);
        assert_ne!(seeds("one").sessions, seeds("one").cursors);
        assert_ne!(Seeds::random().unwrap().sessions, Seeds::random().unwrap().sessions);
    }
}
