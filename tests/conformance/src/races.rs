//! Many at once: whatever the order, one wins, everybody is answered, and nothing is lost.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::chain::verify;
use domain::{Decision, Millis, QueueName, RunId, RunKey};
use serde_json::json;
use store::{Store, StoreError, Write};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::fixtures::{
    Run, admission, advance, call_then_wait, calls, claim, effect, messages, signal, signal_id, tenant,
};

cases![
    of_many_concurrent_claims_exactly_one_is_committed,
    of_many_concurrent_claims_exactly_one_is_committed_while_others_write,
    concurrent_commits_to_different_runs_all_land,
    of_many_concurrent_admissions_of_one_request_exactly_one_is_committed,
    of_many_runs_that_intend_one_effect_at_once_exactly_one_wins,
    of_many_concurrent_deliveries_of_one_signal_exactly_one_is_recorded,
    no_message_is_in_two_hands_at_once,
    a_reader_never_sees_half_a_commit,
    a_caller_that_gives_up_leaves_a_whole_commit_or_none,
];

/// As many workers as may wake for one message.
const CLAIMERS: usize = 32;

/// How often a race is run while others write: one that is won fairly on an idle store proves little.
const ROUNDS: usize = 8;

/// How long a store that is busy is left alone, and how often it is asked: everybody comes before the last one does.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(1);
const ASKS_MAX: usize = 2 * CLAIMERS;

/// As many runs as a busy minute brings.
const RUNS: usize = 64;

async fn all<T: Send + 'static>(
    tasks: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let handles: Vec<JoinHandle<T>> = tasks.into_iter().map(tokio::spawn).collect();
    let mut answers = Vec::with_capacity(handles.len());
    for handle in handles {
        answers.push(handle.await.unwrap());
    }
    answers
}

async fn commit_all<S: Store>(store: &Arc<S>, decisions: Vec<Decision>) -> Vec<Write> {
    let commit = |decision: Decision| {
        let store = Arc::clone(store);
        // A store that is too busy with the others has done nothing, and is asked again.
        async move {
            for _ in 0..ASKS_MAX {
                match store.commit(decision.clone()).await {
                    Err(StoreError::Busy { .. }) => sleep(ASK_AGAIN_AFTER).await,
                    answer => return answer.unwrap(),
                }
            }
            unreachable!("busy, however often it was asked")
        }
    };
    all(decisions.into_iter().map(commit)).await
}

fn committed(writes: &[Write]) -> usize {
    writes.iter().filter(|write| **write == Write::Committed).count()
}

async fn of_many_concurrent_claims_exactly_one_is_committed<S: Store>(store: Arc<S>) {
    race_for_a_claim(&store, "contested").await;
}

/// Everybody decides from the same record; one of them holds the step in the end, and the ledger says who.
async fn race_for_a_claim<S: Store>(store: &Arc<S>, name: &str) {
    let run = Run::begin(&**store, "acme", name, &calls(1)).await;
    let decisions: Vec<_> = (0..CLAIMERS).map(|_| run.decide(claim(name, None)).0).collect();

    let writes = commit_all(store, decisions.clone()).await;

    assert_eq!(committed(&writes), 1);
    let winner = writes.iter().position(|write| *write == Write::Committed).unwrap();
    let record = store.load(run.key()).await.unwrap().unwrap();
    assert_eq!(record, decisions[winner].record);
    let receipt = store.receipt(&tenant("acme"), &effect(name)).await.unwrap();
    assert_eq!(receipt.as_ref(), Some(&decisions[winner].receipts[0].receipt));
}

async fn of_many_concurrent_claims_exactly_one_is_committed_while_others_write<S: Store>(store: Arc<S>) {
    let done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|n| tokio::spawn(write_until(Arc::clone(&store), format!("writer-{n}"), Arc::clone(&done))))
        .collect();
    for round in 0..ROUNDS {
        race_for_a_claim(&store, &format!("contested-{round}")).await;
    }
    done.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
}

/// Begins runs and works on them, one after the other; always at least one.
async fn write_until<S: Store>(store: Arc<S>, name: String, done: Arc<AtomicBool>) {
    for n in 0.. {
        let mut run = Run::begin(&*store, "acme", &format!("{name}-{n}"), &calls(2)).await;
        for seq in 0..2 {
            run.work(&*store, &format!("{name}-{n}-{seq}"), json!(seq)).await;
            // A store that answers in place never waits, and others want a turn.
            tokio::task::yield_now().await;
        }
        if done.load(Ordering::Relaxed) {
            return;
        }
    }
}

async fn concurrent_commits_to_different_runs_all_land<S: Store>(store: Arc<S>) {
    let work = |n: usize| {
        let store = Arc::clone(&store);
        async move {
            let mut run = Run::begin(&*store, "acme", &format!("request-{n}"), &calls(2)).await;
            run.work(&*store, &format!("effect-{n}-0"), json!(n)).await;
            run.work(&*store, &format!("effect-{n}-1"), json!(n)).await;
            run
        }
    };

    let runs = all((0..RUNS).map(work)).await;

    for run in runs {
        assert_eq!(store.load(run.key()).await.unwrap(), Some(run.record.clone()));
        let chain = store.events(run.key(), 0, 100).await.unwrap();
        verify(run.key(), &chain, run.record.events, &run.record.head).unwrap();
        assert_eq!(store.steps(run.key()).await.unwrap().len(), 2);
    }
}

async fn of_many_concurrent_admissions_of_one_request_exactly_one_is_committed<S: Store>(store: Arc<S>) {
    let admit = |_| {
        let store = Arc::clone(&store);
        async move { store.admit(admission("acme", "request", &calls(1))).await.unwrap() }
    };
    let writes = all((0..CLAIMERS).map(admit)).await;
    assert_eq!(committed(&writes), 1);
    assert_eq!(messages(&*store).await, 1);
}

async fn of_many_runs_that_intend_one_effect_at_once_exactly_one_wins<S: Store>(store: Arc<S>) {
    let mut decisions = Vec::new();
    for n in 0..CLAIMERS {
        let run = Run::begin(&*store, "acme", &format!("request-{n}"), &calls(1)).await;
        decisions.push(run.decide(claim("effect", None)).0);
    }

    let writes = commit_all(&store, decisions.clone()).await;

    assert_eq!(committed(&writes), 1);
    let winner = writes.iter().position(|write| *write == Write::Committed).unwrap();
    let receipt = store.receipt(&tenant("acme"), &effect("effect")).await.unwrap().unwrap();
    assert_eq!(receipt.run, decisions[winner].record.key.run);
}

async fn of_many_concurrent_deliveries_of_one_signal_exactly_one_is_recorded<S: Store>(store: Arc<S>) {
    let run = Run::begin(&*store, "acme", "request", &call_then_wait()).await;
    let decisions = (0..CLAIMERS).map(|_| run.decide(signal("delivery")).0).collect();

    let writes = commit_all(&store, decisions).await;

    assert_eq!(committed(&writes), 1);
    let record = store.load(run.key()).await.unwrap().unwrap();
    assert_eq!(record.early.len(), 1);
    assert!(store.signal(run.key(), &signal_id("delivery")).await.unwrap().is_some());
}

async fn no_message_is_in_two_hands_at_once<S: Store>(store: Arc<S>) {
    for n in 0..RUNS {
        let run = RunKey { tenant: tenant("acme"), run: RunId::new(&format!("run-{n}")).unwrap() };
        store.send(&advance(&run)).await.unwrap();
    }
    let receive = |_| {
        let store = Arc::clone(&store);
        async move {
            let mut mine = Vec::new();
            loop {
                let received =
                    store.receive(QueueName::Steps, 3, Millis::secs(60), Duration::ZERO).await.unwrap();
                if received.is_empty() {
                    return mine;
                }
                mine.extend(received.into_iter().map(|delivery| delivery.run));
            }
        }
    };

    let received = all((0..8).map(receive)).await.concat();

    assert_eq!(received.len(), RUNS);
    assert_eq!(received.into_iter().collect::<BTreeSet<_>>().len(), RUNS);
}

/// Whoever has seen a record finds at least the events and steps it speaks of.
async fn a_reader_never_sees_half_a_commit<S: Store>(store: Arc<S>) {
    let mut run = Run::begin(&*store, "acme", "request", &calls(20)).await;
    let (key, reader, done) = (run.key().clone(), Arc::clone(&store), Arc::new(AtomicBool::new(false)));
    let stop = Arc::clone(&done);
    let reading = tokio::spawn(async move {
        while !stop.load(Ordering::Relaxed) {
            let record = reader.load(&key).await.unwrap().unwrap();
            let chain = reader.events(&key, 0, record.events).await.unwrap();
            verify(&key, &chain, record.events, &record.head).unwrap();
            assert!(reader.steps(&key).await.unwrap().len() >= usize::from(record.at.0));
            tokio::task::yield_now().await;
        }
    });
    for seq in 0..20 {
        run.work(&*store, &format!("effect-{seq}"), json!(seq)).await;
    }
    done.store(true, Ordering::Relaxed);
    reading.await.unwrap();
}

async fn a_caller_that_gives_up_leaves_a_whole_commit_or_none<S: Store>(store: Arc<S>) {
    for n in 0..20 {
        let run = Run::begin(&*store, "acme", &format!("request-{n}"), &calls(1)).await;
        let key = format!("effect-{n}");
        let (decision, _) = run.decide(claim(&key, None));
        let _ = timeout(Duration::from_micros(n * 50), store.commit(decision.clone())).await;

        // Asking again after giving up finds out what became of it.
        let write = store.commit(decision.clone()).await.unwrap();
        let record = store.load(run.key()).await.unwrap().unwrap();
        assert_eq!(record, decision.record, "{write:?}");
        assert!(store.receipt(&tenant("acme"), &effect(&key)).await.unwrap().is_some());
    }
}
