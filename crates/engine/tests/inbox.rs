//! What comes in from outside starts the run it names, once.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use connectors::{Allow, Settings};
use countersign_engine::{AcceptResult, Engine, EngineError, InboundEvent, Parts, StartRun, Timing};
use domain::inbox::TRIES_MAX;
use domain::{
    Cause, Digest, InboxStatus, Initiator, Job, Millis, QueueName, Refusal, Source, TenantId, WorkspaceId,
};
use serde_json::{Value, json};
use store::{Delivery, Inbox as _, Ledger as _, Queue as _, SqliteOptions, SqliteStore, SystemClock};

fn engine() -> Engine<SqliteStore> {
    Engine::new(Parts {
        store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
        tools: connectors::standard(Allow::default(), Settings::default()),
        clock: Arc::new(SystemClock),
        me: "w".parse().unwrap(),
        timing: Timing::default(),
        shows: None,
        sealing: None,
    })
}

fn acme() -> TenantId {
    "acme".parse().unwrap()
}

fn workflow_of(name: &str, version: u32, trigger: &str) -> String {
    format!(
        "workflow: {name}\nversion: {version}\ntrigger: {trigger}\n\
         steps:\n  - {{ id: a, tool: transform, with: {{ value: '${{ trigger.record.sys_id }}' }} }}\n"
    )
}

async fn apply(
    engine: &Engine<SqliteStore>,
    name: &str,
    version: u32,
    trigger: &str,
) -> Result<(), EngineError> {
    let names = engine.tools().names().cloned().collect();
    let plan = workflow::parse(&workflow_of(name, version, trigger), &names).unwrap();
    engine.apply(&acme(), &plan, Initiator::new(Cause::User, "ada")).await.map(drop)
}

#[tokio::test]
async fn who_put_a_version_to_use_first_is_remembered() {
    let engine = engine();
    let names = engine.tools().names().cloned().collect();
    let plan = |version| workflow::parse(&workflow_of("triage", version, URGENT), &names).unwrap();
    let first = engine.apply(&acme(), &plan(1), Initiator::new(Cause::User, "ada")).await.unwrap();
    let again = engine.apply(&acme(), &plan(1), Initiator::new(Cause::User, "ci")).await.unwrap();
    assert_eq!((again.by.id.as_str(), &again), ("ada", &first));
    let next = engine.apply(&acme(), &plan(2), Initiator::new(Cause::User, "ci")).await.unwrap();
    assert_eq!(engine.versions(&acme(), &first.workflow).await.unwrap(), [next, first]);
}

fn knock(key: &str, body: Value) -> InboundEvent {
    InboundEvent {
        tenant: acme(),
        key: key.parse().unwrap(),
        source: Source::ServiceNow,
        about: Some("incident".to_owned()),
        record: None,
        proof: Digest::of_bytes(key.as_bytes()),
        dedupe_key: None,
        body,
        asked: None,
    }
}

fn urgent() -> Value {
    json!({ "record": { "sys_id": "abc", "priority": "1" } })
}

const URGENT: &str = "{ servicenow: { table: incident, when: '${ trigger.record.priority == \"1\" }' } }";

async fn status(engine: &Engine<SqliteStore>, welcome: &AcceptResult) -> InboxStatus {
    engine.begin(&welcome.run).await.unwrap();
    engine.store().entry(&welcome.run).await.unwrap().unwrap().status
}

#[tokio::test]
async fn what_comes_in_is_durable_and_announced_before_it_is_accepted() {
    let engine = engine();
    let welcome = engine.accept(knock("sn:1", urgent())).await.unwrap();
    assert!(welcome.new && engine.store().entry(&welcome.run).await.unwrap().is_some());
    let messages =
        engine.store().receive(QueueName::Ingest, 10, Millis::secs(30), Duration::ZERO).await.unwrap();
    assert_eq!(messages.len(), 1);
    assert_eq!((&messages[0].run, &messages[0].job), (&welcome.run, &Job::Start));
}

#[tokio::test]
async fn the_workflow_that_wants_it_is_started_once_however_often_it_is_delivered() {
    let engine = engine();
    apply(&engine, "triage", 1, URGENT).await.unwrap();
    let welcome = engine.accept(knock("sn:1", urgent())).await.unwrap();
    assert_eq!(status(&engine, &welcome).await, InboxStatus::Started);
    let first = engine.store().load(&welcome.run).await.unwrap().unwrap();
    assert_eq!((first.workflow.as_str(), first.trigger.kind.as_str()), ("triage", "servicenow"));

    let again = engine.accept(knock("sn:1", urgent())).await.unwrap();
    assert_eq!(again, AcceptResult { run: welcome.run.clone(), new: false, status: InboxStatus::Started });
    engine.begin(&welcome.run).await.unwrap();
    assert_eq!(engine.store().load(&welcome.run).await.unwrap(), Some(first));
}

/// Whoever took it up died after the run was there, and before anybody was told or the entry was settled.
#[tokio::test]
async fn a_run_whose_start_was_not_announced_is_announced_when_the_arrival_is_taken_up_again() {
    let engine = engine();
    apply(&engine, "triage", 1, URGENT).await.unwrap();
    let welcome = engine.accept(knock("sn:1", urgent())).await.unwrap();
    let names = engine.tools().names().cloned().collect();
    let wish = StartRun {
        tenant: acme(),
        workspace: WorkspaceId::default(),
        plan: workflow::parse(&workflow_of("triage", 1, URGENT), &names).unwrap(),
        trigger_kind: "servicenow".to_owned(),
        record: None,
        key: "sn:1".parse().unwrap(),
        input: urgent(),
        by: Initiator::new(Cause::Webhook, "servicenow"),
    };
    engine.start(wish).await.unwrap();
    for lost in walks(&engine).await {
        engine.store().delete(&lost.handle).await.unwrap();
    }

    assert_eq!(status(&engine, &welcome).await, InboxStatus::Started);
    let messages = walks(&engine).await;
    assert_eq!(messages.iter().map(|message| &message.run).collect::<Vec<_>>(), [&welcome.run]);
}

async fn walks(engine: &Engine<SqliteStore>) -> Vec<Delivery> {
    engine.store().receive(QueueName::Steps, 10, Millis::secs(30), Duration::ZERO).await.unwrap()
}

#[tokio::test]
async fn the_same_key_with_something_else_in_it_is_a_conflict() {
    let engine = engine();
    let welcome = engine.accept(knock("sn:1", urgent())).await.unwrap();
    let refused = engine.accept(knock("sn:1", json!({ "record": {} }))).await.unwrap_err();
    assert!(matches!(&refused, EngineError::Refused(Refusal::KeyConflict { run }) if *run == welcome.run));
}

#[tokio::test]
async fn what_nobody_wants_starts_nothing() {
    let engine = engine();
    apply(&engine, "triage", 1, URGENT).await.unwrap();
    apply(&engine, "changes", 1, "{ servicenow: { table: change_request } }").await.unwrap();
    apply(&engine, "pushes", 1, "{ github: { event: push } }").await.unwrap();
    let welcome = engine.accept(knock("sn:1", json!({ "record": { "priority": "3" } }))).await.unwrap();
    assert!(matches!(status(&engine, &welcome).await, InboxStatus::Unmatched { .. }));
    assert_eq!(engine.store().load(&welcome.run).await.unwrap(), None);
}

#[tokio::test]
async fn what_nobody_wanted_begins_when_it_is_delivered_again_to_a_workflow_that_does() {
    let engine = engine();
    let welcome = engine.accept(knock("sn:1", urgent())).await.unwrap();
    assert!(matches!(status(&engine, &welcome).await, InboxStatus::Unmatched { .. }));
    apply(&engine, "triage", 1, URGENT).await.unwrap();
    let again = engine.accept(knock("sn:1", urgent())).await.unwrap();
    assert_eq!(again, AcceptResult { run: welcome.run.clone(), new: false, status: InboxStatus::Pending });
    assert_eq!(status(&engine, &again).await, InboxStatus::Started);
}

#[tokio::test]
async fn what_two_workflows_want_or_none_can_judge_is_refused_with_the_reason() {
    let engine = engine();
    apply(&engine, "triage", 1, URGENT).await.unwrap();
    let welcome = engine.accept(knock("sn:1", json!({ "record": {} }))).await.unwrap();
    let InboxStatus::Rejected { reason, .. } = status(&engine, &welcome).await else { panic!("not refused") };
    assert!(reason.contains("triage") && reason.contains("priority"), "{reason}");

    apply(&engine, "assign", 1, "{ servicenow: {} }").await.unwrap();
    let welcome = engine.accept(knock("sn:2", urgent())).await.unwrap();
    let InboxStatus::Rejected { reason, .. } = status(&engine, &welcome).await else { panic!("not refused") };
    assert!(reason.contains("triage") && reason.contains("assign"), "{reason}");
}

#[tokio::test]
async fn a_workflow_in_use_is_replaced_by_a_later_version_alone() {
    let engine = engine();
    apply(&engine, "triage", 2, URGENT).await.unwrap();
    apply(&engine, "triage", 2, URGENT).await.unwrap();
    for version in [1, 2] {
        let refused = apply(&engine, "triage", version, "{ servicenow: {} }").await.unwrap_err();
        assert!(refused.to_string().contains("raise `version`"), "{refused}");
    }
    apply(&engine, "triage", 3, "{ servicenow: {} }").await.unwrap();
    assert_eq!(engine.applied(&acme()).await.unwrap()[0].version, 3);
}

#[tokio::test]
async fn what_was_refused_is_taken_up_again_when_it_is_delivered_again_some_times() {
    let engine = engine();
    apply(&engine, "triage", 1, URGENT).await.unwrap();
    apply(&engine, "other", 1, URGENT).await.unwrap();
    let welcome = engine.accept(knock("sn:1", urgent())).await.unwrap();
    for _ in 1..TRIES_MAX {
        assert!(matches!(status(&engine, &welcome).await, InboxStatus::Rejected { .. }));
        let again = engine.accept(knock("sn:1", urgent())).await.unwrap();
        assert_eq!(
            again,
            AcceptResult { run: welcome.run.clone(), new: false, status: InboxStatus::Pending }
        );
    }
    assert!(matches!(status(&engine, &welcome).await, InboxStatus::Rejected { .. }));
    let enough = engine.accept(knock("sn:1", urgent())).await.unwrap();
    assert!(matches!(enough.status, InboxStatus::Rejected { .. }), "{enough:?}");

    let welcome = engine.accept(knock("sn:2", urgent())).await.unwrap();
    assert!(matches!(status(&engine, &welcome).await, InboxStatus::Rejected { .. }));
    apply(&engine, "other", 2, "{ github: {} }").await.unwrap();
    engine.accept(knock("sn:2", urgent())).await.unwrap();
    assert_eq!(status(&engine, &welcome).await, InboxStatus::Started);
}
