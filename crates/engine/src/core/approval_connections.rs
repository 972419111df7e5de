//! The connections that carry approval requests to approvers and the on-call, and their answers back.
//!
//! A tenant's cards go to its connection of kind `slack` with a `channel`, and its pages to that of kind `pagerduty`. A
//! connection of the run's workspace precedes one of every workspace. Among several, none is chosen.

use std::sync::Arc;

use connectors::{Authenticated, NOT_CONNECTED, ToolConnection, authenticate};
use credentials::{FetchedSecret, Redactor, SecretSource};
use domain::{
    Connection, ConnectionKind, ConnectionName, Failure, SecretRef, Tenant, TenantId, Timestamp, WorkspaceId,
};
use secrecy::{ExposeSecret as _, SecretString};

use crate::core::connections::{
    CONNECTION_AMBIGUOUS, ConnectionParts, CredentialFailure, ResolvedConnection, credential_failure,
    redactor_of,
};

/// A connection with its credential, for one delivery. Call [`release`](Self::release) at its end.
pub struct DeliveryConnection {
    pub connection: ToolConnection,
    redactor: Redactor,
    fetched: FetchedSecret,
    secrets: Arc<dyn SecretSource>,
}

impl DeliveryConnection {
    /// `text` without the credential.
    pub fn redact(&self, text: &str) -> String {
        self.redactor.text(text).0
    }

    /// Ends the lease of a dynamic secret. If that fails, the secret ends with its lease.
    pub async fn release(self) {
        let Self { fetched, secrets, .. } = self;
        let credential = fetched.id.clone();
        if let Err(error) = secrets.release(fetched).await {
            tracing::warn!(event = "credential_not_released", credential, %error, "credential not released");
        }
    }
}

impl ConnectionParts {
    /// The connection of `kind` for the approvals of runs of `workspace`; `None` if the tenant has none.
    pub fn for_approvals(
        &self,
        tenant: &Tenant,
        workspace: &WorkspaceId,
        kind: ConnectionKind,
    ) -> Result<Option<ResolvedConnection>, Failure> {
        let usable = self.visible(tenant, workspace).into_values();
        let usable = usable.filter(|resolved| is_for_approvals(&resolved.connection, kind));
        let (own, shared): (Vec<_>, Vec<_>) =
            usable.partition(|resolved| resolved.connection.workspace.is_some());
        let mut candidates = if own.is_empty() { shared } else { own };
        match (candidates.pop(), candidates.len()) {
            (only, 0) => Ok(only),
            (last, _) => {
                let names: Vec<String> =
                    candidates.iter().chain(&last).map(|resolved| format!("`{}`", resolved.name)).collect();
                let which = if kind == ConnectionKind::Slack { " with a `channel`" } else { "" };
                let message = format!(
                    "the workspace `{workspace}` has several connections of kind `{kind}`{which}: {}; keep one, or give \
                     each a workspace of its own",
                    names.join(", ")
                );
                Err(Failure::new(CONNECTION_AMBIGUOUS, message))
            }
        }
    }

    /// The connection `name`, if it is still of `kind`. The updates of a card use its connection, also if that has another
    /// workspace by then.
    pub fn of_kind(
        &self,
        tenant: &Tenant,
        name: &ConnectionName,
        kind: ConnectionKind,
    ) -> Option<ResolvedConnection> {
        self.all(tenant).remove(name).filter(|resolved| resolved.connection.kind == kind)
    }

    /// The Slack connections whose app may send clicks and commands for the tenant.
    ///
    /// A connection of every tenant is none of them: a Slack app sends its requests to the endpoint of one tenant.
    pub fn installations(&self, tenant: &Tenant) -> Vec<ResolvedConnection> {
        let all = self.all(tenant).into_values();
        let is_installation = |resolved: &ResolvedConnection| {
            let ResolvedConnection { connection, name, by_operator } = resolved;
            let is_own = !by_operator || self.operator.is_own(&tenant.tenant, name);
            connection.kind == ConnectionKind::Slack && connection.options.signing_secret.is_some() && is_own
        };
        all.filter(is_installation).collect()
    }

    /// The connection without its credential.
    pub fn anonymous(
        &self,
        tenant: &TenantId,
        resolved: &ResolvedConnection,
    ) -> Result<ToolConnection, Failure> {
        self.bind(tenant, resolved)
    }

    /// The connection with its credential as it is now.
    pub async fn authenticated(
        &self,
        tenant: &TenantId,
        resolved: &ResolvedConnection,
        now: Timestamp,
    ) -> Result<DeliveryConnection, CredentialFailure> {
        let bound = self.bind(tenant, resolved).map_err(CredentialFailure::Terminal)?;
        let Some(spec) = &resolved.connection.credential else {
            let message = format!("the connection `{}` has no credential", resolved.name);
            return Err(CredentialFailure::Terminal(Failure::new(NOT_CONNECTED, message)));
        };
        let fetched = self.fetch(tenant, spec.secret()).await?;
        let secret = SecretString::from(fetched.value.expose_secret());
        match authenticate(bound, spec, secret, now).await {
            Ok(Authenticated { connection, secrets }) => {
                let redactor = redactor_of(&secrets);
                Ok(DeliveryConnection { connection, redactor, fetched, secrets: Arc::clone(&self.secrets) })
            }
            Err(error) => {
                // It ends with its lease, if it cannot be released.
                let _ = self.secrets.release(fetched).await;
                Err(error.into())
            }
        }
    }

    /// A secret that the connection names beside its credential, such as the signing secret of an app.
    pub async fn further_secret(
        &self,
        tenant: &TenantId,
        resolved: &ResolvedConnection,
        secret: &SecretRef,
    ) -> Result<SecretString, CredentialFailure> {
        self.bind(tenant, resolved).map_err(CredentialFailure::Terminal)?;
        let fetched = self.fetch(tenant, secret).await?;
        Ok(SecretString::from(fetched.value.expose_secret()))
    }

    async fn fetch(&self, tenant: &TenantId, secret: &SecretRef) -> Result<FetchedSecret, CredentialFailure> {
        self.secrets.fetch(tenant, secret).await.map_err(|error| credential_failure(&error))
    }
}

fn is_for_approvals(connection: &Connection, kind: ConnectionKind) -> bool {
    connection.kind == kind && (kind != ConnectionKind::Slack || connection.options.channel.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use connectors::{OperatorConnections, TenantConnections};
    use serde_json::json;

    /// Connections of kind slack: name, workspace and channel, each empty if it has none.
    fn parts(slack: &[(&str, &str, &str)]) -> ConnectionParts {
        let mut own = TenantConnections::default();
        for (name, workspace, channel) in slack {
            let mut json = json!({ "kind": "slack", "base_url": "https://slack.com/api", "options": {} });
            if !workspace.is_empty() {
                json["workspace"] = json!(workspace);
            }
            if !channel.is_empty() {
                json["options"]["channel"] = json!(channel);
            }
            own.connections.insert(name.parse().unwrap(), serde_json::from_value(json).unwrap());
        }
        let tenants = [("acme".parse().unwrap(), own)].into();
        let operator = OperatorConnections { tenants, ..OperatorConnections::default() };
        ConnectionParts { operator: Arc::new(operator), ..ConnectionParts::default() }
    }

    fn chosen(slack: &[(&str, &str, &str)], tenant: &str, workspace: &str) -> Result<Option<String>, String> {
        let tenant = Tenant::new(tenant.parse().unwrap());
        let found = parts(slack).for_approvals(&tenant, &workspace.parse().unwrap(), ConnectionKind::Slack);
        let found = found.map_err(|failure| format!("{}: {}", failure.code, failure.message))?;
        Ok(found.map(|resolved| resolved.name.to_string()))
    }

    #[test]
    fn connection_of_the_workspace_has_precedence() {
        let slack = [("all", "", "C0A"), ("pay", "payments", "C0B"), ("posts", "", "")];
        assert_eq!(chosen(&slack, "acme", "main"), Ok(Some("all".to_owned())));
        assert_eq!(chosen(&slack, "acme", "payments"), Ok(Some("pay".to_owned())));
        assert_eq!(chosen(&slack, "umbrella", "main"), Ok(None));
        assert_eq!(chosen(&slack[2..], "acme", "main"), Ok(None), "it has no channel");
    }

    #[test]
    fn none_of_several_connections_is_chosen() {
        let slack = [("one", "", "C0A"), ("two", "", "C0B"), ("pay", "payments", "C0C")];
        let error = chosen(&slack, "acme", "main").unwrap_err();
        assert!(error.starts_with("CONNECTION_AMBIGUOUS: "), "{error}");
        assert!(error.contains("`one`, `two`") && !error.contains("pay"), "{error}");
        assert_eq!(chosen(&slack, "acme", "payments"), Ok(Some("pay".to_owned())));
    }

    #[test]
    fn app_belongs_to_one_tenant() {
        let mut json = json!({ "kind": "slack", "base_url": "https://slack.com/api" });
        json["options"] = json!({ "signing_secret": "vault://kv/a#b" });
        let connection: Connection = serde_json::from_value(json).unwrap();
        let name: ConnectionName = "slack".parse().unwrap();
        let operator =
            OperatorConnections { shared: [(name.clone(), connection.clone())].into(), ..Default::default() };
        let shared = ConnectionParts { operator: Arc::new(operator), ..ConnectionParts::default() };
        let mut tenant = Tenant::new("acme".parse().unwrap());
        assert_eq!(shared.installations(&tenant), []);
        tenant.connections.insert(name, connection);
        assert_eq!(ConnectionParts::default().installations(&tenant).len(), 1);
    }
}
