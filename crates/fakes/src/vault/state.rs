//! The state of the fake, and its answer to each request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::login::Logins;
use super::{Answer, VaultRequest, refuse};

/// The mounts of the key-value engine.
const KV_MOUNTS: [&str; 2] = ["kv", "secret"];

/// The tokens that a login gives.
#[derive(Debug, Clone)]
pub struct TokenRole {
    pub ttl: Duration,
    /// No renewal extends a token beyond this age.
    pub max_ttl: Duration,
    /// Capability and path, such as `("read", "kv/data/acme/*")`. Paths are relative to the namespace of the login.
    pub policy: Vec<(&'static str, String)>,
}

impl TokenRole {
    /// Tokens for an hour that may use these paths and revoke leases.
    pub fn reading(paths: &[&str]) -> Self {
        let mut policy: Vec<_> = paths.iter().map(|path| ("read", (*path).to_owned())).collect();
        policy.push(("update", "sys/leases/revoke".to_owned()));
        Self { ttl: Duration::from_hours(1), max_ttl: Duration::from_hours(24), policy }
    }

    #[must_use]
    pub fn living(self, ttl: Duration, max_ttl: Duration) -> Self {
        Self { ttl, max_ttl, ..self }
    }
}

/// Why a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseEnd {
    /// A client revoked it.
    Revoked,
    Expired,
    /// The token that requested it expired or was revoked.
    WithToken,
}

#[derive(Debug, Default)]
pub(super) struct VaultState {
    /// Seconds since the start.
    now: u64,
    pub(super) sealed: bool,
    pub(super) status: Option<u16>,
    pub(super) namespaces: BTreeSet<String>,
    pub(super) logins: Logins,
    pub(super) requests: Vec<VaultRequest>,
    /// The versions by namespace and path below the mount; `None` is a deleted one.
    secrets: BTreeMap<(String, String), Vec<Option<Value>>>,
    /// The lifetime of leases, by namespace and path.
    dynamic_roles: BTreeMap<(String, String), u64>,
    tokens: BTreeMap<String, Token>,
    leases: Vec<Lease>,
    created: u64,
}

#[derive(Debug)]
struct Token {
    namespace: String,
    role: TokenRole,
    created: u64,
    expires: u64,
}

#[derive(Debug)]
struct Lease {
    id: String,
    namespace: String,
    token: String,
    issued: u64,
    ttl: u64,
    expires: u64,
    end: Option<LeaseEnd>,
}

fn key(namespace: &str, path: &str) -> (String, String) {
    (namespace.to_owned(), path.to_owned())
}

/// The common form of a successful response.
fn reply(fields: Value) -> Answer {
    let mut body = json!({
        "request_id": "9f3f2c4e-0000-4000-8000-000000000000", "lease_id": "", "renewable": false,
        "lease_duration": 0, "data": null, "wrap_info": null, "warnings": null, "auth": null,
    });
    if let (Some(body), Value::Object(fields)) = (body.as_object_mut(), fields) {
        body.extend(fields);
    }
    (StatusCode::OK, body)
}

fn done() -> Answer {
    (StatusCode::NO_CONTENT, Value::Null)
}

impl VaultState {
    pub(super) fn put(&mut self, namespace: &str, path: &str, data: Value) {
        self.secrets.entry(key(namespace, path)).or_default().push(Some(data));
    }

    pub(super) fn delete(&mut self, namespace: &str, path: &str) {
        if let Some(latest) = self.secrets.get_mut(&key(namespace, path)).and_then(|all| all.last_mut()) {
            *latest = None;
        }
    }

    pub(super) fn add_dynamic_role(&mut self, namespace: &str, path: &str, ttl: u64) {
        self.dynamic_roles.insert(key(namespace, path), ttl);
    }

    pub(super) fn leases(&self) -> Vec<(String, Option<LeaseEnd>)> {
        self.leases.iter().map(|lease| (lease.id.clone(), lease.end)).collect()
    }

    pub(super) fn revoke_all_tokens(&mut self) {
        self.tokens.clear();
        self.advance(0);
    }

    pub(super) fn advance(&mut self, secs: u64) {
        self.now += secs;
        let now = self.now;
        // In Vault the lease of a short-lived secret can end before its token does, but not after it.
        self.tokens.retain(|_, token| token.expires > now);
        for lease in self.leases.iter_mut().filter(|lease| lease.end.is_none()) {
            if lease.expires <= now {
                lease.end = Some(LeaseEnd::Expired);
            } else if !self.tokens.contains_key(&lease.token) {
                lease.end = Some(LeaseEnd::WithToken);
            }
        }
    }

    pub(super) fn answer(&mut self, request: &VaultRequest) -> Answer {
        self.requests.push(request.clone());
        if request.path == "sys/health" {
            return self.health();
        }
        if self.sealed {
            return refuse(503, "Vault is sealed");
        }
        if let Some(status) = self.status {
            return refuse(status, "");
        }
        if !request.namespace.is_empty() && !self.namespaces.contains(&request.namespace) {
            return refuse(404, "no handler for route. route entry not found.");
        }
        let VaultRequest { method, path, namespace, body, token } = request;
        let path: Vec<&str> = path.split('/').collect();
        if let ("POST" | "PUT", ["auth", mount, "login"]) = (method.as_str(), path.as_slice()) {
            return match self.logins.role(namespace, mount, body) {
                Ok(role) => self.log_in(namespace, role),
                Err(answer) => answer,
            };
        }
        let token = token.clone().unwrap_or_default();
        if let Err(answer) = self.authorize(request, &token) {
            return answer;
        }
        match (method.as_str(), path.as_slice()) {
            ("GET", ["auth", "token", "lookup-self"]) => self.look_up_token(&token),
            ("POST" | "PUT", ["auth", "token", "renew-self"]) => self.renew_token(&token),
            ("POST" | "PUT", ["auth", "token", "revoke-self"]) => {
                self.tokens.remove(&token);
                self.advance(0);
                done()
            }
            ("POST" | "PUT", ["sys", "leases", "revoke"]) => self.revoke_lease(namespace, body),
            ("POST" | "PUT", ["sys", "leases", "renew"]) => self.renew_lease(namespace, body),
            ("POST" | "PUT", ["sys", "leases", "lookup"]) => self.look_up_lease(namespace, body),
            ("GET", [mount, "data", rest @ ..]) if KV_MOUNTS.contains(mount) => {
                self.read_secret(namespace, &format!("{mount}/{}", rest.join("/")))
            }
            ("GET", [engine @ ("database" | "aws"), "creds" | "sts", _]) => {
                self.create_credentials(namespace, engine, &path.join("/"), &token)
            }
            _ => refuse(404, "no handler for route. route entry not found."),
        }
    }

    fn health(&self) -> Answer {
        let status = if self.sealed { 503 } else { self.status.unwrap_or(200) };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, json!({ "initialized": true, "sealed": self.sealed, "standby": self.status.is_some() }))
    }

    fn log_in(&mut self, namespace: &str, role: TokenRole) -> Answer {
        self.created += 1;
        let value = format!("hvs.token-{:06}", self.created);
        let expires = self.now + role.ttl.as_secs().min(role.max_ttl.as_secs());
        let token = Token { namespace: namespace.to_owned(), role, created: self.now, expires };
        let answer = self.auth(&value, &token);
        self.tokens.insert(value, token);
        answer
    }

    fn auth(&self, value: &str, token: &Token) -> Answer {
        reply(json!({ "auth": {
            "client_token": value,
            "accessor": "accessor-1",
            "policies": ["default", "countersign"],
            "token_policies": ["default", "countersign"],
            "metadata": {},
            "lease_duration": token.expires - self.now,
            "renewable": true,
            "entity_id": "",
            "token_type": "service",
            "orphan": true,
        }}))
    }

    /// The default policy covers the caller's own token and the renewal of leases; everything else needs a rule.
    fn authorize(&self, request: &VaultRequest, token: &str) -> Result<(), Answer> {
        let Some(token) = self.tokens.get(token) else {
            return Err(refuse(403, "2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n"));
        };
        let denied = || refuse(403, "1 error occurred:\n\t* permission denied\n\n");
        let full = format!("{}{}", request.namespace, request.path);
        // A token is valid in its namespace and those below it.
        let path = full.strip_prefix(&token.namespace).ok_or_else(denied)?;
        let capability = if request.method == "GET" { "read" } else { "update" };
        let is_default = path.starts_with("auth/token/") && path.ends_with("-self")
            || ["sys/leases/renew", "sys/leases/lookup"].contains(&path);
        let matches = |(allowed, rule): &(&str, String)| {
            *allowed == capability
                && rule.strip_suffix('*').map_or(rule == path, |prefix| path.starts_with(prefix))
        };
        if is_default || token.role.policy.iter().any(matches) { Ok(()) } else { Err(denied()) }
    }

    fn look_up_token(&self, value: &str) -> Answer {
        let Some(token) = self.tokens.get(value) else { return refuse(403, "permission denied") };
        reply(json!({ "data": {
            "id": value,
            "ttl": token.expires - self.now,
            "creation_ttl": token.role.ttl.as_secs(),
            "renewable": true,
            "policies": ["default", "countersign"],
            "namespace_path": token.namespace,
        }}))
    }

    fn renew_token(&mut self, value: &str) -> Answer {
        let now = self.now;
        if let Some(token) = self.tokens.get_mut(value) {
            let latest = token.created + token.role.max_ttl.as_secs();
            token.expires = (now + token.role.ttl.as_secs()).min(latest);
        }
        self.tokens.get(value).map_or_else(done, |token| self.auth(value, token))
    }

    fn read_secret(&self, namespace: &str, path: &str) -> Answer {
        let Some(versions) = self.secrets.get(&key(namespace, path)) else {
            return (StatusCode::NOT_FOUND, json!({ "errors": [] }));
        };
        let latest = versions.last().cloned().flatten();
        let deleted = if latest.is_some() { "" } else { "2026-01-01T00:00:00Z" };
        let metadata = json!({
            "created_time": "2026-01-01T00:00:00Z", "custom_metadata": null, "deletion_time": deleted,
            "destroyed": false, "version": versions.len(),
        });
        let (status, body) = reply(json!({ "data": { "data": latest, "metadata": metadata } }));
        (if latest.is_some() { status } else { StatusCode::NOT_FOUND }, body)
    }

    fn create_credentials(&mut self, namespace: &str, engine: &str, path: &str, token: &str) -> Answer {
        let Some(&ttl) = self.dynamic_roles.get(&key(namespace, path)) else {
            return refuse(400, "unknown role");
        };
        self.created += 1;
        let number = self.created;
        let id = format!("{path}/lease{number:06}");
        let data = if engine == "aws" {
            json!({
                "access_key": format!("AKIA{number:016}"), "secret_key": format!("dynamic-secret-{number:06}"),
                "security_token": null,
            })
        } else {
            json!({ "username": format!("v-user-{number:06}"), "password": format!("dynamic-secret-{number:06}") })
        };
        self.leases.push(Lease {
            id: id.clone(),
            namespace: namespace.to_owned(),
            token: token.to_owned(),
            issued: self.now,
            ttl,
            expires: self.now + ttl,
            end: None,
        });
        reply(json!({ "lease_id": id, "lease_duration": ttl, "renewable": true, "data": data }))
    }

    fn lease(&mut self, namespace: &str, body: &Value) -> Option<&mut Lease> {
        let mut live = self.leases.iter_mut().filter(|lease| lease.end.is_none());
        live.find(|lease| lease.namespace == namespace && body["lease_id"] == lease.id.as_str())
    }

    /// A lease that has ended is revoked already, so this succeeds, too.
    fn revoke_lease(&mut self, namespace: &str, body: &Value) -> Answer {
        if body["lease_id"].as_str().is_none_or(str::is_empty) {
            return refuse(400, "lease_id must be specified");
        }
        if let Some(lease) = self.lease(namespace, body) {
            lease.end = Some(LeaseEnd::Revoked);
        }
        done()
    }

    fn renew_lease(&mut self, namespace: &str, body: &Value) -> Answer {
        let now = self.now;
        let Some(lease) = self.lease(namespace, body) else { return refuse(400, "lease not found") };
        let increment = body["increment"].as_u64().filter(|secs| *secs > 0).unwrap_or(lease.ttl);
        // The maximum lifetime of these leases is ten times the first one.
        lease.expires = (now + increment).min(lease.issued + 10 * lease.ttl);
        let (id, left) = (lease.id.clone(), lease.expires - now);
        reply(json!({ "lease_id": id, "renewable": true, "lease_duration": left }))
    }

    fn look_up_lease(&mut self, namespace: &str, body: &Value) -> Answer {
        let now = self.now;
        let Some(lease) = self.lease(namespace, body) else { return refuse(400, "invalid lease") };
        let data = json!({ "id": lease.id, "renewable": true, "ttl": lease.expires - now });
        reply(json!({ "data": data }))
    }
}
