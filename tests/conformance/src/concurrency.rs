//! Concurrency keys: each has one run at a time, and a run that is not admitted holds none.

use std::sync::Arc;

use domain::command::Cancel;
use domain::{ConcurrencyKey, ConcurrencyScope, Millis, RunId};
use store::{Admission, KeyAcquisition, Store, StoreError, Waiter, Write};

use crate::fixtures::{LedgerRun as Run, NOON, admission, calls, messages, tenant};

cases![
    admission_takes_the_concurrency_key,
    held_concurrency_key_is_not_taken_again,
    concurrency_key_passes_to_the_next_run,
    existing_run_takes_no_concurrency_key,
    one_of_many_concurrent_runs_gets_the_key,
    concurrency_keys_are_scoped_to_the_tenant,
    first_waiter_is_found_until_it_is_removed,
];

/// As many triggers as one incident may cause at once.
const CONTENDERS: usize = 16;

fn concurrency_key(owner: &str) -> ConcurrencyKey {
    ConcurrencyKey::derive(&tenant(owner), &"triage".parse().unwrap(), ConcurrencyScope::Workflow, "INC1")
}

/// The first commit of a run that takes the concurrency key after `after`.
fn admission_with_key(owner: &str, request: &str, after: Option<&RunId>) -> Admission {
    let hold = KeyAcquisition { concurrency_key: concurrency_key(owner), previous_holder: after.cloned() };
    Admission { hold: Some(hold), ..admission(owner, request, &calls(1)) }
}

fn run_of(admission: &Admission) -> RunId {
    admission.decision.record.key.run.clone()
}

async fn holder<S: Store>(store: &S, owner: &str) -> Option<RunId> {
    store.holder(&tenant(owner), &concurrency_key(owner)).await.unwrap().map(|holder| holder.run)
}

async fn admission_takes_the_concurrency_key<S: Store>(store: Arc<S>) {
    assert_eq!(holder(&*store, "acme").await, None);
    let first = admission_with_key("acme", "first", None);
    assert_eq!(store.admit(first.clone()).await.unwrap(), Write::Committed);
    assert_eq!(holder(&*store, "acme").await, Some(run_of(&first)));
    assert_eq!(store.load(&first.decision.record.key).await.unwrap(), Some(first.decision.record));
}

async fn held_concurrency_key_is_not_taken_again<S: Store>(store: Arc<S>) {
    let first = admission_with_key("acme", "first", None);
    store.admit(first.clone()).await.unwrap();
    let depth = messages(&*store).await;
    let foreign: RunId = "another-run".parse().unwrap();
    for after in [None, Some(&foreign)] {
        let second = admission_with_key("acme", "second", after);
        assert_eq!(store.admit(second.clone()).await.unwrap(), Write::Superseded);
        assert_eq!(store.load(&second.decision.record.key).await.unwrap(), None);
    }
    assert_eq!(holder(&*store, "acme").await, Some(run_of(&first)));
    assert_eq!(messages(&*store).await, depth);
}

async fn concurrency_key_passes_to_the_next_run<S: Store>(store: Arc<S>) {
    let first = admission_with_key("acme", "first", None);
    store.admit(first.clone()).await.unwrap();
    let mut run = Run { plan: Arc::new(calls(1)), record: first.decision.record.clone(), approval: None };
    run.commit(&*store, Cancel { reason: "enough".to_owned() }).await;

    let second = admission_with_key("acme", "second", Some(&run_of(&first)));
    assert_eq!(store.admit(second.clone()).await.unwrap(), Write::Committed);
    assert_eq!(holder(&*store, "acme").await, Some(run_of(&second)));
    let late = admission_with_key("acme", "third", Some(&run_of(&first)));
    assert_eq!(store.admit(late).await.unwrap(), Write::Superseded);
}

async fn existing_run_takes_no_concurrency_key<S: Store>(store: Arc<S>) {
    store.admit(admission("acme", "first", &calls(1))).await.unwrap();
    assert_eq!(store.admit(admission_with_key("acme", "first", None)).await.unwrap(), Write::Superseded);
    assert_eq!(holder(&*store, "acme").await, None);
}

async fn one_of_many_concurrent_runs_gets_the_key<S: Store>(store: Arc<S>) {
    let admissions: Vec<_> =
        (0..CONTENDERS).map(|n| admission_with_key("acme", &format!("request-{n}"), None)).collect();
    let admit = |admission: &Admission| {
        let (store, admission) = (Arc::clone(&store), admission.clone());
        tokio::spawn(async move {
            loop {
                match store.admit(admission.clone()).await {
                    Ok(write) => return write,
                    // All contenders write to one item; a busy contender tries again.
                    Err(StoreError::Busy { .. }) => {}
                    Err(error) => unreachable!("{error}"),
                }
            }
        })
    };
    let mut started = Vec::new();
    for (admission, task) in admissions.iter().zip(admissions.iter().map(admit).collect::<Vec<_>>()) {
        if task.await.unwrap() == Write::Committed {
            started.push(run_of(admission));
        }
    }
    assert_eq!(started.len(), 1);
    assert_eq!(holder(&*store, "acme").await.as_ref(), started.first());
    for admission in admissions {
        let there = store.load(&admission.decision.record.key).await.unwrap().is_some();
        assert_eq!(there, started.contains(&run_of(&admission)));
    }
}

async fn concurrency_keys_are_scoped_to_the_tenant<S: Store>(store: Arc<S>) {
    for owner in ["acme", "umbrella"] {
        assert_eq!(store.admit(admission_with_key(owner, "request", None)).await.unwrap(), Write::Committed);
    }
    assert_ne!(holder(&*store, "acme").await, holder(&*store, "umbrella").await);
}

async fn first_waiter_is_found_until_it_is_removed<S: Store>(store: Arc<S>) {
    let (acme, concurrency_key) = (tenant("acme"), concurrency_key("acme"));
    let first = admission_with_key("acme", "first", None);
    store.admit(first.clone()).await.unwrap();
    let waiter =
        |name: &str, after| Waiter { run: name.parse().unwrap(), since: NOON + Millis(after), woken: None };
    let (second, third, fourth) = (waiter("b", 1), waiter("c", 1), waiter("a", 2));
    let next = async || store.holder(&acme, &concurrency_key).await.unwrap().unwrap().next;
    assert_eq!(next().await, None);
    for waiter in [&fourth, &third, &second, &third] {
        store.enqueue_waiter(&acme, &concurrency_key, waiter.clone()).await.unwrap();
    }
    assert_eq!(next().await.as_ref(), Some(&second));
    let woken = Waiter { woken: Some(NOON), ..second.clone() };
    store.enqueue_waiter(&acme, &concurrency_key, woken.clone()).await.unwrap();
    assert_eq!(next().await, Some(woken));

    // The wait queue outlives a change of the holder.
    let taker = admission_with_key("acme", "second", Some(&run_of(&first)));
    assert_eq!(store.admit(taker.clone()).await.unwrap(), Write::Committed);
    assert_eq!(holder(&*store, "acme").await, Some(run_of(&taker)));
    for (gone, left) in [(second, Some(third.clone())), (third, Some(fourth.clone())), (fourth, None)] {
        for _ in 0..2 {
            store.remove_waiter(&acme, &concurrency_key, gone.clone()).await.unwrap();
            assert_eq!(next().await, left);
        }
    }
}
