//! A workflow with a concurrency key has one active run for each key.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use countersign_engine::{
    AcceptResult, AdvanceResult, Engine, EngineError, InboundEvent, StartOutcome, StartResult, StartRun,
};
use domain::{InboxEntry, InboxStatus, Job, Millis, Plan, QueueName, Refusal, RunKey, WorkspaceId};
use serde_json::{Value, json};
use store::{Inbox as _, Ledger as _, Queue as _, SqliteStore};
use testkit::{acme, ada};

fn engine_on(store: &SqliteStore, me: &str) -> Arc<Engine<SqliteStore>> {
    Arc::new(testkit::engine().standard_tools().me(me).on(store.clone()))
}

fn engine() -> Arc<Engine<SqliteStore>> {
    engine_on(&testkit::memory(), "w")
}

fn plan(name: &str, on_conflict: &str) -> Plan {
    let source = format!(
        "workflow: {name}\nversion: 1\ntrigger: {{ servicenow: {{}} }}\n\
         concurrency: {{ key: '${{ trigger.record.sys_id }}', on_conflict: {on_conflict} }}\n\
         steps:\n  - {{ id: a, tool: transform }}\n"
    );
    workflow::parse(&source, &["transform".parse().unwrap()].into()).unwrap()
}

fn about(ticket: &str) -> Value {
    json!({ "record": { "sys_id": ticket } })
}

fn request(key: &str, ticket: &str, on_conflict: &str) -> StartRun {
    StartRun {
        tenant: acme(),
        workspace: WorkspaceId::default(),
        plan: plan("triage", on_conflict),
        trigger_kind: "api".to_owned(),
        record: None,
        key: key.parse().unwrap(),
        input: about(ticket),
        by: ada(),
        applied_by: None,
        shaped_by: domain::Participants::default(),
    }
}

async fn end(engine: &Engine<SqliteStore>, run: &RunKey) {
    engine.tenant_handle(&run.tenant, &ada()).cancel(&run.run, "enough").await.unwrap();
}

async fn event(engine: &Engine<SqliteStore>, key: &str, on_conflict: &str) -> AcceptResult {
    engine.tenant_handle(&acme(), &ada()).apply(&plan("triage", on_conflict)).await.unwrap();
    let event = InboundEvent { topic: None, ..testkit::event(key, about("INC1")) };
    engine.admission().accept(event).await.unwrap()
}

async fn status(engine: &Engine<SqliteStore>, accepted: &AcceptResult) -> InboxStatus {
    engine.store().entry(&accepted.run).await.unwrap().unwrap().status
}

#[tokio::test]
async fn a_request_joins_the_run_that_holds_its_key() {
    let engine = engine();
    let first = engine.admission().start(request("a", "INC1", "join")).await.unwrap();
    let second = engine.admission().start(request("b", "INC1", "join")).await.unwrap();
    assert_eq!(second, StartResult { run: first.run.clone(), new: false, outcome: StartOutcome::Joined });
    let other = engine.admission().start(request("c", "INC2", "join")).await.unwrap();
    assert_eq!((other.new, other.outcome), (true, StartOutcome::Own));

    end(&engine, &first.run).await;
    let next = engine.admission().start(request("d", "INC1", "join")).await.unwrap();
    assert!(next.new && next.run != first.run);
}

#[tokio::test]
async fn an_idempotency_key_names_its_run_despite_a_conflict() {
    let engine = engine();
    let first = engine.admission().start(request("a", "INC1", "join")).await.unwrap();
    let again = engine.admission().start(request("a", "INC1", "join")).await.unwrap();
    assert_eq!(again, StartResult { new: false, ..first.clone() });
    end(&engine, &first.run).await;
    engine.admission().start(request("b", "INC1", "join")).await.unwrap();
    let again = engine.admission().start(request("a", "INC1", "join")).await.unwrap();
    assert_eq!(again, StartResult { new: false, ..first });
}

#[tokio::test]
async fn a_joined_request_gets_the_same_run_again() {
    let engine = engine();
    let first = engine.admission().start(request("a", "INC1", "join")).await.unwrap();
    let joined = engine.admission().start(request("b", "INC1", "join")).await.unwrap();
    for other in [
        request("b", "INC2", "join"),
        StartRun { record: "servicenow:incident:1".parse().ok(), ..request("b", "INC1", "join") },
    ] {
        assert!(is_conflict(&engine.admission().start(other).await), "another request under the key");
    }
    end(&engine, &first.run).await;
    assert_eq!(engine.admission().start(request("b", "INC1", "join")).await.unwrap(), joined);
    assert_eq!(engine.store().load(&InboxEntry::run_of(&acme(), &"b".parse().unwrap())).await.unwrap(), None);
}

#[tokio::test]
async fn a_waiting_request_keeps_its_idempotency_key() {
    let engine = engine();
    engine.admission().start(request("a", "INC1", "queue")).await.unwrap();
    let waits = engine.admission().start(request("b", "INC1", "queue")).await.unwrap();
    let other = StartRun { plan: plan("changes", "queue"), ..request("b", "INC1", "queue") };
    for other in [request("b", "INC2", "queue"), other] {
        assert!(is_conflict(&engine.admission().start(other).await), "what waits would lose its key");
    }
    assert_eq!(
        engine.admission().start(request("b", "INC1", "queue")).await.unwrap(),
        StartResult { new: false, ..waits }
    );
}

fn is_conflict(started: &Result<StartResult, EngineError>) -> bool {
    matches!(started, Err(EngineError::Refused(Refusal::KeyConflict { .. })))
}

#[tokio::test]
async fn a_waiting_request_keeps_its_record() {
    let engine = engine();
    let first = engine.admission().start(request("a", "INC1", "queue")).await.unwrap();
    let record = "servicenow:incident:INC1".parse().ok();
    let next = StartRun { record, ..request("b", "INC1", "queue") };
    let waits = engine.admission().start(next.clone()).await.unwrap();
    assert_eq!(waits.outcome, StartOutcome::WaitsFor(first.run.clone()));
    end(&engine, &first.run).await;
    engine.admission().process_entry(&waits.run).await.unwrap();
    let begun = engine.store().load(&waits.run).await.unwrap().unwrap();
    assert_eq!((begun.trigger.record, begun.trigger.kind), (next.record, next.trigger_kind));
}

#[tokio::test]
async fn a_key_of_another_workflow_is_a_conflict() {
    let engine = engine();
    let mut other = request("a", "INC1", "join");
    let first = engine.admission().start(other.clone()).await.unwrap();
    other.plan = plan("changes", "join");
    let refused = engine.admission().start(other.clone()).await.unwrap_err();
    assert!(matches!(&refused, EngineError::Refused(Refusal::KeyConflict { run }) if *run == first.run));
    other.plan = Plan { version: 2, ..plan("triage", "join") };
    assert!(!engine.admission().start(other).await.unwrap().new, "a later version is the same workflow");
}

/// A request of another workflow with the same key.
fn other_workflow(key: &str, on_conflict: &str, scope: &str) -> StartRun {
    let source = format!(
        "workflow: changes\nversion: 1\n\
         concurrency: {{ key: '${{ trigger.record.sys_id }}', on_conflict: {on_conflict}, scope: {scope} }}\n\
         steps:\n  - {{ id: a, tool: transform }}\n"
    );
    let plan = workflow::parse(&source, &["transform".parse().unwrap()].into()).unwrap();
    StartRun { plan, ..request(key, "INC1", on_conflict) }
}

#[tokio::test]
async fn two_workflows_about_one_record_do_not_run_at_once() {
    let engine = engine();
    let first = engine.admission().start(request("a", "INC1", "join")).await.unwrap();
    // It waits, although its rule is to join: the other workflow's run does not do its work.
    let second = engine.admission().start(other_workflow("b", "join", "tenant")).await.unwrap();
    assert_eq!((second.new, &second.outcome), (true, &StartOutcome::WaitsFor(first.run.clone())));
    assert!(engine.store().load(&second.run).await.unwrap().is_none());
    let refused = engine.admission().start(other_workflow("c", "reject", "tenant")).await.unwrap_err();
    assert!(refused.to_string().contains(first.run.run.as_str()), "{refused}");

    end(&engine, &first.run).await;
    assert_eq!(engine.admission().process_entry(&second.run).await.unwrap(), AdvanceResult::Done);
    assert!(engine.store().load(&second.run).await.unwrap().is_some(), "it starts when the first run ends");
}

#[tokio::test]
async fn workflow_scope_lets_two_workflows_run_at_once() {
    let engine = engine();
    engine.admission().start(request("a", "INC1", "join")).await.unwrap();
    let second = engine.admission().start(other_workflow("b", "join", "workflow")).await.unwrap();
    assert_eq!((second.new, second.outcome), (true, StartOutcome::Own));
}

#[tokio::test]
async fn a_rejection_names_the_run_that_holds_the_key() {
    let engine = engine();
    let first = engine.admission().start(request("a", "INC1", "reject")).await.unwrap();
    let refused = engine.admission().start(request("b", "INC1", "reject")).await.unwrap_err();
    assert!(
        matches!(&refused, EngineError::Refused(Refusal::ConcurrencyConflict { run, .. }) if *run == first.run)
    );
    end(&engine, &first.run).await;
    assert!(engine.admission().start(request("b", "INC1", "reject")).await.unwrap().new);
}

#[tokio::test]
async fn a_queued_request_starts_when_the_holder_ends() {
    let engine = engine();
    let first = engine.admission().start(request("a", "INC1", "queue")).await.unwrap();
    let second = engine.admission().start(request("b", "INC1", "queue")).await.unwrap();
    assert_eq!(second.outcome, StartOutcome::WaitsFor(first.run.clone()));
    assert!(second.new && engine.store().load(&second.run).await.unwrap().is_none());
    let messages = engine.store().receive(QueueName::Ingest, 10, Millis::secs(30), std::time::Duration::ZERO);
    assert!(messages.await.unwrap().iter().any(|m| m.run == second.run && m.job == Job::Start));

    assert!(matches!(
        engine.admission().process_entry(&second.run).await.unwrap(),
        AdvanceResult::NotBefore(_)
    ));
    let again = engine.admission().start(request("b", "INC1", "queue")).await.unwrap();
    assert_eq!(again, StartResult { new: false, ..second.clone() });
    end(&engine, &first.run).await;
    assert_eq!(engine.admission().process_entry(&second.run).await.unwrap(), AdvanceResult::Done);
    let begun = engine.store().load(&second.run).await.unwrap().unwrap();
    assert_eq!(begun.trigger.requester.unwrap().as_str(), "ada");
    assert!(!engine.admission().start(request("b", "INC1", "queue")).await.unwrap().new);
}

#[tokio::test]
async fn waiters_start_in_order_of_arrival() {
    let engine = engine();
    let first = engine.admission().start(request("a", "INC1", "queue")).await.unwrap();
    let mut waiting = Vec::new();
    for key in ["b", "c", "d"] {
        waiting.push(engine.admission().start(request(key, "INC1", "queue")).await.unwrap().run);
        // The order of arrival has millisecond resolution.
        std::thread::sleep(std::time::Duration::from_millis(3));
    }
    let [second, third, fourth] = &waiting[..] else { unreachable!() };
    for seen in [fourth, third, second, fourth] {
        assert!(matches!(engine.admission().process_entry(seen).await.unwrap(), AdvanceResult::NotBefore(_)));
    }
    end(&engine, &first.run).await;
    for later in [fourth, third] {
        assert!(matches!(
            engine.admission().process_entry(later).await.unwrap(),
            AdvanceResult::NotBefore(_)
        ));
    }
    let last = engine.admission().start(request("e", "INC1", "queue")).await.unwrap();
    assert_eq!(last.outcome, StartOutcome::WaitsFor(second.clone()), "waiters keep their order");
    assert_eq!(engine.admission().process_entry(second).await.unwrap(), AdvanceResult::Done);

    for seen in [fourth, third] {
        assert!(matches!(engine.admission().process_entry(seen).await.unwrap(), AdvanceResult::NotBefore(_)));
    }
    end(&engine, second).await;
    // A registered waiter that no longer waits delays no other.
    let gone = InboxStatus::rejected("enough", engine.now());
    engine.store().set_status(third, gone, engine.now() + Millis::hours(1)).await.unwrap();
    assert_eq!(engine.admission().process_entry(fourth).await.unwrap(), AdvanceResult::Done);
    assert!(engine.store().load(fourth).await.unwrap().is_some());
}

#[tokio::test]
async fn a_webhook_joins_waits_or_is_rejected() {
    for on_conflict in ["join", "queue", "reject"] {
        let engine = engine();
        let first = engine.admission().start(request("a", "INC1", on_conflict)).await.unwrap();
        let accepted = event(&engine, "sn:1", on_conflict).await;
        let end_of_walk = engine.admission().process_entry(&accepted.run).await.unwrap();
        let status = status(&engine, &accepted).await;
        match on_conflict {
            "join" => assert_eq!(status, InboxStatus::Joined { run: first.run.run }),
            "queue" => assert!(status == InboxStatus::Pending && end_of_walk != AdvanceResult::Done),
            _ => assert!(
                matches!(&status, InboxStatus::Rejected { reason, .. } if reason.contains(first.run.run.as_str()))
            ),
        }
        assert!(engine.store().load(&accepted.run).await.unwrap().is_none(), "{on_conflict}");
    }
}

#[tokio::test]
async fn a_run_without_a_valid_key_is_not_started() {
    let engine = engine();
    for record in [json!({ "record": {} }), json!({ "record": { "sys_id": " " } })] {
        let nameless = StartRun { input: record, ..request("a", "INC1", "join") };
        let refused = engine.admission().start(nameless).await.unwrap_err();
        assert!(matches!(&refused, EngineError::Refused(Refusal::InvalidConcurrencyKey { .. })), "{refused}");
    }
}

/// However many requests arrive at once, through however many processes, one run is active.
#[tokio::test]
async fn of_many_concurrent_requests_one_holds_the_key() {
    let store = testkit::memory();
    let engines: Vec<_> = (0..4).map(|n| engine_on(&store, &format!("w-{n}"))).collect();
    let starts = (0..16).map(|n| {
        let engine = Arc::clone(&engines[n % engines.len()]);
        tokio::spawn(async move {
            engine.admission().start(request(&format!("k-{n}"), "INC1", "join")).await.unwrap()
        })
    });
    let mut runs = std::collections::BTreeMap::new();
    for started in starts.collect::<Vec<_>>() {
        let started = started.await.unwrap();
        *runs.entry(started.run).or_insert(0) += usize::from(started.new);
    }
    assert_eq!(runs.into_values().collect::<Vec<_>>(), [1]);
}
