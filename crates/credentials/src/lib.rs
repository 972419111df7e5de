//! Fetches the secrets that connections name.
//!
//! A connection contains references ([`SecretRef`]), never a secret. A worker fetches a secret for one step, after the
//! claim and before the call, and releases it when the step ends. So a rotated secret works at the next step without a
//! restart, and a dynamic one exists only while a step uses it. Neither an error nor `Debug` output contains a secret.

mod aws;
mod exchange;
mod local;
mod memory;
mod redact;
mod sources;
mod vault;

use std::sync::Arc;

use async_trait::async_trait;
use domain::{Millis, SecretRef, TenantId, Timestamp};

#[cfg(feature = "aws")]
pub use aws::SdkKeys;
pub use aws::{AwsKeySource, AwsSecrets, AwsSecretsConfig, NoAwsKeys};
pub use http_client::sigv4::AwsKeys;
pub use local::{LocalSecrets, LookUp};
pub use memory::{LockedSecret, exclude_from_core_dumps};
pub use redact::{InvalidRedaction, REDACTED, RedactionPatterns, Redactor};
pub use sources::Sources;
pub use vault::{
    VaultAuth, VaultConfig, VaultContext, VaultEngine, VaultSetupError, VaultSource, VaultTenant,
};

/// The longest time that a fetched secret may be kept. A step that takes longer fetches it again.
pub const LIFETIME_MAX: Millis = Millis::mins(5);

/// A secret, as fetched for one step.
#[derive(Debug, Clone)]
pub struct FetchedSecret {
    pub value: LockedSecret,
    /// What receipts, events and logs contain: the reference and the version, nothing secret.
    pub id: String,
    /// The version that the store names; for a dynamic secret, the last part of its lease id.
    pub version: Option<String>,
    /// How long the value may be kept: at most [`LIFETIME_MAX`], and no longer than the lease.
    pub lifetime: Millis,
    /// The lease of a dynamic secret. [`SecretSource::release`] revokes it.
    pub lease: Option<SecretLease>,
}

/// The lease of a dynamic secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretLease {
    /// The id in the store, which is no secret.
    pub id: String,
    /// When the store revokes the secret on its own, counted from the fetch.
    pub duration: Millis,
    tenant: TenantId,
    secret: SecretRef,
}

impl FetchedSecret {
    fn new(secret: &SecretRef, value: LockedSecret, version: Option<String>) -> Self {
        let id = id(secret, version.as_deref());
        Self { value, id, version, lifetime: LIFETIME_MAX, lease: None }
    }

    fn with_lease(mut self, lease: SecretLease) -> Self {
        self.lifetime = LIFETIME_MAX.min(lease.duration);
        self.lease = Some(lease);
        self
    }
}

/// `vault://kv/servicenow?version=3#password`. A reference contains no `?`, so the parts stay distinct.
fn id(secret: &SecretRef, version: Option<&str>) -> String {
    let Some(version) = version else { return secret.to_string() };
    match secret.as_str().split_once('#') {
        Some((name, field)) => format!("{name}?version={version}#{field}"),
        None => format!("{secret}?version={version}"),
    }
}

/// Why a secret cannot be fetched. The reference is no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Another attempt may succeed: the store is sealed, limits rates, or does not answer.
    #[error("the secret {secret} cannot be fetched now: {why}")]
    Unavailable {
        secret: SecretRef,
        why: String,
        /// The delay that the store asks for.
        retry_after: Option<Millis>,
    },
    /// No attempt can succeed until an operator changes the reference, the secret or its permissions.
    #[error("the secret {secret} cannot be fetched: {why}")]
    Refused { secret: SecretRef, why: String },
}

impl SecretError {
    pub(crate) fn refused(secret: &SecretRef, why: impl Into<String>) -> Self {
        Self::Refused { secret: secret.clone(), why: why.into() }
    }
}

/// A source of secrets.
#[async_trait]
pub trait SecretSource: Send + Sync {
    /// Whether this process is configured to fetch the secret. Does no I/O, so it can run before the claim of each step.
    fn check(&self, tenant: &TenantId, secret: &SecretRef) -> Result<(), SecretError>;

    /// Fetches the secret for a step of `tenant`. The caller has checked that the tenant may use the reference.
    async fn fetch(&self, tenant: &TenantId, secret: &SecretRef) -> Result<FetchedSecret, SecretError>;

    /// Fetches the secret from its store even if a copy is cached, for the one retry after an external system has
    /// refused a credential.
    async fn fetch_fresh(&self, tenant: &TenantId, secret: &SecretRef) -> Result<FetchedSecret, SecretError> {
        self.fetch(tenant, secret).await
    }

    /// Revokes the lease of a dynamic secret, if it has one. Call it when the step ends, also when it failed. An error
    /// does not change that outcome: the store revokes the secret when its lease ends.
    async fn release(&self, fetched: FetchedSecret) -> Result<(), SecretError> {
        drop(fetched);
        Ok(())
    }
}

/// A source without secrets, for processes that execute no steps.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSecrets;

#[async_trait]
impl SecretSource for NoSecrets {
    fn check(&self, _: &TenantId, secret: &SecretRef) -> Result<(), SecretError> {
        Err(SecretError::refused(secret, "this process has no access to secrets"))
    }

    async fn fetch(&self, tenant: &TenantId, secret: &SecretRef) -> Result<FetchedSecret, SecretError> {
        self.check(tenant, secret)?;
        Err(SecretError::refused(secret, "this process has no access to secrets"))
    }
}

/// The sources of a process.
pub type Secrets = Arc<dyn SecretSource>;

/// Reads the time, which is part of every signature for AWS.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;
