//! The named threats to the queue: it may deliver twice, late and in any order, and the record decides.

use std::time::Duration;

use countersign_store::{Ledger as _, Queue as _, RECEIVES_MAX, StoreError, Write};
use domain::chain::verify;
use domain::{Event, EventBody, Job, Millis, Outgoing, QueueName, RunId, RunKey, RunStatus, StepSeq};
use engine::{AdvanceLimits, AdvanceResult, Engine, StartRun};

use crate::EnvCase;
use crate::env::{StackEnv, Store};
use crate::faults::connection::{Fault, FaultyConnection, Injection};
use crate::faults::fixture::{
    LEASE, NOON, Until, commit_until, decision, initiator, noon, plan, run, tenant,
};

pub(crate) fn cases() -> Vec<(&'static str, EnvCase)> {
    vec![
        ("sqs_duplicate_after_delete", |env| Box::pin(sqs_duplicate_after_delete(env))),
        ("sqs_reordered", |env| Box::pin(sqs_reordered(env))),
        ("sqs_visibility_expires_mid_work", |env| Box::pin(sqs_visibility_expires_mid_work(env))),
        ("sqs_poison_to_dlq", |env| Box::pin(sqs_poison_to_dlq(env))),
        ("batch_one_of_ten_fails", |env| Box::pin(batch_one_of_ten_fails(env))),
    ]
}

const TWO_STEPS: &str = "workflow: two\nversion: 1\nenvironment: dev\nsteps:\n\
     - { id: one, tool: transform, with: { value: 1 } }\n\
     - { id: two, tool: transform, with: { value: '${ steps.one + 1 }' } }\n";

fn engine(store: Store) -> Engine<Store> {
    testkit::engine().standard_tools().me("worker").on(store)
}

async fn start(engine: &Engine<Store>, key: &str) -> RunKey {
    let request = StartRun { by: initiator(), ..testkit::request(engine, TWO_STEPS, key) };
    Box::pin(engine.admission().start(request)).await.unwrap().run
}

async fn advance(engine: &Engine<Store>, run: &RunKey) -> AdvanceResult {
    Box::pin(engine.execution().advance(run, &(), AdvanceLimits::default())).await.unwrap()
}

/// The run succeeded, with each step done once and without a resume.
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

/// An SQS server that missed the delete delivers the message again.
async fn sqs_duplicate_after_delete(env: StackEnv) {
    let connection = FaultyConnection::with([]);
    let store = env.store_over(connection.clone());
    let engine = engine(store.clone());
    let run = start(&engine, "request").await;
    connection.set(None);
    let received = || store.receive(QueueName::Steps, 1, Millis::secs(60), Duration::ZERO);
    let first = received().await.unwrap().remove(0);
    let response = connection.requests().remove(0).response;
    assert_eq!(advance(&engine, &run).await, AdvanceResult::Done);
    assert!(store.delete(&first.handle).await.unwrap());
    let before = store.load(&run).await.unwrap();

    connection.set([Injection::once("ReceiveMessage", 0, Fault::Respond { status: 200, body: response })]);
    let again = received().await.unwrap().remove(0);

    assert_eq!(again, first);
    assert_eq!(advance(&engine, &run).await, AdvanceResult::Done);
    assert_eq!(store.load(&run).await.unwrap(), before, "a finished run does not change");
    // SQS may or may not know the handle; neither is an error.
    store.delete(&again.handle).await.unwrap();
    assert_done_once(&store, &run).await;
}

/// Messages arrive in reverse order, and again after their jobs are done.
async fn sqs_reordered(env: StackEnv) {
    let store = env.store();
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
        assert_eq!(store.load(&delivery.run).await.unwrap(), before, "a finished run does not change");
    }
    for run in &runs {
        assert_done_once(&store, run).await;
    }
}

/// The message becomes visible while its first receiver works. The lease decides: the second receiver waits, and
/// the first finishes.
async fn sqs_visibility_expires_mid_work(env: StackEnv) {
    let store = env.store();
    store.put_plan(&tenant(), &plan()).await.unwrap();
    commit_until(&store, Until::Approved).await;
    assert_eq!(store.commit(decision(Until::Claimed)).await.unwrap(), Write::Committed);
    let receive = || store.receive(QueueName::Steps, 10, Millis::secs(1), Duration::from_secs(3));
    let first = receive().await.unwrap();
    let second = receive().await.unwrap();
    assert_eq!((&first[0].run, &second[0].run), (&run(), &run()), "it was delivered twice");

    // The clock of the second receiver shows the time of the fixture.
    let late = testkit::engine().standard_tools().clock(noon()).me("worker").on(store.clone());
    let end = advance(&late, &run()).await;

    assert_eq!(end, AdvanceResult::NotBefore(NOON + LEASE));
    assert_eq!(store.commit(decision(Until::Finished)).await.unwrap(), Write::Committed);
    assert_eq!(store.steps(&run()).await.unwrap().len(), 1);
}

/// A message that is never deleted moves to the dead-letter queue, alone, and can be redriven.
async fn sqs_poison_to_dlq(env: StackEnv) {
    let queue = env.queue();
    queue.send(&message("poison")).await.unwrap();
    let receive = || queue.receive(QueueName::Steps, 10, Millis(0), Duration::ZERO);
    for count in 1..=RECEIVES_MAX {
        assert_eq!(receive().await.unwrap()[0].receives(), count);
    }
    queue.send(&message("good")).await.unwrap();
    let received = receive().await.unwrap();
    assert_eq!(received.iter().map(|got| got.run.run.as_str()).collect::<Vec<_>>(), ["good"]);
    let dead = queue.dead_letters(10).await.unwrap();
    let letters: Vec<_> =
        dead.iter().map(|letter| (letter.run().unwrap().run.as_str(), letter.receives)).collect();
    assert_eq!(letters, [("poison", RECEIVES_MAX)]);
    assert_eq!(queue.redrive(10).await.unwrap(), 1);
    assert_eq!(queue.depth(QueueName::Steps).await.unwrap(), 2);
    assert_eq!(queue.dead_letters(10).await.unwrap(), []);
}

fn message(name: &str) -> Outgoing {
    let run = RunKey { tenant: tenant(), run: RunId::new(name).unwrap() };
    Outgoing { run, queue: QueueName::Steps, job: Job::Advance, delay: Millis(0) }
}

/// Only the failed message is retried.
async fn batch_one_of_ten_fails(env: StackEnv) {
    let connection = FaultyConnection::with([]);
    let queue = env.queue_over(connection.clone());
    let messages: Vec<_> = (0..10).map(|number| message(&format!("run-{number}"))).collect();
    connection.set([Injection::once("SendMessageBatch", 0, Fault::Partial)]);
    let sent = queue.send_all(&messages).await;
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    let received = queue.receive(QueueName::Steps, 10, Millis::secs(60), Duration::ZERO).await.unwrap();
    let mut runs: Vec<_> = received.iter().map(|got| got.run.clone()).collect();
    runs.sort();
    assert_eq!(runs, messages.iter().map(|message| message.run.clone()).collect::<Vec<_>>());
    assert_eq!(queue.depth(QueueName::Steps).await.unwrap(), 10, "none was sent twice");

    connection.set([Injection::forever("SendMessageBatch", Fault::Partial)]);
    let sent = queue.send_all(&messages).await;
    assert!(matches!(sent[9], Err(StoreError::Busy { .. })), "{sent:?}");
    assert!(sent[..6].iter().all(Result::is_ok), "{sent:?}");
}
