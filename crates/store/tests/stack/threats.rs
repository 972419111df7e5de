//! The named cases of faults that the queue must withstand: it may deliver twice, late and in any order, and the
//! record decides.

use std::sync::Arc;
use std::time::Duration;

use countersign_store::{Ledger as _, Queue as _, RECEIVES_MAX, StoreError, SystemClock, Write};
use domain::chain::verify;
use domain::{Event, EventBody, Job, Millis, Outgoing, QueueName, RunId, RunKey, RunStatus, StepSeq};
use engine::{AdvanceLimits, AdvanceResult, Engine, Parts, StartRun, Timing};
use serde_json::json;

use crate::Own;
use crate::account::{Account, Store};
use crate::faults::kept::Still;
use crate::faults::line::{Fault, Line, Trouble};
use crate::faults::story::{LEASE, NOON, Until, decision, initiator, plan, run, tell, tenant};

pub(crate) fn cases() -> Vec<(&'static str, Own)> {
    vec![
        ("sqs_duplicate_after_delete", |account| Box::pin(sqs_duplicate_after_delete(account))),
        ("sqs_reordered", |account| Box::pin(sqs_reordered(account))),
        ("sqs_visibility_expires_mid_work", |account| Box::pin(sqs_visibility_expires_mid_work(account))),
        ("sqs_poison_to_dlq", |account| Box::pin(sqs_poison_to_dlq(account))),
        ("batch_one_of_ten_fails", |account| Box::pin(batch_one_of_ten_fails(account))),
    ]
}

const TWO_STEPS: &str = "workflow: two\nversion: 1\nenvironment: dev\nsteps:\n\
     - { id: one, tool: transform, with: { value: 1 } }\n\
     - { id: two, tool: transform, with: { value: '${ steps.one + 1 }' } }\n";

fn engine(store: Store) -> Engine<Store> {
    Engine::new(parts(store))
}

fn parts(store: Store) -> Parts<Store> {
    let tools = connectors::standard(connectors::Allow::default(), connectors::Settings::default());
    Parts {
        store: Arc::new(store),
        tools,
        clock: Arc::new(SystemClock),
        me: "worker".parse().unwrap(),
        timing: Timing::default(),
        shows: None,
        sealing: None,
    }
}

async fn start(engine: &Engine<Store>, key: &str) -> RunKey {
    let names = engine.tools().names().cloned().collect();
    let wish = StartRun {
        tenant: tenant(),
        workspace: "main".parse().unwrap(),
        plan: workflow::parse(TWO_STEPS, &names).unwrap(),
        trigger_kind: "test".to_owned(),
        record: None,
        key: key.parse().unwrap(),
        input: json!({}),
        by: initiator(),
    };
    Box::pin(engine.start(wish)).await.unwrap().run
}

async fn advance(engine: &Engine<Store>, run: &RunKey) -> AdvanceResult {
    Box::pin(engine.advance(run, &(), AdvanceLimits::default())).await.unwrap()
}

/// The run came to its end, each step once: its story says so, and nobody has taken anything up a second time.
async fn assert_done_once(store: &Store, run: &RunKey) {
    let record = store.load(run).await.unwrap().unwrap();
    assert_eq!((record.status, record.resumes), (RunStatus::Succeeded, 0));
    let chain = store.events(run, 0, 100).await.unwrap();
    verify(run, &chain, record.events, &record.head).unwrap();
    let events = chain.iter().map(|entry| serde_json::from_slice::<Event>(&entry.canonical).unwrap());
    let done = events.filter(|event| matches!(event.body, EventBody::StepSucceeded { .. }));
    let done: Vec<StepSeq> = done.map(|event| event.seq).collect();
    assert_eq!(done, [StepSeq(0), StepSeq(1)]);
}

/// A server that was away when the message was deleted hands it out again.
async fn sqs_duplicate_after_delete(account: Account) {
    let line = Line::with([]);
    let store = account.store_over(line.clone());
    let engine = engine(store.clone());
    let run = start(&engine, "request").await;
    line.set(None);
    let received = || store.receive(QueueName::Steps, 1, Millis::secs(60), Duration::ZERO);
    let first = received().await.unwrap().remove(0);
    let answer = line.seen().remove(0).answer;
    assert_eq!(advance(&engine, &run).await, AdvanceResult::Done);
    assert!(store.delete(&first.handle).await.unwrap());
    let before = store.load(&run).await.unwrap();

    line.set([Trouble::once("ReceiveMessage", 0, Fault::Answer { status: 200, body: answer })]);
    let again = received().await.unwrap().remove(0);

    assert_eq!(again, first);
    assert_eq!(advance(&engine, &run).await, AdvanceResult::Done);
    assert_eq!(store.load(&run).await.unwrap(), before, "a run that ended does not move");
    // Whether SQS still knows the handle is its own affair; it is not an error.
    store.delete(&again.handle).await.unwrap();
    assert_done_once(&store, &run).await;
}

/// The last comes first, and then each comes again, when what it asks for is long done.
async fn sqs_reordered(account: Account) {
    let store = account.store();
    let engine = engine(store.clone());
    let mut runs = Vec::new();
    for key in ["a", "b", "c"] {
        runs.push(start(&engine, key).await);
    }
    let mut received = store.receive(QueueName::Steps, 10, Millis::secs(60), Duration::ZERO).await.unwrap();
    assert_eq!(received.len(), runs.len());
    received.reverse();
    for delivery in &received {
        assert_eq!(advance(&engine, &delivery.run).await, AdvanceResult::Done);
    }
    for delivery in &received {
        let before = store.load(&delivery.run).await.unwrap();
        assert_eq!(advance(&engine, &delivery.run).await, AdvanceResult::Done);
        assert_eq!(store.load(&delivery.run).await.unwrap(), before, "a run that ended does not move");
    }
    for run in &runs {
        assert_done_once(&store, run).await;
    }
}

/// The message comes back while its first receiver still works. The lease decides: whoever gets it next waits, and
/// the first finishes.
async fn sqs_visibility_expires_mid_work(account: Account) {
    let store = account.store();
    store.put_plan(&tenant(), &plan()).await.unwrap();
    tell(&store, Until::Answered).await;
    assert_eq!(store.commit(decision(Until::Claimed)).await.unwrap(), Write::Committed);
    let receive = || store.receive(QueueName::Steps, 10, Millis::secs(1), Duration::from_secs(3));
    let first = receive().await.unwrap();
    let second = receive().await.unwrap();
    assert_eq!((&first[0].run, &second[0].run), (&run(), &run()), "it was delivered twice");

    // The story is told at noon, and so is the second receiver's clock.
    let late = Engine::new(Parts { clock: Arc::new(Still), ..parts(store.clone()) });
    let end = advance(&late, &run()).await;

    assert_eq!(end, AdvanceResult::NotBefore(NOON + LEASE));
    assert_eq!(store.commit(decision(Until::Finished)).await.unwrap(), Write::Committed);
    assert_eq!(store.steps(&run()).await.unwrap().len(), 1);
}

/// A message that nobody ever deletes is put aside, alone, and can be put back.
async fn sqs_poison_to_dlq(account: Account) {
    let queue = account.queue();
    queue.send(&message("poison")).await.unwrap();
    let receive = || queue.receive(QueueName::Steps, 10, Millis(0), Duration::ZERO);
    for count in 1..=RECEIVES_MAX {
        assert_eq!(receive().await.unwrap()[0].receives(), count);
    }
    queue.send(&message("good")).await.unwrap();
    let received = receive().await.unwrap();
    assert_eq!(received.iter().map(|got| got.run.run.as_str()).collect::<Vec<_>>(), ["good"]);
    let dead = queue.dead_letters(10).await.unwrap();
    let told: Vec<_> = dead.iter().map(|letter| (letter.run.run.as_str(), letter.receives)).collect();
    assert_eq!(told, [("poison", RECEIVES_MAX)]);
    assert_eq!(queue.redrive(10).await.unwrap(), 1);
    assert_eq!(queue.depth(QueueName::Steps).await.unwrap(), 2);
    assert_eq!(queue.dead_letters(10).await.unwrap(), []);
}

fn message(name: &str) -> Outgoing {
    let run = RunKey { tenant: tenant(), run: RunId::new(name).unwrap() };
    Outgoing { run, queue: QueueName::Steps, job: Job::Advance, delay: Millis(0) }
}

/// The one is sent again, and the nine are not.
async fn batch_one_of_ten_fails(account: Account) {
    let line = Line::with([]);
    let queue = account.queue_over(line.clone());
    let messages: Vec<_> = (0..10).map(|number| message(&format!("run-{number}"))).collect();
    line.set([Trouble::once("SendMessageBatch", 0, Fault::Partial)]);
    let sent = queue.send_all(&messages).await;
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    let received = queue.receive(QueueName::Steps, 10, Millis::secs(60), Duration::ZERO).await.unwrap();
    let mut runs: Vec<_> = received.iter().map(|got| got.run.clone()).collect();
    runs.sort();
    assert_eq!(runs, messages.iter().map(|message| message.run.clone()).collect::<Vec<_>>());
    assert_eq!(queue.depth(QueueName::Steps).await.unwrap(), 10, "none was sent twice");

    line.set([Trouble::forever("SendMessageBatch", Fault::Partial)]);
    let sent = queue.send_all(&messages).await;
    assert!(matches!(sent[9], Err(StoreError::Busy { .. })), "{sent:?}");
    assert!(sent[..6].iter().all(Result::is_ok), "{sent:?}");
}
