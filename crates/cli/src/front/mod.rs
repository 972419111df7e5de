//! What a server shows to whoever asks: the API with its live stream, the console, and the doors by which other
//! systems come in.

pub(crate) mod health;
pub(crate) mod listen;
pub(crate) mod served;

use std::sync::Arc;
#[cfg(feature = "aws")]
use std::time::Duration;

use ::console::Console;
use api::auth::Oidc;
use api::auth::login::Login;
use api::auth::session::{Over, Sessions};
use api::stream::{StreamSettings, Streams};
use api::{Api, CursorSecret, Gate};
use api_types::SecretName;
use axum::Router;
use domain::{Digest, TenantId};
use engine::Engine;
use evidence::PublicKey;
use ingress::served::{slack, webhooks};
use ingress::slack::SlackInstallations;
use ingress::webhook::WebhookAuth;
use secrecy::{ExposeSecret as _, SecretString};
use store::Store;

use crate::error::CliError;
use crate::random;

/// What a server is made of.
pub(crate) struct Front<S> {
    pub(crate) engine: Arc<Engine<S>>,
    /// How browsers reach it.
    pub(crate) over: Over,
    /// What sessions and cursors are made with.
    pub(crate) seeds: Seeds,
    /// What evidence is verified with.
    pub(crate) public: Option<PublicKey>,
    /// Where other systems deliver.
    pub(crate) doors: WebhookAuth,
    /// Where Slack delivers.
    pub(crate) slack: SlackInstallations,
    /// By what names the secrets of both are found.
    pub(crate) secrets: Vec<(TenantId, SecretName)>,
    /// Whose tokens the API believes.
    pub(crate) believes: Option<Oidc>,
    /// With what people log in, beside API keys.
    pub(crate) login: Option<Login>,
    /// How often whoever listens hears of something.
    pub(crate) stream: StreamSettings,
}

/// How a store on AWS is looked at while somebody listens: every look is paid for, and a second is soon enough for a
/// person.
#[cfg(feature = "aws")]
pub(crate) fn looking_at_aws() -> StreamSettings {
    StreamSettings { look_every: Duration::from_secs(1), ..StreamSettings::default() }
}

/// What sessions and cursors are made with.
pub(crate) struct Seeds {
    sessions: [u8; 32],
    cursors: [u8; 32],
}

impl Seeds {
    /// New ones: whoever was logged in logs in again.
    pub(crate) fn fresh() -> Result<Self, CliError> {
        Ok(Self { sessions: random::bytes()?, cursors: random::bytes()? })
    }

    /// Those of `secret`, which are the same after a restart and on every server that has it.
    pub(crate) fn of(secret: &SecretString) -> Self {
        let secret = [secret.expose_secret()];
        let seed = |tag| *Digest::of_parts(tag, &secret).as_bytes();
        Self {
            sessions: seed("countersign/server/sessions/v1"),
            cursors: seed("countersign/server/cursors/v1"),
        }
    }
}

impl<S: Store> Front<S> {
    /// The routes, and the streams that a server that leaves has to close.
    pub(crate) fn routes(self) -> (Router, Streams) {
        let Self {
            engine,
            over,
            seeds,
            public,
            doors,
            slack: slack_installations,
            secrets,
            believes,
            login,
            stream,
        } = self;
        let sessions = Arc::new(Sessions::new(seeds.sessions, over));
        let gate = Gate::new(Arc::clone(&engine)).with_sessions(Arc::clone(&sessions));
        let gate = match believes {
            Some(oidc) => gate.believing(oidc),
            None => gate,
        };
        let streams = Streams::new(stream);
        let cursors = CursorSecret::new(seeds.cursors);
        let api = Api::new(gate, cursors.clone()).with_streams(streams.clone()).naming(secrets);
        let api = match public {
            Some(key) => api.verifying(key),
            None => api,
        };
        let parts = ::console::Parts { engine: Arc::clone(&engine), sessions, cursors, key: public };
        let console = Console::new(parts);
        let console = match login {
            Some(login) => console.with_login(login),
            None => console,
        };
        let routes = api::router(Arc::new(api))
            .merge(::console::router(Arc::new(console)))
            .merge(webhooks(Arc::clone(&engine), doors))
            .merge(slack(Arc::clone(&engine), slack_installations))
            .merge(health::router(engine));
        (routes, streams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_with_one_secret_make_the_same_sessions_and_no_cursor_opens_one() {
        let seeds = |secret: &str| Seeds::of(&secret.to_owned().into());
        assert_eq!(seeds("one").sessions, seeds("one").sessions);
        assert_ne!(seeds("one").sessions, seeds("two").sessions);
        assert_ne!(seeds("one").sessions, seeds("one").cursors);
        assert_ne!(Seeds::fresh().unwrap().sessions, Seeds::fresh().unwrap().sessions);
    }
}
