//! Concurrent callers: one wins, all get an answer, and no write is lost.

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
    LedgerRun as Run, admission, advance, call_then_wait, calls, claim, effect, messages, signal, signal_id,
    tenant,
};

cases![
    one_of_many_concurrent_claims_is_committed,
    one_of_many_concurrent_claims_wins_under_load,
    concurrent_commits_to_different_runs_succeed,
    one_of_many_concurrent_admissions_is_committed,
    one_of_many_concurrent_intents_is_committed,
    one_of_many_concurrent_signals_is_recorded,
    message_has_one_receiver_at_a_time,
    reader_never_sees_a_partial_commit,
    abandoned_commit_is_complete_or_absent,
];

/// As many workers as may wake for one message.
const CLAIMERS: usize = 32;

/// How often a race is repeated while other writers are active. A race on an idle store shows little.
const ROUNDS: usize = 8;

/// The delay after `Busy`, and the number of attempts: enough for every contender to get its turn.
const RETRY_DELAY: Duration = Duration::from_millis(1);
const ATTEMPTS_MAX: usize = 2 * CLAIMERS;

/// As many runs as start in a busy minute.
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
        // A busy store has written nothing and is asked again.
        async move {
            for _ in 0..ATTEMPTS_MAX {
                match store.commit(decision.clone()).await {
                    Err(StoreError::Busy { .. }) => sleep(RETRY_DELAY).await,
                    answer => return answer.unwrap(),
                }
            }
            unreachable!("still busy after {ATTEMPTS_MAX} attempts")
        }
    };
    all(decisions.into_iter().map(commit)).await
}

fn committed(writes: &[Write]) -> usize {
    writes.iter().filter(|write| **write == Write::Committed).count()
}

async fn one_of_many_concurrent_claims_is_committed<S: Store>(store: Arc<S>) {
    race_for_a_claim(&store, "contested").await;
}

/// All contenders decide from the same record. One of them holds the step at the end, and the ledger agrees.
async fn race_for_a_claim<S: Store>(store: &Arc<S>, name: &str) {
    let run = Run::start(&**store, "acme", name, &calls(1)).await;
    let decisions: Vec<_> = (0..CLAIMERS).map(|_| run.decide(claim(name, None)).0).collect();

    let writes = commit_all(store, decisions.clone()).await;

    assert_eq!(committed(&writes), 1);
    let winner = writes.iter().position(|write| *write == Write::Committed).unwrap();
    let record = store.load(run.key()).await.unwrap().unwrap();
    assert_eq!(record, decisions[winner].record);
    let receipt = store.receipt(&tenant("acme"), &effect(name)).await.unwrap();
    assert_eq!(receipt.as_ref(), Some(&decisions[winner].receipts[0].receipt));
}

async fn one_of_many_concurrent_claims_wins_under_load<S: Store>(store: Arc<S>) {
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

/// Starts runs and works on them, one after the other; always at least one.
async fn write_until<S: Store>(store: Arc<S>, name: String, done: Arc<AtomicBool>) {
    for n in 0.. {
        let mut run = Run::start(&*store, "acme", &format!("{name}-{n}"), &calls(2)).await;
        for seq in 0..2 {
            run.work(&*store, &format!("{name}-{n}-{seq}"), json!(seq)).await;
            // A store that answers synchronously never yields to the other tasks.
            tokio::task::yield_now().await;
        }
        if done.load(Ordering::Relaxed) {
            return;
        }
    }
}

async fn concurrent_commits_to_different_runs_succeed<S: Store>(store: Arc<S>) {
    let work = |n: usize| {
        let store = Arc::clone(&store);
        async move {
            let mut run = Run::start(&*store, "acme", &format!("request-{n}"), &calls(2)).await;
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

async fn one_of_many_concurrent_admissions_is_committed<S: Store>(store: Arc<S>) {
    let admit = |_| {
        let store = Arc::clone(&store);
        async move { store.admit(admission("acme", "request", &calls(1))).await.unwrap() }
    };
    let writes = all((0..CLAIMERS).map(admit)).await;
    assert_eq!(committed(&writes), 1);
    assert_eq!(messages(&*store).await, 1);
}

async fn one_of_many_concurrent_intents_is_committed<S: Store>(store: Arc<S>) {
    let mut decisions = Vec::new();
    for n in 0..CLAIMERS {
        let run = Run::start(&*store, "acme", &format!("request-{n}"), &calls(1)).await;
        decisions.push(run.decide(claim("effect", None)).0);
    }

    let writes = commit_all(&store, decisions.clone()).await;

    assert_eq!(committed(&writes), 1);
    let winner = writes.iter().position(|write| *write == Write::Committed).unwrap();
    let receipt = store.receipt(&tenant("acme"), &effect("effect")).await.unwrap().unwrap();
    assert_eq!(receipt.run, decisions[winner].record.key.run);
}

async fn one_of_many_concurrent_signals_is_recorded<S: Store>(store: Arc<S>) {
    let run = Run::start(&*store, "acme", "request", &call_then_wait()).await;
    let decisions = (0..CLAIMERS).map(|_| run.decide(signal("delivery")).0).collect();

    let writes = commit_all(&store, decisions).await;

    assert_eq!(committed(&writes), 1);
    let record = store.load(run.key()).await.unwrap().unwrap();
    assert_eq!(record.buffered_signals.len(), 1);
    assert!(store.signal(run.key(), &signal_id("delivery")).await.unwrap().is_some());
}

async fn message_has_one_receiver_at_a_time<S: Store>(store: Arc<S>) {
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

/// A reader of a record finds at least the events and steps that the record counts.
async fn reader_never_sees_a_partial_commit<S: Store>(store: Arc<S>) {
    let mut run = Run::start(&*store, "acme", "request", &calls(20)).await;
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

async fn abandoned_commit_is_complete_or_absent<S: Store>(store: Arc<S>) {
    for n in 0..20 {
        let run = Run::start(&*store, "acme", &format!("request-{n}"), &calls(1)).await;
        let key = format!("effect-{n}");
        let (decision, _) = run.decide(claim(&key, None));
        let _ = timeout(Duration::from_micros(n * 50), store.commit(decision.clone())).await;

        // Repeating the commit resolves the unknown outcome of the first.
        let write = store.commit(decision.clone()).await.unwrap();
        let record = store.load(run.key()).await.unwrap().unwrap();
        assert_eq!(record, decision.record, "{write:?}");
        assert!(store.receipt(&tenant("acme"), &effect(&key)).await.unwrap().is_some());
    }
}
