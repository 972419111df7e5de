//! The Slack apps of all tenants: which one sent a request, and its secrets.
//!
//! An app is a connection of the tenant with a signing secret. Its secrets are fetched at the first request and kept for a
//! minute, so that a click does not wait for the store of secrets, and requests without a valid signature cannot flood it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ::slack::{Secrets, Slack, signature};
use bytes::Bytes;
use domain::{Digest, Millis, Source, Tenant, TenantId, Timestamp};
use engine::{ConnectionParts, CredentialFailure, Engine, ResolvedConnection};
use http::Request;
use parking_lot::Mutex;
use store::Store;
use tokio::time::{Instant, timeout};
use url::Url;

use crate::response::single_header;

/// Users do not click more often than this within the five minutes for which a signature is valid.
const REMEMBERED_MAX: usize = 4_096;

/// How long the secrets of a tenant are kept: a rotated secret works, and a removed connection ends, after this time.
const KEPT_FOR: Duration = Duration::from_mins(1);

/// How long an incomplete result is kept, so that requests do not flood a store of secrets that is down.
const INCOMPLETE_KEPT_FOR: Duration = Duration::from_secs(5);

/// A request can name any tenant before its signature is checked. Each kept tenant takes less than a kilobyte and its
/// secrets.
const TENANTS_MAX: usize = 1_000;

/// How long the settings and secrets of a tenant may take. With the limits of the engine and of calls to Slack, this leaves
/// a few hundred milliseconds of Slack's three seconds for the network.
const LOAD_WITHIN: Millis = Millis(500);

/// The Slack app of one tenant.
pub struct SlackInstallation {
    /// The signing secrets.
    pub secrets: Secrets,
    pub slack: Slack,
    /// Requests can only decide approvals and start runs of this tenant.
    pub tenant: TenantId,
    /// The id of the workspace; any, if absent.
    team: Option<String>,
    seen: SeenRequests,
}

type SeenRequests = Arc<Mutex<VecDeque<Digest>>>;

impl SlackInstallation {
    pub fn new(tenant: TenantId, secrets: Secrets, slack: Slack) -> Self {
        Self { secrets, slack, tenant, team: None, seen: SeenRequests::default() }
    }

    /// Accepts requests only from this workspace.
    #[must_use]
    pub fn of_team(self, team: Option<String>) -> Self {
        Self { team, ..self }
    }

    fn verify(&self, request: &Request<Bytes>, now: Timestamp) -> Result<(), ::slack::SignatureError> {
        let timestamp = single_header(request.headers(), signature::TIMESTAMP_HEADER);
        let signature = single_header(request.headers(), signature::SIGNATURE_HEADER);
        signature::verify(&self.secrets, timestamp, signature, request.body(), now)
    }

    /// Whether Slack signed the request for this tenant.
    pub(super) fn is_signed(&self, request: &Request<Bytes>, now: Timestamp) -> bool {
        let verified = self.verify(request, now);
        if let Err(error) = &verified {
            self.count_refused("unauthenticated");
            tracing::warn!(event = "slack_unauthenticated", tenant = %self.tenant, %error, "Slack request not authenticated");
        }
        verified.is_ok()
    }

    /// Whether a signed request comes from the workspace in which the app is installed.
    pub(super) fn is_from_own_workspace(&self, team: &str) -> bool {
        let is_own = self.team.as_ref().is_none_or(|own| own == team);
        if !is_own {
            self.count_refused("other_workspace");
            tracing::warn!(event = "slack_other_workspace", tenant = %self.tenant, "Slack request from another workspace");
        }
        is_own
    }

    pub(super) fn count_refused(&self, reason: &'static str) {
        engine::metrics::delivery_refused(Some(&self.tenant), Source::Slack.as_str(), reason);
    }

    /// Remembers the request; returns whether it was received before.
    pub(super) fn is_repeated(&self, key: Digest) -> bool {
        let mut seen = self.seen.lock();
        if seen.contains(&key) {
            return true;
        }
        if seen.len() >= REMEMBERED_MAX {
            seen.pop_front();
        }
        seen.push_back(key);
        false
    }
}

/// The Slack apps of all tenants.
#[derive(Default)]
pub struct SlackInstallations {
    apps: Arc<AppSource>,
    tenants: Mutex<BTreeMap<TenantId, Arc<TenantApps>>>,
}

#[derive(Default)]
struct AppSource {
    connections: ConnectionParts,
    /// The address of the console.
    console: Option<Url>,
}

/// The apps of one tenant, as last loaded.
#[derive(Default)]
struct TenantApps {
    loaded: Mutex<Option<(Instant, Arc<LoadedApps>)>>,
    /// Held while the apps are loaded, so that several requests fetch each secret once.
    loading: tokio::sync::Mutex<()>,
    seen: SeenRequests,
}

/// The apps of one tenant, for a minute.
pub(super) struct LoadedApps {
    apps: Vec<SlackInstallation>,
    /// Whether the secrets of every app could be fetched.
    is_complete: bool,
}

impl LoadedApps {
    /// The app that signed the request. If none did, the first one refuses it. `None` if the tenant has no app.
    pub(super) fn of_request(&self, request: &Request<Bytes>, now: Timestamp) -> Option<&SlackInstallation> {
        let signer = self.apps.iter().find(|app| app.verify(request, now).is_ok());
        signer.or_else(|| self.apps.first().filter(|_| self.is_complete))
    }

    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }
}

impl TenantApps {
    fn current(&self) -> Option<Arc<LoadedApps>> {
        let loaded = self.loaded.lock();
        loaded.as_ref().filter(|(until, _)| Instant::now() < *until).map(|(_, apps)| Arc::clone(apps))
    }

    /// When the loaded apps expire; `None` before the first load.
    fn expires_at(&self) -> Option<Instant> {
        self.loaded.lock().as_ref().map(|(until, _)| *until)
    }
}

impl SlackInstallations {
    /// The apps of these connections, and of those that the admins of tenants have set.
    pub fn new(connections: ConnectionParts, console: Option<Url>) -> Self {
        Self { apps: Arc::new(AppSource { connections, console }), tenants: Mutex::default() }
    }

    /// The apps of `tenant`. `None` if its settings or secrets take too long.
    pub(super) async fn of<S: Store>(
        &self,
        engine: &Engine<S>,
        tenant: &TenantId,
    ) -> Option<Arc<LoadedApps>> {
        let entry = self.entry(tenant);
        if let Some(current) = entry.current() {
            return Some(current);
        }
        let (source, now) = (Arc::clone(&self.apps), engine.now());
        let load = async {
            let settings = engine.governance().tenant(tenant).await.ok()?;
            // In a task of its own: secrets that arrive too late for this click are there for the next one.
            tokio::spawn(load(source, entry, settings, now)).await.ok()
        };
        let loaded = timeout(LOAD_WITHIN.std(), load).await.ok().flatten();
        if loaded.is_none() {
            tracing::warn!(event = "slack_apps_not_loaded", %tenant, "Slack apps of the tenant not loaded in time");
        }
        loaded
    }

    fn entry(&self, tenant: &TenantId) -> Arc<TenantApps> {
        let mut tenants = self.tenants.lock();
        if let Some(entry) = tenants.get(tenant) {
            return Arc::clone(entry);
        }
        if tenants.len() >= TENANTS_MAX {
            let oldest = tenants.iter().min_by_key(|(_, entry)| entry.expires_at());
            let oldest = oldest.map(|(tenant, _)| tenant.clone());
            oldest.and_then(|tenant| tenants.remove(&tenant));
        }
        Arc::clone(tenants.entry(tenant.clone()).or_default())
    }
}

async fn load(
    source: Arc<AppSource>,
    entry: Arc<TenantApps>,
    tenant: Tenant,
    now: Timestamp,
) -> Arc<LoadedApps> {
    let _loading = entry.loading.lock().await;
    if let Some(current) = entry.current() {
        return current;
    }
    let mut loaded = LoadedApps { apps: Vec::new(), is_complete: true };
    for connection in source.connections.installations(&tenant) {
        match source.installation(&tenant.tenant, &connection, now).await {
            Ok((app, has_token)) => {
                loaded.is_complete &= has_token;
                loaded.apps.push(SlackInstallation { seen: Arc::clone(&entry.seen), ..app });
            }
            Err(error) => {
                loaded.is_complete = false;
                let (tenant, connection) = (&tenant.tenant, &connection.name);
                tracing::warn!(event = "slack_app_unusable", %tenant, %connection, error, "Slack app cannot be used");
            }
        }
    }
    let kept_for = if loaded.is_complete { KEPT_FOR } else { INCOMPLETE_KEPT_FOR };
    let loaded = Arc::new(loaded);
    *entry.loaded.lock() = Some((Instant::now() + kept_for, Arc::clone(&loaded)));
    loaded
}

impl AppSource {
    /// The app on the connection, and whether the token of its bot could be fetched. A decision needs no token.
    async fn installation(
        &self,
        tenant: &TenantId,
        resolved: &ResolvedConnection,
        now: Timestamp,
    ) -> Result<(SlackInstallation, bool), String> {
        let secrets = self.signing_secrets(tenant, resolved, now).await?;
        let (connection, has_token) = match self.connections.authenticated(tenant, resolved, now).await {
            Ok(delivery) => (delivery.connection, true),
            Err(error) => {
                let (connection, error) = (&resolved.name, text(error));
                tracing::warn!(event = "slack_token_unavailable", %tenant, %connection, error, "token of the Slack app not fetched");
                let anonymous = self.connections.anonymous(tenant, resolved);
                (anonymous.map_err(|failure| failure.message)?, false)
            }
        };
        let slack = Slack::on(&connection).map_err(|error| error.to_string())?;
        let slack = match &self.console {
            Some(console) => slack.with_console(console.clone()),
            None => slack,
        };
        let team = resolved.connection.options.team.clone();
        Ok((SlackInstallation::new(tenant.clone(), secrets, slack).of_team(team), has_token))
    }

    async fn signing_secrets(
        &self,
        tenant: &TenantId,
        resolved: &ResolvedConnection,
        now: Timestamp,
    ) -> Result<Secrets, String> {
        let options = &resolved.connection.options;
        let current = options.signing_secret.as_ref().ok_or("it has no signing secret")?;
        let current = self.connections.further_secret(tenant, resolved, current).await.map_err(text)?;
        let secrets = Secrets::new(current).map_err(|error| error.to_string())?;
        let Some(previous) = options.previous_signing_secret.as_ref().filter(|previous| now < previous.until)
        else {
            return Ok(secrets);
        };
        let value =
            self.connections.further_secret(tenant, resolved, &previous.secret).await.map_err(text)?;
        secrets.and_previous(value, previous.until).map_err(|error| error.to_string())
    }
}

fn text(failure: CredentialFailure) -> String {
    match failure {
        CredentialFailure::Retryable(failure, _) | CredentialFailure::Terminal(failure) => failure.message,
    }
}
