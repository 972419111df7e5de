//! A fake HashiCorp Vault: key-value engine version 2, database and AWS engines, AppRole, AWS IAM and Kubernetes login,
//! namespaces, policies, and the life of tokens and leases on a clock of its own.
//!
//! It follows the public documentation of Vault's HTTP API. Expired tokens and leases end when the clock is advanced or
//! at the next request; a token takes its leases with it, as in Vault.

mod login;
mod state;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::server::{FakeFaults, Server};

use login::Logins;
use state::VaultState;

pub use state::{LeaseEnd, TokenRole};

#[derive(Debug)]
pub struct Vault {
    server: Server,
    state: Arc<Mutex<VaultState>>,
    faults: FakeFaults,
}

/// A request as Vault saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VaultRequest {
    pub method: String,
    /// Below `/v1/`.
    pub path: String,
    /// With a slash at its end; empty for the root namespace.
    pub namespace: String,
    pub token: Option<String>,
    pub body: Value,
}

/// What the signature of an AWS login has to prove.
#[derive(Debug, Clone)]
pub struct AwsIdentity {
    pub access_key_id: String,
    pub secret_access_key: String,
    /// `iam_server_id_header_value` of the mount.
    pub server_id: Option<String>,
}

impl Vault {
    pub async fn start() -> io::Result<Self> {
        let state = Arc::new(Mutex::new(VaultState::default()));
        let faults = FakeFaults::default();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
        Ok(Self { server: Server::start(router, &faults).await?, state, faults })
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Faults to inject into the next requests.
    pub fn faults(&self) -> &FakeFaults {
        &self.faults
    }

    /// Moves Vault's clock forward, and ends what has expired by then.
    pub fn advance(&self, by: Duration) {
        self.state.lock().advance(by.as_secs());
    }

    /// Every request gets 503 until [`Vault::unseal`].
    pub fn seal(&self) {
        self.state.lock().sealed = true;
    }

    pub fn unseal(&self) {
        self.state.lock().sealed = false;
    }

    /// Answers each request with this status, as a standby node or a load balancer in front of one; `None` ends it.
    pub fn answer_with(&self, status: Option<u16>) {
        self.state.lock().status = status;
    }

    /// Adds a namespace, with a slash at its end. The root namespace is empty and exists.
    pub fn add_namespace(&self, namespace: &str) {
        self.state.lock().namespaces.insert(namespace.to_owned());
    }

    /// Stores a new version at `kv/…` or `secret/…`, the mounts of the key-value engine.
    pub fn put(&self, namespace: &str, path: &str, data: Value) {
        self.state.lock().put(namespace, path, data);
    }

    /// Deletes the latest version, as `vault kv delete` does.
    pub fn delete(&self, namespace: &str, path: &str) {
        self.state.lock().delete(namespace, path);
    }

    /// Adds an `AppRole`, or replaces its secret id.
    pub fn add_approle(&self, namespace: &str, role_id: &str, secret_id: &str, role: TokenRole) {
        self.logins(|logins| logins.add_approle(namespace, role_id, secret_id, role));
    }

    pub fn add_aws_role(&self, namespace: &str, name: &str, identity: AwsIdentity, role: TokenRole) {
        self.logins(|logins| logins.add_aws_role(namespace, name, identity, role));
    }

    pub fn add_kubernetes_role(&self, namespace: &str, name: &str, jwt: &str, role: TokenRole) {
        self.logins(|logins| logins.add_kubernetes_role(namespace, name, jwt, role));
    }

    /// Adds a role of the engine `database` or `aws`, such as `database/creds/writer`, with the lifetime of its leases.
    pub fn add_dynamic_role(&self, namespace: &str, path: &str, ttl: Duration) {
        self.state.lock().add_dynamic_role(namespace, path, ttl.as_secs());
    }

    /// Revokes every token, and with them their leases, as an operator would after an incident.
    pub fn revoke_all_tokens(&self) {
        self.state.lock().revoke_all_tokens();
    }

    /// Every request so far, without those that a fault answered.
    pub fn requests(&self) -> Vec<VaultRequest> {
        self.state.lock().requests.clone()
    }

    /// The number of requests to log in.
    pub fn logins_seen(&self) -> usize {
        self.requests().iter().filter(|request| request.path.ends_with("/login")).count()
    }

    /// Every lease so far, oldest first: its id, and why it ended, if it did.
    pub fn leases(&self) -> Vec<(String, Option<LeaseEnd>)> {
        self.state.lock().leases()
    }

    fn logins(&self, change: impl FnOnce(&mut Logins)) {
        change(&mut self.state.lock().logins);
    }
}

/// The response to a request: a status and the body.
pub(super) type Answer = (StatusCode, Value);

/// Vault's form of an error.
pub(super) fn refuse(status: u16, message: &str) -> Answer {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, json!({ "errors": [message] }))
}

async fn answer(
    State(state): State<Arc<Mutex<VaultState>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let namespace =
        text("x-vault-namespace").map(|name| name.trim_matches('/')).filter(|name| !name.is_empty());
    let request = VaultRequest {
        method: method.to_string(),
        path: uri.path().strip_prefix("/v1/").unwrap_or_default().to_owned(),
        namespace: namespace.map_or_else(String::new, |name| format!("{name}/")),
        token: text("x-vault-token").map(str::to_owned),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let (status, body) = state.lock().answer(&request);
    if status == StatusCode::NO_CONTENT {
        status.into_response()
    } else {
        (status, axum::Json(body)).into_response()
    }
}
