//! Messages: delivered at least once, to one receiver at a time, and never for what was not committed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use domain::command::{Cancel, Certainty, Retry};
use domain::{Failure, Millis, RunId, RunKey};
use serde_json::json;
use store::{Delivery, Store, Write};
use tokio::time::{Instant, sleep};

use crate::fixtures::{BACKOFF, Run, calls, claim, finish, tenant};

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
    an_old_handle_neither_extends_nor_deletes,
    no_more_messages_are_received_than_asked_for,
    a_message_that_is_delivered_too_often_is_put_aside,
    what_was_put_aside_can_be_put_back,
    a_receiver_that_waits_is_woken_by_a_message,
    a_receiver_that_waits_is_woken_by_a_commit,
    a_receiver_that_waits_is_woken_when_a_message_is_given_back,
    a_receiver_that_waits_gets_a_message_when_its_delay_is_over,
    waiting_for_nothing_ends,
    every_message_is_counted_visible_or_not,
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

async fn send<S: Store>(store: &S, name: &str) {
    store.send(&run(name), &domain::Errand::Walk, Millis(0)).await.unwrap();
}

/// The one message that is there.
async fn one<S: Store>(store: &S, visibility: Millis) -> Delivery {
    let mut received = store.receive(10, visibility, PATIENTLY).await.unwrap();
    assert_eq!(received.len(), 1);
    received.remove(0)
}

async fn nothing<S: Store>(store: &S) -> bool {
    store.receive(10, FOR_THE_CASE, Duration::ZERO).await.unwrap().is_empty()
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
    assert_eq!(store.depth().await.unwrap(), 0);
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
    assert!(!store.delete(&delivery.handle).await.unwrap());
}

async fn a_delay_is_honoured<S: Store>(store: Arc<S>) {
    let begun = Instant::now();
    store.send(&run("later"), &domain::Errand::Walk, BRIEFLY).await.unwrap();
    assert_eq!(one(&*store, FOR_THE_CASE).await.run, run("later"));
    assert!(begun.elapsed() + CLOCKS_APART >= BRIEFLY.std());
}

async fn a_message_that_is_held_back_holds_up_no_other<S: Store>(store: Arc<S>) {
    store.send(&run("later"), &domain::Errand::Walk, FOR_THE_CASE).await.unwrap();
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

async fn an_old_handle_neither_extends_nor_deletes<S: Store>(store: Arc<S>) {
    send(&*store, "run").await;
    let old = one(&*store, Millis(50)).await;
    let new = one(&*store, FOR_THE_CASE).await;
    assert_ne!(old.handle, new.handle);

    assert!(!store.extend(&old.handle, Millis(0)).await.unwrap());
    assert!(!store.delete(&old.handle).await.unwrap());

    assert!(nothing(&*store).await);
    assert!(store.delete(&new.handle).await.unwrap());
}

async fn no_more_messages_are_received_than_asked_for<S: Store>(store: Arc<S>) {
    for n in 0..5 {
        send(&*store, &format!("run-{n}")).await;
    }
    let mut seen = BTreeSet::new();
    while seen.len() < 5 {
        let received = store.receive(2, FOR_THE_CASE, PATIENTLY).await.unwrap();
        assert!((1..=2).contains(&received.len()));
        for delivery in received {
            assert!(seen.insert(delivery.run));
        }
    }
    assert!(nothing(&*store).await);
}

/// Receives the message of `name` again and again until the store gives it up; says how often that was.
async fn wear_out<S: Store>(store: &S, name: &str) -> u32 {
    send(store, name).await;
    for receives in 0..=DELIVERIES_MAX {
        let received = store.receive(1, Millis(1), Duration::from_millis(200)).await.unwrap();
        if received.is_empty() {
            return receives;
        }
    }
    DELIVERIES_MAX + 1
}

async fn a_message_that_is_delivered_too_often_is_put_aside<S: Store>(store: Arc<S>) {
    let receives = wear_out(&*store, "run").await;

    assert!((1..=DELIVERIES_MAX).contains(&receives));
    let dead = store.dead_letters(10).await.unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!((&dead[0].run, dead[0].receives), (&run("run"), receives));
    assert_eq!(store.depth().await.unwrap(), 0);
}

async fn what_was_put_aside_can_be_put_back<S: Store>(store: Arc<S>) {
    wear_out(&*store, "first").await;
    wear_out(&*store, "second").await;

    assert_eq!(store.redrive(1).await.unwrap(), 1);
    let delivery = one(&*store, FOR_THE_CASE).await;
    assert_eq!((&delivery.run, delivery.receives()), (&run("first"), 1));
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
        let received = waits.receive(10, FOR_THE_CASE, Duration::from_secs(20)).await.unwrap();
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
        store.send(&run("later"), &domain::Errand::Walk, BRIEFLY).await.unwrap();
    })
    .await;
    assert!(took < PATIENTLY, "{took:?}");
    assert!(took + CLOCKS_APART >= BRIEFLY.std(), "{took:?}");
}

async fn waiting_for_nothing_ends<S: Store>(store: Arc<S>) {
    let begun = Instant::now();
    assert!(store.receive(10, FOR_THE_CASE, BRIEFLY.std()).await.unwrap().is_empty());
    assert!(begun.elapsed() >= BRIEFLY.std());
    assert!(begun.elapsed() < PATIENTLY);
}

async fn every_message_is_counted_visible_or_not<S: Store>(store: Arc<S>) {
    assert_eq!(store.depth().await.unwrap(), 0);
    send(&*store, "hidden").await;
    let delivery = one(&*store, FOR_THE_CASE).await;
    send(&*store, "visible").await;
    store.send(&run("later"), &domain::Errand::Walk, FOR_THE_CASE).await.unwrap();
    assert_eq!(store.depth().await.unwrap(), 3);
    store.delete(&delivery.handle).await.unwrap();
    assert_eq!(store.depth().await.unwrap(), 2);
}
