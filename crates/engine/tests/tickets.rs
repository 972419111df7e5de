//! A workflow that says so has one run at a time for each ticket.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use connectors::{Allow, Settings};
use countersign_engine::{
    AcceptResult, AdvanceResult, Engine, EngineError, InboundEvent, Parts, Place, StartRun, Started, Timing,
};
use domain::{
    Cause, Digest, InboxEntry, InboxStatus, Initiator, Job, Millis, Plan, QueueName, Refusal, RunKey, Source,
    TenantId, WorkspaceId,
};
use serde_json::{Value, json};
use store::{Inbox as _, Ledger as _, Queue as _, SqliteOptions, SqliteStore, SystemClock};

fn engine_on(store: &Arc<SqliteStore>, me: &str) -> Arc<Engine<SqliteStore>> {
    Arc::new(Engine::new(Parts {
        store: Arc::clone(store),
        tools: connectors::standard(Allow::default(), Settings::default()),
        clock: Arc::new(SystemClock),
        me: me.parse().unwrap(),
        timing: Timing::default(),
        shows: None,
        sealing: None,
    }))
}

fn engine() -> Arc<Engine<SqliteStore>> {
    engine_on(&Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()), "w")
}

fn acme() -> TenantId {
    "acme".parse().unwrap()
}

fn plan(name: &str, when_taken: &str) -> Plan {
    let source = format!(
        "workflow: {name}\nversion: 1\ntrigger: {{ servicenow: {{}} }}\n\
         ticket: {{ of: '${{ trigger.record.sys_id }}', when_taken: {when_taken} }}\n\
         steps:\n  - {{ id: a, tool: transform }}\n"
    );
    workflow::parse(&source, &["transform".parse().unwrap()].into()).unwrap()
}

fn about(ticket: &str) -> Value {
    json!({ "record": { "sys_id": ticket } })
}

fn wish(key: &str, ticket: &str, when_taken: &str) -> StartRun {
    StartRun {
        tenant: acme(),
        workspace: WorkspaceId::default(),
        plan: plan("triage", when_taken),
        trigger_kind: "api".to_owned(),
        record: None,
        key: key.parse().unwrap(),
        input: about(ticket),
        by: ada(),
    }
}

fn ada() -> Initiator {
    Initiator::new(Cause::User, "ada")
}

async fn end(engine: &Engine<SqliteStore>, run: &RunKey) {
    engine.cancel(run, &ada(), "enough").await.unwrap();
}

async fn knock(engine: &Engine<SqliteStore>, key: &str, when_taken: &str) -> AcceptResult {
    engine.apply(&acme(), &plan("triage", when_taken), ada()).await.unwrap();
    let knock = InboundEvent {
        tenant: acme(),
        key: key.parse().unwrap(),
        source: Source::ServiceNow,
        about: None,
        record: None,
        proof: Digest::of_bytes(key.as_bytes()),
        dedupe_key: None,
        body: about("INC1"),
        asked: None,
    };
    engine.accept(knock).await.unwrap()
}

async fn status(engine: &Engine<SqliteStore>, welcome: &AcceptResult) -> InboxStatus {
    engine.store().entry(&welcome.run).await.unwrap().unwrap().status
}

#[tokio::test]
async fn whoever_asks_about_a_ticket_that_is_taken_joins_the_run_that_has_it() {
    let engine = engine();
    let first = engine.start(wish("a", "INC1", "join")).await.unwrap();
    let second = engine.start(wish("b", "INC1", "join")).await.unwrap();
    assert_eq!(second, Started { run: first.run.clone(), new: false, place: Place::Joined });
    let other = engine.start(wish("c", "INC2", "join")).await.unwrap();
    assert_eq!((other.new, other.place), (true, Place::Own));

    end(&engine, &first.run).await;
    let next = engine.start(wish("d", "INC1", "join")).await.unwrap();
    assert!(next.new && next.run != first.run);
}

#[tokio::test]
async fn a_key_names_its_run_even_while_another_has_the_ticket() {
    let engine = engine();
    let first = engine.start(wish("a", "INC1", "join")).await.unwrap();
    let again = engine.start(wish("a", "INC1", "join")).await.unwrap();
    assert_eq!(again, Started { new: false, ..first.clone() });
    end(&engine, &first.run).await;
    engine.start(wish("b", "INC1", "join")).await.unwrap();
    let again = engine.start(wish("a", "INC1", "join")).await.unwrap();
    assert_eq!(again, Started { new: false, ..first });
}

#[tokio::test]
async fn a_request_that_joined_is_answered_with_the_same_run_when_that_is_over() {
    let engine = engine();
    let first = engine.start(wish("a", "INC1", "join")).await.unwrap();
    let joined = engine.start(wish("b", "INC1", "join")).await.unwrap();
    for other in [
        wish("b", "INC2", "join"),
        StartRun { record: "servicenow:incident:1".parse().ok(), ..wish("b", "INC1", "join") },
    ] {
        assert!(is_conflict(&engine.start(other).await), "another request under the key");
    }
    end(&engine, &first.run).await;
    assert_eq!(engine.start(wish("b", "INC1", "join")).await.unwrap(), joined);
    assert_eq!(engine.store().load(&InboxEntry::run_of(&acme(), &"b".parse().unwrap())).await.unwrap(), None);
}

#[tokio::test]
async fn the_key_of_a_request_that_waits_is_that_requests_alone() {
    let engine = engine();
    engine.start(wish("a", "INC1", "queue")).await.unwrap();
    let waits = engine.start(wish("b", "INC1", "queue")).await.unwrap();
    let other = StartRun { plan: plan("changes", "queue"), ..wish("b", "INC1", "queue") };
    for other in [wish("b", "INC2", "queue"), other] {
        assert!(is_conflict(&engine.start(other).await), "what waits would lose its key");
    }
    assert_eq!(engine.start(wish("b", "INC1", "queue")).await.unwrap(), Started { new: false, ..waits });
}

fn is_conflict(started: &Result<Started, EngineError>) -> bool {
    matches!(started, Err(EngineError::Refused(Refusal::KeyConflict { .. })))
}

#[tokio::test]
async fn a_start_that_waits_for_its_ticket_is_about_its_record_when_it_begins() {
    let engine = engine();
    let first = engine.start(wish("a", "INC1", "queue")).await.unwrap();
    let record = "servicenow:incident:INC1".parse().ok();
    let next = StartRun { record, ..wish("b", "INC1", "queue") };
    let waits = engine.start(next.clone()).await.unwrap();
    assert_eq!(waits.place, Place::Behind(first.run.clone()));
    end(&engine, &first.run).await;
    engine.begin(&waits.run).await.unwrap();
    let begun = engine.store().load(&waits.run).await.unwrap().unwrap();
    assert_eq!((begun.trigger.record, begun.trigger.kind), (next.record, next.trigger_kind));
}

#[tokio::test]
async fn a_key_of_another_workflow_is_a_conflict() {
    let engine = engine();
    let mut other = wish("a", "INC1", "join");
    let first = engine.start(other.clone()).await.unwrap();
    other.plan = plan("changes", "join");
    let refused = engine.start(other.clone()).await.unwrap_err();
    assert!(matches!(&refused, EngineError::Refused(Refusal::KeyConflict { run }) if *run == first.run));
    other.plan = Plan { version: 2, ..plan("triage", "join") };
    assert!(!engine.start(other).await.unwrap().new, "a later version is the same workflow");
}

#[tokio::test]
async fn whoever_is_refused_is_told_which_run_has_the_ticket() {
    let engine = engine();
    let first = engine.start(wish("a", "INC1", "refuse")).await.unwrap();
    let refused = engine.start(wish("b", "INC1", "refuse")).await.unwrap_err();
    assert!(matches!(&refused, EngineError::Refused(Refusal::TicketTaken { run, .. }) if *run == first.run));
    end(&engine, &first.run).await;
    assert!(engine.start(wish("b", "INC1", "refuse")).await.unwrap().new);
}

#[tokio::test]
async fn what_is_queued_starts_when_the_run_before_it_is_over() {
    let engine = engine();
    let first = engine.start(wish("a", "INC1", "queue")).await.unwrap();
    let second = engine.start(wish("b", "INC1", "queue")).await.unwrap();
    assert_eq!(second.place, Place::Behind(first.run.clone()));
    assert!(second.new && engine.store().load(&second.run).await.unwrap().is_none());
    let messages = engine.store().receive(QueueName::Ingest, 10, Millis::secs(30), std::time::Duration::ZERO);
    assert!(messages.await.unwrap().iter().any(|m| m.run == second.run && m.job == Job::Start));

    assert!(matches!(engine.begin(&second.run).await.unwrap(), AdvanceResult::NotBefore(_)));
    let again = engine.start(wish("b", "INC1", "queue")).await.unwrap();
    assert_eq!(again, Started { new: false, ..second.clone() });
    end(&engine, &first.run).await;
    assert_eq!(engine.begin(&second.run).await.unwrap(), AdvanceResult::Done);
    let begun = engine.store().load(&second.run).await.unwrap().unwrap();
    assert_eq!(begun.trigger.requester.unwrap().as_str(), "ada");
    assert!(!engine.start(wish("b", "INC1", "queue")).await.unwrap().new);
}

#[tokio::test]
async fn of_those_that_wait_and_were_seen_the_first_that_came_goes_first() {
    let engine = engine();
    let first = engine.start(wish("a", "INC1", "queue")).await.unwrap();
    let mut waiting = Vec::new();
    for key in ["b", "c", "d"] {
        waiting.push(engine.start(wish(key, "INC1", "queue")).await.unwrap().run);
        // Who came first is told by the millisecond.
        std::thread::sleep(std::time::Duration::from_millis(3));
    }
    let [second, third, fourth] = &waiting[..] else { unreachable!() };
    for seen in [fourth, third, second, fourth] {
        assert!(matches!(engine.begin(seen).await.unwrap(), AdvanceResult::NotBefore(_)));
    }
    end(&engine, &first.run).await;
    for later in [fourth, third] {
        assert!(matches!(engine.begin(later).await.unwrap(), AdvanceResult::NotBefore(_)));
    }
    let last = engine.start(wish("e", "INC1", "queue")).await.unwrap();
    assert_eq!(last.place, Place::Behind(second.clone()), "nobody jumps the line");
    assert_eq!(engine.begin(second).await.unwrap(), AdvanceResult::Done);

    for seen in [fourth, third] {
        assert!(matches!(engine.begin(seen).await.unwrap(), AdvanceResult::NotBefore(_)));
    }
    end(&engine, second).await;
    // Whoever is first in line and no longer waits keeps nobody.
    let gone = InboxStatus::rejected("enough", engine.now());
    engine.store().settle(third, gone, engine.now() + Millis::hours(1)).await.unwrap();
    assert_eq!(engine.begin(fourth).await.unwrap(), AdvanceResult::Done);
    assert!(engine.store().load(fourth).await.unwrap().is_some());
}

#[tokio::test]
async fn a_webhook_about_a_ticket_that_is_taken_meets_the_fate_that_the_workflow_names() {
    for when_taken in ["join", "queue", "refuse"] {
        let engine = engine();
        let first = engine.start(wish("a", "INC1", when_taken)).await.unwrap();
        let welcome = knock(&engine, "sn:1", when_taken).await;
        let end_of_walk = engine.begin(&welcome.run).await.unwrap();
        let status = status(&engine, &welcome).await;
        match when_taken {
            "join" => assert_eq!(status, InboxStatus::Joined { run: first.run.run }),
            "queue" => assert!(status == InboxStatus::Pending && end_of_walk != AdvanceResult::Done),
            _ => assert!(
                matches!(&status, InboxStatus::Rejected { reason, .. } if reason.contains(first.run.run.as_str()))
            ),
        }
        assert!(engine.store().load(&welcome.run).await.unwrap().is_none(), "{when_taken}");
    }
}

#[tokio::test]
async fn a_run_whose_ticket_nobody_can_name_is_not_started() {
    let engine = engine();
    for record in [json!({ "record": {} }), json!({ "record": { "sys_id": " " } })] {
        let nameless = StartRun { input: record, ..wish("a", "INC1", "join") };
        let refused = engine.start(nameless).await.unwrap_err();
        assert!(matches!(&refused, EngineError::Refused(Refusal::NoTicket { .. })), "{refused}");
    }
}

/// However many come at once, through however many processes, nobody finds two runs that are not over.
#[tokio::test]
async fn of_many_that_come_at_once_one_gets_the_ticket_and_the_others_its_run() {
    let store = Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap());
    let engines: Vec<_> = (0..4).map(|n| engine_on(&store, &format!("w-{n}"))).collect();
    let starts = (0..16).map(|n| {
        let engine = Arc::clone(&engines[n % engines.len()]);
        tokio::spawn(async move { engine.start(wish(&format!("k-{n}"), "INC1", "join")).await.unwrap() })
    });
    let mut runs = std::collections::BTreeMap::new();
    for started in starts.collect::<Vec<_>>() {
        let started = started.await.unwrap();
        *runs.entry(started.run).or_insert(0) += usize::from(started.new);
    }
    assert_eq!(runs.into_values().collect::<Vec<_>>(), [1]);
}
