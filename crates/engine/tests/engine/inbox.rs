//! An accepted event starts its run, once.

use std::time::Duration;

use countersign_engine::{AcceptResult, Engine, EngineError, StartRun};
use domain::inbox::{START_DUE_AFTER, TRIES_MAX};
use domain::{Cause, InboxStatus, Initiator, Job, Millis, QueueName, Refusal, Timestamp, WorkspaceId};
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use store::{Delivery, Inbox as _, Ledger as _, Queue as _, SqliteStore};
use testkit::{CapturedLog, TestClock, acme, event, plan};
use tracing::Level;

fn engine() -> Engine<SqliteStore> {
    testkit::engine().standard_tools().build()
}

fn workflow_source(name: &str, version: u32, trigger: &str) -> String {
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
    let plan = plan(engine, &workflow_source(name, version, trigger));
    engine.tenant_handle(&acme(), &Initiator::new(Cause::User, "ada")).apply(&plan).await.map(drop)
}

#[tokio::test]
async fn reapplied_version_keeps_who_applied_it_first() {
    let engine = engine();
    let plan = |version| plan(&engine, &workflow_source("triage", version, URGENT));
    let first =
        engine.tenant_handle(&acme(), &Initiator::new(Cause::User, "ada")).apply(&plan(1)).await.unwrap();
    let again =
        engine.tenant_handle(&acme(), &Initiator::new(Cause::User, "ci")).apply(&plan(1)).await.unwrap();
    assert_eq!((again.by.id.as_str(), &again), ("ada", &first));
    let next =
        engine.tenant_handle(&acme(), &Initiator::new(Cause::User, "ci")).apply(&plan(2)).await.unwrap();
    assert_eq!(
        engine.tenant_handle(&acme(), &first.by).versions(&first.workflow).await.unwrap(),
        [next, first]
    );
}

fn urgent() -> Value {
    json!({ "record": { "sys_id": "abc", "priority": "1" } })
}

const URGENT: &str = "{ servicenow: { table: incident, when: '${ trigger.record.priority == \"1\" }' } }";

/// Matches the urgent record by another condition.
const ABC: &str = "{ servicenow: { when: '${ trigger.record.sys_id == \"abc\" }' } }";

async fn status(engine: &Engine<SqliteStore>, accepted: &AcceptResult) -> InboxStatus {
    engine.admission().process_entry(&accepted.run).await.unwrap();
    engine.store().entry(&accepted.run).await.unwrap().unwrap().status
}

#[tokio::test]
async fn event_is_durable_before_it_is_accepted() {
    let engine = engine();
    let accepted = engine.admission().accept(event("sn:1", urgent())).await.unwrap();
    assert!(accepted.new && engine.store().entry(&accepted.run).await.unwrap().is_some());
    let messages =
        engine.store().receive(QueueName::Ingest, 10, Millis::secs(30), Duration::ZERO).await.unwrap();
    assert_eq!(messages.len(), 1);
    assert_eq!((&messages[0].run, &messages[0].job), (&accepted.run, &Job::Start));
}

#[tokio::test]
async fn redelivered_event_starts_one_run() {
    let engine = engine();
    apply(&engine, "triage", 1, URGENT).await.unwrap();
    let accepted = engine.admission().accept(event("sn:1", urgent())).await.unwrap();
    assert_eq!(status(&engine, &accepted).await, InboxStatus::Started);
    let first = engine.store().load(&accepted.run).await.unwrap().unwrap();
    assert_eq!((first.workflow.as_str(), first.trigger.kind.as_str()), ("triage", "servicenow"));

    let again = engine.admission().accept(event("sn:1", urgent())).await.unwrap();
    assert_eq!(again, AcceptResult { run: accepted.run.clone(), new: false, status: InboxStatus::Started });
    engine.admission().process_entry(&accepted.run).await.unwrap();
    assert_eq!(engine.store().load(&accepted.run).await.unwrap(), Some(first));
}

/// The process that started the run died before it sent the message and updated the entry.
#[tokio::test]
async fn unannounced_run_is_announced_on_reprocessing() {
    let engine = engine();
    apply(&engine, "triage", 1, URGENT).await.unwrap();
    let accepted = engine.admission().accept(event("sn:1", urgent())).await.unwrap();
    let request = StartRun {
        workspace: WorkspaceId::default(),
        trigger_kind: "servicenow".to_owned(),
        input: urgent(),
        by: Initiator::new(Cause::Webhook, "servicenow"),
        ..testkit::request(&engine, &workflow_source("triage", 1, URGENT), "sn:1")
    };
    engine.admission().start(request).await.unwrap();
    for lost in step_messages(&engine).await {
        engine.store().delete(&lost.handle).await.unwrap();
    }

    assert_eq!(status(&engine, &accepted).await, InboxStatus::Started);
    let messages = step_messages(&engine).await;
    assert_eq!(messages.iter().map(|message| &message.run).collect::<Vec<_>>(), [&accepted.run]);
}

async fn step_messages(engine: &Engine<SqliteStore>) -> Vec<Delivery> {
    engine.store().receive(QueueName::Steps, 10, Millis::secs(30), Duration::ZERO).await.unwrap()
}

async fn ingest_messages(engine: &Engine<SqliteStore>) -> Vec<Delivery> {
    engine.store().receive(QueueName::Ingest, 10, Millis::secs(30), Duration::ZERO).await.unwrap()
}

/// The queue loses the message. The sweep sends another; the lost one may still arrive.
#[tokio::test]
async fn entry_with_a_lost_message_is_started_once() {
    let clock = TestClock::at(Timestamp(0));
    let engine = testkit::engine().standard_tools().clock(clock.clone()).build();
    apply(&engine, "triage", 1, URGENT).await.unwrap();
    let accepted = engine.admission().accept(event("sn:1", urgent())).await.unwrap();
    for lost in ingest_messages(&engine).await {
        engine.store().delete(&lost.handle).await.unwrap();
    }
    let sweep = async || engine.operations().sweep(&testkit::ada()).await.unwrap().woken;
    assert_eq!(sweep().await, 0, "its message may still arrive");
    clock.advance(START_DUE_AFTER);
    assert_eq!((sweep().await, sweep().await), (1, 0));
    let again = ingest_messages(&engine).await;
    assert_eq!(
        again.iter().map(|sent| (&sent.run, &sent.job)).collect::<Vec<_>>(),
        [(&accepted.run, &Job::Start)]
    );

    for message in again {
        assert_eq!(status(&engine, &accepted).await, InboxStatus::Started);
        engine.store().delete(&message.handle).await.unwrap();
    }
    assert_eq!(status(&engine, &accepted).await, InboxStatus::Started, "the lost message arrives");
    assert_eq!(step_messages(&engine).await.len(), 1, "one run");
    clock.advance(Millis::hours(24 * 60));
    engine.operations().sweep(&testkit::ada()).await.unwrap();
    assert_eq!(ingest_messages(&engine).await, [], "a started entry is not due");
}

/// Every message is lost. The sweep sends fewer and fewer, for years if need be.
#[tokio::test]
async fn pending_entry_outlives_its_messages() {
    let clock = TestClock::at(Timestamp(0));
    let engine = testkit::engine().standard_tools().clock(clock.clone()).build();
    apply(&engine, "triage", 1, URGENT).await.unwrap();
    let accepted = engine.admission().accept(event("sn:1", urgent())).await.unwrap();
    let mut sent = 0;
    for _ in 0..100 {
        clock.advance(Millis::hours(12));
        sent += engine.operations().sweep(&testkit::ada()).await.unwrap().woken;
        let other = event(&format!("sn:{}", engine.now().0), json!({ "at": engine.now().0 }));
        let other = engine.admission().accept(other).await.unwrap();
        engine.admission().process_entry(&other.run).await.unwrap();
    }
    assert!((45..=55).contains(&sent), "about one a day: {sent}");
    assert_eq!(status(&engine, &accepted).await, InboxStatus::Started);
}

#[tokio::test]
async fn same_key_with_other_content_is_a_conflict() {
    let engine = engine();
    let accepted = engine.admission().accept(event("sn:1", urgent())).await.unwrap();
    let refused = engine.admission().accept(event("sn:1", json!({ "record": {} }))).await.unwrap_err();
    assert!(matches!(&refused, EngineError::Refused(Refusal::KeyConflict { run }) if *run == accepted.run));
}

#[tokio::test]
async fn unmatched_event_starts_nothing() {
    let engine = engine();
    apply(&engine, "triage", 1, URGENT).await.unwrap();
    apply(&engine, "changes", 1, "{ servicenow: { table: change_request } }").await.unwrap();
    apply(&engine, "pushes", 1, "{ github: { event: push } }").await.unwrap();
    let accepted =
        engine.admission().accept(event("sn:1", json!({ "record": { "priority": "3" } }))).await.unwrap();
    assert!(matches!(status(&engine, &accepted).await, InboxStatus::Unmatched { .. }));
    assert_eq!(engine.store().load(&accepted.run).await.unwrap(), None);
}

#[tokio::test]
async fn unmatched_event_starts_when_redelivered() {
    let engine = engine();
    let accepted = engine.admission().accept(event("sn:1", urgent())).await.unwrap();
    assert!(matches!(status(&engine, &accepted).await, InboxStatus::Unmatched { .. }));
    apply(&engine, "triage", 1, URGENT).await.unwrap();
    let again = engine.admission().accept(event("sn:1", urgent())).await.unwrap();
    assert_eq!(again, AcceptResult { run: accepted.run.clone(), new: false, status: InboxStatus::Pending });
    assert_eq!(status(&engine, &again).await, InboxStatus::Started);
}

#[tokio::test]
async fn ambiguous_event_is_rejected_with_the_reason() {
    let engine = engine();
    apply(&engine, "triage", 1, URGENT).await.unwrap();
    let accepted = engine.admission().accept(event("sn:1", json!({ "record": {} }))).await.unwrap();
    let InboxStatus::Rejected { reason, .. } = status(&engine, &accepted).await else {
        panic!("not rejected")
    };
    assert!(reason.contains("triage") && reason.contains("priority"), "{reason}");

    apply(&engine, "assign", 1, ABC).await.unwrap();
    let accepted = engine.admission().accept(event("sn:2", urgent())).await.unwrap();
    let InboxStatus::Rejected { reason, .. } = status(&engine, &accepted).await else {
        panic!("not rejected")
    };
    assert!(reason.contains("triage") && reason.contains("assign"), "{reason}");
}

#[tokio::test]
async fn trigger_of_another_workflow_is_not_applied_twice() {
    const CHANGES: &str = "{ servicenow: { table: change_request } }";
    const ALL: &str = "{ servicenow: {} }";
    for (first, second, is_ambiguous) in [
        (ALL, ALL, true),
        (URGENT, URGENT, true),
        (URGENT, ALL, true),
        (ALL, URGENT, true),
        (CHANGES, ALL, true),
        (URGENT, "{ servicenow: { table: incident } }", true),
        (URGENT, ABC, false),
        (URGENT, CHANGES, false),
        // The condition may exclude the table.
        (CHANGES, ABC, false),
        (ALL, "{ github: {} }", false),
    ] {
        let engine = engine();
        apply(&engine, "first", 1, first).await.unwrap();
        apply(&engine, "first", 2, first).await.unwrap();
        let refused = apply(&engine, "second", 1, second).await.err().map(|error| error.to_string());
        assert_eq!(refused.is_some(), is_ambiguous, "{first} {second}: {refused:?}");
        let named =
            refused.is_none_or(|text| text.contains("workflow second") && text.contains("workflow first"));
        assert!(named, "{first} {second}");
    }
}

/// Conditions can overlap unnoticed until an event matches both.
#[tokio::test]
async fn ambiguous_event_is_logged_and_counted() {
    let (log, _guard) = CapturedLog::capture(Level::WARN);
    let recorder = PrometheusBuilder::new().build_recorder();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let engine = engine();
    apply(&engine, "triage", 1, URGENT).await.unwrap();
    apply(&engine, "other", 1, ABC).await.unwrap();
    let accepted = engine.admission().accept(event("sn:1", urgent())).await.unwrap();
    assert!(matches!(status(&engine, &accepted).await, InboxStatus::Rejected { .. }));
    let fields = &log.fields()[0];
    let run = json!(accepted.run.to_string());
    assert_eq!((&fields["event"], &fields["run"]), (&json!("inbox_entry_rejected"), &run));
    let line = r#"countersign_inbox_entries_processed_total{tenant="acme",source="servicenow",outcome="rejected"} 1"#;
    assert!(recorder.handle().render().lines().any(|counted| counted == line));
}

#[tokio::test]
async fn only_a_later_version_replaces_a_workflow() {
    let engine = engine();
    apply(&engine, "triage", 2, URGENT).await.unwrap();
    apply(&engine, "triage", 2, URGENT).await.unwrap();
    for version in [1, 2] {
        let refused = apply(&engine, "triage", version, "{ servicenow: {} }").await.unwrap_err();
        assert!(refused.to_string().contains("raise `version`"), "{refused}");
    }
    apply(&engine, "triage", 3, "{ servicenow: {} }").await.unwrap();
    assert_eq!(
        engine.tenant_handle(&acme(), &Initiator::new(Cause::User, "ada")).workflows().await.unwrap()[0]
            .version,
        3
    );
}

#[tokio::test]
async fn rejected_event_is_retried_a_few_times() {
    let engine = engine();
    apply(&engine, "triage", 1, URGENT).await.unwrap();
    apply(&engine, "other", 1, ABC).await.unwrap();
    let accepted = engine.admission().accept(event("sn:1", urgent())).await.unwrap();
    for _ in 1..TRIES_MAX {
        assert!(matches!(status(&engine, &accepted).await, InboxStatus::Rejected { .. }));
        let again = engine.admission().accept(event("sn:1", urgent())).await.unwrap();
        assert_eq!(
            again,
            AcceptResult { run: accepted.run.clone(), new: false, status: InboxStatus::Pending }
        );
    }
    assert!(matches!(status(&engine, &accepted).await, InboxStatus::Rejected { .. }));
    let enough = engine.admission().accept(event("sn:1", urgent())).await.unwrap();
    assert!(matches!(enough.status, InboxStatus::Rejected { .. }), "{enough:?}");

    let accepted = engine.admission().accept(event("sn:2", urgent())).await.unwrap();
    assert!(matches!(status(&engine, &accepted).await, InboxStatus::Rejected { .. }));
    apply(&engine, "other", 2, "{ github: {} }").await.unwrap();
    engine.admission().accept(event("sn:2", urgent())).await.unwrap();
    assert_eq!(status(&engine, &accepted).await, InboxStatus::Started);
}
