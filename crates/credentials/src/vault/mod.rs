//! HashiCorp Vault and OpenBao: `vault://MOUNT/PATH#FIELD`.

mod config;
mod login;
mod place;
mod server;
mod session;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::connection::SecretStore;
use domain::{Millis, SecretRef, TenantId};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

pub use config::{VaultAuth, VaultConfig, VaultEngine, VaultTenant};

use crate::exchange::{Problem, Reply, SecretJson};
use crate::{AwsKeySource, FetchedSecret, LocalSecrets, Now, SecretError, SecretLease, SecretSource};
use place::{Place, locate};
use server::{Call, Server};
use session::{Session, Token};

/// What a login needs from the process.
#[derive(Clone)]
pub struct VaultContext {
    /// Reads the secret id of an `AppRole`.
    pub local: Arc<LocalSecrets>,
    /// The AWS identity of the process.
    pub aws: Arc<dyn AwsKeySource>,
    pub now: Now,
}

/// Why the section `vault` of the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum VaultSetupError {
    #[error("vault.address must use https, except on this machine, and contain no user, query or fragment")]
    Address,
    #[error("vault.auth.approle.secret_id must be env://NAME or file:///PATH")]
    SecretId,
    #[error("the Vault namespace {0:?} must consist of letters, digits, `_`, `-` and `.`, separated by `/`")]
    Namespace(String),
    #[error("cannot read vault.ca_file {path}")]
    CaFile {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("vault.ca_file {0} contains no valid certificate in PEM format")]
    Certificate(PathBuf),
    #[error("the HTTP client for Vault cannot be built")]
    Client(#[source] reqwest::Error),
}

/// A login with a token that can do less is not repeated sooner, so that a forbidden path does not cause a login at each
/// fetch.
const LOGIN_INTERVAL: Duration = Duration::from_mins(1);

/// The source `vault://`.
pub struct VaultSource {
    server: Server,
    context: VaultContext,
    /// For tenants that the configuration does not list; absent if it lists any.
    common: Option<Session>,
    tenants: BTreeMap<TenantId, Session>,
    mounts: BTreeMap<String, VaultEngine>,
}

impl VaultSource {
    /// Reads the file of certificates. Does not contact the server.
    pub fn open(config: VaultConfig, context: VaultContext) -> Result<Self, VaultSetupError> {
        let server = Server::new(&config)?;
        let session = |auth: &VaultAuth, namespace: Option<&str>, login: Option<&str>| {
            Session::new(auth.clone(), namespace, login.or(namespace))
        };
        let login = config.login_namespace.as_deref();
        let mut tenants = BTreeMap::new();
        for (tenant, VaultTenant { namespace, auth }) in &config.tenants {
            let own = match auth {
                Some(auth) => session(auth, Some(namespace), None)?,
                None => session(&config.auth, Some(namespace), login)?,
            };
            tenants.insert(tenant.clone(), own);
        }
        let common = session(&config.auth, config.namespace.as_deref(), login)?;
        let common = tenants.is_empty().then_some(common);
        Ok(Self { server, context, common, tenants, mounts: config.mounts })
    }

    fn session(&self, tenant: &TenantId) -> Result<&Session, Problem> {
        let unlisted = || Problem::refused(format!("vault.tenants does not list the tenant {tenant}"));
        self.tenants.get(tenant).or(self.common.as_ref()).ok_or_else(unlisted)
    }

    /// Sends `call` with a valid token. A token that Vault no longer accepts is replaced once.
    async fn call(&self, session: &Session, call: &Call) -> Result<(Reply, Arc<Token>), Problem> {
        let token = session.token(&self.server, &self.context).await?;
        let reply = self.server.send(call, session.namespace(), Some(&token.value)).await?;
        if reply.status != StatusCode::FORBIDDEN || !self.is_outdated(session, &token).await? {
            return Ok((reply, token));
        }
        let token = session.replace(&token, &self.server, &self.context).await?;
        let reply = self.server.send(call, session.namespace(), Some(&token.value)).await?;
        Ok((reply, token))
    }

    /// Whether a new login may succeed where this token is forbidden: it was revoked, or it is so old that the role may
    /// have other policies now.
    async fn is_outdated(&self, session: &Session, token: &Token) -> Result<bool, Problem> {
        if token.since.elapsed() >= LOGIN_INTERVAL {
            return Ok(true);
        }
        let call = Call::new(Method::GET, "auth/token/lookup-self");
        let reply = self.server.send(&call, session.login_namespace(), Some(&token.value)).await?;
        Ok(reply.status == StatusCode::FORBIDDEN)
    }

    async fn read(&self, tenant: &TenantId, secret: &SecretRef) -> Result<FetchedSecret, Problem> {
        let session = self.session(tenant)?;
        let Place { path, engine } = locate(&self.mounts, secret)?;
        let (reply, token) = self.call(session, &Call::new(Method::GET, path)).await?;
        if reply.status != StatusCode::OK {
            return Err(not_read(&reply));
        }
        match engine {
            VaultEngine::KvV2 => {
                let KvReply { data } = parse(&reply)?;
                let value = data.data.select(secret.field()).map_err(Problem::refused)?;
                Ok(FetchedSecret::new(secret, value, Some(data.metadata.version.to_string())))
            }
            VaultEngine::Dynamic => self.leased(tenant, secret, parse(&reply)?, &token).await,
        }
    }

    async fn leased(
        &self,
        tenant: &TenantId,
        secret: &SecretRef,
        DynamicReply { lease_id, lease_duration, data }: DynamicReply,
        token: &Token,
    ) -> Result<FetchedSecret, Problem> {
        let version = lease_id.rsplit('/').next().filter(|last| !last.is_empty()).map(str::to_owned);
        // Vault revokes a secret together with the token that requested it.
        let duration = Millis::secs(lease_duration).min(token.left());
        let (tenant, named) = (tenant.clone(), secret.clone());
        let lease = SecretLease { id: lease_id, duration, tenant, secret: named };
        let value = match data.select(secret.field()) {
            Ok(value) => value,
            Err(why) => {
                // The reference is wrong, and the secret that Vault has just created is of no use.
                let _ = self.revoke(&lease).await;
                return Err(Problem::refused(why));
            }
        };
        let fetched = FetchedSecret::new(secret, value, version);
        Ok(if lease.id.is_empty() { fetched } else { fetched.with_lease(lease) })
    }

    async fn revoke(&self, lease: &SecretLease) -> Result<(), Problem> {
        if lease.id.is_empty() {
            return Ok(());
        }
        let session = self.session(&lease.tenant)?;
        let call = Call::with_body(Method::PUT, "sys/leases/revoke", json!({ "lease_id": lease.id }));
        let (reply, _) = self.call(session, &call).await?;
        match reply.status {
            status if status.is_success() => Ok(()),
            // There is no such lease any more.
            StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND => Ok(()),
            StatusCode::FORBIDDEN => Err(Problem::refused(
                "its lease is not revoked; allow `update` on sys/leases/revoke in Vault",
            )),
            _ => Err(unexpected(&reply)),
        }
    }
}

#[async_trait]
impl SecretSource for VaultSource {
    fn check(&self, tenant: &TenantId, secret: &SecretRef) -> Result<(), SecretError> {
        let checked = self.session(tenant).and_then(|_| locate(&self.mounts, secret));
        checked.map(drop).map_err(|problem| problem.of(secret))
    }

    async fn fetch(&self, tenant: &TenantId, secret: &SecretRef) -> Result<FetchedSecret, SecretError> {
        self.read(tenant, secret).await.map_err(|problem| problem.of(secret))
    }

    async fn release(&self, fetched: FetchedSecret) -> Result<(), SecretError> {
        let Some(lease) = &fetched.lease else { return Ok(()) };
        if lease.secret.store() != SecretStore::Vault {
            return Err(SecretError::refused(&lease.secret, "its lease is not one of Vault"));
        }
        self.revoke(lease).await.map_err(|problem| problem.of(&lease.secret))
    }
}

#[derive(Deserialize)]
struct KvReply {
    data: KvVersion,
}

#[derive(Deserialize)]
struct KvVersion {
    data: SecretJson,
    metadata: KvMetadata,
}

#[derive(Deserialize)]
struct KvMetadata {
    version: u64,
}

#[derive(Deserialize)]
struct DynamicReply {
    lease_id: String,
    lease_duration: u64,
    data: SecretJson,
}

fn parse<'a, T: Deserialize<'a>>(reply: &'a Reply) -> Result<T, Problem> {
    let not_vault =
        |_| Problem::refused("the response is not one of Vault; check vault.address and vault.mounts");
    serde_json::from_slice(&reply.body).map_err(not_vault)
}

fn not_read(reply: &Reply) -> Problem {
    match reply.status {
        StatusCode::FORBIDDEN => {
            Problem::refused("Vault denies access; allow `read` on its path in the policy of the role")
        }
        StatusCode::NOT_FOUND => {
            Problem::refused("Vault has no secret at this path, or its latest version is deleted")
        }
        StatusCode::BAD_REQUEST => Problem::refused("Vault rejects the request; check the path and the role"),
        _ => unexpected(reply),
    }
}

/// Statuses that have the same meaning for each call.
fn unexpected(reply: &Reply) -> Problem {
    let status = reply.status.as_u16();
    let why = match status {
        503 => "Vault is sealed or down for maintenance".to_owned(),
        501 => "Vault is not initialized".to_owned(),
        429 if reply.retry_after.is_some() => "Vault limits the rate of requests".to_owned(),
        429 | 472..=474 | 530 => "the Vault node is a standby or busy".to_owned(),
        300..=399 => {
            "the Vault node is a standby that redirects; point vault.address to the active node".to_owned()
        }
        // A replica does not have the state of the token yet.
        412 => "the Vault node is not up to date".to_owned(),
        500.. => format!("Vault failed with status {status}"),
        _ => return Problem::refused(format!("Vault answered with status {status}")),
    };
    Problem::Unavailable { why, retry_after: reply.retry_after }
}
