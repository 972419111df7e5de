//! A handle: the runtime's verbs for one person of one tenant.
//!
//! Whoever stands at a handle names runs and requests by their ids alone; whose they are is settled when the handle
//! is opened. What belongs to another tenant is therefore not forbidden but not there, and there is no verb
//! with which to ask for it. Everything that people reach through the network goes over a handle.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::chain::StoredEvent;
use domain::command::{Advanced, Answered, Canceling, Delivered};
use domain::{
    ApiKey, Applied, Approval, ApprovalId, Cause, Channel, Digest, Evidence, IdempotencyKey, Initiator,
    KeyId, PersonId, Plan, Receipt, RecordName, RunId, RunKey, RunRecord, StepSeq, Stopped, Tenant, TenantId,
    Timestamp, ToolName, WorkerRecord, WorkflowName, WorkspaceId,
};
use serde_json::Value;
use store::{ApprovalPage, Cursor, KeyPage, PageQuery, PolicyFiles, RunPage, RunQuery, Store};
use workflow::CompiledPlan;

use crate::admit::{StartRun, Started};
use crate::error::EngineError;
use crate::forecast::{Explain, Explained};
use crate::health::Health;
use crate::policies::{Counting, PolicyApplied};
use crate::settle::{NewKey, Settle};
use crate::{
    Backout, BackoutSoFar, CountSoFar, Dispatch, Engine, Reach, Reply, RunView, SignalRun, StartSoFar,
    UndoPlan,
};

/// The runtime's verbs for one person of one tenant.
pub struct TenantHandle<S> {
    engine: Arc<Engine<S>>,
    tenant: TenantId,
    person: PersonId,
}

// By hand: a handle can be copied whatever the store is.
impl<S> Clone for TenantHandle<S> {
    fn clone(&self) -> Self {
        Self { engine: Arc::clone(&self.engine), tenant: self.tenant.clone(), person: self.person.clone() }
    }
}

/// What a person at a handle answers.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalReply {
    /// To which request.
    pub approval: ApprovalId,
    /// The hash of what they saw.
    pub subject: Option<Digest>,
    /// Yes or no.
    pub approve: bool,
    /// In their words.
    pub reason: String,
    /// Through what, and how surely they are known.
    pub through: Channel,
}

impl<S: Store> TenantHandle<S> {
    /// A handle of `tenant` at which `person` stands.
    pub fn open(engine: Arc<Engine<S>>, tenant: TenantId, person: PersonId) -> Self {
        Self { engine, tenant, person }
    }

    /// Who stands at it.
    pub fn person(&self) -> &PersonId {
        &self.person
    }

    /// Whose it is.
    pub fn tenant_id(&self) -> &TenantId {
        &self.tenant
    }

    /// The time, as this process sees it.
    pub fn now(&self) -> Timestamp {
        self.engine.now()
    }

    fn by(&self) -> Initiator {
        Initiator::new(Cause::User, self.person.as_str())
    }

    fn key(&self, run: &RunId) -> RunKey {
        RunKey { tenant: self.tenant.clone(), run: run.clone() }
    }

    /// What a verb on a run gave. Of a run that is not there, it says what has become of what came in to start it.
    async fn found<T>(&self, given: Result<T, EngineError>) -> Result<T, EngineError> {
        match given {
            Err(EngineError::NoRun { run }) => Err(self.engine.no_run(run).await),
            given => given,
        }
    }

    /// Runs, newest first.
    pub async fn runs(&self, query: RunQuery) -> Result<RunPage, EngineError> {
        let store = self.engine.store();
        Ok(self.engine.retry_busy(|| store.runs(&self.tenant, query.clone())).await?)
    }

    /// Everything there is to know about a run.
    pub async fn run(&self, run: &RunId) -> Result<RunView, EngineError> {
        self.found(self.engine.inspect(&self.key(run)).await).await
    }

    /// A run's record alone.
    pub async fn record(&self, run: &RunId) -> Result<RunRecord, EngineError> {
        let key = self.key(run);
        let record = self.engine.retry_busy(|| self.engine.store().load(&key)).await?;
        self.found(record.ok_or(EngineError::NoRun { run: key })).await
    }

    /// The plan of a run.
    pub async fn plan_of(&self, record: &RunRecord) -> Result<Arc<CompiledPlan>, EngineError> {
        self.engine.plan(&self.tenant, record.plan).await
    }

    /// The chain of a run from event `from` on, at most `limit` entries. Nothing, if there is no such run.
    pub async fn events(&self, run: &RunId, from: u32, limit: u32) -> Result<Vec<StoredEvent>, EngineError> {
        let key = self.key(run);
        Ok(self.engine.retry_busy(|| self.engine.store().events(&key, from, limit)).await?)
    }

    /// The receipt under `key`.
    pub async fn receipt(&self, key: &IdempotencyKey) -> Result<Option<Receipt>, EngineError> {
        Ok(self.engine.retry_busy(|| self.engine.store().receipt(&self.tenant, key)).await?)
    }

    /// Starts a run of a workflow that is in use, or finds the one that the same request started before.
    pub async fn start(
        &self,
        workflow: &WorkflowName,
        key: IdempotencyKey,
        trigger_kind: &str,
        record: Option<RecordName>,
        input: Value,
    ) -> Result<Started, EngineError> {
        let plan = self.workflow(workflow).await?;
        let wish = StartRun {
            tenant: self.tenant.clone(),
            workspace: WorkspaceId::default(),
            plan: plan.plan().clone(),
            trigger_kind: trigger_kind.to_owned(),
            record,
            key,
            input,
            by: self.by(),
        };
        self.engine.start(wish).await
    }

    /// Stops a run.
    pub async fn cancel(&self, run: &RunId, reason: &str) -> Result<Canceling, EngineError> {
        self.found(self.engine.cancel(&self.key(run), &self.by(), reason).await).await
    }

    /// Holds a run for an operator.
    pub async fn pause(&self, run: &RunId, reason: &str) -> Result<Option<Advanced>, EngineError> {
        self.found(self.engine.pause(&self.key(run), &self.by(), reason).await).await
    }

    /// Lets a paused run go on with its current step.
    pub async fn resume(&self, run: &RunId, reason: &str) -> Result<(), EngineError> {
        self.found(self.engine.resume(&self.key(run), &self.by(), reason).await).await
    }

    /// Takes a run's effects back.
    pub async fn roll_back(&self, run: &RunId, reason: &str) -> Result<StepSeq, EngineError> {
        self.found(self.engine.roll_back(&self.key(run), &self.by(), reason).await).await
    }

    /// What taking back a finished run would do.
    pub async fn undo_plan(&self, run: &RunId) -> Result<UndoPlan, EngineError> {
        self.found(self.engine.undo_plan(&self.key(run)).await).await
    }

    /// Starts a run that takes back what a finished run did.
    pub async fn undo(&self, run: &RunId) -> Result<Started, EngineError> {
        self.found(self.engine.undo(&self.key(run), &self.by()).await).await
    }

    /// Delivers an event to a run.
    pub async fn signal(&self, run: &RunId, wish: SignalRun) -> Result<Delivered, EngineError> {
        self.found(self.engine.signal(&self.key(run), &self.by(), wish).await).await
    }

    /// Requests that people can still answer, oldest first.
    pub async fn open_approvals(
        &self,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<ApprovalPage, EngineError> {
        let (store, query) = (self.engine.store(), PageQuery { after, limit });
        Ok(self.engine.retry_busy(|| store.open_approvals(&self.tenant, query.clone())).await?)
    }

    /// A request for approval.
    pub async fn approval(&self, id: &ApprovalId) -> Result<Approval, EngineError> {
        self.engine.approval(&self.tenant, id).await
    }

    /// Answers a request for approval, in the name of whoever stands here.
    pub async fn answer(&self, reply: ApprovalReply) -> Result<Answered, EngineError> {
        let ApprovalReply { approval, subject, approve, reason, through } = reply;
        let reply = Reply { approval, subject, person: self.person.clone(), approve, reason, through };
        self.engine.answer(&self.tenant, reply).await
    }

    /// The evidence of a run, as it was recorded.
    pub async fn evidence(&self, run: &RunId) -> Result<(Evidence, Vec<u8>), EngineError> {
        self.found(self.engine.evidence(&self.key(run)).await).await
    }

    /// The workflows in use, by name.
    pub async fn workflows(&self) -> Result<Vec<Applied>, EngineError> {
        self.engine.applied(&self.tenant).await
    }

    /// A workflow in use.
    pub async fn workflow(&self, name: &WorkflowName) -> Result<Arc<CompiledPlan>, EngineError> {
        Ok(self.applied(name).await?.1)
    }

    /// What would come of every step of a workflow, if a run of it were started here.
    pub async fn explain(&self, wish: Explain) -> Result<Explained, EngineError> {
        self.engine.explain(&self.tenant, wish, self.by()).await
    }

    /// The policy that counts.
    pub async fn policy(&self) -> Result<Counting, EngineError> {
        self.engine.counting(&self.tenant).await
    }

    /// Settles on a policy, if its tests pass.
    pub async fn apply_policy(&self, files: PolicyFiles) -> Result<PolicyApplied, EngineError> {
        self.engine.apply_policy(&self.tenant, files, self.by()).await
    }

    /// How the fleet is doing, as far as it is this tenant's business.
    pub async fn health(&self) -> Result<Health, EngineError> {
        self.engine.health(&self.tenant).await
    }

    /// The workers of the fleet, which serve every tenant, the one that came first first.
    pub async fn workers(&self) -> Result<Vec<WorkerRecord>, EngineError> {
        self.engine.workers().await
    }

    /// Every version of a workflow that was put to use, the newest first. Nothing, if there is no such workflow.
    pub async fn versions(&self, name: &WorkflowName) -> Result<Vec<Applied>, EngineError> {
        self.engine.versions(&self.tenant, name).await
    }

    /// Puts a workflow to use.
    pub async fn apply(&self, plan: &Plan) -> Result<Applied, EngineError> {
        self.engine.apply(&self.tenant, plan, self.by()).await
    }

    /// The workflow in use under this name, with its plan.
    pub async fn applied(&self, name: &WorkflowName) -> Result<(Applied, Arc<CompiledPlan>), EngineError> {
        let applied = self.workflows().await?.into_iter().find(|applied| applied.workflow == *name);
        let applied = applied.ok_or_else(|| EngineError::NoWorkflow { workflow: name.clone() })?;
        let plan = self.engine.plan(&self.tenant, applied.plan).await?;
        Ok((applied, plan))
    }

    /// A version of a workflow that was put to use, with its plan.
    pub async fn version(
        &self,
        name: &WorkflowName,
        version: u32,
    ) -> Result<(Applied, Arc<CompiledPlan>), EngineError> {
        let applied = self.versions(name).await?.into_iter().find(|applied| applied.version == version);
        let applied = applied.ok_or_else(|| EngineError::NoWorkflow { workflow: name.clone() })?;
        let plan = self.engine.plan(&self.tenant, applied.plan).await?;
        Ok((applied, plan))
    }

    /// The tools that steps may call.
    pub fn tools(&self) -> BTreeSet<ToolName> {
        self.engine.tools().names().cloned().collect()
    }

    /// The plan that a run was admitted with.
    pub async fn plan(&self, record: &RunRecord) -> Result<Arc<CompiledPlan>, EngineError> {
        self.engine.plan(&self.tenant, record.plan).await
    }

    /// Every receipt that the chain of a run speaks of so far.
    pub async fn receipts(&self, run: &RunId) -> Result<Vec<Receipt>, EngineError> {
        self.found(self.engine.receipts(&self.key(run)).await).await
    }

    /// What the tenant has settled, if it has settled anything.
    pub async fn settled(&self) -> Result<Option<Tenant>, EngineError> {
        self.engine.settled(&self.tenant).await
    }

    /// Settles something anew, unless somebody else has since it was looked at.
    pub async fn settle(&self, settle: Settle) -> Result<Tenant, EngineError> {
        self.engine.settle(&self.tenant, settle).await
    }

    /// A page of the tenant's keys, by id.
    pub async fn keys(&self, after: Option<Cursor>, limit: u32) -> Result<KeyPage, EngineError> {
        self.engine.api_keys(&self.tenant, PageQuery { after, limit }).await
    }

    /// Makes a key of the tenant.
    pub async fn make_key(&self, new: NewKey) -> Result<ApiKey, EngineError> {
        self.engine.make_key(&self.tenant, new).await
    }

    /// Takes a key of the tenant back.
    pub async fn revoke_key(&self, id: &KeyId) -> Result<ApiKey, EngineError> {
        self.engine.revoke_key(&self.tenant, id).await
    }

    /// How the switch of dispatch stands.
    pub async fn dispatch(&self) -> Result<Dispatch, EngineError> {
        self.engine.dispatch(&self.tenant).await
    }

    /// Stops dispatch for the tenant.
    pub async fn stop_dispatch(&self, reason: &str) -> Result<Stopped, EngineError> {
        self.engine.stop_dispatch(&self.reach(), &self.by(), reason).await
    }

    /// Starts dispatch for the tenant again; says how many runs were announced.
    pub async fn start_dispatch(&self) -> Result<u64, EngineError> {
        self.engine.start_dispatch(&self.reach(), &self.by()).await
    }

    /// A piece of that, behind what was done `so_far`; says how many runs that makes and what is left to be done.
    pub async fn start_some(
        &self,
        so_far: Option<StartSoFar>,
    ) -> Result<(u64, Option<StartSoFar>), EngineError> {
        self.engine.start_some(&self.reach(), &self.by(), so_far).await
    }

    /// Stops dispatch for the tenant and ends what is under way, as much of it as makes a piece, behind what was done
    /// `so_far`; says what became of the runs and what is left to be done.
    pub async fn back_out_some(
        &self,
        reason: &str,
        so_far: Option<BackoutSoFar>,
    ) -> Result<(Backout, Option<BackoutSoFar>), EngineError> {
        self.engine.back_out_some(&self.reach(), &self.by(), reason, so_far, |_| {}).await
    }

    /// How many runs a backout would end, or ask to, as far as a piece goes behind what was counted `so_far`.
    pub async fn count_some(
        &self,
        so_far: Option<CountSoFar>,
    ) -> Result<(u64, Option<CountSoFar>), EngineError> {
        self.engine.count_some(&self.reach(), so_far).await
    }

    fn reach(&self) -> Reach {
        Reach::Tenant(self.tenant.clone())
    }

    /// What the tenant has settled.
    pub async fn tenant(&self) -> Result<Tenant, EngineError> {
        self.engine.tenant(&self.tenant).await
    }
}

#[cfg(test)]
mod tests {
    use connectors::Toolbox;
    use domain::Source;
    use serde_json::json;
    use store::{SqliteOptions, SqliteStore, SystemClock};

    use super::*;
    use crate::{InboundEvent, Parts, Timing};

    fn engine() -> Arc<Engine<SqliteStore>> {
        Arc::new(Engine::new(Parts {
            store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
            tools: Toolbox::default(),
            clock: Arc::new(SystemClock),
            me: "w".parse().unwrap(),
            timing: Timing::default(),
            shows: None,
            sealing: None,
        }))
    }

    fn handle(engine: &Arc<Engine<SqliteStore>>, tenant: &str) -> TenantHandle<SqliteStore> {
        TenantHandle::open(Arc::clone(engine), tenant.parse().unwrap(), "ada".parse().unwrap())
    }

    /// Puts a workflow of acme's to use that wants whatever comes, one run at a time for each host.
    async fn apply(engine: &Engine<SqliteStore>, name: &str) {
        let source = format!(
            "workflow: {name}\nversion: 1\ntrigger: {{ webhook: {{}} }}\nticket: '${{ trigger.body.host }}'\n\
             steps:\n  - {{ id: ask, tool: approval.gate, with: {{ message: 'Go on?' }} }}\n"
        );
        let plan = workflow::parse(&source, &BTreeSet::new()).unwrap();
        let by = Initiator::new(Cause::User, "ada");
        engine.apply(&"acme".parse().unwrap(), &plan, by).await.unwrap();
    }

    /// The run that something would start which comes in for acme.
    async fn come(engine: &Engine<SqliteStore>, key: &str) -> RunKey {
        let knock = InboundEvent {
            tenant: "acme".parse().unwrap(),
            key: key.parse().unwrap(),
            source: Source::Webhook,
            about: None,
            record: None,
            proof: Digest::of_bytes(key.as_bytes()),
            dedupe_key: None,
            body: json!({ "body": { "host": "db1" } }),
            asked: None,
        };
        engine.accept(knock).await.unwrap().run
    }

    /// The same, once it was taken up.
    async fn begin(engine: &Engine<SqliteStore>, key: &str) -> RunKey {
        let run = come(engine, key).await;
        engine.begin(&run).await.unwrap();
        run
    }

    #[tokio::test]
    async fn of_a_run_that_was_not_started_is_told_what_became_of_what_came_in() {
        let engine = engine();
        let handle = handle(&engine, "acme");
        let says = async |run: &RunKey| handle.run(&run.run).await.err().unwrap().to_string();
        assert!(says(&come(&engine, "waits").await).await.contains("waits for a worker"));
        let unwanted = begin(&engine, "unwanted").await;
        assert!(says(&unwanted).await.contains("no workflow wanted"), "{}", says(&unwanted).await);

        apply(&engine, "first").await;
        let begun = begin(&engine, "begun").await;
        assert!(handle.run(&begun.run).await.is_ok());
        let joined = begin(&engine, "joined").await;
        assert!(says(&joined).await.contains(begun.run.as_str()), "{}", says(&joined).await);

        apply(&engine, "second").await;
        let refused = begin(&engine, "refused").await;
        assert!(says(&refused).await.contains("first and second both want it"), "{}", says(&refused).await);
    }

    #[tokio::test]
    async fn whatever_is_asked_of_a_run_that_was_not_started_the_answer_is_the_same() {
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
