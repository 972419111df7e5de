//! The engine's operations for one user of one tenant.
//!
//! A caller names runs and approval requests by id alone; the tenant is fixed when the handle is opened. So another
//! tenant's run is not forbidden but not found, and no operation can ask for it. Every request from the network goes
//! through a handle.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::chain::StoredEvent;
use domain::command::{Advanced, CancelResult, SignalResult, VoteResult};
use domain::{
    ApiKey, AppliedWorkflow, Approval, ApprovalId, Cause, Channel, Digest, DispatchStop, Evidence,
    IdempotencyKey, Initiator, KeyId, PersonId, Plan, Receipt, RecordName, RunId, RunKey, RunRecord, StepSeq,
    Tenant, TenantId, Timestamp, ToolName, WorkerRecord, WorkflowName, WorkspaceId,
};
use serde_json::Value;
use store::{ApprovalPage, Cursor, KeyPage, PageQuery, PolicyFiles, RunPage, RunQuery, Store};
use workflow::CompiledPlan;

use crate::admission::{StartResult, StartRun};
use crate::error::EngineError;
use crate::governance::{DryRun, DryRunRequest};
use crate::governance::{PolicyApplied, TenantPolicy};
use crate::operations::FleetHealth;
use crate::operations::{NewApiKey, TenantUpdate};
use crate::{
    Backout, BackoutProgress, CountProgress, DispatchScope, DispatchState, Engine, RunView, SignalRun,
    StartProgress, UndoPlan, VoteRequest,
};

/// The engine's operations for one user of one tenant.
pub struct TenantHandle<S> {
    engine: Arc<Engine<S>>,
    tenant: TenantId,
    person: PersonId,
}

// By hand, because a derive would require the store to be `Clone`.
impl<S> Clone for TenantHandle<S> {
    fn clone(&self) -> Self {
        Self { engine: Arc::clone(&self.engine), tenant: self.tenant.clone(), person: self.person.clone() }
    }
}

/// A vote on an approval request, by the handle's user.
#[derive(Debug, Clone, PartialEq)]
pub struct VoteInput {
    pub approval: ApprovalId,
    /// The hash of the action that the user saw.
    pub subject: Option<Digest>,
    pub approve: bool,
    pub reason: String,
    /// How the vote arrived and how the user was authenticated.
    pub through: Channel,
}

impl<S: Store> TenantHandle<S> {
    pub fn open(engine: Arc<Engine<S>>, tenant: TenantId, person: PersonId) -> Self {
        Self { engine, tenant, person }
    }

    pub fn person(&self) -> &PersonId {
        &self.person
    }

    pub fn tenant_id(&self) -> &TenantId {
        &self.tenant
    }

    pub fn now(&self) -> Timestamp {
        self.engine.now()
    }

    fn by(&self) -> Initiator {
        Initiator::new(Cause::User, self.person.as_str())
    }

    fn key(&self, run: &RunId) -> RunKey {
        RunKey { tenant: self.tenant.clone(), run: run.clone() }
    }

    /// The result of an operation on a run. If the run does not exist, the error says what became of its inbox entry.
    async fn found<T>(&self, given: Result<T, EngineError>) -> Result<T, EngineError> {
        match given {
            Err(EngineError::NoRun { run }) => Err(self.engine.no_run(run).await),
            given => given,
        }
    }

    pub async fn runs(&self, query: RunQuery) -> Result<RunPage, EngineError> {
        let store = self.engine.store();
        Ok(self.engine.retry_busy(|| store.runs(&self.tenant, query.clone())).await?)
    }

    pub async fn run(&self, run: &RunId) -> Result<RunView, EngineError> {
        self.found(self.engine.inspect(&self.key(run)).await).await
    }

    pub async fn record(&self, run: &RunId) -> Result<RunRecord, EngineError> {
        let key = self.key(run);
        let record = self.engine.retry_busy(|| self.engine.store().load(&key)).await?;
        self.found(record.ok_or(EngineError::NoRun { run: key })).await
    }

    pub async fn plan_of(&self, record: &RunRecord) -> Result<Arc<CompiledPlan>, EngineError> {
        self.engine.plan(&self.tenant, record.plan).await
    }

    /// The run's chain from event `from` on, at most `limit` entries; empty if there is no such run.
    pub async fn events(&self, run: &RunId, from: u32, limit: u32) -> Result<Vec<StoredEvent>, EngineError> {
        let key = self.key(run);
        Ok(self.engine.retry_busy(|| self.engine.store().events(&key, from, limit)).await?)
    }

    pub async fn receipt(&self, key: &IdempotencyKey) -> Result<Option<Receipt>, EngineError> {
        Ok(self.engine.retry_busy(|| self.engine.store().receipt(&self.tenant, key)).await?)
    }

    /// Starts a run of an applied workflow, or returns the one that the same request started before.
    pub async fn start(
        &self,
        workflow: &WorkflowName,
        key: IdempotencyKey,
        trigger_kind: &str,
        record: Option<RecordName>,
        input: Value,
    ) -> Result<StartResult, EngineError> {
        let plan = self.workflow(workflow).await?;
        let request = StartRun {
            tenant: self.tenant.clone(),
            workspace: WorkspaceId::default(),
            plan: plan.plan().clone(),
            trigger_kind: trigger_kind.to_owned(),
            record,
            key,
            input,
            by: self.by(),
        };
        self.engine.start(request).await
    }

    pub async fn cancel(&self, run: &RunId, reason: &str) -> Result<CancelResult, EngineError> {
        self.found(self.engine.cancel(&self.key(run), &self.by(), reason).await).await
    }

    pub async fn pause(&self, run: &RunId, reason: &str) -> Result<Option<Advanced>, EngineError> {
        self.found(self.engine.pause(&self.key(run), &self.by(), reason).await).await
    }

    pub async fn resume(&self, run: &RunId, reason: &str) -> Result<(), EngineError> {
        self.found(self.engine.resume(&self.key(run), &self.by(), reason).await).await
    }

    pub async fn roll_back(&self, run: &RunId, reason: &str) -> Result<StepSeq, EngineError> {
        self.found(self.engine.roll_back(&self.key(run), &self.by(), reason).await).await
    }

    pub async fn undo_plan(&self, run: &RunId) -> Result<UndoPlan, EngineError> {
        self.found(self.engine.undo_plan(&self.key(run)).await).await
    }

    pub async fn undo(&self, run: &RunId) -> Result<StartResult, EngineError> {
        self.found(self.engine.undo(&self.key(run), &self.by()).await).await
    }

    pub async fn signal(&self, run: &RunId, request: SignalRun) -> Result<SignalResult, EngineError> {
        self.found(self.engine.signal(&self.key(run), &self.by(), request).await).await
    }

    /// Open approval requests, oldest first.
    pub async fn open_approvals(
        &self,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<ApprovalPage, EngineError> {
        let (store, query) = (self.engine.store(), PageQuery { after, limit });
        Ok(self.engine.retry_busy(|| store.open_approvals(&self.tenant, query.clone())).await?)
    }

    pub async fn approval(&self, id: &ApprovalId) -> Result<Approval, EngineError> {
        self.engine.approval(&self.tenant, id).await
    }

    /// Records the user's vote.
    pub async fn answer(&self, reply: VoteInput) -> Result<VoteResult, EngineError> {
        let VoteInput { approval, subject, approve, reason, through } = reply;
        let reply = VoteRequest { approval, subject, person: self.person.clone(), approve, reason, through };
        self.engine.answer(&self.tenant, reply).await
    }

    pub async fn evidence(&self, run: &RunId) -> Result<(Evidence, Vec<u8>), EngineError> {
        self.found(self.engine.evidence(&self.key(run)).await).await
    }

    pub async fn workflows(&self) -> Result<Vec<AppliedWorkflow>, EngineError> {
        self.engine.applied(&self.tenant).await
    }

    pub async fn workflow(&self, name: &WorkflowName) -> Result<Arc<CompiledPlan>, EngineError> {
        Ok(self.applied(name).await?.1)
    }

    /// The policy verdict on every step of a workflow, without running any.
    pub async fn explain(&self, request: DryRunRequest) -> Result<DryRun, EngineError> {
        self.engine.explain(&self.tenant, request, self.by()).await
    }

    pub async fn policy(&self) -> Result<TenantPolicy, EngineError> {
        self.engine.counting(&self.tenant).await
    }

    pub async fn apply_policy(&self, files: PolicyFiles) -> Result<PolicyApplied, EngineError> {
        self.engine.apply_policy(&self.tenant, files, self.by()).await
    }

    pub async fn health(&self) -> Result<FleetHealth, EngineError> {
        self.engine.health(&self.tenant).await
    }

    /// The workers of the fleet, which serve every tenant, the oldest first.
    pub async fn workers(&self) -> Result<Vec<WorkerRecord>, EngineError> {
        self.engine.workers().await
    }

    /// Every applied version of a workflow, the newest first; empty if there is no such workflow.
    pub async fn versions(&self, name: &WorkflowName) -> Result<Vec<AppliedWorkflow>, EngineError> {
        self.engine.versions(&self.tenant, name).await
    }

    pub async fn apply(&self, plan: &Plan) -> Result<AppliedWorkflow, EngineError> {
        self.engine.apply(&self.tenant, plan, self.by()).await
    }

    /// The applied workflow of this name, with its plan.
    pub async fn applied(
        &self,
        name: &WorkflowName,
    ) -> Result<(AppliedWorkflow, Arc<CompiledPlan>), EngineError> {
        let applied = self.workflows().await?.into_iter().find(|applied| applied.workflow == *name);
        let applied = applied.ok_or_else(|| EngineError::NoWorkflow { workflow: name.clone() })?;
        let plan = self.engine.plan(&self.tenant, applied.plan).await?;
        Ok((applied, plan))
    }

    /// An applied version of a workflow, with its plan.
    pub async fn version(
        &self,
        name: &WorkflowName,
        version: u32,
    ) -> Result<(AppliedWorkflow, Arc<CompiledPlan>), EngineError> {
        let applied = self.versions(name).await?.into_iter().find(|applied| applied.version == version);
        let applied = applied.ok_or_else(|| EngineError::NoWorkflow { workflow: name.clone() })?;
        let plan = self.engine.plan(&self.tenant, applied.plan).await?;
        Ok((applied, plan))
    }

    pub fn tools(&self) -> BTreeSet<ToolName> {
        self.engine.tools().names().cloned().collect()
    }

    pub async fn plan(&self, record: &RunRecord) -> Result<Arc<CompiledPlan>, EngineError> {
        self.engine.plan(&self.tenant, record.plan).await
    }

    /// Every receipt that the run's chain refers to so far.
    pub async fn receipts(&self, run: &RunId) -> Result<Vec<Receipt>, EngineError> {
        self.found(self.engine.receipts(&self.key(run)).await).await
    }

    pub async fn tenant_settings(&self) -> Result<Option<Tenant>, EngineError> {
        self.engine.tenant_settings(&self.tenant).await
    }

    /// Changes the tenant's settings, unless they were changed since the caller read them.
    pub async fn update_tenant(&self, settle: TenantUpdate) -> Result<Tenant, EngineError> {
        self.engine.update_tenant(&self.tenant, settle).await
    }

    pub async fn keys(&self, after: Option<Cursor>, limit: u32) -> Result<KeyPage, EngineError> {
        self.engine.api_keys(&self.tenant, PageQuery { after, limit }).await
    }

    pub async fn make_key(&self, new: NewApiKey) -> Result<ApiKey, EngineError> {
        self.engine.make_key(&self.tenant, new).await
    }

    pub async fn revoke_key(&self, id: &KeyId) -> Result<ApiKey, EngineError> {
        self.engine.revoke_key(&self.tenant, id).await
    }

    pub async fn dispatch(&self) -> Result<DispatchState, EngineError> {
        self.engine.dispatch(&self.tenant).await
    }

    pub async fn stop_dispatch(&self, reason: &str) -> Result<DispatchStop, EngineError> {
        self.engine.stop_dispatch(&self.reach(), &self.by(), reason).await
    }

    /// Starts dispatch for the tenant; returns how many runs were announced.
    pub async fn start_dispatch(&self) -> Result<u64, EngineError> {
        self.engine.start_dispatch(&self.reach(), &self.by()).await
    }

    /// Does a part of a start; returns the number of runs and the remaining work.
    pub async fn start_part(
        &self,
        so_far: Option<StartProgress>,
    ) -> Result<(u64, Option<StartProgress>), EngineError> {
        self.engine.start_part(&self.reach(), &self.by(), so_far).await
    }

    /// Stops dispatch and cancels a part of the runs in progress; returns the counts and the remaining work.
    pub async fn back_out_part(
        &self,
        reason: &str,
        so_far: Option<BackoutProgress>,
    ) -> Result<(Backout, Option<BackoutProgress>), EngineError> {
        self.engine.back_out_part(&self.reach(), &self.by(), reason, so_far, |_| {}).await
    }

    /// Counts a part of the runs that a backout would cancel.
    pub async fn count_part(
        &self,
        so_far: Option<CountProgress>,
    ) -> Result<(u64, Option<CountProgress>), EngineError> {
        self.engine.count_part(&self.reach(), so_far).await
    }

    fn reach(&self) -> DispatchScope {
        DispatchScope::Tenant(self.tenant.clone())
    }

    pub async fn tenant(&self) -> Result<Tenant, EngineError> {
        self.engine.tenant(&self.tenant).await
    }
}

#[cfg(test)]
mod tests {
    use connectors::ToolRegistry;
    use domain::Source;
    use serde_json::json;
    use store::{SqliteOptions, SqliteStore, SystemClock};

    use super::*;
    use crate::{EngineParts, InboundEvent, Timing};

    fn engine() -> Arc<Engine<SqliteStore>> {
        Arc::new(Engine::new(EngineParts {
            store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
            tools: ToolRegistry::default(),
            clock: Arc::new(SystemClock),
            me: "w".parse().unwrap(),
            timing: Timing::default(),
            notifier: None,
            evidence_signer: None,
        }))
    }

    fn handle(engine: &Arc<Engine<SqliteStore>>, tenant: &str) -> TenantHandle<SqliteStore> {
        TenantHandle::open(Arc::clone(engine), tenant.parse().unwrap(), "ada".parse().unwrap())
    }

    /// Applies a workflow for acme that matches every event, with one run at a time for each host.
    async fn apply(engine: &Engine<SqliteStore>, name: &str) {
        let source = format!(
            "workflow: {name}\nversion: 1\ntrigger: {{ webhook: {{}} }}\nconcurrency: '${{ trigger.body.host }}'\n\
             steps:\n  - {{ id: ask, tool: approval.gate, with: {{ message: 'Go on?' }} }}\n"
        );
        let plan = workflow::parse(&source, &BTreeSet::new()).unwrap();
        let by = Initiator::new(Cause::User, "ada");
        engine.apply(&"acme".parse().unwrap(), &plan, by).await.unwrap();
    }

    /// Accepts an event for acme; returns the run it would start.
    async fn come(engine: &Engine<SqliteStore>, key: &str) -> RunKey {
        let event = InboundEvent {
            tenant: "acme".parse().unwrap(),
            key: key.parse().unwrap(),
            source: Source::Webhook,
            topic: None,
            record: None,
            proof: Digest::of_bytes(key.as_bytes()),
            dedupe_key: None,
            body: json!({ "body": { "host": "db1" } }),
            start_request: None,
        };
        engine.accept(event).await.unwrap().run
    }

    /// Accepts and processes an event.
    async fn begin(engine: &Engine<SqliteStore>, key: &str) -> RunKey {
        let run = come(engine, key).await;
        engine.process_entry(&run).await.unwrap();
        run
    }

    #[tokio::test]
    async fn a_run_that_was_not_started_says_why() {
        let engine = engine();
        let handle = handle(&engine, "acme");
        let says = async |run: &RunKey| handle.run(&run.run).await.err().unwrap().to_string();
        assert!(says(&come(&engine, "waits").await).await.contains("waits for a worker"));
        let unwanted = begin(&engine, "unwanted").await;
        assert!(says(&unwanted).await.contains("no workflow matched"), "{}", says(&unwanted).await);

        apply(&engine, "first").await;
        let begun = begin(&engine, "begun").await;
        assert!(handle.run(&begun.run).await.is_ok());
        let joined = begin(&engine, "joined").await;
        assert!(says(&joined).await.contains(begun.run.as_str()), "{}", says(&joined).await);

        apply(&engine, "second").await;
        let refused = begin(&engine, "refused").await;
        assert!(says(&refused).await.contains("first and second both match it"), "{}", says(&refused).await);
    }

    #[tokio::test]
    async fn every_operation_gives_the_same_reason() {
        let engine = engine();
        let (handle, run) = (handle(&engine, "acme"), begin(&engine, "unwanted").await.run);
        let no = handle.run(&run).await.err().unwrap().to_string();
        for other in [
            handle.record(&run).await.err(),
            handle.cancel(&run, "").await.err(),
            handle.pause(&run, "").await.err(),
            handle.resume(&run, "").await.err(),
            handle.roll_back(&run, "").await.err(),
            handle.undo_plan(&run).await.err(),
            handle.undo(&run).await.err(),
            handle.evidence(&run).await.err(),
            handle.receipts(&run).await.err(),
        ] {
            assert_eq!(other.unwrap().to_string(), no);
        }
    }

    #[tokio::test]
    async fn what_came_in_for_another_tenant_is_not_there() {
        let engine = engine();
        let run = begin(&engine, "unwanted").await.run;
        let told = handle(&engine, "umbrella").run(&run).await.err();
        assert!(matches!(told, Some(EngineError::NoRun { .. })), "{told:?}");
    }
}
