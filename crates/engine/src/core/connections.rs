//! Connections: which one a step uses, and its credential for one step.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use connectors::{
    Credential, LookUpResult, NOT_CONNECTED, Observed, OperatorConnections, ProposalRequest, Tool, ToolCall,
    ToolConnection, ToolOutcome, ToolResult,
};
use credentials::{FetchedSecret, NoSecrets, Redactor, SecretError, SecretSource};
use domain::command::{AttemptMode, EffectOutcome};
use domain::connection::ActionConnection;
use domain::{Connection, ConnectionKind, ConnectionName, Failure, Millis, Tenant, TenantId, WorkspaceId};
use secrecy::{ExposeSecret as _, SecretString};

/// The failure code of a step whose connection does not exist, or is of another kind.
const CONNECTION_UNKNOWN: &str = "CONNECTION_UNKNOWN";

/// The failure code of a step that must name one of several connections.
const CONNECTION_AMBIGUOUS: &str = "CONNECTION_AMBIGUOUS";

/// The failure code of a connection that names something which the operator has not given to the tenant.
const CONNECTION_REFUSED: &str = "CONNECTION_REFUSED";

/// The failure code of a secret that cannot be fetched.
const CREDENTIAL_UNAVAILABLE: &str = "CREDENTIAL_UNAVAILABLE";

/// The connections that the operator configured, and the source of secrets.
#[derive(Clone)]
pub struct ConnectionParts {
    pub operator: Arc<OperatorConnections>,
    pub secrets: Arc<dyn SecretSource>,
}

impl Default for ConnectionParts {
    /// No connections, and no secrets.
    fn default() -> Self {
        Self { operator: Arc::default(), secrets: Arc::new(NoSecrets) }
    }
}

impl fmt::Debug for ConnectionParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionParts").field("operator", &self.operator).finish_non_exhaustive()
    }
}

/// The connection of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedConnection {
    pub name: ConnectionName,
    pub connection: Connection,
    /// Whether the operator configured it, and not an admin of the tenant.
    pub by_operator: bool,
}

impl ResolvedConnection {
    /// What an action on the connection names.
    pub fn of_action(&self) -> ActionConnection {
        self.connection.of_action(&self.name)
    }
}

/// A tool with its credential, for one step.
pub(crate) struct ConnectedTool {
    tool: Arc<dyn Tool>,
    redactor: Redactor,
    fetched: Option<FetchedSecret>,
    /// The id of the secret, which is not secret.
    credential: Option<String>,
    secrets: Arc<dyn SecretSource>,
}

impl ConnectedTool {
    /// Reads the external system, and releases the credential. What it returns contains no secret of the step.
    pub(crate) async fn observe(mut self, request: &ProposalRequest<'_>) -> Observed {
        let observed = self.tool.observe(request).await;
        self.release().await;
        match observed {
            Observed::NotNeeded => Observed::NotNeeded,
            Observed::Found(found) => Observed::Found(self.redactor.value(found).0),
            Observed::Retryable { failure, retry_after } => {
                Observed::Retryable { failure: self.clean(failure), retry_after }
            }
            Observed::Terminal(failure) => Observed::Terminal(self.clean(failure)),
        }
    }

    /// Calls the tool as `mode` requires, and releases the credential. What it returns contains no secret of the step.
    pub(crate) async fn call(mut self, mode: AttemptMode, call: ToolCall<'_>) -> ToolOutcome {
        let outcome = call_tool(&*self.tool, mode, call).await;
        self.release().await;
        match outcome {
            ToolOutcome::Done(done) => ToolOutcome::Done(self.clean_result(done)),
            ToolOutcome::Retryable { failure, certainty, retry_after } => {
                ToolOutcome::Retryable { failure: self.clean(failure), certainty, retry_after }
            }
            ToolOutcome::Terminal(failure) => ToolOutcome::Terminal(self.clean(failure)),
        }
    }

    /// Ends the lease of a dynamic secret. If that fails, the secret ends with its lease.
    async fn release(&mut self) {
        let Some(fetched) = self.fetched.take() else { return };
        if let Err(error) = self.secrets.release(fetched).await {
            let credential = self.credential.as_deref();
            tracing::warn!(event = "credential_not_released", credential, %error, "credential not released");
        }
    }

    fn clean(&self, failure: Failure) -> Failure {
        let (message, _) = self.redactor.text(&failure.message);
        Failure { message, ..failure }
    }

    /// The response names the credential, and says how many secrets were replaced.
    fn clean_result(&self, done: ToolResult) -> ToolResult {
        let (output, in_output) = self.redactor.value(done.output);
        let (mut response, in_response) = self.redactor.value(done.response);
        let inverse = done.inverse.map(|inverse| self.redactor.value(inverse));
        let in_inverse = inverse.as_ref().map_or(0, |(_, count)| *count);
        let count = in_output.saturating_add(in_response).saturating_add(in_inverse);
        if let Some(fields) = response.as_object_mut() {
            if count > 0 {
                fields.insert("redacted".to_owned(), count.into());
            }
            let credential = self.credential.as_deref();
            fields.extend(credential.map(|id| ("credential".to_owned(), id.into())));
        }
        ToolResult { output, response, inverse: inverse.map(|(inverse, _)| inverse), ..done }
    }
}

async fn call_tool(tool: &dyn Tool, mode: AttemptMode, call: ToolCall<'_>) -> ToolOutcome {
    match mode {
        AttemptMode::Fresh | AttemptMode::Repeat => tool.perform(call).await,
        AttemptMode::LookUp => {
            // Fence out the previous holder first: a look-up proves nothing while that one can still act.
            if let Err(failure) = tool.fence_out(call.clone()).await {
                return unclear(failure);
            }
            match tool.look_up(call.clone()).await {
                LookUpResult::Found(done) => ToolOutcome::Done(done),
                // No attempt has acted, and no earlier one can any more: this is a first attempt.
                LookUpResult::Absent => tool.perform(ToolCall { again: false, ..call }).await,
                LookUpResult::Unclear(failure) => unclear(failure),
            }
        }
    }
}

fn unclear(failure: Failure) -> ToolOutcome {
    ToolOutcome::Retryable { failure, certainty: EffectOutcome::MayHaveHappened, retry_after: None }
}

/// Why a credential is missing.
pub(crate) enum CredentialFailure {
    /// Another attempt may succeed, after this long if the store named a time.
    Retryable(Failure, Option<Millis>),
    Terminal(Failure),
}

impl ConnectionParts {
    /// All connections of a tenant. One that the operator configured replaces one of the same name.
    pub(crate) fn all(&self, tenant: &Tenant) -> BTreeMap<ConnectionName, ResolvedConnection> {
        let by_admins = tenant.connections.iter().map(|(name, connection)| (name, connection, false));
        let operator = self.operator.of(&tenant.tenant);
        let by_operator = operator.into_iter().map(|(name, connection)| (name, connection, true));
        let resolved = |(name, connection, by_operator): (&ConnectionName, &Connection, bool)| {
            let resolved =
                ResolvedConnection { name: name.clone(), connection: connection.clone(), by_operator };
            (name.clone(), resolved)
        };
        by_admins.chain(by_operator).map(resolved).collect()
    }

    /// The connections that runs of `workspace` may use.
    fn visible(
        &self,
        tenant: &Tenant,
        workspace: &WorkspaceId,
    ) -> BTreeMap<ConnectionName, ResolvedConnection> {
        let mut all = self.all(tenant);
        all.retain(|_, resolved| resolved.connection.is_visible_in(workspace));
        all
    }

    /// The connection of a call of `tool`: the one that the step names, or the only one of the tool's kind. `None` if
    /// the tool works without.
    pub(crate) fn resolve(
        &self,
        tenant: &Tenant,
        workspace: &WorkspaceId,
        (tool, named): (&dyn Tool, Option<&ConnectionName>),
    ) -> Result<Option<ResolvedConnection>, Failure> {
        match (tool.connection_kind(), named) {
            (None, None) => Ok(None),
            (None, Some(name)) => {
                let message = format!("`{}` uses no connection; remove `connection: {name}`", tool.name());
                Err(Failure::new(CONNECTION_UNKNOWN, message))
            }
            (Some(kind), Some(name)) => self.named(tenant, workspace, (kind, name)).map(Some),
            (Some(_), None) if tool.works_unconnected() => Ok(None),
            (Some(kind), None) => self.only(tenant, workspace, (kind, tool)).map(Some),
        }
    }

    /// An unknown connection and one of another tenant get the same answer.
    fn named(
        &self,
        tenant: &Tenant,
        workspace: &WorkspaceId,
        (kind, name): (ConnectionKind, &ConnectionName),
    ) -> Result<ResolvedConnection, Failure> {
        match self.visible(tenant, workspace).remove(name) {
            Some(resolved) if resolved.connection.kind == kind => Ok(resolved),
            Some(resolved) => {
                let other = resolved.connection.kind;
                let message =
                    format!("the connection `{name}` is of kind `{other}`; the step needs `{kind}`");
                Err(Failure::new(CONNECTION_UNKNOWN, message))
            }
            None => {
                let message = format!(
                    "the tenant has no connection `{name}` for workspace `{workspace}`; see `countersign connection list`"
                );
                Err(Failure::new(CONNECTION_UNKNOWN, message))
            }
        }
    }

    fn only(
        &self,
        tenant: &Tenant,
        workspace: &WorkspaceId,
        (kind, tool): (ConnectionKind, &dyn Tool),
    ) -> Result<ResolvedConnection, Failure> {
        let of_kind = self.visible(tenant, workspace).into_values();
        let mut of_kind: Vec<_> = of_kind.filter(|resolved| resolved.connection.kind == kind).collect();
        match (of_kind.pop(), of_kind.len()) {
            (Some(only), 0) => Ok(only),
            (Some(last), _) => {
                let names = of_kind.iter().chain([&last]).map(|resolved| resolved.name.as_str());
                let names = names.collect::<Vec<_>>().join("`, `");
                let message = format!(
                    "the tenant has several connections of kind `{kind}`: name one of `{names}` in the step"
                );
                Err(Failure::new(CONNECTION_AMBIGUOUS, message))
            }
            (None, _) => {
                let message = format!(
                    "`{}` needs a connection of kind `{kind}`, and the tenant has none; add one with `countersign \
                     connection set`",
                    tool.name()
                );
                Err(Failure::new(NOT_CONNECTED, message))
            }
        }
    }

    /// The connection for a tool, without its credential.
    fn bind(&self, tenant: &TenantId, resolved: &ResolvedConnection) -> Result<ToolConnection, Failure> {
        let ResolvedConnection { name, connection, by_operator } = resolved;
        let refused = |why: String| Failure::new(CONNECTION_REFUSED, format!("connection `{name}`: {why}"));
        connection.check().map_err(|error| refused(error.to_string()))?;
        let bound = ToolConnection::new(name, connection).map_err(|error| refused(error.to_string()))?;
        if *by_operator {
            return Ok(bound.trust_base());
        }
        // Checked again when it is used, because the operator may have taken a grant back.
        if let Some(secret) = connection.secrets().find(|secret| !self.operator.grants(tenant, secret)) {
            return Err(refused(format!("the operator has not given the secret {secret} to the tenant")));
        }
        Ok(ToolConnection { allow: self.operator.private_hosts(tenant), ..bound })
    }

    /// The tool on the connection, without its credential.
    pub(crate) fn connect(
        &self,
        tenant: &TenantId,
        tool: &Arc<dyn Tool>,
        resolved: Option<&ResolvedConnection>,
    ) -> Result<Arc<dyn Tool>, Failure> {
        let Some(resolved) = resolved else { return Ok(Arc::clone(tool)) };
        let bound = self.bind(tenant, resolved)?;
        Ok(tool.connect(&bound).unwrap_or_else(|| Arc::clone(tool)))
    }

    /// The tool on the connection, with its credential as it is now.
    pub(crate) async fn connect_with_credential(
        &self,
        tenant: &TenantId,
        tool: &Arc<dyn Tool>,
        resolved: Option<&ResolvedConnection>,
    ) -> Result<ConnectedTool, CredentialFailure> {
        let Some(resolved) = resolved else {
            let (tool, secrets) = (Arc::clone(tool), Arc::clone(&self.secrets));
            let redactor = Redactor::default();
            return Ok(ConnectedTool { tool, redactor, fetched: None, credential: None, secrets });
        };
        let bound = self.bind(tenant, resolved).map_err(CredentialFailure::Terminal)?;
        let (bound, redactor, fetched) = match &resolved.connection.credential {
            None => (bound, Redactor::default(), None),
            Some(spec) => {
                let fetched = self
                    .secrets
                    .fetch(tenant, spec.secret())
                    .await
                    .map_err(|error| credential_failure(&error))?;
                let redactor = Redactor::new([&fetched.value]);
                let secret = SecretString::from(fetched.value.expose_secret());
                (bound.with_credential(Credential::of(spec, secret)), redactor, Some(fetched))
            }
        };
        let tool = tool.connect(&bound).unwrap_or_else(|| Arc::clone(tool));
        let (credential, secrets) =
            (fetched.as_ref().map(|fetched| fetched.id.clone()), Arc::clone(&self.secrets));
        Ok(ConnectedTool { tool, redactor, fetched, credential, secrets })
    }

    /// Refuses a connection whose secret this process could never fetch, before the step is claimed.
    pub(crate) fn check_credential(
        &self,
        tenant: &TenantId,
        resolved: &ResolvedConnection,
    ) -> Result<(), CredentialFailure> {
        self.bind(tenant, resolved).map_err(CredentialFailure::Terminal)?;
        let mut secrets = resolved.connection.secrets();
        secrets
            .try_for_each(|secret| self.secrets.check(tenant, secret))
            .map_err(|error| credential_failure(&error))
    }
}

fn credential_failure(error: &SecretError) -> CredentialFailure {
    let failure = Failure::new(CREDENTIAL_UNAVAILABLE, error.to_string());
    match error {
        SecretError::Unavailable { retry_after, .. } => CredentialFailure::Retryable(failure, *retry_after),
        SecretError::Refused { .. } => CredentialFailure::Terminal(failure),
    }
}
