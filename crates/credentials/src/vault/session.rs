//! A login: one token, which many steps use at the same time.

use std::sync::Arc;
use std::time::Duration;

use domain::Millis;
use reqwest::{Method, StatusCode};
use secrecy::zeroize::Zeroizing;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::login::request;
use super::server::{Call, Server};
use super::{VaultAuth, VaultContext, VaultSetupError, parse, unexpected};
use crate::exchange::{Problem, Reply, SecretText};

/// A token is renewed when this is left, or half of its lifetime. The secrets of a step end with the token, so more than
/// the lifetime of a secret has to be left.
const RENEW_BEFORE: Duration = Duration::from_mins(10);

/// The lifetime of a token that does not expire.
const FOREVER: Duration = Duration::from_hours(365 * 24);

pub(super) struct Session {
    auth: VaultAuth,
    namespace: Option<String>,
    login_namespace: Option<String>,
    /// Locked during a login, so that concurrent steps log in once.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    token: Option<Arc<Token>>,
    /// The last failed login. Steps that waited for it do not repeat it.
    failed: Option<(Instant, Problem)>,
}

pub(super) struct Token {
    pub(super) value: Zeroizing<String>,
    /// When the login was.
    pub(super) since: Instant,
    expires: Instant,
    renew_at: Instant,
    is_renewable: bool,
}

impl Token {
    pub(super) fn left(&self) -> Millis {
        let left = self.expires.saturating_duration_since(Instant::now());
        Millis(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
    }

    fn new(auth: AuthReply, asked: Instant, since: Instant) -> Self {
        let AuthReply { client_token, lease_duration, renewable } = auth;
        let lifetime = if lease_duration == 0 { FOREVER } else { Duration::from_secs(lease_duration) };
        let lifetime = lifetime.min(FOREVER);
        // Counted from before the request, so that the token does not end earlier than assumed.
        let expires = asked + lifetime;
        let renew_at = expires - RENEW_BEFORE.min(lifetime / 2);
        Self { value: client_token.0, since, expires, renew_at, is_renewable: renewable }
    }
}

#[derive(Deserialize)]
struct LoginReply {
    auth: AuthReply,
}

#[derive(Deserialize)]
struct AuthReply {
    client_token: SecretText,
    lease_duration: u64,
    renewable: bool,
}

impl Session {
    pub(super) fn new(
        auth: VaultAuth,
        namespace: Option<&str>,
        login_namespace: Option<&str>,
    ) -> Result<Self, VaultSetupError> {
        if let VaultAuth::AppRole { secret_id, .. } = &auth
            && !secret_id.store().is_operators()
        {
            return Err(VaultSetupError::SecretId);
        }
        let namespace = namespace.map(normal).transpose()?;
        let login_namespace = login_namespace.map(normal).transpose()?;
        Ok(Self { auth, namespace, login_namespace, state: Mutex::default() })
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(super) fn login_namespace(&self) -> Option<&str> {
        self.login_namespace.as_deref()
    }

    /// A token that is valid now: the current one, renewed if it ends soon, or that of a new login.
    pub(super) async fn token(&self, server: &Server, at: &VaultContext) -> Result<Arc<Token>, Problem> {
        let asked = Instant::now();
        let mut state = self.state.lock().await;
        if let Some(token) = &state.token {
            let now = Instant::now();
            if now < token.renew_at {
                return Ok(Arc::clone(token));
            }
            if token.is_renewable
                && now < token.expires
                && let Some(renewed) = self.renew(token, server).await
            {
                let renewed = Arc::new(renewed);
                state.token = Some(Arc::clone(&renewed));
                return Ok(renewed);
            }
        }
        let login = self.login(&mut state, asked, server, at).await;
        // During an outage of the login, the rest of the current token is of use.
        match (login, &state.token) {
            (Err(Problem::Unavailable { .. }), Some(token)) if Instant::now() < token.expires => {
                Ok(Arc::clone(token))
            }
            (login, _) => login,
        }
    }

    /// The token of a new login in place of `old`, which Vault no longer accepts. Another step may have replaced it.
    pub(super) async fn replace(
        &self,
        old: &Arc<Token>,
        server: &Server,
        at: &VaultContext,
    ) -> Result<Arc<Token>, Problem> {
        let asked = Instant::now();
        let mut state = self.state.lock().await;
        match &state.token {
            Some(token) if token.since > old.since => return Ok(Arc::clone(token)),
            Some(_) | None => state.token = None,
        }
        self.login(&mut state, asked, server, at).await
    }

    async fn login(
        &self,
        state: &mut State,
        asked: Instant,
        server: &Server,
        at: &VaultContext,
    ) -> Result<Arc<Token>, Problem> {
        if let Some((when, problem)) = &state.failed
            && *when >= asked
        {
            return Err(problem.clone());
        }
        let since = Instant::now();
        match self.log_in(since, server, at).await {
            Ok(token) => {
                let token = Arc::new(token);
                *state = State { token: Some(Arc::clone(&token)), failed: None };
                Ok(token)
            }
            Err(problem) => {
                state.failed = Some((Instant::now(), problem.clone()));
                Err(problem)
            }
        }
    }

    async fn log_in(&self, since: Instant, server: &Server, at: &VaultContext) -> Result<Token, Problem> {
        let call = request(&self.auth, at).await?;
        let reply = server.send(&call, self.login_namespace(), None).await?;
        if reply.status != StatusCode::OK {
            return Err(refused_login(&reply));
        }
        let LoginReply { auth } = parse(&reply)?;
        Ok(Token::new(auth, since, since))
    }

    /// `None` if the token cannot be renewed, or not for long: a token has a maximum lifetime.
    async fn renew(&self, token: &Token, server: &Server) -> Option<Token> {
        let asked = Instant::now();
        let call = Call::with_body(Method::POST, "auth/token/renew-self", json!({}));
        let reply = server.send(&call, self.login_namespace(), Some(&token.value)).await.ok()?;
        if reply.status != StatusCode::OK {
            return None;
        }
        let LoginReply { auth } = parse(&reply).ok()?;
        let renewed = Token::new(auth, asked, token.since);
        // A renewal that gains little means that the maximum lifetime is near.
        (renewed.expires > token.expires + (token.expires - token.renew_at) / 2).then_some(renewed)
    }
}

fn refused_login(reply: &Reply) -> Problem {
    match reply.status.as_u16() {
        400 | 401 | 403 => Problem::refused("Vault refuses the login; check vault.auth and its role"),
        404 => Problem::refused("Vault has no such login; check the mount and the namespace of vault.auth"),
        _ => unexpected(reply),
    }
}

/// `acme/team/`: Vault accepts namespaces with and without the slash at the end.
fn normal(namespace: &str) -> Result<String, VaultSetupError> {
    let name = namespace.trim_matches('/');
    let is_part = |part: &str| {
        let is_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        !matches!(part, "" | "." | "..") && part.chars().all(is_char)
    };
    if name.split('/').all(is_part) {
        Ok(format!("{name}/"))
    } else {
        Err(VaultSetupError::Namespace(namespace.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_has_one_spelling() {
        for spelling in ["acme/team", "/acme/team/", "acme/team/"] {
            assert_eq!(normal(spelling).unwrap(), "acme/team/");
        }
        for bad in ["", "/", "acme//team", "../acme", "acme team", "acme\r\nx: y"] {
            assert!(normal(bad).is_err(), "{bad:?}");
        }
    }
}
