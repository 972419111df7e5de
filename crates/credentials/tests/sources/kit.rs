//! A Vault, and a source that uses it.

use std::sync::Arc;
use std::time::Duration;

use credentials::{
    FetchedSecret, LocalSecrets, NoAwsKeys, SecretError, SecretSource as _, VaultConfig, VaultContext,
    VaultSource,
};
use domain::Timestamp;
use fakes::vault::{TokenRole, Vault};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

/// 2015-08-30T12:36:00Z
pub(crate) const AT: Timestamp = Timestamp(1_440_938_160_000);

pub(crate) const ROLE_ID: &str = "role-1";
pub(crate) const SECRET_ID: &str = "secret-id-1";
pub(crate) const TENANT: &str = "acme";

pub(crate) fn context() -> VaultContext {
    let look_up = |name: &str| (name == "VAULT_SECRET_ID").then(|| SECRET_ID.to_owned());
    VaultContext {
        local: Arc::new(LocalSecrets::new(look_up)),
        aws: Arc::new(NoAwsKeys),
        now: Arc::new(|| AT),
    }
}

pub(crate) fn approle() -> Value {
    json!({ "approle": { "role_id": ROLE_ID, "secret_id": "env://VAULT_SECRET_ID" } })
}

pub(crate) fn config(address: &str, auth: &Value, other: &Value) -> VaultConfig {
    let mut config = json!({ "address": address, "auth": auth });
    config.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    serde_json::from_value(config).unwrap()
}

/// A source that logs in with an `AppRole`.
pub(crate) fn source(address: &str) -> VaultSource {
    VaultSource::open(config(address, &approle(), &json!({})), context()).unwrap()
}

/// A Vault whose `AppRole` may read `kv/` and create credentials for databases and AWS.
pub(crate) fn role() -> TokenRole {
    TokenRole::reading(&["kv/data/*", "database/creds/*", "aws/creds/*"])
}

pub(crate) async fn vault() -> (Vault, VaultSource) {
    vault_with(role()).await
}

pub(crate) async fn vault_with(role: TokenRole) -> (Vault, VaultSource) {
    let vault = Vault::start().await.unwrap();
    vault.add_approle("", ROLE_ID, SECRET_ID, role);
    vault.put("", "kv/servicenow", json!({ "password": "hunter2", "user": "svc" }));
    vault.add_dynamic_role("", "database/creds/writer", Duration::from_mins(1));
    vault.add_dynamic_role("", "aws/creds/deploy", Duration::from_mins(15));
    let source = source(&vault.url());
    (vault, source)
}

pub(crate) const KV: &str = "vault://kv/servicenow#password";
pub(crate) const DATABASE: &str = "vault://database/creds/writer#password";

pub(crate) async fn fetch(source: &VaultSource, reference: &str) -> Result<FetchedSecret, SecretError> {
    source.fetch(&TENANT.parse().unwrap(), &reference.parse().unwrap()).await
}

pub(crate) async fn value(source: &VaultSource, reference: &str) -> String {
    exposed(&fetch(source, reference).await.unwrap())
}

pub(crate) fn exposed(fetched: &FetchedSecret) -> String {
    fetched.value.expose_secret().to_owned()
}

/// The reason of a refusal, which no further attempt changes.
pub(crate) fn refusal(result: Result<FetchedSecret, SecretError>) -> String {
    match result.unwrap_err() {
        SecretError::Refused { why, .. } => why,
        SecretError::Unavailable { why, .. } => panic!("unavailable: {why}"),
    }
}

/// Why another attempt may succeed.
pub(crate) fn outage(result: Result<FetchedSecret, SecretError>) -> String {
    match result.unwrap_err() {
        SecretError::Unavailable { why, .. } => why,
        SecretError::Refused { why, .. } => panic!("refused: {why}"),
    }
}

/// Lets time pass, for Vault and for its client.
pub(crate) async fn pass(vault: &Vault, secs: u64) {
    let by = Duration::from_secs(secs);
    vault.advance(by);
    tokio::time::pause();
    tokio::time::advance(by).await;
    tokio::time::resume();
}
