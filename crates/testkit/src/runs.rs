//! Runs of the tenant `acme`, and the requests that make them.

use domain::command::VoteResult;
use domain::{
    Approval, Cause, Channel, Digest, Initiator, Job, Plan, QueueName, RunKey, RunRecord, RunStatus, Source,
    TenantId,
};
use engine::{AdvanceLimits, Engine, EngineError, InboundEvent, StartRun, VoteRequest};
use serde_json::{Value, json};
use store::{Queue, Store};

/// One step without an effect. It needs the standard tools.
pub const TRANSFORM: &str =
    "workflow: w\nversion: 1\nsteps: [{ id: a, tool: transform, with: { value: 1 } }]\n";

/// One step that waits for an approval.
pub const ASK: &str =
    "workflow: w\nversion: 1\nsteps:\n  - { id: ask, tool: approval.gate, with: { message: 'Go on?' } }\n";

pub fn acme() -> TenantId {
    "acme".parse().unwrap()
}

/// The user who requests the runs.
pub fn ada() -> Initiator {
    Initiator::new(Cause::User, "ada")
}

/// The plan of a workflow with the tools of `engine`.
pub fn plan<S: Store>(engine: &Engine<S>, source: &str) -> Plan {
    workflow::parse(source, &engine.tools().names().cloned().collect()).unwrap()
}

/// A request for a run of acme by ada, without input.
pub fn request<S: Store>(engine: &Engine<S>, source: &str, key: &str) -> StartRun {
    StartRun {
        tenant: acme(),
        workspace: "main".parse().unwrap(),
        plan: plan(engine, source),
        trigger_kind: "test".to_owned(),
        record: None,
        key: key.parse().unwrap(),
        input: json!({}),
        by: ada(),
        applied_by: None,
        inherited: domain::Inherited::default(),
    }
}

/// Starts a run of acme.
pub async fn start<S: Store>(engine: &Engine<S>, source: &str, key: &str) -> RunKey {
    Box::pin(engine.admission().start(request(engine, source, key))).await.unwrap().run
}

/// Applies a workflow for acme.
pub async fn apply<S: Store>(engine: &Engine<S>, source: &str) {
    engine.tenant_handle(&acme(), &ada()).apply(&plan(engine, source)).await.unwrap();
}

/// A ServiceNow event for acme.
pub fn event(key: &str, body: Value) -> InboundEvent {
    InboundEvent {
        tenant: acme(),
        key: key.parse().unwrap(),
        source: Source::ServiceNow,
        topic: Some("incident".to_owned()),
        record: None,
        proof: Digest::of_bytes(key.as_bytes()),
        dedupe_key: None,
        body,
        start_request: None,
    }
}

/// Advances a run until it ends or waits; returns its status.
pub async fn advance<S: Store>(engine: &Engine<S>, run: &RunKey) -> RunStatus {
    Box::pin(engine.execution().advance(run, &(), AdvanceLimits::default())).await.unwrap();
    status(engine, run).await
}

pub async fn record<S: Store>(engine: &Engine<S>, run: &RunKey) -> RunRecord {
    engine.store().load(run).await.unwrap().unwrap()
}

pub async fn status<S: Store>(engine: &Engine<S>, run: &RunKey) -> RunStatus {
    record(engine, run).await.status
}

/// The approval requests of a run, in order.
pub async fn approvals<S: Store>(engine: &Engine<S>, run: &RunKey) -> Vec<Approval> {
    engine.store().approvals(run).await.unwrap()
}

/// A vote for `approval`.
pub fn vote(approval: &Approval, person: &str) -> VoteRequest {
    VoteRequest {
        approval: approval.id.clone(),
        subject: Some(approval.subject.hash()),
        person: person.parse().unwrap(),
        approve: true,
        reason: String::new(),
        through: Channel::CommandLine,
    }
}

/// Approves the newest approval request of a run.
pub async fn approve<S: Store>(
    engine: &Engine<S>,
    run: &RunKey,
    person: &str,
) -> Result<VoteResult, EngineError> {
    let asked = approvals(engine, run).await.pop().unwrap();
    Box::pin(engine.governance().record_vote(&run.tenant, vote(&asked, person))).await
}

/// The number of messages in all queues.
pub async fn messages(store: &impl Queue) -> u64 {
    let mut messages = 0;
    for queue in QueueName::ALL {
        messages += store.depth(queue).await.unwrap();
    }
    messages
}

/// The jobs of the first dead letters.
pub async fn dead_letters(store: &impl Queue) -> Vec<Job> {
    let letters = store.dead_letters(10).await.unwrap();
    letters.iter().filter_map(|letter| letter.job().cloned()).collect()
}
