//! Messages: delivered at least once, to one receiver at a time, and never for a superseded commit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use domain::command::{Cancel, EffectOutcome, Pause, Resume, Retry};
use domain::{Approval, Failure, Job, Millis, Outgoing, QueueName, RunId, RunKey, TraceContext};
use serde_json::json;
use store::trace::with_context;
use store::{DeadLetter, Delivery, Store, Write};
use tokio::time::{Instant, sleep};

use crate::fixtures::{
    BACKOFF, LedgerRun as Run, advance, approve, calls, claim, claim_needing_approval, finish, tenant,
};

cases![
    message_of_a_commit_is_delivered,
    message_of_a_superseded_commit_is_not_delivered,
    message_of_a_commit_is_delayed,
    hidden_message_is_received_once,
    undeleted_message_returns_and_is_counted,
    deleted_message_does_not_return,
    delay_is_honoured,
    delayed_message_does_not_block_others,
    extending_keeps_a_message_hidden,
    extending_by_zero_releases_a_message,
    old_handle_does_not_affect_a_new_delivery,
    receive_respects_its_limit,
    message_received_too_often_is_dead_lettered,
    dead_letters_can_be_redriven,
    waiting_receiver_wakes_for_a_message,
    waiting_receiver_wakes_for_a_commit,
    waiting_receiver_wakes_for_a_released_message,
    waiting_receiver_gets_a_message_after_its_delay,
    receive_without_messages_times_out,
    depth_counts_hidden_messages,
    messages_sent_in_a_batch_are_all_delivered,
    message_is_received_only_from_its_queue,
    queue_that_selects_tenants_leaves_the_excepted,
    depth_is_counted_per_queue,
    redrive_returns_a_message_to_its_queue,
    messages_of_a_commit_go_to_their_queues,
    message_carries_the_senders_trace,
    message_of_a_commit_carries_the_runs_trace,
];

/// A visibility timeout longer than any case.
const LONG: Millis = Millis::secs(60);

/// A delay or visibility timeout short enough to wait for.
const SHORT: Millis = Millis(150);

/// More than enough for a message that must arrive.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The clocks of the store and of the test may differ by this much.
const CLOCK_TOLERANCE: Duration = Duration::from_millis(20);

/// Every store dead-letters a message after at most this many deliveries.
const DELIVERIES_MAX: u32 = 100;

fn run(name: &str) -> RunKey {
    RunKey { tenant: tenant("acme"), run: RunId::new(name).unwrap() }
}

fn message(name: &str, queue: QueueName) -> Outgoing {
    Outgoing { queue, ..advance(&run(name)) }
}

fn later(delay: Millis) -> Outgoing {
    Outgoing { delay, ..message("later", QueueName::Steps) }
}

async fn send<S: Store>(store: &S, name: &str) {
    store.send(&message(name, QueueName::Steps)).await.unwrap();
}

/// Receives the only message.
async fn receive_one<S: Store>(store: &S, visibility: Millis) -> Delivery {
    let mut received = store.receive(QueueName::Steps, 10, visibility, RECEIVE_TIMEOUT).await.unwrap();
    assert_eq!(received.len(), 1);
    received.remove(0)
}

async fn queue_is_empty<S: Store>(store: &S) -> bool {
    store.receive(QueueName::Steps, 10, LONG, Duration::ZERO).await.unwrap().is_empty()
}

async fn queue_that_selects_tenants_leaves_the_excepted<S: Store>(store: Arc<S>) {
    send(&*store, "first").await;
    let other = RunKey { tenant: tenant("umbrella"), ..run("second") };
    store.send(&advance(&other)).await.unwrap();
    let except = BTreeSet::from([tenant("acme")]);
    let receive = || store.receive_except(QueueName::Steps, &except, 10, LONG);
    let Some(received) = receive().await.unwrap() else { return };
    assert_eq!(received.iter().map(|delivery| &delivery.run).collect::<Vec<_>>(), [&other]);
    assert_eq!(receive().await.unwrap(), Some(Vec::new()));
    assert_eq!(receive_one(&*store, LONG).await.run, run("first"));
}

async fn message_of_a_commit_is_delivered<S: Store>(store: Arc<S>) {
    let admitted = Run::start(&*store, "acme", "request", &calls(1)).await;
    let delivery = receive_one(&*store, LONG).await;
    assert_eq!((&delivery.run, delivery.receives()), (admitted.key(), 1));
}

async fn message_of_a_superseded_commit_is_not_delivered<S: Store>(store: Arc<S>) {
    let mut run = Run::start(&*store, "acme", "request", &calls(2)).await;
    let slow = run.clone();
    let grant = run.claim(&*store, "effect").await;
    let admitted = receive_one(&*store, LONG).await;
    store.delete(&admitted.handle).await.unwrap();
    let (ready, _) = run.decide(finish(grant, json!(1)));
    run.commit(&*store, Cancel { reason: "enough".to_owned() }).await;
    assert!(!ready.outgoing.is_empty());

    assert_eq!(store.commit(ready).await.unwrap(), Write::Superseded);
    let (late, _) = slow.decide(claim("effect", None));
    assert_eq!(store.commit(late).await.unwrap(), Write::Superseded);

    assert!(queue_is_empty(&*store).await);
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 0);
}

async fn message_of_a_commit_is_delayed<S: Store>(store: Arc<S>) {
    let mut run = Run::start(&*store, "acme", "request", &calls(1)).await;
    let admitted = receive_one(&*store, LONG).await;
    store.delete(&admitted.handle).await.unwrap();
    let grant = run.claim(&*store, "effect").await;
    let failed = Retry {
        fence: grant.fence,
        failure: Failure::new("HTTP_STATUS", "HTTP status 503"),
        certainty: EffectOutcome::DidNotHappen,
        retry_after: None,
        receipt: grant.receipt,
    };
    let started_at = Instant::now();
    run.commit(&*store, failed).await;

    assert_eq!(receive_one(&*store, LONG).await.run, *run.key());
    // Jitter shortens a delay by a fifth at most.
    assert!(started_at.elapsed() + CLOCK_TOLERANCE >= BACKOFF.std() * 4 / 5);
}

async fn hidden_message_is_received_once<S: Store>(store: Arc<S>) {
    send(&*store, "run").await;
    assert_eq!(receive_one(&*store, LONG).await.run, run("run"));
    assert!(queue_is_empty(&*store).await);
}

async fn undeleted_message_returns_and_is_counted<S: Store>(store: Arc<S>) {
    send(&*store, "run").await;
    for receives in 1..=3 {
        let started_at = Instant::now();
        let delivery = receive_one(&*store, SHORT).await;
        assert_eq!((&delivery.run, delivery.receives()), (&run("run"), receives));
        assert!(started_at.elapsed() < RECEIVE_TIMEOUT);
    }
}

async fn deleted_message_does_not_return<S: Store>(store: Arc<S>) {
    send(&*store, "run").await;
    let delivery = receive_one(&*store, SHORT).await;
    assert!(store.delete(&delivery.handle).await.unwrap());
    sleep(SHORT.std() * 2).await;
    assert!(queue_is_empty(&*store).await);
    store.delete(&delivery.handle).await.unwrap();
    assert!(queue_is_empty(&*store).await);
}

async fn delay_is_honoured<S: Store>(store: Arc<S>) {
    let started_at = Instant::now();
    store.send(&later(SHORT)).await.unwrap();
    assert_eq!(receive_one(&*store, LONG).await.run, run("later"));
    assert!(started_at.elapsed() + CLOCK_TOLERANCE >= SHORT.std());
}

async fn delayed_message_does_not_block_others<S: Store>(store: Arc<S>) {
    store.send(&later(LONG)).await.unwrap();
    send(&*store, "now").await;
    assert_eq!(receive_one(&*store, LONG).await.run, run("now"));
    assert!(queue_is_empty(&*store).await);
}

async fn extending_keeps_a_message_hidden<S: Store>(store: Arc<S>) {
    send(&*store, "run").await;
    let delivery = receive_one(&*store, Millis::secs(1)).await;
    assert!(store.extend(&delivery.handle, LONG).await.unwrap());
    sleep(Duration::from_millis(1_200)).await;
    assert!(queue_is_empty(&*store).await);
    assert!(store.delete(&delivery.handle).await.unwrap());
}

async fn extending_by_zero_releases_a_message<S: Store>(store: Arc<S>) {
    send(&*store, "run").await;
    let delivery = receive_one(&*store, LONG).await;
    assert!(store.extend(&delivery.handle, Millis(0)).await.unwrap());
    assert_eq!(receive_one(&*store, LONG).await.run, run("run"));
}

async fn old_handle_does_not_affect_a_new_delivery<S: Store>(store: Arc<S>) {
    send(&*store, "run").await;
    let old = receive_one(&*store, Millis(50)).await;
    let new = receive_one(&*store, LONG).await;
    assert_ne!(old.handle, new.handle);

    // A queue may honor the old handle, or accept it without effect.
    store.extend(&old.handle, LONG).await.unwrap();
    store.delete(&old.handle).await.unwrap();

    assert!(queue_is_empty(&*store).await);
    store.delete(&new.handle).await.unwrap();
    assert!(queue_is_empty(&*store).await);
}

async fn receive_respects_its_limit<S: Store>(store: Arc<S>) {
    for n in 0..5 {
        send(&*store, &format!("run-{n}")).await;
    }
    let mut seen = BTreeSet::new();
    while seen.len() < 5 {
        let received = store.receive(QueueName::Steps, 2, LONG, RECEIVE_TIMEOUT).await.unwrap();
        assert!((1..=2).contains(&received.len()));
        for delivery in received {
            assert!(seen.insert(delivery.run));
        }
    }
    assert!(queue_is_empty(&*store).await);
}

/// Receives the message of `name` until the store dead-letters it; returns the number of deliveries.
async fn receive_until_dead_lettered<S: Store>(store: &S, name: &str, queue: QueueName) -> u32 {
    store.send(&message(name, queue)).await.unwrap();
    for receives in 0..=DELIVERIES_MAX {
        let received = store.receive(queue, 1, LONG, Duration::from_secs(1)).await.unwrap();
        let Some(delivery) = received.first() else { return receives };
        assert!(store.extend(&delivery.handle, Millis(0)).await.unwrap());
    }
    DELIVERIES_MAX + 1
}

async fn message_received_too_often_is_dead_lettered<S: Store>(store: Arc<S>) {
    let receives = receive_until_dead_lettered(&*store, "run", QueueName::Steps).await;

    assert!((1..=DELIVERIES_MAX).contains(&receives));
    let dead = store.dead_letters(10).await.unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!((dead[0].run(), dead[0].receives), (Some(&run("run")), receives));
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 0);
}

async fn dead_letters_can_be_redriven<S: Store>(store: Arc<S>) {
    with_context(other_trace(), receive_until_dead_lettered(&*store, "first", QueueName::Steps)).await;
    receive_until_dead_lettered(&*store, "second", QueueName::Steps).await;

    assert_eq!(store.redrive(1).await.unwrap(), 1);
    let delivery = receive_one(&*store, LONG).await;
    assert_eq!((&delivery.run, delivery.receives()), (&run("first"), 1));
    assert_eq!(delivery.trace, other_trace(), "a redriven message keeps its trace");
    let left = store.dead_letters(10).await.unwrap();
    assert_eq!(left.iter().map(DeadLetter::run).collect::<Vec<_>>(), [Some(&run("second"))]);

    assert_eq!(store.redrive(10).await.unwrap(), 1);
    assert!(store.dead_letters(10).await.unwrap().is_empty());
    assert_eq!(receive_one(&*store, LONG).await.run, run("second"));
}

/// Starts a receiver that waits, runs `event`, and returns how long the receiver took to get the message.
async fn time_to_wake<S: Store>(store: &Arc<S>, event: impl Future<Output = ()>) -> Duration {
    let waits = Arc::clone(store);
    let waiting = tokio::spawn(async move {
        let received = waits.receive(QueueName::Steps, 10, LONG, Duration::from_secs(20)).await.unwrap();
        (received.len(), Instant::now())
    });
    sleep(Duration::from_millis(100)).await;
    let started_at = Instant::now();
    event.await;
    let (count, at) = waiting.await.unwrap();
    assert_eq!(count, 1);
    at - started_at
}

async fn waiting_receiver_wakes_for_a_message<S: Store>(store: Arc<S>) {
    let took = time_to_wake(&store, send(&*store, "run")).await;
    assert!(took < RECEIVE_TIMEOUT, "{took:?}");
}

async fn waiting_receiver_wakes_for_a_commit<S: Store>(store: Arc<S>) {
    let took = time_to_wake(&store, async {
        Run::start(&*store, "acme", "request", &calls(1)).await;
    })
    .await;
    assert!(took < RECEIVE_TIMEOUT, "{took:?}");
}

async fn waiting_receiver_wakes_for_a_released_message<S: Store>(store: Arc<S>) {
    send(&*store, "run").await;
    let delivery = receive_one(&*store, LONG).await;
    let took = time_to_wake(&store, async {
        assert!(store.extend(&delivery.handle, Millis(0)).await.unwrap());
    })
    .await;
    assert!(took < RECEIVE_TIMEOUT, "{took:?}");
}

async fn waiting_receiver_gets_a_message_after_its_delay<S: Store>(store: Arc<S>) {
    let took = time_to_wake(&store, async {
        store.send(&later(SHORT)).await.unwrap();
    })
    .await;
    assert!(took < RECEIVE_TIMEOUT, "{took:?}");
    assert!(took + CLOCK_TOLERANCE >= SHORT.std(), "{took:?}");
}

async fn receive_without_messages_times_out<S: Store>(store: Arc<S>) {
    let started_at = Instant::now();
    assert!(store.receive(QueueName::Steps, 10, LONG, SHORT.std()).await.unwrap().is_empty());
    assert!(started_at.elapsed() >= SHORT.std());
    assert!(started_at.elapsed() < RECEIVE_TIMEOUT);
}

async fn depth_counts_hidden_messages<S: Store>(store: Arc<S>) {
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 0);
    send(&*store, "hidden").await;
    let delivery = receive_one(&*store, LONG).await;
    send(&*store, "visible").await;
    store.send(&later(LONG)).await.unwrap();
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 3);
    assert_eq!(store.visible(QueueName::Steps).await.unwrap(), 1);
    store.delete(&delivery.handle).await.unwrap();
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 2);
}

async fn messages_sent_in_a_batch_are_all_delivered<S: Store>(store: Arc<S>) {
    // More than one batch request holds, for several queues.
    let names: Vec<String> = (0..25).map(|n| format!("run-{n}")).collect();
    let queue = |n: usize| if n.is_multiple_of(5) { QueueName::Decisions } else { QueueName::Steps };
    let messages: Vec<_> = names.iter().enumerate().map(|(n, name)| message(name, queue(n))).collect();
    let sent = store.send_all(&messages).await;
    assert_eq!(sent.into_iter().collect::<Result<Vec<_>, _>>().unwrap().len(), 25);
    let mut seen = BTreeSet::new();
    for (queue, count) in [(QueueName::Decisions, 5), (QueueName::Steps, 25)] {
        while seen.len() < count {
            let received = store.receive(queue, 10, LONG, RECEIVE_TIMEOUT).await.unwrap();
            assert!(!received.is_empty());
            seen.extend(received.into_iter().map(|delivery| delivery.run));
        }
    }
    assert!(messages.iter().all(|message| seen.contains(&message.run)));
}

async fn message_is_received_only_from_its_queue<S: Store>(store: Arc<S>) {
    for queue in QueueName::ALL {
        store.send(&message(queue.as_str(), queue)).await.unwrap();
        for other in QueueName::ALL.into_iter().filter(|other| *other != queue) {
            let received = store.receive(other, 10, LONG, Duration::ZERO).await.unwrap();
            assert_eq!(received, [], "{queue} {other}");
        }
        let received = store.receive(queue, 10, LONG, RECEIVE_TIMEOUT).await.unwrap();
        assert_eq!(received.len(), 1);
        assert_eq!((&received[0].run, received[0].queue), (&run(queue.as_str()), queue));
        assert!(store.extend(&received[0].handle, LONG).await.unwrap());
        assert!(store.delete(&received[0].handle).await.unwrap());
    }
}

async fn depth_is_counted_per_queue<S: Store>(store: Arc<S>) {
    for (count, queue) in (1..).zip(QueueName::ALL) {
        for n in 0..count {
            store.send(&message(&format!("run-{n}"), queue)).await.unwrap();
        }
    }
    for (count, queue) in (1..).zip(QueueName::ALL) {
        assert_eq!(store.depth(queue).await.unwrap(), count, "{queue}");
    }
}

async fn redrive_returns_a_message_to_its_queue<S: Store>(store: Arc<S>) {
    receive_until_dead_lettered(&*store, "run", QueueName::Decisions).await;
    let dead = store.dead_letters(10).await.unwrap();
    assert_eq!(dead.iter().map(|dead| dead.queue).collect::<Vec<_>>(), [QueueName::Decisions]);
    assert_eq!(store.redrive(10).await.unwrap(), 1);
    assert!(queue_is_empty(&*store).await);
    let received = store.receive(QueueName::Decisions, 10, LONG, RECEIVE_TIMEOUT).await.unwrap();
    assert_eq!(received.iter().map(|delivery| &delivery.run).collect::<Vec<_>>(), [&run("run")]);
}

/// Approval notifications and the messages that advance a decided run go to the decisions queue, past a backlog of steps.
async fn messages_of_a_commit_go_to_their_queues<S: Store>(store: Arc<S>) {
    let mut run = Run::start(&*store, "acme", "request", &calls(1)).await;
    assert_eq!(receive_one(&*store, LONG).await.job, Job::Advance);
    run.commit(&*store, claim_needing_approval("effect")).await;
    let approval = run.approval.clone().unwrap();
    run.commit(&*store, approve(approval.clone())).await;
    let decided = run.approval.clone().unwrap();

    let mut jobs = Vec::new();
    while jobs.len() < 3 {
        let received = store.receive(QueueName::Decisions, 10, LONG, RECEIVE_TIMEOUT).await.unwrap();
        assert!(!received.is_empty(), "{jobs:?}");
        jobs.extend(received.into_iter().map(|delivery| delivery.job));
    }
    jobs.sort();
    let show = |Approval { id, revision, .. }| Job::NotifyApproval { approval: id, revision };
    assert_eq!(jobs, [Job::Advance, show(approval), show(decided)]);
    assert!(queue_is_empty(&*store).await);
}

/// The trace context of another caller.
fn other_trace() -> TraceContext {
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap()
}

async fn message_carries_the_senders_trace<S: Store>(store: Arc<S>) {
    with_context(other_trace(), send(&*store, "sent")).await;
    let sent = receive_one(&*store, LONG).await;
    assert_eq!(sent.trace, other_trace());

    send(&*store, "unsent").await;
    let own = receive_one(&*store, LONG).await;
    assert_eq!(own.trace, TraceContext::of_run(&run("unsent")));

    let both = ["a", "b"].map(|name| message(name, QueueName::Steps));
    for sent in with_context(other_trace(), store.send_all(&both)).await {
        sent.unwrap();
    }
    for _ in both {
        let received = store.receive(QueueName::Steps, 1, LONG, RECEIVE_TIMEOUT).await.unwrap();
        assert_eq!(received.iter().map(|got| got.trace).collect::<Vec<_>>(), [other_trace()]);
    }
}

async fn message_of_a_commit_carries_the_runs_trace<S: Store>(store: Arc<S>) {
    let mut traced = Run::start_in_trace(&*store, "sent", other_trace()).await;
    assert_eq!(receive_one(&*store, LONG).await.trace, other_trace());
    // A worker of the run passes its own position in the run's trace.
    let further_on = other_trace().next("advance");
    assert_eq!(with_context(further_on, trace_after_resume(&*store, &mut traced)).await, further_on);
    // A caller with another trace, or with none, does not change the trace of the run.
    let another = TraceContext::of_run(&run("another"));
    assert_eq!(with_context(another, trace_after_resume(&*store, &mut traced)).await, other_trace());
    assert_eq!(trace_after_resume(&*store, &mut traced).await, other_trace());

    let own = with_context(other_trace(), Run::start(&*store, "acme", "request", &calls(1))).await;
    assert_eq!(receive_one(&*store, LONG).await.trace, TraceContext::of_run(&own.record.key));
}

/// The trace of the message that advances `run` after it is paused and resumed.
async fn trace_after_resume<S: Store>(store: &S, run: &mut Run) -> TraceContext {
    run.commit(store, Pause { reason: "a look".to_owned() }).await;
    run.commit(store, Resume { reason: "seen".to_owned() }).await;
    let received = store.receive(QueueName::Decisions, 10, LONG, RECEIVE_TIMEOUT).await.unwrap();
    assert_eq!(received.len(), 1, "{received:?}");
    received[0].trace
}
