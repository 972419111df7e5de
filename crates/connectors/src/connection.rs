//! Tools and connections: a tool of an external system works on the connection that the engine gives it for one step.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use domain::connection::{ConnectionOptions, CredentialSpec, SecretGrant};
use domain::{
    Action, Connection, ConnectionKind, ConnectionName, EffectClass, Failure, SecretRef, TenantId, ToolName,
};
use http_client::InvalidPem;
use rustls::ClientConfig;
use serde_json::Value;
use url::Url;

use crate::api::{BaseUrl, Credential, InvalidBaseUrl};
use crate::http::guard::{HostAllowList, HostRule};
use crate::tool::{self, ConnectionUse, ProposalRequest, Tool, ToolCall, ToolOutcome};

/// The failure code of a step without a usable connection.
pub const NOT_CONNECTED: &str = "NOT_CONNECTED";

/// A connection with its credential, for one step.
#[derive(Debug, Clone)]
pub struct ToolConnection {
    pub name: ConnectionName,
    pub kind: ConnectionKind,
    pub base: BaseUrl,
    pub credential: Credential,
    /// The certificates in PEM that are trusted in place of those of the operating system.
    pub ca: Option<String>,
    pub tls: ClientConfig,
    /// The hosts of the connection that may have internal addresses.
    pub allow: HostAllowList,
    pub options: ConnectionOptions,
}

impl ToolConnection {
    /// A connection without a credential, and without hosts that may have internal addresses.
    pub fn new(name: &ConnectionName, connection: &Connection) -> Result<Self, UnusableConnection> {
        let ca = connection.options.ca.clone();
        Ok(Self {
            name: name.clone(),
            kind: connection.kind,
            base: connection.base_url.parse()?,
            credential: Credential::Anonymous,
            tls: http_client::config_with(ca.as_deref(), None).map_err(UnusableConnection::Ca)?,
            ca,
            allow: HostAllowList::default(),
            options: connection.options.clone(),
        })
    }

    /// Allows the host of the base URL to have an internal address. Only operators may decide that.
    #[must_use]
    pub fn trust_base(mut self) -> Self {
        self.allow.hosts.extend(HostRule::from_url(self.base.url()));
        self
    }

    /// Allows also the host of the token endpoint of `spec` to have an internal address. Only operators may decide that.
    #[must_use]
    pub fn trust_token_url(mut self, spec: Option<&CredentialSpec>) -> Self {
        if let Some(CredentialSpec::OAuth2 { token_url, .. }) = spec {
            let url = Url::parse(token_url).ok();
            self.allow.hosts.extend(url.as_ref().and_then(HostRule::from_url));
        }
        self
    }

    #[must_use]
    pub fn with_credential(self, credential: Credential) -> Self {
        Self { credential, ..self }
    }
}

/// Why a connection cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnusableConnection {
    #[error(transparent)]
    BaseUrl(#[from] InvalidBaseUrl),
    #[error("`ca`: {0}")]
    Ca(InvalidPem),
}

/// The connections that the operator of a process has configured, and what each tenant's admins may name.
#[derive(Debug, Clone, Default)]
pub struct OperatorConnections {
    /// For every tenant.
    pub shared: BTreeMap<ConnectionName, Connection>,
    pub tenants: BTreeMap<TenantId, TenantConnections>,
}

/// The part of the operator's configuration about one tenant.
#[derive(Debug, Clone, Default)]
pub struct TenantConnections {
    pub connections: BTreeMap<ConnectionName, Connection>,
    /// The secrets that connections of the tenant's admins may name.
    pub secrets: Vec<SecretGrant>,
    /// The hosts with internal addresses that connections of the tenant's admins may reach.
    pub private_hosts: HostAllowList,
}

impl OperatorConnections {
    /// The connection `name` of the operator's configuration that `tenant` may use.
    pub fn get(&self, tenant: &TenantId, name: &ConnectionName) -> Option<&Connection> {
        let own = self.tenants.get(tenant).and_then(|own| own.connections.get(name));
        own.or_else(|| self.shared.get(name))
    }

    /// The connections of the operator's configuration that `tenant` may use.
    pub fn of<'a>(&'a self, tenant: &TenantId) -> BTreeMap<&'a ConnectionName, &'a Connection> {
        let own = self.tenants.get(tenant).into_iter().flat_map(|own| &own.connections);
        self.shared.iter().chain(own).collect()
    }

    /// Whether the operator configured `name` for this tenant alone.
    pub fn is_own(&self, tenant: &TenantId, name: &ConnectionName) -> bool {
        self.tenants.get(tenant).is_some_and(|own| own.connections.contains_key(name))
    }

    /// Whether connections of the tenant's admins may name `secret`. References to what the process itself can read
    /// belong to the operator alone.
    pub fn grants(&self, tenant: &TenantId, secret: &SecretRef) -> bool {
        let granted =
            self.tenants.get(tenant).is_some_and(|own| own.secrets.iter().any(|grant| grant.covers(secret)));
        granted && !secret.store().is_operators()
    }

    /// The hosts with internal addresses that connections of the tenant's admins may reach.
    pub fn private_hosts(&self, tenant: &TenantId) -> HostAllowList {
        self.tenants.get(tenant).map(|own| own.private_hosts.clone()).unwrap_or_default()
    }
}

/// A tool that has no connection yet. Workflows that name it can be checked.
pub(crate) struct Unconnected {
    pub(crate) name: &'static str,
    pub(crate) kind: ConnectionKind,
    /// The class that the connected tool declares.
    pub(crate) class: EffectClass,
    pub(crate) connect: fn(&ToolConnection) -> Arc<dyn Tool>,
}

impl Unconnected {
    fn failure(&self) -> Failure {
        let Self { name, kind, .. } = self;
        Failure::new(NOT_CONNECTED, format!("`{name}` needs a connection of kind `{kind}`"))
    }
}

#[async_trait]
impl Tool for Unconnected {
    fn name(&self) -> ToolName {
        tool::name(self.name)
    }

    fn effect_class(&self, _: &Value) -> Option<EffectClass> {
        Some(self.class)
    }

    fn connection_use(&self) -> ConnectionUse {
        ConnectionUse::Required(self.kind)
    }

    fn connect(&self, connection: &ToolConnection) -> Option<Arc<dyn Tool>> {
        (connection.kind == self.kind).then(|| (self.connect)(connection))
    }

    fn propose(&self, _: ProposalRequest<'_>) -> Result<Action, Failure> {
        Err(self.failure())
    }

    async fn perform(&self, _: ToolCall<'_>) -> ToolOutcome {
        ToolOutcome::Terminal(self.failure())
    }
}
