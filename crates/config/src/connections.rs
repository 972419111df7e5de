//! The sections `connections` and `tenants`: the connections that the operator configures, and what the admins of a tenant
//! may name in theirs.

use std::collections::BTreeMap;

use connectors::{HostAllowList, HostRule, OperatorConnections, TenantConnections, ToolConnection};
use domain::connection::{ConnectionOptions, CredentialSpec, ExpiringSecret, SecretGrant, SecretStore};
use domain::plan::Environment;
use domain::{Connection, ConnectionKind, ConnectionName, SecretRef, TenantId, WorkspaceId};
use serde::Deserialize;
use serde::de::Error as _;

use crate::{ConfigError, LookUp, invalid};

/// A connection of one tenant, or of all of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConnectionConfig {
    /// Every tenant, if absent.
    tenant: Option<TenantId>,
    name: ConnectionName,
    kind: ConnectionKind,
    base_url: String,
    #[serde(default)]
    environment: Environment,
    credential: Option<CredentialSpec>,
    workspace: Option<WorkspaceId>,
    #[serde(default)]
    options: ConnectionOptions,
}

/// What the admins of a tenant may name in its connections.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TenantConfig {
    /// Prefixes of references to secrets: `vault://kv/acme/`.
    secrets: Vec<SecretGrant>,
    /// Hosts with internal addresses.
    #[serde(deserialize_with = "host_rules")]
    private_hosts: Vec<HostRule>,
}

/// The secrets that a process needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NeededSecrets {
    /// It executes no steps and receives no requests.
    None,
    /// It executes steps.
    Credentials,
    /// It receives requests from Slack and answers them.
    Slack,
}

impl NeededSecrets {
    fn of(self, connection: &Connection) -> Vec<&SecretRef> {
        let is_installation = connection.options.signing_secret.is_some();
        match self {
            Self::Credentials => connection.credential_secret().into_iter().collect(),
            Self::Slack if is_installation => connection.secrets().collect(),
            Self::None | Self::Slack => Vec::new(),
        }
    }
}

fn host_rules<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<HostRule>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
}

pub(crate) fn operator_connections(
    configured: &[ConnectionConfig],
    tenants: &BTreeMap<TenantId, TenantConfig>,
    needed: (NeededSecrets, LookUp<'_>),
) -> Result<OperatorConnections, ConfigError> {
    let mut operator = OperatorConnections::default();
    for (tenant, config) in tenants {
        let private_hosts = HostAllowList { hosts: config.private_hosts.clone() };
        let granted =
            TenantConnections { secrets: config.secrets.clone(), private_hosts, ..Default::default() };
        operator.tenants.insert(tenant.clone(), granted);
    }
    for config in configured {
        let connection = config.connection();
        check(&config.name, &connection, needed)?;
        if config.tenant.is_none() && connection.options.signing_secret.is_some() {
            let why = "`signing_secret` needs `tenant`: a Slack app sends its requests to the endpoint of one tenant";
            return Err(refused(&config.name, why));
        }
        let connections = match &config.tenant {
            None => &mut operator.shared,
            Some(tenant) => &mut operator.tenants.entry(tenant.clone()).or_default().connections,
        };
        if connections.insert(config.name.clone(), connection).is_some() {
            return Err(refused(&config.name, "the name occurs twice; rename one of the connections"));
        }
    }
    Ok(operator)
}

impl ConnectionConfig {
    /// The tenant and the signing secrets of its Slack app.
    pub(crate) fn slack_secrets(&self) -> Option<(&TenantId, &SecretRef, Option<&ExpiringSecret>)> {
        let current = self.options.signing_secret.as_ref()?;
        Some((self.tenant.as_ref()?, current, self.options.previous_signing_secret.as_ref()))
    }

    fn connection(&self) -> Connection {
        Connection {
            kind: self.kind,
            base_url: self.base_url.clone(),
            environment: self.environment,
            credential: self.credential.clone(),
            workspace: self.workspace.clone(),
            options: self.options.clone(),
            version: 0,
        }
    }
}

fn check(
    name: &ConnectionName,
    connection: &Connection,
    (needed, look_up): (NeededSecrets, LookUp<'_>),
) -> Result<(), ConfigError> {
    connection.check().map_err(|error| refused(name, &error.to_string()))?;
    ToolConnection::new(name, connection).map_err(|error| refused(name, &error.to_string()))?;
    let is_missing = |path: &str| look_up(path).is_none_or(|secret| secret.is_empty());
    let needed = needed.of(connection).into_iter();
    let mut missing = needed.filter(|secret| secret.store() == SecretStore::Env && is_missing(secret.path()));
    match missing.next() {
        Some(secret) => Err(refused(name, &format!("it names {secret}, which is not set"))),
        None => Ok(()),
    }
}

fn refused(name: &ConnectionName, why: &str) -> ConfigError {
    invalid(&format!("connections: {name}"), why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SystemsConfig;

    const FILE: &str = "
connections:
  - { name: servicenow, kind: servicenow, base_url: 'https://acme.example', environment: dev,
      credential: { type: basic, user: svc, password: 'env://A' } }
  - { tenant: acme, name: github, kind: github, base_url: 'https://api.github.com',
      credential: { type: bearer, token: 'file:///run/secrets/token' } }
  - { tenant: acme, name: bedrock, kind: model, base_url: 'https://bedrock.example',
      options: { model_api: bedrock, prices: { some-model: { input: 3000000, output: 15000000 } } } }
tenants:
  acme: { secrets: ['vault://kv/acme/'], private_hosts: ['build.internal:8443'] }
";

    fn connections(text: &str) -> Result<OperatorConnections, String> {
        let config = SystemsConfig::parse(text).map_err(|error| error.to_string())?;
        let set = |name: &str| (name == "A").then(|| "hunter2".to_owned());
        config.connections(&set).map_err(|error| error.to_string())
    }

    #[test]
    fn connections_belong_to_one_tenant_or_all() {
        let operator = connections(FILE).unwrap();
        let names = |tenant: &str| {
            let tenant: TenantId = tenant.parse().unwrap();
            operator.of(&tenant).into_keys().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names("acme"), "bedrock github servicenow");
        assert_eq!(names("umbrella"), "servicenow");
        assert!(!format!("{operator:?}").contains("hunter2"));
    }

    #[test]
    fn operator_grants_secrets_by_prefix() {
        let operator = connections(FILE).unwrap();
        let grants =
            |tenant: &str, secret: &str| operator.grants(&tenant.parse().unwrap(), &secret.parse().unwrap());
        assert!(grants("acme", "vault://kv/acme/servicenow#password"));
        for (tenant, secret) in [
            ("umbrella", "vault://kv/acme/servicenow"),
            ("acme", "vault://kv/umbrella/x"),
            ("acme", "env://A"),
        ] {
            assert!(!grants(tenant, secret), "{tenant} {secret}");
        }
    }

    #[test]
    fn grant_of_local_secrets_gives_nothing() {
        let text = "tenants: { acme: { secrets: ['file:///proc/', 'env://A'] } }";
        let operator = connections(text).unwrap();
        for secret in ["file:///proc/self/environ", "env://A"] {
            assert!(!operator.grants(&"acme".parse().unwrap(), &secret.parse().unwrap()), "{secret}");
        }
    }

    const INSTALLATION: &str = "
connections:
  - { tenant: acme, name: slack, kind: slack, base_url: 'https://slack.com/api',
      credential: { type: bearer, token: 'env://A' },
      options: { channel: C0A, signing_secret: 'env://B',
                 previous_signing_secret: { secret: 'env://C', until: 2027-02-01T00:00:00Z } } }
  - { name: github, kind: github, base_url: 'https://api.github.com', credential: { type: bearer, token: 'env://D' } }
";

    #[test]
    fn each_process_needs_its_own_secrets() {
        let config = SystemsConfig::parse(INSTALLATION).unwrap();
        let with = |needed: NeededSecrets, set: &str| {
            let look_up = |name: &str| set.contains(name).then(|| "hunter2".to_owned());
            operator_connections(&config.connections, &config.tenants, (needed, &look_up)).is_ok()
        };
        assert!(with(NeededSecrets::Credentials, "AD") && !with(NeededSecrets::Credentials, "ABC"));
        assert!(with(NeededSecrets::Slack, "ABC") && !with(NeededSecrets::Slack, "AD"));
        assert!(with(NeededSecrets::None, ""));
        let names: Vec<_> = config.slack_secret_names().collect();
        assert_eq!((names[0].0.as_str(), names[0].1.as_str(), names.len()), ("acme", "env://B", 1));
    }

    #[test]
    fn signing_secret_belongs_to_one_tenant() {
        let error = connections(&INSTALLATION.replace("tenant: acme, ", "")).unwrap_err();
        assert!(error.contains("`connections: slack`") && error.contains("needs `tenant`"), "{error}");
    }

    #[test]
    fn unusable_connection_is_named() {
        let with = |fields: &str| {
            connections(&format!("connections: [ {{ name: sn, kind: servicenow, {fields} }} ]")).unwrap_err()
        };
        let url = "base_url: 'https://acme.example'";
        for (fields, why) in [
            (format!("{url}, credential: {{ type: bearer, token: 'env://B' }}"), "env://B, which is not set"),
            ("base_url: 'https://u:hunter2@acme.example'".to_owned(), "remove credentials"),
            (format!("{url}, credential: {{ type: bearer, token: hunter2 }}"), "named by a reference"),
            (format!("{url}, options: {{ model_api: bedrock }}"), "options of kind `model`"),
        ] {
            let error = with(&fields);
            assert!(error.contains(why) && !error.contains("hunter2"), "{error}");
        }
        let twice = "{ name: a, kind: http, base_url: 'https://a.example' }";
        let error = connections(&format!("connections: [ {twice}, {twice} ]")).unwrap_err();
        assert!(error.contains("`connections: a`") && error.contains("twice"), "{error}");
    }
}
