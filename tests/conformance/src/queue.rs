//! Messages: delivered at least once, to one receiver at a time, and never for what was not committed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use domain::command::{Cancel, Certainty, Pause, Resume, Retry};
use domain::{Failure, Job, Millis, Outgoing, QueueName, RunId, RunKey, TraceContext};
use serde_json::json;
use store::trace::within;
use store::{Delivery, Store, Write};
use tokio::time::{Instant, sleep};

use crate::fixtures::{BACKOFF, Run, advance, asking, calls, claim, finish, tenant, yes};

cases![
    a_committed_decisions_message_is_delivered,
    a_superseded_decisions_message_is_not_delivered,
    a_commits_message_is_held_back_as_long_as_it_says,
    a_message_is_received_once_while_it_is_hidden,
    a_message_that_is_not_deleted_comes_back_and_is_counted,
    a_deleted_message_does_not_come_back,
    a_delay_is_honoured,
    a_message_that_is_held_back_holds_up_no_other,
    extending_hides_a_message_for_longer,
    extending_to_nothing_gives_a_message_back,
    an_old_handle_does_no_harm_to_whoever_has_the_new_one,
    no_more_messages_are_received_than_asked_for,
    a_message_that_is_delivered_too_often_is_put_aside,
    what_was_put_aside_can_be_put_back,
    a_receiver_that_waits_is_woken_by_a_message,
    a_receiver_that_waits_is_woken_by_a_commit,
    a_receiver_that_waits_is_woken_when_a_message_is_given_back,
    a_receiver_that_waits_gets_a_message_when_its_delay_is_over,
    waiting_for_nothing_ends,
    every_message_is_counted_visible_or_not,
    messages_that_are_sent_together_are_all_delivered,
    a_message_of_one_lane_is_never_received_from_another,
    lanes_are_counted_apart,
    what_was_put_aside_is_put_back_into_its_lane,
    a_commits_messages_go_by_their_lanes,
    a_message_carries_the_trace_that_it_was_sent_in,
    a_commits_message_belongs_to_the_story_of_its_run,
];

/// Longer than any case takes: what is hidden for this long stays hidden.
const FOR_THE_CASE: Millis = Millis::secs(60);

/// Short enough to wait for.
const BRIEFLY: Millis = Millis(150);

/// More than enough for anything that should come at all.
const PATIENTLY: Duration = Duration::from_secs(5);

/// The store's clock and ours need not agree to the last millisecond.
const CLOCKS_APART: Duration = Duration::from_millis(20);

/// No store puts a message aside later than this.
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

/// The one message that is there.
async fn one<S: Store>(store: &S, visibility: Millis) -> Delivery {
    let mut received = store.receive(QueueName::Steps, 10, visibility, PATIENTLY).await.unwrap();
    assert_eq!(received.len(), 1);
    received.remove(0)
}

async fn nothing<S: Store>(store: &S) -> bool {
    store.receive(QueueName::Steps, 10, FOR_THE_CASE, Duration::ZERO).await.unwrap().is_empty()
}

async fn a_committed_decisions_message_is_delivered<S: Store>(store: Arc<S>) {
    let admitted = Run::begin(&*store, "acme", "request", &calls(1)).await;
    let delivery = one(&*store, FOR_THE_CASE).await;
    assert_eq!((&delivery.run, delivery.receives()), (admitted.key(), 1));
}

async fn a_superseded_decisions_message_is_not_delivered<S: Store>(store: Arc<S>) {
    let mut run = Run::begin(&*store, "acme", "request", &calls(2)).await;
    let slow = run.clone();
    let grant = run.claim(&*store, "effect").await;
    let admitted = one(&*store, FOR_THE_CASE).await;
    store.delete(&admitted.handle).await.unwrap();
    let (ready, _) = run.decide(finish(grant, json!(1)));
    run.commit(&*store, Cancel { reason: "enough".to_owned() }).await;
    assert!(!ready.outgoing.is_empty());

    assert_eq!(store.commit(ready).await.unwrap(), Write::Superseded);
    let (late, _) = slow.decide(claim("effect", None));
    assert_eq!(store.commit(late).await.unwrap(), Write::Superseded);

    assert!(nothing(&*store).await);
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 0);
}

async fn a_commits_message_is_held_back_as_long_as_it_says<S: Store>(store: Arc<S>) {
    let mut run = Run::begin(&*store, "acme", "request", &calls(1)).await;
    let admitted = one(&*store, FOR_THE_CASE).await;
    store.delete(&admitted.handle).await.unwrap();
    let grant = run.claim(&*store, "effect").await;
    let failed = Retry {
        fence: grant.fence,
        failure: Failure::new("HTTP_STATUS", "the other side said 503"),
        certainty: Certainty::DidNotHappen,
        retry_after: None,
        receipt: grant.receipt,
    };
    let begun = Instant::now();
    run.commit(&*store, failed).await;

    assert_eq!(one(&*store, FOR_THE_CASE).await.run, *run.key());
    // A delay is cut short by a fifth at most, to spread a crowd.
    assert!(begun.elapsed() + CLOCKS_APART >= BACKOFF.std() * 4 / 5);
}

async fn a_message_is_received_once_while_it_is_hidden<S: Store>(store: Arc<S>) {
    send(&*store, "run").await;
    assert_eq!(one(&*store, FOR_THE_CASE).await.run, run("run"));
    assert!(nothing(&*store).await);
}

async fn a_message_that_is_not_deleted_comes_back_and_is_counted<S: Store>(store: Arc<S>) {
    send(&*store, "run").await;
    for receives in 1..=3 {
        let begun = Instant::now();
        let delivery = one(&*store, BRIEFLY).await;
        assert_eq!((&delivery.run, delivery.receives()), (&run("run"), receives));
        assert!(begun.elapsed() < PATIENTLY);
    }
}

async fn a_deleted_message_does_not_come_back<S: Store>(store: Arc<S>) {
    send(&*store, "run").await;
    let delivery = one(&*store, BRIEFLY).await;
    assert!(store.delete(&delivery.handle).await.unwrap());
    sleep(BRIEFLY.std() * 2).await;
    assert!(nothing(&*store).await);
    // Once more is no error, whatever the queue says to it.
    store.delete(&delivery.handle).await.unwrap();
    assert!(nothing(&*store).await);
}

async fn a_delay_is_honoured<S: Store>(store: Arc<S>) {
    let begun = Instant::now();
    store.send(&later(BRIEFLY)).await.unwrap();
    assert_eq!(one(&*store, FOR_THE_CASE).await.run, run("later"));
    assert!(begun.elapsed() + CLOCKS_APART >= BRIEFLY.std());
}

async fn a_message_that_is_held_back_holds_up_no_other<S: Store>(store: Arc<S>) {
    store.send(&later(FOR_THE_CASE)).await.unwrap();
    send(&*store, "now").await;
    assert_eq!(one(&*store, FOR_THE_CASE).await.run, run("now"));
    assert!(nothing(&*store).await);
}

async fn extending_hides_a_message_for_longer<S: Store>(store: Arc<S>) {
    send(&*store, "run").await;
    let delivery = one(&*store, Millis::secs(1)).await;
    assert!(store.extend(&delivery.handle, FOR_THE_CASE).await.unwrap());
    sleep(Duration::from_millis(1_200)).await;
    assert!(nothing(&*store).await);
    assert!(store.delete(&delivery.handle).await.unwrap());
}

async fn extending_to_nothing_gives_a_message_back<S: Store>(store: Arc<S>) {
    send(&*store, "run").await;
    let delivery = one(&*store, FOR_THE_CASE).await;
    assert!(store.extend(&delivery.handle, Millis(0)).await.unwrap());
    assert_eq!(one(&*store, FOR_THE_CASE).await.run, run("run"));
}

async fn an_old_handle_does_no_harm_to_whoever_has_the_new_one<S: Store>(store: Arc<S>) {
    send(&*store, "run").await;
    let old = one(&*store, Millis(50)).await;
    let new = one(&*store, FOR_THE_CASE).await;
    assert_ne!(old.handle, new.handle);

    // A queue may heed the old one, or say yes and do nothing.
    store.extend(&old.handle, FOR_THE_CASE).await.unwrap();
    store.delete(&old.handle).await.unwrap();

    assert!(nothing(&*store).await);
    store.delete(&new.handle).await.unwrap();
    assert!(nothing(&*store).await);
}

async fn no_more_messages_are_received_than_asked_for<S: Store>(store: Arc<S>) {
    for n in 0..5 {
        send(&*store, &format!("run-{n}")).await;
    }
    let mut seen = BTreeSet::new();
    while seen.len() < 5 {
        let received = store.receive(QueueName::Steps, 2, FOR_THE_CASE, PATIENTLY).await.unwrap();
        assert!((1..=2).contains(&received.len()));
        for delivery in received {
            assert!(seen.insert(delivery.run));
        }
    }
    assert!(nothing(&*store).await);
}

/// Receives the message of `name` again and again until the store gives it up; says how often that was.
async fn wear_out<S: Store>(store: &S, name: &str, queue: QueueName) -> u32 {
    store.send(&message(name, queue)).await.unwrap();
    for receives in 0..=DELIVERIES_MAX {
        let received = store.receive(queue, 1, FOR_THE_CASE, Duration::from_secs(1)).await.unwrap();
        let Some(delivery) = received.first() else { return receives };
        assert!(store.extend(&delivery.handle, Millis(0)).await.unwrap());
    }
    DELIVERIES_MAX + 1
}

async fn a_message_that_is_delivered_too_often_is_put_aside<S: Store>(store: Arc<S>) {
    let receives = wear_out(&*store, "run", QueueName::Steps).await;

    assert!((1..=DELIVERIES_MAX).contains(&receives));
    let dead = store.dead_letters(10).await.unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!((&dead[0].run, dead[0].receives), (&run("run"), receives));
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 0);
}

async fn what_was_put_aside_can_be_put_back<S: Store>(store: Arc<S>) {
    within(elsewhere(), wear_out(&*store, "first", QueueName::Steps)).await;
    wear_out(&*store, "second", QueueName::Steps).await;

    assert_eq!(store.redrive(1).await.unwrap(), 1);
    let delivery = one(&*store, FOR_THE_CASE).await;
    assert_eq!((&delivery.run, delivery.receives()), (&run("first"), 1));
    assert_eq!(delivery.trace, elsewhere(), "it still tells which work led to it");
    let left: Vec<_> = store.dead_letters(10).await.unwrap().into_iter().map(|dead| dead.run).collect();
    assert_eq!(left, [run("second")]);

    assert_eq!(store.redrive(10).await.unwrap(), 1);
    assert!(store.dead_letters(10).await.unwrap().is_empty());
    assert_eq!(one(&*store, FOR_THE_CASE).await.run, run("second"));
}

/// Somebody waits, and something happens in the meantime; how long it took them to notice.
async fn noticed<S: Store>(store: &Arc<S>, happen: impl Future<Output = ()>) -> Duration {
    let waits = Arc::clone(store);
    let waiting = tokio::spawn(async move {
        let received =
            waits.receive(QueueName::Steps, 10, FOR_THE_CASE, Duration::from_secs(20)).await.unwrap();
        (received.len(), Instant::now())
    });
    sleep(Duration::from_millis(100)).await;
    let begun = Instant::now();
    happen.await;
    let (count, at) = waiting.await.unwrap();
    assert_eq!(count, 1);
    at - begun
}

async fn a_receiver_that_waits_is_woken_by_a_message<S: Store>(store: Arc<S>) {
    let took = noticed(&store, send(&*store, "run")).await;
    assert!(took < PATIENTLY, "{took:?}");
}

async fn a_receiver_that_waits_is_woken_by_a_commit<S: Store>(store: Arc<S>) {
    let took = noticed(&store, async {
        Run::begin(&*store, "acme", "request", &calls(1)).await;
    })
    .await;
    assert!(took < PATIENTLY, "{took:?}");
}

async fn a_receiver_that_waits_is_woken_when_a_message_is_given_back<S: Store>(store: Arc<S>) {
    send(&*store, "run").await;
    let delivery = one(&*store, FOR_THE_CASE).await;
    let took = noticed(&store, async {
        assert!(store.extend(&delivery.handle, Millis(0)).await.unwrap());
    })
    .await;
    assert!(took < PATIENTLY, "{took:?}");
}

async fn a_receiver_that_waits_gets_a_message_when_its_delay_is_over<S: Store>(store: Arc<S>) {
    let took = noticed(&store, async {
        store.send(&later(BRIEFLY)).await.unwrap();
    })
    .await;
    assert!(took < PATIENTLY, "{took:?}");
    assert!(took + CLOCKS_APART >= BRIEFLY.std(), "{took:?}");
}

async fn waiting_for_nothing_ends<S: Store>(store: Arc<S>) {
    let begun = Instant::now();
    assert!(store.receive(QueueName::Steps, 10, FOR_THE_CASE, BRIEFLY.std()).await.unwrap().is_empty());
    assert!(begun.elapsed() >= BRIEFLY.std());
    assert!(begun.elapsed() < PATIENTLY);
}

async fn every_message_is_counted_visible_or_not<S: Store>(store: Arc<S>) {
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 0);
    send(&*store, "hidden").await;
    let delivery = one(&*store, FOR_THE_CASE).await;
    send(&*store, "visible").await;
    store.send(&later(FOR_THE_CASE)).await.unwrap();
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 3);
    assert_eq!(store.waiting(QueueName::Steps).await.unwrap(), 1);
    store.delete(&delivery.handle).await.unwrap();
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 2);
}

async fn messages_that_are_sent_together_are_all_delivered<S: Store>(store: Arc<S>) {
    // More than a queue takes in one request, and by several queues.
    let names: Vec<String> = (0..25).map(|n| format!("run-{n}")).collect();
    let queue = |n: usize| if n.is_multiple_of(5) { QueueName::Decisions } else { QueueName::Steps };
    let messages: Vec<_> = names.iter().enumerate().map(|(n, name)| message(name, queue(n))).collect();
    let sent = store.send_all(&messages).await;
    assert_eq!(sent.into_iter().collect::<Result<Vec<_>, _>>().unwrap().len(), 25);
    let mut seen = BTreeSet::new();
    for (queue, count) in [(QueueName::Decisions, 5), (QueueName::Steps, 25)] {
        while seen.len() < count {
            let received = store.receive(queue, 10, FOR_THE_CASE, PATIENTLY).await.unwrap();
            assert!(!received.is_empty());
            seen.extend(received.into_iter().map(|delivery| delivery.run));
        }
    }
    assert!(messages.iter().all(|message| seen.contains(&message.run)));
}

async fn a_message_of_one_lane_is_never_received_from_another<S: Store>(store: Arc<S>) {
    for queue in QueueName::ALL {
        store.send(&message(queue.as_str(), queue)).await.unwrap();
        for other in QueueName::ALL.into_iter().filter(|other| *other != queue) {
            let received = store.receive(other, 10, FOR_THE_CASE, Duration::ZERO).await.unwrap();
            assert_eq!(received, [], "{queue} {other}");
        }
        let received = store.receive(queue, 10, FOR_THE_CASE, PATIENTLY).await.unwrap();
        assert_eq!(received.len(), 1);
        assert_eq!((&received[0].run, received[0].queue), (&run(queue.as_str()), queue));
        assert!(store.extend(&received[0].handle, FOR_THE_CASE).await.unwrap());
        assert!(store.delete(&received[0].handle).await.unwrap());
    }
}

async fn lanes_are_counted_apart<S: Store>(store: Arc<S>) {
    for (count, queue) in (1..).zip(QueueName::ALL) {
        for n in 0..count {
            store.send(&message(&format!("run-{n}"), queue)).await.unwrap();
        }
    }
    for (count, queue) in (1..).zip(QueueName::ALL) {
        assert_eq!(store.depth(queue).await.unwrap(), count, "{queue}");
    }
}

async fn what_was_put_aside_is_put_back_into_its_lane<S: Store>(store: Arc<S>) {
    wear_out(&*store, "run", QueueName::Decisions).await;
    let dead = store.dead_letters(10).await.unwrap();
    assert_eq!(dead.iter().map(|dead| dead.queue).collect::<Vec<_>>(), [QueueName::Decisions]);
    assert_eq!(store.redrive(10).await.unwrap(), 1);
    assert!(nothing(&*store).await);
    let received = store.receive(QueueName::Decisions, 10, FOR_THE_CASE, PATIENTLY).await.unwrap();
    assert_eq!(received.iter().map(|delivery| &delivery.run).collect::<Vec<_>>(), [&run("run")]);
}

/// People are shown the question, and what they answer is walked on, past a backlog of steps.
async fn a_commits_messages_go_by_their_lanes<S: Store>(store: Arc<S>) {
    let mut run = Run::begin(&*store, "acme", "request", &calls(1)).await;
    assert_eq!(one(&*store, FOR_THE_CASE).await.job, Job::Advance);
    run.commit(&*store, asking("effect")).await;
    let asked = run.asked.clone().unwrap();
    run.commit(&*store, yes(asked.clone())).await;

    let mut jobs = Vec::new();
    while jobs.len() < 3 {
        let received = store.receive(QueueName::Decisions, 10, FOR_THE_CASE, PATIENTLY).await.unwrap();
        assert!(!received.is_empty(), "{jobs:?}");
        jobs.extend(received.into_iter().map(|delivery| delivery.job));
    }
    jobs.sort();
    let show = Job::NotifyApproval(asked.id);
    assert_eq!(jobs, [Job::Advance, show.clone(), show]);
    assert!(nothing(&*store).await);
}

/// Whose work led somebody here.
fn elsewhere() -> TraceContext {
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap()
}

async fn a_message_carries_the_trace_that_it_was_sent_in<S: Store>(store: Arc<S>) {
    within(elsewhere(), send(&*store, "told")).await;
    let told = one(&*store, FOR_THE_CASE).await;
    assert_eq!(told.trace, elsewhere());

    send(&*store, "not-told").await;
    let own = one(&*store, FOR_THE_CASE).await;
    assert_eq!(own.trace, TraceContext::of_run(&run("not-told")));

    let both = ["a", "b"].map(|name| message(name, QueueName::Steps));
    for sent in within(elsewhere(), store.send_all(&both)).await {
        sent.unwrap();
    }
    for _ in both {
        let received = store.receive(QueueName::Steps, 1, FOR_THE_CASE, PATIENTLY).await.unwrap();
        assert_eq!(received.iter().map(|got| got.trace).collect::<Vec<_>>(), [elsewhere()]);
    }
}

async fn a_commits_message_belongs_to_the_story_of_its_run<S: Store>(store: Arc<S>) {
    let mut told = Run::begin_in(&*store, "told", elsewhere()).await;
    assert_eq!(one(&*store, FOR_THE_CASE).await.trace, elsewhere());
    // Whoever works on it says where in its story that is.
    let further_on = elsewhere().next("a advance");
    assert_eq!(within(further_on, sent_upon_a_word(&*store, &mut told)).await, further_on);
    // Whoever comes from elsewhere, or from nowhere, has no other story to tell of it.
    let another = TraceContext::of_run(&run("another"));
    assert_eq!(within(another, sent_upon_a_word(&*store, &mut told)).await, elsewhere());
    assert_eq!(sent_upon_a_word(&*store, &mut told).await, elsewhere());

    let own = within(elsewhere(), Run::begin(&*store, "acme", "request", &calls(1))).await;
    assert_eq!(one(&*store, FOR_THE_CASE).await.trace, TraceContext::of_run(&own.record.key));
}

/// What the message carries that has `run` walked when somebody lets it go on.
async fn sent_upon_a_word<S: Store>(store: &S, run: &mut Run) -> TraceContext {
    run.commit(store, Pause { reason: "a look".to_owned() }).await;
    run.commit(store, Resume { reason: "seen".to_owned() }).await;
    let received = store.receive(QueueName::Decisions, 10, FOR_THE_CASE, PATIENTLY).await.unwrap();
    assert_eq!(received.len(), 1, "{received:?}");
    received[0].trace
}
