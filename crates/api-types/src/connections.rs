//! Connections to external systems.

use domain::connection::{ConnectionOptions, CredentialSpec};
use domain::plan::Environment;
use domain::{ConnectionKind, ConnectionName, WorkspaceId};
use engine::ResolvedConnection;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A connection of the tenant. It contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Connection {
    #[schema(value_type = String)]
    pub name: ConnectionName,
    /// `servicenow`, `github`, `slack`, `model`, `http` or `pagerduty`.
    #[schema(value_type = String)]
    pub kind: ConnectionKind,
    pub base_url: String,
    /// The environment of every action on the connection: `dev`, `staging` or `prod`.
    #[schema(value_type = String)]
    pub environment: Environment,
    /// The workspace whose runs may use the connection; null for every workspace.
    #[schema(value_type = Option<String>)]
    pub workspace: Option<WorkspaceId>,
    /// How requests authenticate: `none`, `basic`, `bearer`, `header`, `oauth2`, `aws_sigv4` or `client_certificate`.
    pub authentication: String,
    /// The credential with the reference to its secret. Only for admins.
    #[schema(value_type = Option<Object>)]
    pub credential: Option<CredentialSpec>,
    /// Without the references to signing secrets, except for admins.
    #[schema(value_type = Object)]
    pub options: ConnectionOptions,
    /// `operator`, for a connection in the configuration of the installation, or `admin`.
    pub managed_by: String,
    /// Increases with every change.
    pub version: u32,
}

impl Connection {
    /// The connection, with the references to its secrets only for an admin.
    pub fn new(resolved: ResolvedConnection, is_admin: bool) -> Self {
        let ResolvedConnection { name, connection, by_operator } = resolved;
        let authentication = connection.credential.as_ref().map_or("none", CredentialSpec::kind);
        Self {
            name,
            kind: connection.kind,
            base_url: connection.base_url,
            environment: connection.environment,
            workspace: connection.workspace,
            authentication: authentication.to_owned(),
            credential: connection.credential.filter(|_| is_admin),
            options: if is_admin { connection.options } else { connection.options.without_secrets() },
            managed_by: if by_operator { "operator" } else { "admin" }.to_owned(),
            version: connection.version,
        }
    }
}

/// The connections of the tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Connections {
    pub connections: Vec<Connection>,
}

/// A connection to add or replace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetConnection {
    #[schema(value_type = String, max_length = 128)]
    pub name: ConnectionName,
    /// `servicenow`, `github`, `slack`, `model`, `http` or `pagerduty`.
    #[schema(value_type = String)]
    pub kind: ConnectionKind,
    /// Scheme, host, port and path.
    #[schema(max_length = 512)]
    pub base_url: String,
    /// `dev`, `staging` or `prod` [default: `prod`].
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub environment: Environment,
    /// `{"type": "basic", "user": …, "password": REF}`, `{"type": "bearer", "token": REF}`,
    /// `{"type": "header", "name": …, "value": REF}`, `{"type": "oauth2", "token_url": …, "client_id": …, "client_secret": REF}`,
    /// `{"type": "aws_sigv4", "keys": REF, "region": …, "service": …}` or
    /// `{"type": "client_certificate", "certificate": PEM, "private_key": REF}`, where REF names a secret:
    /// `vault://kv/acme/servicenow#password`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub credential: Option<CredentialSpec>,
    /// The workspace whose runs may use the connection; absent for every workspace.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub workspace: Option<WorkspaceId>,
    /// `ca`: certificates in PEM that are trusted in place of those of the operating system. For `model` also
    /// `model_api` (`bedrock` or `completions`) and `prices`. For `slack` also `channel`, `routes`, `team`,
    /// `signing_secret` and `previous_signing_secret`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub options: ConnectionOptions,
    /// The version that the caller read. The request is refused if the connection changed since. Absent: any.
    #[serde(default)]
    pub version: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_admins_see_references() {
        let json = serde_json::json!({
            "kind": "slack",
            "base_url": "https://slack.com/api",
            "credential": { "type": "bearer", "token": "vault://kv/acme/slack#token" },
            "options": { "channel": "C0A", "signing_secret": "vault://kv/acme/slack#signing" },
        });
        let shown = |is_admin| {
            let connection = serde_json::from_value(json.clone()).unwrap();
            let name = "slack".parse().unwrap();
            let resolved = ResolvedConnection { name, connection, by_operator: false };
            serde_json::to_string(&Connection::new(resolved, is_admin)).unwrap()
        };
        assert_eq!(shown(true).matches("vault://").count(), 2);
        assert!(!shown(false).contains("vault://") && shown(false).contains("C0A"));
    }
}
