//! A workflow with a concurrency key has one active run for each key.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use countersign_engine::{
    AcceptResult, AdvanceResult, Engine, EngineError, InboundEvent, StartOutcome, StartResult, StartRun,
};
use domain::inbox::START_DUE_AFTER;
use domain::{
    InboxEntry, InboxStatus, Job, Millis, Plan, QueueName, Refusal, RunKey, Timestamp, WorkspaceId,
};
use serde_json::{Value, json};
use store::{Inbox as _, Intercepted, Ledger as _, Queue as _, SqliteStore, StoreError};
use testkit::{Fault, Faults, TestClock, acme, ada};

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

fn input(ticket: &str) -> Value {
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
        input: input(ticket),
        by: ada(),
        applied_by: None,
        inherited: domain::Inherited::default(),
    }
}

async fn cancel(engine: &Engine<SqliteStore>, run: &RunKey) {
    engine.tenant_handle(&run.tenant, &ada()).cancel(&run.run, "enough").await.unwrap();
}

async fn accept_event(engine: &Engine<SqliteStore>, key: &str, on_conflict: &str) -> AcceptResult {
    engine.tenant_handle(&acme(), &ada()).apply(&plan("triage", on_conflict)).await.unwrap();
    let event = InboundEvent { topic: None, ..testkit::event(key, input("INC1")) };
    engine.admission().accept(event).await.unwrap()
}

async fn status(engine: &Engine<SqliteStore>, accepted: &AcceptResult) -> InboxStatus {
    engine.store().entry(&accepted.run).await.unwrap().unwrap().status
}

#[tokio::test]
async fn request_joins_the_run_that_holds_its_key() {
    let engine = engine();
    let first = engine.admission().start(request("a", "INC1", "join")).await.unwrap();
    let second = engine.admission().start(request("b", "INC1", "join")).await.unwrap();
    assert_eq!(second, StartResult { run: first.run.clone(), new: false, outcome: StartOutcome::Joined });
    let other = engine.admission().start(request("c", "INC2", "join")).await.unwrap();
    assert_eq!((other.new, other.outcome), (true, StartOutcome::OwnRun));

    cancel(&engine, &first.run).await;
    let next = engine.admission().start(request("d", "INC1", "join")).await.unwrap();
    assert!(next.new && next.run != first.run);
}

#[tokio::test]
async fn idempotency_key_names_its_run_despite_a_conflict() {
    let engine = engine();
    let first = engine.admission().start(request("a", "INC1", "join")).await.unwrap();
    let again = engine.admission().start(request("a", "INC1", "join")).await.unwrap();
    assert_eq!(again, StartResult { new: false, ..first.clone() });
    cancel(&engine, &first.run).await;
    engine.admission().start(request("b", "INC1", "join")).await.unwrap();
    let again = engine.admission().start(request("a", "INC1", "join")).await.unwrap();
    assert_eq!(again, StartResult { new: false, ..first });
}

#[tokio::test]
async fn joined_request_gets_the_same_run_again() {
    let engine = engine();
    let first = engine.admission().start(request("a", "INC1", "join")).await.unwrap();
    let joined = engine.admission().start(request("b", "INC1", "join")).await.unwrap();
    for other in [
        request("b", "INC2", "join"),
        StartRun { record: "servicenow:incident:1".parse().ok(), ..request("b", "INC1", "join") },
    ] {
        assert!(is_conflict(&engine.admission().start(other).await), "another request under the key");
    }
    cancel(&engine, &first.run).await;
    assert_eq!(engine.admission().start(request("b", "INC1", "join")).await.unwrap(), joined);
    assert_eq!(engine.store().load(&InboxEntry::run_of(&acme(), &"b".parse().unwrap())).await.unwrap(), None);
}

#[tokio::test]
async fn waiting_request_keeps_its_idempotency_key() {
    let engine = engine();
    engine.admission().start(request("a", "INC1", "queue")).await.unwrap();
    let waits = engine.admission().start(request("b", "INC1", "queue")).await.unwrap();
    let other = StartRun { plan: plan("changes", "queue"), ..request("b", "INC1", "queue") };
    for other in [request("b", "INC2", "queue"), other] {
        assert!(is_conflict(&engine.admission().start(other).await), "the waiting request keeps its key");
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
async fn waiting_request_keeps_its_record() {
    let engine = engine();
    let first = engine.admission().start(request("a", "INC1", "queue")).await.unwrap();
    let record = "servicenow:incident:INC1".parse().ok();
    let next = StartRun { record, ..request("b", "INC1", "queue") };
    let waits = engine.admission().start(next.clone()).await.unwrap();
    assert_eq!(waits.outcome, StartOutcome::WaitsFor(first.run.clone()));
    cancel(&engine, &first.run).await;
    engine.admission().process_entry(&waits.run).await.unwrap();
    let started = engine.store().load(&waits.run).await.unwrap().unwrap();
    assert_eq!((started.trigger.record, started.trigger.kind), (next.record, next.trigger_kind));
}

#[tokio::test]
async fn key_of_another_workflow_is_a_conflict() {
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

    cancel(&engine, &first.run).await;
    assert_eq!(engine.admission().process_entry(&second.run).await.unwrap(), AdvanceResult::Done);
    assert!(engine.store().load(&second.run).await.unwrap().is_some(), "it starts when the first run ends");
}

#[tokio::test]
async fn workflow_scope_lets_two_workflows_run_at_once() {
    let engine = engine();
    engine.admission().start(request("a", "INC1", "join")).await.unwrap();
    let second = engine.admission().start(other_workflow("b", "join", "workflow")).await.unwrap();
    assert_eq!((second.new, second.outcome), (true, StartOutcome::OwnRun));
}

#[tokio::test]
async fn rejection_names_the_run_that_holds_the_key() {
    let engine = engine();
    let first = engine.admission().start(request("a", "INC1", "reject")).await.unwrap();
    let refused = engine.admission().start(request("b", "INC1", "reject")).await.unwrap_err();
    assert!(
        matches!(&refused, EngineError::Refused(Refusal::ConcurrencyConflict { run, .. }) if *run == first.run)
    );
    cancel(&engine, &first.run).await;
    assert!(engine.admission().start(request("b", "INC1", "reject")).await.unwrap().new);
}

#[tokio::test]
async fn queued_request_starts_when_the_holder_ends() {
    let engine = engine();
    let first = engine.admission().start(request("a", "INC1", "queue")).await.unwrap();
    let second = engine.admission().start(request("b", "INC1", "queue")).await.unwrap();
    assert_eq!(second.outcome, StartOutcome::WaitsFor(first.run.clone()));
    assert!(second.new && engine.store().load(&second.run).await.unwrap().is_none());
    let messages = engine.store().receive(QueueName::Ingest, 10, Millis::secs(30), Duration::ZERO);
    assert!(messages.await.unwrap().iter().any(|m| m.run == second.run && m.job == Job::Start));

    process(&engine, &second.run).await;
    assert!(engine.store().load(&second.run).await.unwrap().is_none());
    let again = engine.admission().start(request("b", "INC1", "queue")).await.unwrap();
    assert_eq!(again, StartResult { new: false, ..second.clone() });
    cancel(&engine, &first.run).await;
    assert_eq!(engine.admission().process_entry(&second.run).await.unwrap(), AdvanceResult::Done);
    let started = engine.store().load(&second.run).await.unwrap().unwrap();
    assert_eq!(started.trigger.requester.unwrap().as_str(), "ada");
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
        std::thread::sleep(Duration::from_millis(3));
    }
    let [second, third, fourth] = &waiting[..] else { unreachable!() };
    for waiter in [fourth, third, second, fourth] {
        process(&engine, waiter).await;
    }
    cancel(&engine, &first.run).await;
    for later in [fourth, third] {
        process(&engine, later).await;
        assert!(engine.store().load(later).await.unwrap().is_none());
    }
    let last = engine.admission().start(request("e", "INC1", "queue")).await.unwrap();
    assert_eq!(last.outcome, StartOutcome::WaitsFor(second.clone()), "waiters keep their order");
    assert_eq!(engine.admission().process_entry(second).await.unwrap(), AdvanceResult::Done);

    cancel(&engine, second).await;
    // A registered waiter that no longer waits delays no other.
    let gone = InboxStatus::rejected("enough", engine.now());
    engine.store().set_status(third, gone, engine.now() + Millis::hours(1)).await.unwrap();
    assert_eq!(engine.admission().process_entry(fourth).await.unwrap(), AdvanceResult::Done);
    assert!(engine.store().load(fourth).await.unwrap().is_some());
}

async fn process(engine: &Engine<SqliteStore>, run: &RunKey) {
    assert_eq!(engine.admission().process_entry(run).await.unwrap(), AdvanceResult::Done);
}

/// An engine with a clock of its own, the run that holds the key, and `count` entries in the wait queue of it.
struct WaitQueue {
    engine: Engine<SqliteStore>,
    clock: TestClock,
    holder: RunKey,
    waiting: Vec<RunKey>,
}

impl WaitQueue {
    async fn of(count: usize) -> Self {
        let clock = TestClock::at(Timestamp(0));
        let engine = testkit::engine().standard_tools().signed().clock(clock.clone()).build();
        let holder = engine.admission().start(request("holder", "INC1", "queue")).await.unwrap().run;
        let mut waiting = Vec::new();
        for number in 0..count {
            clock.advance(Millis(1));
            let waits = engine.admission().start(request(&format!("k-{number}"), "INC1", "queue")).await;
            waiting.push(waits.unwrap().run);
        }
        let queue = Self { engine, clock, holder, waiting };
        while !queue.receive().await.is_empty() {}
        for run in queue.waiting.iter().rev() {
            process(&queue.engine, run).await;
        }
        queue
    }

    /// The runs of all visible start messages, which are deleted.
    async fn receive(&self) -> Vec<RunKey> {
        let messages = self.engine.store().receive(QueueName::Ingest, 10, Millis::secs(30), Duration::ZERO);
        let messages = messages.await.unwrap();
        for message in &messages {
            self.engine.store().delete(&message.handle).await.unwrap();
        }
        messages.into_iter().map(|message| message.run).collect()
    }

    /// `run` has the only visible message.
    async fn assert_message_of(&self, run: &RunKey) {
        assert_eq!(self.receive().await, std::slice::from_ref(run));
    }

    /// Ends a run, as a worker does.
    async fn end(&self, run: &RunKey) {
        cancel(&self.engine, run).await;
        self.engine.operations().build_evidence(run).await.unwrap();
    }

    async fn sweep_after(&self, time: Millis) -> Vec<RunKey> {
        self.clock.advance(time);
        self.engine.operations().sweep(&ada()).await.unwrap();
        self.receive().await
    }

    async fn is_started(&self, run: &RunKey) -> bool {
        self.engine.store().load(run).await.unwrap().is_some()
    }
}

#[tokio::test]
async fn only_the_first_waiter_has_a_message() {
    let queue = WaitQueue::of(20).await;
    let mut holder = &queue.holder;
    for next in &queue.waiting {
        assert_eq!(queue.receive().await, []);
        queue.end(holder).await;
        queue.engine.operations().build_evidence(holder).await.unwrap();
        queue.assert_message_of(next).await;
        process(&queue.engine, next).await;
        assert!(queue.is_started(next).await);
        holder = next;
    }
    queue.end(holder).await;
    assert_eq!(queue.receive().await, []);
}

/// The worker dies between the end of the run and the message, or the queue loses the message.
#[tokio::test]
async fn lost_wake_up_does_not_stop_the_wait_queue() {
    for evidence_is_lost in [false, true] {
        let queue = WaitQueue::of(3).await;
        cancel(&queue.engine, &queue.holder).await;
        if !evidence_is_lost {
            queue.engine.operations().build_evidence(&queue.holder).await.unwrap();
            assert_eq!(queue.receive().await, [queue.waiting[0].clone()]);
        }
        let woken =
            queue.sweep_after(if evidence_is_lost { Millis::mins(16) } else { START_DUE_AFTER }).await;
        assert!(woken.contains(&queue.waiting[0]), "{woken:?}");
        for run in woken.iter().rev() {
            process(&queue.engine, run).await;
        }
        while let Some(run) = queue.receive().await.pop() {
            process(&queue.engine, &run).await;
        }
        let mut started = Vec::new();
        for run in &queue.waiting {
            started.push(queue.is_started(run).await);
        }
        assert_eq!(started, [true, false, false]);
    }
}

#[tokio::test]
async fn rejected_waiter_is_skipped() {
    let queue = WaitQueue::of(4).await;
    let [first, second, third, fourth] = &queue.waiting[..] else { unreachable!() };
    let reject = async |run: &RunKey| {
        let (gone, later) = (InboxStatus::rejected("enough", queue.engine.now()), Millis::hours(1));
        queue.engine.store().set_status(run, gone, queue.engine.now() + later).await.unwrap();
    };
    reject(second).await;
    queue.end(&queue.holder).await;
    queue.assert_message_of(first).await;
    process(&queue.engine, first).await;
    queue.end(first).await;
    queue.assert_message_of(third).await;

    // It is rejected after it was woken: another trigger arrives and finds the wait queue.
    reject(third).await;
    queue.clock.advance(Millis(1));
    let last = queue.engine.admission().start(request("last", "INC1", "queue")).await.unwrap();
    assert_eq!(last.outcome, StartOutcome::WaitsFor(fourth.clone()));
    for run in queue.receive().await {
        process(&queue.engine, &run).await;
    }
    queue.assert_message_of(fourth).await;
}

/// A waiter that is woken may not take the key: its workflow was changed meanwhile, or the process dies after it stored
/// the status. However long the others have waited, the next one starts within minutes.
#[tokio::test]
async fn waiter_behind_one_without_the_key_is_processed_soon() {
    let queue = WaitQueue::of(2).await;
    let [first, second] = &queue.waiting[..] else { unreachable!() };
    for run in queue.sweep_after(Millis::hours(8)).await {
        process(&queue.engine, &run).await;
    }
    queue.end(&queue.holder).await;
    queue.assert_message_of(first).await;
    let (unmatched, later) = (InboxStatus::Unmatched { at: queue.engine.now() }, Millis::hours(1));
    queue.engine.store().set_status(first, unmatched, queue.engine.now() + later).await.unwrap();

    assert_eq!(queue.sweep_after(Millis::mins(16)).await, std::slice::from_ref(second));
    process(&queue.engine, second).await;
    assert!(queue.is_started(second).await);
}

#[tokio::test]
async fn wake_up_passes_many_entries_that_no_longer_wait() {
    let queue = WaitQueue::of(150).await;
    let (last, others) = queue.waiting.split_last().unwrap();
    let (gone, later) = (InboxStatus::rejected("enough", queue.engine.now()), Millis::hours(1));
    for run in others {
        queue.engine.store().set_status(run, gone.clone(), queue.engine.now() + later).await.unwrap();
    }
    cancel(&queue.engine, &queue.holder).await;
    let first = queue.engine.operations().build_evidence(&queue.holder).await;
    assert!(
        matches!(first, Err(EngineError::Store(StoreError::Busy { .. }))),
        "the job is repeated: {first:?}"
    );
    queue.engine.operations().build_evidence(&queue.holder).await.unwrap();
    queue.assert_message_of(last).await;
}

/// An entry that cannot be processed does not block those behind it.
#[tokio::test]
async fn unreadable_waiting_entry_does_not_block_evidence() {
    let queue = WaitQueue::of(2).await;
    cancel(&queue.engine, &queue.holder).await;
    // The first entry that is read is that of the first waiter.
    let is_read = AtomicBool::new(false);
    let damaged = Faults::new(move |call| {
        if call.name != "inbox.entry" || is_read.swap(true, Ordering::Relaxed) {
            return Fault::None;
        }
        Fault::Fail(StoreError::broken("read an entry", "damaged"))
    });
    let store = Intercepted::new(SqliteStore::clone(queue.engine.store()), damaged);
    let engine = testkit::engine().standard_tools().signed().clock(queue.clock.clone()).on(store);

    engine.operations().build_evidence(&queue.holder).await.unwrap();

    queue.assert_message_of(&queue.waiting[1]).await;
}

#[tokio::test]
async fn stuck_waiter_goes_to_the_end_of_the_wait_queue() {
    let queue = WaitQueue::of(3).await;
    let [stuck, second, third] = &queue.waiting[..] else { unreachable!() };
    queue.end(&queue.holder).await;
    queue.assert_message_of(stuck).await;
    let due = queue.sweep_after(Millis::mins(16)).await;
    assert!(due.contains(second) && due.contains(third));
    process(&queue.engine, third).await;
    assert!(!queue.is_started(third).await);
    queue.assert_message_of(second).await;
    process(&queue.engine, second).await;
    assert!(queue.is_started(second).await);
    queue.end(second).await;
    queue.assert_message_of(third).await;
}

#[tokio::test]
async fn webhook_joins_waits_or_is_rejected() {
    for on_conflict in ["join", "queue", "reject"] {
        let engine = engine();
        let first = engine.admission().start(request("a", "INC1", on_conflict)).await.unwrap();
        let accepted = accept_event(&engine, "sn:1", on_conflict).await;
        let result = engine.admission().process_entry(&accepted.run).await.unwrap();
        let status = status(&engine, &accepted).await;
        match on_conflict {
            "join" => assert_eq!(status, InboxStatus::Joined { run: first.run.run }),
            "queue" => assert_eq!((status, result), (InboxStatus::Pending, AdvanceResult::Done)),
            _ => assert!(
                matches!(&status, InboxStatus::Rejected { reason, .. } if reason.contains(first.run.run.as_str()))
            ),
        }
        assert!(engine.store().load(&accepted.run).await.unwrap().is_none(), "{on_conflict}");
    }
}

#[tokio::test]
async fn run_without_a_valid_key_is_not_started() {
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
