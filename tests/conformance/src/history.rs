//! The history of a run: its chain, its steps, its signals.

use std::sync::Arc;

use domain::chain::verify;
use domain::command::{OpenWait, RollBack, WaitResult};
use domain::record::Signal;
use domain::{Payload, StepSeq, StepStatus};
use serde_json::json;
use store::{Store, Write};

use crate::fixtures::{
    LedgerRun as Run, call_then_wait, calls, claim, event, finish, granted, signal, signal_id,
};

cases![
    history_has_the_chain_and_steps_of_one_run,
    chain_is_read_back_and_verifies,
    chain_is_read_in_pages,
    step_is_found_by_position_and_undo_flag,
    steps_are_in_the_order_they_ended,
    signal_is_recorded_once,
    signal_belongs_to_one_run,
    early_signal_resolves_its_wait,
    missing_signal_cannot_be_used,
];

async fn chain_is_read_back_and_verifies<S: Store>(store: Arc<S>) {
    let mut run = Run::start(&*store, "acme", "request", &calls(3)).await;
    for seq in 0..3 {
        run.work(&*store, &format!("effect-{seq}"), json!({ "seq": seq, "text": "ä\n\u{1f600}" })).await;
    }

    let record = store.load(run.key()).await.unwrap().unwrap();
    let chain = store.events(run.key(), 0, 100).await.unwrap();
    let events = verify(run.key(), &chain, record.events, &record.head).unwrap();

    assert_eq!(events.len(), 7);
}

async fn history_has_the_chain_and_steps_of_one_run<S: Store>(store: Arc<S>) {
    Run::start(&*store, "acme", "another", &calls(2)).await.work(&*store, "other", json!(0)).await;
    let run = rolled_back(&*store).await;
    let (chain, steps) = store.history(run.key(), 100).await.unwrap();
    assert_eq!(chain, store.events(run.key(), 0, 100).await.unwrap());
    assert_eq!(steps, store.steps(run.key()).await.unwrap());
    assert!(chain.len() > steps.len() && !steps.is_empty());
    let (chain, _) = store.history(run.key(), 2).await.unwrap();
    assert_eq!(chain, store.events(run.key(), 0, 2).await.unwrap());
}

async fn chain_is_read_in_pages<S: Store>(store: Arc<S>) {
    let mut run = Run::start(&*store, "acme", "request", &calls(5)).await;
    for seq in 0..5 {
        run.work(&*store, &format!("effect-{seq}"), json!(seq)).await;
    }
    let all = store.events(run.key(), 0, 100).await.unwrap();

    let mut pages = Vec::new();
    for from in [0, 2, 4, 6, 8, 10] {
        pages.extend(store.events(run.key(), from, 2).await.unwrap());
    }

    assert_eq!((all.len(), &pages), (11, &all));
    assert!(store.events(run.key(), 11, 2).await.unwrap().is_empty());
}

/// A run of two steps: the first is done, the second is not, and the run is rolled back.
async fn rolled_back<S: Store>(store: &S) -> Run {
    let mut run = Run::start(store, "acme", "request", &calls(2)).await;
    run.work(store, "effect", json!("done")).await;
    run.commit(store, RollBack { reason: "a mistake".to_owned(), down_to: None }).await;
    let grant = granted(run.commit(store, claim("undo-effect", None)).await);
    run.commit(store, finish(grant, json!("undone"))).await;
    run
}

async fn step_is_found_by_position_and_undo_flag<S: Store>(store: Arc<S>) {
    let run = rolled_back(&*store).await;

    let done = store.step(run.key(), StepSeq(0), false).await.unwrap().unwrap();
    let undone = store.step(run.key(), StepSeq(0), true).await.unwrap().unwrap();

    assert_eq!((done.status, done.output), (StepStatus::Succeeded, Some(Payload::Inline(json!("done")))));
    assert_eq!(
        (undone.status, undone.output),
        (StepStatus::RolledBack, Some(Payload::Inline(json!("undone"))))
    );
    assert_eq!(store.step(run.key(), StepSeq(1), false).await.unwrap(), None);
    assert_eq!(store.step(run.key(), StepSeq(1), true).await.unwrap(), None);
}

async fn steps_are_in_the_order_they_ended<S: Store>(store: Arc<S>) {
    let run = rolled_back(&*store).await;
    let steps = store.steps(run.key()).await.unwrap();
    let places: Vec<_> = steps.iter().map(|step| (step.seq.0, step.rollback)).collect();
    assert_eq!(places, [(0, false), (0, true)]);
    assert!(steps.is_sorted_by_key(|step| step.event));
}

async fn signal_is_recorded_once<S: Store>(store: Arc<S>) {
    let mut run = Run::start(&*store, "acme", "request", &call_then_wait()).await;
    run.commit(&*store, signal("delivery")).await;
    let stored = store.signal(run.key(), &signal_id("delivery")).await.unwrap().unwrap();
    assert!(stored.buffered);

    // A second sender that has not seen the first delivery sends it again.
    let (again, _) = run.decide(signal("delivery"));
    assert_eq!(store.commit(again).await.unwrap(), Write::Superseded);

    assert_eq!(store.load(run.key()).await.unwrap(), Some(run.record.clone()));
    assert_eq!(store.signal(run.key(), &signal_id("delivery")).await.unwrap(), Some(stored));
}

async fn signal_belongs_to_one_run<S: Store>(store: Arc<S>) {
    let mut first = Run::start(&*store, "acme", "first", &call_then_wait()).await;
    let mut second = Run::start(&*store, "acme", "second", &call_then_wait()).await;
    first.commit(&*store, signal("delivery")).await;
    assert_eq!(store.signal(second.key(), &signal_id("delivery")).await.unwrap(), None);
    second.commit(&*store, signal("delivery")).await;
    assert!(store.signal(second.key(), &signal_id("delivery")).await.unwrap().is_some());
}

async fn early_signal_resolves_its_wait<S: Store>(store: Arc<S>) {
    let mut run = Run::start(&*store, "acme", "request", &call_then_wait()).await;
    run.commit(&*store, signal("early")).await;
    run.work(&*store, "effect", json!(1)).await;
    let early = store.signal(run.key(), &signal_id("early")).await.unwrap();

    let opened = run.commit(&*store, OpenWait { buffered: early }).await;

    assert!(matches!(opened, WaitResult::Ended(_)));
    let used = store.signal(run.key(), &signal_id("early")).await.unwrap().unwrap();
    assert!(!used.buffered);
    assert_eq!(used.event, event());
    let ended = store.step(run.key(), StepSeq(1), false).await.unwrap().unwrap();
    assert_eq!(ended.output, Some(used.payload));
}

/// The record names a buffered delivery that the ledger does not hold.
async fn missing_signal_cannot_be_used<S: Store>(store: Arc<S>) {
    let mut run = Run::start(&*store, "acme", "request", &call_then_wait()).await;
    run.work(&*store, "effect", json!(1)).await;
    let (with_a_signal, _) = run.decide(signal("early"));
    let forged = Run { record: with_a_signal.record, plan: Arc::clone(&run.plan), approval: None };
    let early = Signal { buffered: true, ..signal("early").signal };
    let (mut used, _) = forged.decide(OpenWait { buffered: Some(early) });
    used.replaces = Some(run.record.version);

    assert_eq!(store.commit(used).await.unwrap(), Write::Superseded);

    assert_eq!(store.load(run.key()).await.unwrap(), Some(run.record.clone()));
    assert_eq!(store.step(run.key(), StepSeq(1), false).await.unwrap(), None);
}
