//! Binding: the exact action of a step, computed from stored data alone.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use connectors::{ConnectionUse, Observed, ProposalRequest, Tool, in_trace};
use domain::command::{PolicyEvaluation, Postpone};
use domain::plan::{Call, InputRefs, Undo, Work};
use domain::receipt::ReceiptState;
use domain::validation::thousandths;
use domain::{
    Action, ActionOrigin, ConnectionName, Failure, PersonId, Receipt, Ruling, RunKey, RunRecord, StepSeq,
    StepState, Tenant, TenantId, ToolName, TraceContext, failure,
};
use futures_util::future::BoxFuture;
use serde_json::Value;
use store::{Store, StoreError};
use workflow::{CompiledWork, Scope, Template};

use crate::core::LoadedRun;
use crate::core::connections::{ConnectedTool, CredentialFailure, ResolvedConnection};
use crate::error::EngineError;
use crate::execution::ExecutionService;
use crate::governance::policy_input::{declares_rollback, run_facts};

/// The parts of a run that a driver has read, so that it does not read them again.
#[derive(Default)]
pub(crate) struct RunCache {
    run: Option<Arc<Value>>,
    trigger: Option<Arc<Value>>,
    outputs: BTreeMap<StepSeq, Arc<Value>>,
}

impl RunCache {
    /// Remembers a step's output, if a later step reads it.
    pub(crate) fn remember(&mut self, loaded: &LoadedRun, seq: StepSeq, output: &Value) {
        let steps = &loaded.plan.plan().steps;
        let reads = |reads: &InputRefs| reads.steps.contains(&seq);
        if steps.iter().any(|step| reads(&step.reads) || reads(&step.rollback_reads)) {
            self.outputs.insert(seq, Arc::new(output.clone()));
        }
    }
}

/// Why the action cannot be determined.
pub(crate) enum NotProposed {
    /// It never can.
    Permanent(Failure),
    /// The external system could not be read; it may succeed later.
    Transient(Postpone),
}

impl From<CredentialFailure> for NotProposed {
    fn from(failure: CredentialFailure) -> Self {
        match failure {
            CredentialFailure::Retryable(failure, retry_after) => {
                Self::Transient(Postpone { failure, retry_after })
            }
            CredentialFailure::Terminal(failure) => Self::Permanent(failure),
        }
    }
}

/// Why there is no action.
pub(crate) enum BindError {
    /// The step fails or is postponed.
    NotProposed(NotProposed),
    /// What the action is computed from could not be read.
    Failed(EngineError),
}

impl From<Failure> for BindError {
    fn from(failure: Failure) -> Self {
        Self::NotProposed(NotProposed::Permanent(failure))
    }
}

impl From<EngineError> for BindError {
    fn from(error: EngineError) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for BindError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

/// The action of a step, and the receipt under its key.
#[derive(Clone)]
pub(crate) struct Proposal {
    /// Not connected yet, if there is a connection.
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) connection: Option<ResolvedConnection>,
    pub(crate) action: Action,
    pub(crate) receipt: Option<Receipt>,
    /// Whether the run that wrote the receipt has ended without an outcome.
    pub(crate) abandoned: bool,
    pub(crate) assessment: Option<PolicyEvaluation>,
    /// Approvers of the step who may no longer approve.
    pub(crate) departed: Vec<PersonId>,
}

impl Proposal {
    fn without_effect(proposed: ProposedAction, assessment: Option<PolicyEvaluation>) -> Self {
        let ProposedAction { tool, connection, action, .. } = proposed;
        Self { tool, connection, action, receipt: None, abandoned: false, assessment, departed: Vec::new() }
    }
}

/// An action, and what it was computed from.
struct ProposedAction {
    tool: Arc<dyn Tool>,
    connection: Option<ResolvedConnection>,
    /// The connection that the step names.
    named: Option<ConnectionName>,
    action: Action,
    origin: ActionOrigin,
    observed: Option<Value>,
    /// Present if policy denies the action before the external system was read.
    denied: Option<PolicyEvaluation>,
}

/// A call of a tool, with its bound fields.
struct BoundCall {
    tool: ToolName,
    /// The connection that the call names.
    connection: Option<ConnectionName>,
    /// The address that the connection had when the call was recorded, if it is an inverse.
    recorded_base_url: Option<String>,
    fields: Value,
    origin: ActionOrigin,
}

impl<'s, S: Store> ExecutionService<'s, S> {
    /// The action of the step at `seq`, or of its rollback. On the heap, because the stack of a thread is too small for
    /// this future inside that of its caller.
    pub(crate) fn bind<'a>(
        self,
        loaded: &'a LoadedRun,
        cache: &'a mut RunCache,
        seq: StepSeq,
    ) -> BoxFuture<'a, Result<Proposal, BindError>>
    where
        's: 'a,
    {
        Box::pin(self.bind_action(loaded, cache, seq))
    }

    async fn bind_action(
        self,
        loaded: &LoadedRun,
        cache: &mut RunCache,
        seq: StepSeq,
    ) -> Result<Proposal, BindError> {
        let mut proposed = self.propose(loaded, cache, seq).await?;
        let action = &proposed.action;
        if !action.class.calls_out() {
            return Ok(Proposal::without_effect(proposed, None));
        }
        action.check().map_err(|why| Failure::new(failure::ACTION_INVALID, why))?;
        let (governance, tenant) = (self.governance(), &loaded.record.key.tenant);
        let (origin, observed) = (proposed.origin, proposed.observed.take());
        if !action.class.has_effect() {
            let assessment = if let Some(denied) = proposed.denied.take() {
                denied
            } else {
                let settings = self.core.recent_settings(tenant).await?;
                governance.assess(loaded, seq, (None, settings), (action, origin, observed)).await?
            };
            return Ok(Proposal::without_effect(proposed, Some(assessment)));
        }
        let (receipt, abandoned) = self.current_receipt(&loaded.record, action).await?;
        if let Some(denied) = proposed.denied.take() {
            return Ok(Proposal { receipt, abandoned, ..Proposal::without_effect(proposed, Some(denied)) });
        }
        let confidence = self.confidence(loaded, cache, seq).await?;
        let settings = governance.tenant(tenant).await?;
        self.check_connection(&loaded.record, &settings, &proposed)?;
        let departed = loaded
            .approval
            .as_ref()
            .map(|approval| approval.departed_approvers(&settings))
            .unwrap_or_default();
        let assessment =
            governance.assess(loaded, seq, (confidence, settings), (action, origin, observed)).await?;
        let proposal = Proposal::without_effect(proposed, Some(assessment));
        Ok(Proposal { receipt, abandoned, departed, ..proposal })
    }

    /// Postpones an effect whose connection was changed a moment ago: the settings that it was bound with are cached, and
    /// an effect uses the connection as it is now.
    fn check_connection(
        self,
        record: &RunRecord,
        settings: &Tenant,
        proposed: &ProposedAction,
    ) -> Result<(), BindError> {
        let (tool, named) = (&*proposed.tool, proposed.named.as_ref());
        let current = self.core.connections.resolve(settings, &record.workspace, (tool, named))?;
        if current == proposed.connection {
            return Ok(());
        }
        let failure =
            Failure::new("CONNECTION_CHANGED", "the connection changed while the step was prepared");
        Err(BindError::NotProposed(NotProposed::Transient(Postpone { failure, retry_after: None })))
    }

    /// The exact action of the step at `seq`, including the state that the tool observed. If policy denies the action
    /// that is known without that state, nothing is read.
    async fn propose(
        self,
        loaded: &LoadedRun,
        cache: &mut RunCache,
        seq: StepSeq,
    ) -> Result<ProposedAction, BindError> {
        let BoundCall { tool: name, connection: named, recorded_base_url, fields, origin } =
            self.call(loaded, cache, seq).await?;
        let (Some(tool), Some(step)) = (self.core.tools.get(&name).cloned(), loaded.plan.plan().step(seq))
        else {
            return Err(Failure::new(failure::TOOL_UNKNOWN, format!("this worker has no tool {name}")).into());
        };
        let connection = self.connection(&loaded.record, &*tool, named.as_ref()).await?;
        let base_url = connection.as_ref().map(|resolved| &resolved.connection.base_url);
        if recorded_base_url.is_some() && recorded_base_url.as_ref() != base_url {
            let message = "the connection of the recorded inverse call has another address now";
            return Err(Failure::new("CONNECTION_CHANGED", message).into());
        }
        let tenant = &loaded.record.key.tenant;
        let connected = self.core.connections.connect(tenant, &tool, connection.as_ref())?;
        let on_connection = |action: Action| Action {
            connection: connection.as_ref().map(ResolvedConnection::of_action),
            ..action
        };
        // A run that undoes another one uses the keys of that run's rollback, so that each effect is undone once: by the
        // run itself, or by the first undo that succeeds with it.
        let undone_run = loaded.record.undone_run();
        let run = undone_run.as_ref().unwrap_or(&loaded.record.key);
        let reverts = undone_run.is_some() || loaded.record.is_rolling_back();
        let mut request = ProposalRequest {
            run,
            step: &step.id,
            reverts,
            has_rollback: declares_rollback(&self.core.tools, step),
            fields,
            observed: None,
        };
        let observed = match self.observed_before(loaded, seq).await? {
            Some(observed) => observed,
            None if connected.observes() => {
                let action = on_connection(connected.propose(request.clone())?);
                let denied = self.denial(loaded, seq, &action, origin).await?;
                if denied.is_some() {
                    let observed = None;
                    return Ok(ProposedAction { tool, connection, named, action, origin, observed, denied });
                }
                let observer = self.observer(tenant, &tool, connection.as_ref()).await?;
                observe(observer, &tool.name(), &request, observation_trace(loaded, seq)).await?
            }
            None => None,
        };
        request.observed = observed.as_ref();
        let action = on_connection(connected.propose(request)?);
        Ok(ProposedAction { tool, connection, named, action, origin, observed, denied: None })
    }

    /// The connection of a call. The settings that were read with the dispatch switch decide, so that it costs no further
    /// request.
    async fn connection(
        self,
        record: &RunRecord,
        tool: &dyn Tool,
        named: Option<&ConnectionName>,
    ) -> Result<Option<ResolvedConnection>, BindError> {
        if tool.connection_use() == ConnectionUse::Unused && named.is_none() {
            return Ok(None);
        }
        let settings = self.core.recent_settings(&record.key.tenant).await?;
        let resolved = self.core.connections.resolve(&settings, &record.workspace, (tool, named))?;
        if let Some(resolved) = &resolved {
            let checked = self.core.connections.check_credential(&record.key.tenant, resolved);
            checked.map_err(|failure| BindError::NotProposed(failure.into()))?;
        }
        Ok(resolved)
    }

    /// The tool with the credential of its connection, to read the external system.
    async fn observer(
        self,
        tenant: &TenantId,
        tool: &Arc<dyn Tool>,
        connection: Option<&ResolvedConnection>,
    ) -> Result<ConnectedTool, BindError> {
        let settings = self.core.recent_settings(tenant).await?;
        self.core
            .connections
            .connect_with_credential(&settings, tool, (connection, self.core.now()))
            .await
            .map_err(|failure| BindError::NotProposed(failure.into()))
    }

    /// The verdict on an action that was proposed without observed state, if policy denies it. The settings that were
    /// read with the dispatch switch decide, so that a step which is not denied costs no further request.
    async fn denial(
        self,
        loaded: &LoadedRun,
        seq: StepSeq,
        action: &Action,
        origin: ActionOrigin,
    ) -> Result<Option<PolicyEvaluation>, BindError> {
        action.check().map_err(|why| Failure::new(failure::ACTION_INVALID, why))?;
        let (governance, tenant) = (self.governance(), &loaded.record.key.tenant);
        let assess = |settings| governance.assess(loaded, seq, (None, settings), (action, origin, None));
        let is_denied = |assessment: &PolicyEvaluation| assessment.verdict.ruling == Ruling::Deny;
        let recent = self.core.recent_settings(tenant).await?;
        let denied = Some(assess(recent.clone()).await?).filter(is_denied);
        if denied.is_none() || !action.class.has_effect() {
            return Ok(denied);
        }
        // An effect is denied by the current policy, not by one that was replaced a moment ago.
        let current = governance.tenant(tenant).await?;
        if (current.policy, &current.caps) == (recent.policy, &recent.caps) {
            return Ok(denied);
        }
        Ok(Some(assess(current).await?).filter(is_denied))
    }

    /// The state that was observed when an effect that is still open was proposed: a retry must mean the same action.
    async fn observed_before(
        self,
        loaded: &LoadedRun,
        seq: StepSeq,
    ) -> Result<Option<Option<Value>>, EngineError> {
        let record = &loaded.record;
        let open = match &record.step_state {
            _ if seq != record.at => None,
            StepState::Running(lease) => lease.intent.as_ref(),
            step_state => step_state.open(),
        };
        let Some(open) = open else { return Ok(None) };
        let receipt = self.core.retry_busy(|store| store.receipt(&record.key.tenant, &open.key)).await?;
        // What another run observed is no longer current.
        let own =
            receipt.filter(|receipt| receipt.is_for_step(&record.key.run, seq, record.is_rolling_back()));
        Ok(own.map(|receipt| receipt.observed))
    }

    /// The confidence of the step's proposal, in thousandths. An expression without a number between 0 and 1 counts
    /// as no confidence, and so does one that reads an expired payload.
    async fn confidence(
        self,
        loaded: &LoadedRun,
        cache: &mut RunCache,
        seq: StepSeq,
    ) -> Result<Option<u16>, EngineError> {
        let (Some(step), Some(template)) =
            (loaded.plan.plan().step(seq), loaded.plan.step(seq).and_then(|step| step.confidence.as_ref()))
        else {
            return Ok(None);
        };
        let scope = match self.scope(loaded, cache, &step.reads).await {
            Err(EngineError::NoPayload { .. }) => return Ok(None),
            scope => scope?,
        };
        let number = template.bind(&scope).ok().and_then(|value| value.as_number().cloned());
        Ok(number.as_ref().and_then(thousandths))
    }

    /// The receipt under the action's key, and whether the run that wrote it has ended without an outcome.
    async fn current_receipt(
        self,
        record: &RunRecord,
        action: &Action,
    ) -> Result<(Option<Receipt>, bool), EngineError> {
        let read = || self.core.retry_busy(|store| store.receipt(&record.key.tenant, &action.key));
        let before = read().await?;
        if !self.is_abandoned(record, before.as_ref()).await? {
            return Ok((before, false));
        }
        // A run records the outcome in the commit that ends it: read the receipt again after the run was seen to have
        // ended.
        let now = read().await?;
        let abandoned = now == before;
        Ok((now, abandoned))
    }

    /// Whether another run that has ended left `receipt` open.
    async fn is_abandoned(self, record: &RunRecord, receipt: Option<&Receipt>) -> Result<bool, EngineError> {
        let open = receipt.filter(|receipt| receipt.state == ReceiptState::Intent);
        let Some(foreign) = open.filter(|receipt| receipt.run != record.key.run) else { return Ok(false) };
        let owner = RunKey { tenant: foreign.tenant.clone(), run: foreign.run.clone() };
        let owner = self.core.retry_busy(|store| store.load(&owner)).await?;
        Ok(owner.is_none_or(|owner| owner.status.is_terminal()))
    }

    /// The call of the step at `seq`, or of its rollback.
    async fn call(
        self,
        loaded: &LoadedRun,
        cache: &mut RunCache,
        seq: StepSeq,
    ) -> Result<BoundCall, BindError> {
        let step = loaded.plan.plan().step(seq).ok_or_else(no_such_call)?;
        let compiled = loaded.plan.step(seq).ok_or_else(no_such_call)?;
        let undoing = loaded.record.is_rolling_back();
        let origin = step.origin(undoing);
        let (call, reads, template) = match (undoing, &step.work, &step.rollback) {
            (true, _, Some(Undo::Auto)) => return self.inverse(loaded, seq, origin).await,
            (true, _, Some(Undo::Call(call))) => (call, &step.rollback_reads, compiled.rollback.as_ref()),
            (false, Work::Call(call), _) => (call, &step.reads, call_template(&compiled.work)),
            _ => return Err(no_such_call().into()),
        };
        let template = template.ok_or_else(no_such_call)?;
        let scope = self.scope(loaded, cache, reads).await.map_err(fail_if_expired)?;
        let fields = template.bind(&scope).map_err(|error| expression_failure(&error))?;
        let Call { tool, connection, .. } = call.clone();
        Ok(BoundCall { tool, connection, recorded_base_url: None, fields, origin })
    }

    /// The message of the approval gate at `seq`.
    pub(crate) async fn gate_message(
        self,
        loaded: &LoadedRun,
        cache: &mut RunCache,
        seq: StepSeq,
    ) -> Result<String, BindError> {
        let (Some(step), Some(CompiledWork::Gate(message))) =
            (loaded.plan.plan().step(seq), loaded.plan.step(seq).map(|step| &step.work))
        else {
            return Err(no_such_call().into());
        };
        let scope = self.scope(loaded, cache, &step.reads).await.map_err(fail_if_expired)?;
        Ok(message.bind(&scope).map_err(|error| expression_failure(&error))?)
    }

    pub(crate) async fn scope(
        self,
        loaded: &LoadedRun,
        cache: &mut RunCache,
        reads: &InputRefs,
    ) -> Result<Scope, EngineError> {
        let run = cache.run.get_or_insert_with(|| Arc::new(run_facts(&loaded.record)));
        let mut scope = Scope { run: Arc::clone(run), ..Scope::default() };
        if reads.trigger {
            scope.trigger = Some(self.trigger(loaded, cache).await?);
        }
        for seq in &reads.steps {
            if let (Some(step), Some(output)) =
                (loaded.plan.plan().step(*seq), self.output(loaded, cache, *seq).await?)
            {
                scope.steps.insert(step.id.clone(), output);
            }
        }
        Ok(scope)
    }

    async fn trigger(self, loaded: &LoadedRun, cache: &mut RunCache) -> Result<Arc<Value>, EngineError> {
        if let Some(trigger) = &cache.trigger {
            return Ok(Arc::clone(trigger));
        }
        let run = &loaded.record.key;
        let payload = self.core.retry_busy(|store| store.input(run)).await?;
        let value = match payload {
            Some(payload) => self.core.payload(&run.tenant, &payload).await?,
            None => return Err(EngineError::NoRun { run: run.clone() }),
        };
        Ok(Arc::clone(cache.trigger.insert(Arc::new(value))))
    }

    async fn output(
        self,
        loaded: &LoadedRun,
        cache: &mut RunCache,
        seq: StepSeq,
    ) -> Result<Option<Arc<Value>>, EngineError> {
        if let Some(output) = cache.outputs.get(&seq) {
            return Ok(Some(Arc::clone(output)));
        }
        let run = &loaded.record.key;
        let step = self.core.retry_busy(|store| store.step(run, seq, false)).await?;
        let Some(payload) = step.and_then(|step| step.output) else { return Ok(None) };
        let output = Arc::new(self.core.payload(&run.tenant, &payload).await?);
        cache.outputs.insert(seq, Arc::clone(&output));
        Ok(Some(output))
    }

    /// The call that restores the previous state, from the receipt of the step at `seq`.
    async fn inverse(
        self,
        loaded: &LoadedRun,
        seq: StepSeq,
        origin: ActionOrigin,
    ) -> Result<BoundCall, BindError> {
        let run = &loaded.record.key;
        let step = self.core.retry_busy(|store| store.step(run, seq, false)).await?;
        let key = step.and_then(|step| step.receipt).ok_or_else(no_inverse)?;
        let receipt = self.core.retry_busy(|store| store.receipt(&run.tenant, &key)).await?;
        let Some(ReceiptState::Done { inverse: Some(inverse), .. }) = receipt.map(|receipt| receipt.state)
        else {
            return Err(no_inverse().into());
        };
        let tool = inverse["tool"].as_str().and_then(|name| ToolName::new(name).ok());
        let (tool, fields) = (tool.ok_or_else(no_inverse)?, inverse["with"].clone());
        let connection = inverse["connection"].as_str().map(ConnectionName::new).transpose();
        let recorded_base_url = inverse["base_url"].as_str().map(str::to_owned);
        let connection = connection.map_err(|_| no_inverse())?;
        Ok(BoundCall { tool, connection, recorded_base_url, fields, origin })
    }
}

/// Reads the state that the call would change.
async fn observe(
    tool: ConnectedTool,
    name: &ToolName,
    request: &ProposalRequest<'_>,
    trace: TraceContext,
) -> Result<Option<Value>, BindError> {
    match in_trace(trace, tool.observe(request)).await {
        Observed::NotNeeded => Ok(None),
        Observed::Found(found) if domain::json::check(&found).is_err() => {
            let why = format!("the state that {name} observed is not valid JSON");
            Err(Failure::new(failure::ACTION_INVALID, why).into())
        }
        Observed::Found(found) => Ok(Some(found)),
        Observed::Retryable { failure, retry_after } => {
            Err(BindError::NotProposed(NotProposed::Transient(Postpone { failure, retry_after })))
        }
        Observed::Terminal(failure) => Err(failure.into()),
    }
}

/// The trace context of the read before a change.
fn observation_trace(loaded: &LoadedRun, seq: StepSeq) -> TraceContext {
    loaded.record.trace_context().next(&format!("observe {}", seq.0))
}

fn call_template(work: &CompiledWork) -> Option<&Template> {
    match work {
        CompiledWork::Call(template) => Some(template),
        CompiledWork::Wait | CompiledWork::Gate(_) => None,
    }
}

/// A step whose input, or an output it reads, has expired fails: retrying brings nothing back.
fn fail_if_expired(error: EngineError) -> BindError {
    match error {
        EngineError::NoPayload { .. } => Failure::new(failure::PAYLOAD_EXPIRED, error.to_string()).into(),
        error => error.into(),
    }
}

fn expression_failure(error: &impl Display) -> Failure {
    Failure::new(failure::EXPRESSION, error.to_string())
}

fn no_such_call() -> Failure {
    Failure::new(failure::EXPRESSION, "the plan has no such call")
}

fn no_inverse() -> Failure {
    Failure::new("NO_INVERSE", "the step's receipt contains no inverse call")
}
