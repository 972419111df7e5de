//! The environment of a test.

use std::sync::Arc;

use domain::command::VoteResult;
use domain::refusal::NotApprover;
use domain::{
    Approval, Cause, Event, Initiator, Job, ParticipantRole, Refusal, Role, RunKey, RunRecord, RunStatus,
    Tenant, TenantId,
};
use engine::{Engine, EngineError, StartRun, TenantHandle, VoteRequest};
use evidence::Verified;
use policy::PolicyBundle;
use store::{PolicyFiles, SqliteStore, Store};

use crate::{TestClock, runs, signing_key};

/// An engine, its clock, and what tests do with them. [`crate::engine`] builds it. A fixture with more parts holds one.
pub struct TestEnv<S = SqliteStore> {
    pub engine: Arc<Engine<S>>,
    pub clock: TestClock,
}

impl<S: Store> TestEnv<S> {
    pub fn store(&self) -> &S {
        self.engine.store()
    }

    /// The operations of `person` in acme.
    pub fn handle(&self, person: &str) -> TenantHandle<S> {
        self.handle_of("acme", person)
    }

    /// The operations of `person` in `tenant`.
    pub fn handle_of(&self, tenant: &str, person: &str) -> TenantHandle<S> {
        self.engine.tenant_handle(&tenant.parse().unwrap(), &Initiator::new(Cause::User, person))
    }

    /// Ada applies a workflow for acme.
    pub async fn apply(&self, source: &str) {
        runs::apply(&self.engine, source).await;
    }

    /// A request for a run of acme by ada, without input.
    pub fn request(&self, source: &str, key: &str) -> StartRun {
        runs::request(&self.engine, source, key)
    }

    /// Ada starts a run of acme.
    pub async fn start(&self, source: &str, key: &str) -> RunKey {
        self.start_as(self.request(source, key)).await
    }

    /// Ada starts a run of `tenant`.
    pub async fn start_for(&self, tenant: &str, source: &str, key: &str) -> RunKey {
        self.start_as(StartRun { tenant: tenant.parse().unwrap(), ..self.request(source, key) }).await
    }

    pub async fn start_as(&self, request: StartRun) -> RunKey {
        Box::pin(self.engine.admission().start(request)).await.unwrap().run
    }

    /// Advances a run until it ends or waits; returns its status.
    pub async fn advance(&self, run: &RunKey) -> RunStatus {
        runs::advance(&self.engine, run).await
    }

    /// Starts a run of acme and advances it.
    pub async fn run(&self, source: &str, key: &str) -> (RunKey, RunStatus) {
        let run = self.start(source, key).await;
        let status = self.advance(&run).await;
        (run, status)
    }

    pub async fn record(&self, run: &RunKey) -> RunRecord {
        runs::record(&self.engine, run).await
    }

    pub async fn status(&self, run: &RunKey) -> RunStatus {
        self.record(run).await.status
    }

    pub async fn events(&self, run: &RunKey) -> Vec<Event> {
        self.engine.operations().inspect(run).await.unwrap().events.unwrap()
    }

    /// The approval requests of a run, in order.
    pub async fn approvals(&self, run: &RunKey) -> Vec<Approval> {
        runs::approvals(&self.engine, run).await
    }

    /// The newest approval request of a run.
    pub async fn approval(&self, run: &RunKey) -> Approval {
        self.approvals(run).await.pop().unwrap()
    }

    /// Approves the newest approval request of a run.
    pub async fn approve(&self, run: &RunKey, person: &str) -> Result<VoteResult, EngineError> {
        runs::approve(&self.engine, run, person).await
    }

    /// Rejects the newest approval request of a run.
    pub async fn reject(&self, run: &RunKey, person: &str, reason: &str) -> Result<VoteResult, EngineError> {
        let (approve, reason) = (false, reason.to_owned());
        self.vote(run, VoteRequest { approve, reason, ..runs::vote(&self.approval(run).await, person) }).await
    }

    pub async fn vote(&self, run: &RunKey, vote: VoteRequest) -> Result<VoteResult, EngineError> {
        Box::pin(self.engine.governance().record_vote(&run.tenant, vote)).await
    }

    /// Asserts that `person` cannot approve because of this role in the run.
    pub async fn assert_excluded(&self, run: &RunKey, person: &str, role: ParticipantRole) {
        let refused = self.approve(run, person).await;
        let Err(EngineError::Refused(Refusal::NotApprover { why, .. })) = refused else {
            panic!("{person}: {refused:?}")
        };
        assert_eq!(why, NotApprover::Participant(role), "{person}");
        assert!(self.approval(run).await.is_open());
    }

    /// The evidence of a run, which a signed engine has built.
    pub async fn evidence(&self, run: &RunKey) -> Verified {
        let (_, bytes) = self.engine.operations().evidence(run).await.unwrap();
        evidence::verify(&bytes, &signing_key().public()).unwrap()
    }

    /// Changes the settings of a tenant in the store, as another process would.
    pub async fn update_tenant(&self, tenant: &TenantId, change: impl FnOnce(&mut Tenant)) {
        let stored = self.store().tenant(tenant).await.unwrap();
        let revision = stored.as_ref().map_or(0, |stored| stored.revision + 1);
        let mut updated = stored.unwrap_or_else(|| Tenant::new(tenant.clone()));
        updated.revision = revision;
        change(&mut updated);
        self.store().put_tenant(updated).await.unwrap();
    }

    /// Sets the policy of acme to one file of rules.
    pub async fn put_policy(&self, rules: &str) {
        self.put_policy_of("acme", PolicyFiles::from([("rules.rego".to_owned(), rules.to_owned())])).await;
    }

    pub async fn put_policy_of(&self, tenant: &str, files: PolicyFiles) {
        let tenant = tenant.parse().unwrap();
        let hash = PolicyBundle::parse(files.clone()).unwrap().hash();
        self.store().put_policy(&tenant, &hash, files).await.unwrap();
        self.update_tenant(&tenant, |tenant| tenant.policy = Some(hash)).await;
    }

    /// Stores an API key of `person`; returns its text.
    pub async fn put_key(&self, tenant: &str, person: &str, roles: &[Role]) -> String {
        let key = crate::api_key(tenant, person, roles);
        let text = crate::key_text(&key);
        self.store().put_key(key).await.unwrap();
        text
    }

    /// The number of messages in all queues.
    pub async fn messages(&self) -> u64 {
        runs::messages(self.store()).await
    }

    /// The jobs of the first dead letters.
    pub async fn dead_letters(&self) -> Vec<Job> {
        runs::dead_letters(self.store()).await
    }
}
