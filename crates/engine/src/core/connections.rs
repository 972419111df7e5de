//! Connections: which one a step uses, and its credential for one step.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use connectors::{
    Authenticated, CREDENTIAL_UNAVAILABLE, ConnectionUse, LookUpResult, NOT_AUTHORIZED, NOT_CONNECTED,
    NotAuthenticated, Observed, OperatorConnections, ProposalRequest, Tool, ToolCall, ToolConnection,
    ToolOutcome, ToolResult, authenticate,
};
use credentials::{
    FetchedSecret, LockedSecret, NoSecrets, RedactionPatterns, Redactor, SecretError, SecretSource,
};
use domain::command::{AttemptMode, EffectOutcome};
use domain::connection::{ActionConnection, CredentialSpec};
use domain::{
    Connection, ConnectionKind, ConnectionName, Failure, Millis, Tenant, TenantId, Timestamp, WorkspaceId,
};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::Instant;

/// The failure code of a step whose connection does not exist, or is of another kind.
const CONNECTION_UNKNOWN: &str = "CONNECTION_UNKNOWN";

/// The failure code of a step that must name one of several connections.
pub(crate) const CONNECTION_AMBIGUOUS: &str = "CONNECTION_AMBIGUOUS";

/// The failure code of a connection that names something which the operator has not given to the tenant.
const CONNECTION_REFUSED: &str = "CONNECTION_REFUSED";

/// The failure code of a tenant's expressions that this program cannot use.
const REDACTION_INVALID: &str = "REDACTION_INVALID";

/// The connections that the operator configured, and the source of secrets.
#[derive(Clone)]
pub struct ConnectionParts {
    pub operator: Arc<OperatorConnections>,
    /// Whether `operator` is known to be what the workers have. Otherwise a workflow is applied although it names a
    /// connection that this process does not know.
    pub is_complete: bool,
    pub secrets: Arc<dyn SecretSource>,
}

impl Default for ConnectionParts {
    /// No connections, and no secrets.
    fn default() -> Self {
        Self { operator: Arc::default(), is_complete: false, secrets: Arc::new(NoSecrets) }
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
    /// Absent if the tool has no credential.
    credential: Option<StepCredential>,
}

/// The credential of one step, and what another one is made from.
struct StepCredential {
    fetched: FetchedSecret,
    tenant: TenantId,
    spec: CredentialSpec,
    bound: ToolConnection,
    /// The tool without a connection.
    unconnected: Arc<dyn Tool>,
    secrets: Arc<dyn SecretSource>,
    /// The time of signatures.
    at: Timestamp,
}

impl ConnectedTool {
    fn anonymous(tool: Arc<dyn Tool>) -> Self {
        Self { tool, redactor: Redactor::default(), credential: None }
    }

    /// Connects the tool with this credential.
    async fn authenticated(credential: StepCredential) -> Result<Self, CredentialFailure> {
        let StepCredential { fetched, spec, bound, unconnected, at, .. } = &credential;
        let secret = SecretString::from(fetched.value.expose_secret());
        match authenticate(bound.clone(), spec, secret, *at).await {
            Ok(Authenticated { connection, secrets }) => {
                let tool = unconnected.connect(&connection).unwrap_or_else(|| Arc::clone(unconnected));
                Ok(Self { tool, redactor: redactor_of(&secrets), credential: Some(credential) })
            }
            Err(error) => {
                credential.release().await;
                Err(error.into())
            }
        }
    }

    /// Reads the external system, and releases the credential. What it returns contains no secret of the step.
    pub(crate) async fn observe(mut self, request: &ProposalRequest<'_>) -> Observed {
        let mut observed = self.tool.observe(request).await;
        if matches!(&observed, Observed::Terminal(failure) if is_not_authorized(failure))
            && self.replace_credential().await
        {
            observed = self.tool.observe(request).await;
        }
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
        let started = Instant::now();
        let mut outcome = call_tool(&*self.tool, mode, call.clone()).await;
        // A refused credential changed nothing. It may have been replaced after it was fetched.
        if matches!(&outcome, ToolOutcome::Terminal(failure) if is_not_authorized(failure))
            && self.replace_credential().await
        {
            let time_left = call.time_left.saturating_sub(started.elapsed());
            outcome = call_tool(&*self.tool, mode, ToolCall { time_left, ..call }).await;
        }
        self.release().await;
        match outcome {
            ToolOutcome::Done(done) => ToolOutcome::Done(self.clean_result(done)),
            ToolOutcome::Retryable { failure, certainty, retry_after } => {
                ToolOutcome::Retryable { failure: self.clean(failure), certainty, retry_after }
            }
            ToolOutcome::Terminal(failure) => ToolOutcome::Terminal(self.clean(failure)),
        }
    }

    /// Fetches the credential again, from its store. Returns whether it is another one.
    async fn replace_credential(&mut self) -> bool {
        let Some(refused) = &self.credential else { return false };
        let fetched = refused.secrets.fetch_fresh(&refused.tenant, refused.spec.secret()).await;
        let Ok(fetched) = fetched else { return false };
        let is_other = fetched.value.expose_secret() != refused.fetched.value.expose_secret();
        let fresh = refused.with(fetched);
        if !is_other {
            fresh.release().await;
            return false;
        }
        match Self::authenticated(fresh).await {
            Ok(connected) => {
                let before = std::mem::replace(self, connected);
                self.redactor = before.redactor.and(std::mem::take(&mut self.redactor));
                if let Some(refused) = before.credential {
                    refused.release().await;
                }
                true
            }
            Err(_) => false,
        }
    }

    /// Ends the lease of a dynamic secret.
    async fn release(&self) {
        if let Some(credential) = &self.credential {
            credential.release().await;
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
            let id = self.credential.as_ref().map(|credential| credential.fetched.id.as_str());
            fields.extend(id.map(|id| ("credential".to_owned(), id.into())));
        }
        ToolResult { output, response, inverse: inverse.map(|(inverse, _)| inverse), ..done }
    }
}

impl StepCredential {
    fn with(&self, fetched: FetchedSecret) -> Self {
        Self {
            fetched,
            tenant: self.tenant.clone(),
            spec: self.spec.clone(),
            bound: self.bound.clone(),
            unconnected: Arc::clone(&self.unconnected),
            secrets: Arc::clone(&self.secrets),
            at: self.at,
        }
    }

    /// Ends the lease of a dynamic secret. If that fails, the secret ends with its lease.
    async fn release(&self) {
        if let Err(error) = self.secrets.release(self.fetched.clone()).await {
            let credential = &self.fetched.id;
            tracing::warn!(event = "credential_not_released", credential, %error, "credential not released");
        }
    }
}

/// Replaces these secrets in what an external system returns.
pub(crate) fn redactor_of(secrets: &[SecretString]) -> Redactor {
    let lock = |secret: &SecretString| LockedSecret::from(secret.expose_secret().to_owned());
    let locked: Vec<LockedSecret> = secrets.iter().map(lock).collect();
    Redactor::new(&locked)
}

fn is_not_authorized(failure: &Failure) -> bool {
    failure.code == NOT_AUTHORIZED
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

impl From<NotAuthenticated> for CredentialFailure {
    fn from(error: NotAuthenticated) -> Self {
        match error {
            NotAuthenticated::Retryable(failure, retry_after) => Self::Retryable(failure, retry_after),
            NotAuthenticated::Terminal(failure) => Self::Terminal(failure),
        }
    }
}

/// Why a credential is missing.
#[derive(Debug)]
pub enum CredentialFailure {
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
    pub(crate) fn visible(
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
        use ConnectionUse::{AnyKind, Optional, Required, Unused};
        match (tool.connection_use(), named) {
            (Unused | Optional(_), None) => Ok(None),
            (Unused, Some(name)) => {
                let message = format!("`{}` uses no connection; remove `connection: {name}`", tool.name());
                Err(Failure::new(CONNECTION_UNKNOWN, message))
            }
            (Optional(kind) | Required(kind), Some(name)) => {
                self.named(tenant, workspace, (Some(kind), name)).map(Some)
            }
            (AnyKind, Some(name)) => self.named(tenant, workspace, (None, name)).map(Some),
            (Required(kind), None) => self.only(tenant, workspace, (kind, tool)).map(Some),
            (AnyKind, None) => {
                let message = format!("`{}` needs `connection: NAME`", tool.name());
                Err(Failure::new(NOT_CONNECTED, message))
            }
        }
    }

    /// Refuses a call whose connection is missing or ambiguous in every workspace. A workflow that is applied belongs to
    /// no workspace: each of its runs does.
    pub(crate) fn check_call(
        &self,
        tenant: &Tenant,
        call: (&dyn Tool, Option<&ConnectionName>),
    ) -> Result<(), Failure> {
        if !self.is_complete {
            return Ok(());
        }
        let Err(failure) = self.resolve(tenant, &WorkspaceId::default(), call) else { return Ok(()) };
        let all = self.all(tenant);
        let mut scoped = all.values().filter_map(|resolved| resolved.connection.workspace.as_ref());
        if scoped.any(|workspace| self.resolve(tenant, workspace, call).is_ok()) {
            Ok(())
        } else {
            Err(failure)
        }
    }

    /// The connection of this name, which must be of `kind`, if that is set. An unknown connection and one of another tenant
    /// get the same answer.
    fn named(
        &self,
        tenant: &Tenant,
        workspace: &WorkspaceId,
        (kind, name): (Option<ConnectionKind>, &ConnectionName),
    ) -> Result<ResolvedConnection, Failure> {
        let found = self.visible(tenant, workspace).remove(name);
        let is = found.as_ref().map(|resolved| resolved.connection.kind);
        match (found, kind.filter(|kind| Some(*kind) != is)) {
            (Some(resolved), None) => Ok(resolved),
            (Some(ResolvedConnection { connection, .. }), Some(kind)) => {
                let other = connection.kind;
                let message =
                    format!("the connection `{name}` is of kind `{other}`; the step needs `{kind}`");
                Err(Failure::new(CONNECTION_UNKNOWN, message))
            }
            (None, _) => {
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
    pub(crate) fn bind(
        &self,
        tenant: &TenantId,
        resolved: &ResolvedConnection,
    ) -> Result<ToolConnection, Failure> {
        let ResolvedConnection { name, connection, by_operator } = resolved;
        let refused = |why: String| Failure::new(CONNECTION_REFUSED, format!("connection `{name}`: {why}"));
        connection.check().map_err(|error| refused(error.to_string()))?;
        let bound = ToolConnection::new(name, connection).map_err(|error| refused(error.to_string()))?;
        if *by_operator {
            return Ok(bound.trust_base().trust_token_url(connection.credential.as_ref()));
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

    /// The tool on the connection, with its credential as it is now. `at` is the time of signatures.
    pub(crate) async fn connect_with_credential(
        &self,
        tenant: &Tenant,
        tool: &Arc<dyn Tool>,
        (resolved, at): (Option<&ResolvedConnection>, Timestamp),
    ) -> Result<ConnectedTool, CredentialFailure> {
        // Expressions that an earlier program accepted and this one does not must not disable the redaction of secrets.
        let expressions = RedactionPatterns::new(&tenant.redact).map_err(|error| {
            CredentialFailure::Terminal(Failure::new(REDACTION_INVALID, error.to_string()))
        })?;
        let tenant = &tenant.tenant;
        let connected = self.connect_authenticated(tenant, tool, (resolved, at)).await?;
        Ok(ConnectedTool { redactor: connected.redactor.with_expressions(expressions), ..connected })
    }

    async fn connect_authenticated(
        &self,
        tenant: &TenantId,
        tool: &Arc<dyn Tool>,
        (resolved, at): (Option<&ResolvedConnection>, Timestamp),
    ) -> Result<ConnectedTool, CredentialFailure> {
        let Some(resolved) = resolved else { return Ok(ConnectedTool::anonymous(Arc::clone(tool))) };
        let bound = self.bind(tenant, resolved).map_err(CredentialFailure::Terminal)?;
        let Some(spec) = resolved.connection.credential.clone() else {
            let tool = tool.connect(&bound).unwrap_or_else(|| Arc::clone(tool));
            return Ok(ConnectedTool::anonymous(tool));
        };
        let fetched = self.secrets.fetch(tenant, spec.secret()).await;
        let fetched = fetched.map_err(|error| credential_failure(&error))?;
        let (tenant, unconnected, secrets) = (tenant.clone(), Arc::clone(tool), Arc::clone(&self.secrets));
        ConnectedTool::authenticated(StepCredential {
            fetched,
            tenant,
            spec,
            bound,
            unconnected,
            secrets,
            at,
        })
        .await
    }

    /// Refuses a connection whose secret this process could never fetch, before the step is claimed.
    pub(crate) fn check_credential(
        &self,
        tenant: &TenantId,
        resolved: &ResolvedConnection,
    ) -> Result<(), CredentialFailure> {
        self.bind(tenant, resolved).map_err(CredentialFailure::Terminal)?;
        let mut secrets = resolved.connection.credential_secret().into_iter();
        secrets
            .try_for_each(|secret| self.secrets.check(tenant, secret))
            .map_err(|error| credential_failure(&error))
    }
}

pub(crate) fn credential_failure(error: &SecretError) -> CredentialFailure {
    let failure = Failure::new(CREDENTIAL_UNAVAILABLE, error.to_string());
    match error {
        SecretError::Unavailable { retry_after, .. } => CredentialFailure::Retryable(failure, *retry_after),
        SecretError::Refused { .. } => CredentialFailure::Terminal(failure),
    }
}
