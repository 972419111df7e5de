//! What happened to a run: its chain, its steps, its signals.

use std::sync::Arc;

use domain::chain::verify;
use domain::command::{OpenWait, Opened, RollBack};
use domain::record::Signal;
use domain::{Payload, StepSeq, StepStatus};
use serde_json::json;
use store::{Store, Write};

use crate::fixtures::{Run, call_then_wait, calls, claim, event, finish, granted, signal, signal_id};

cases![
    a_history_is_the_chain_and_the_steps_of_one_run,
    the_chain_reads_back_and_verifies,
    the_chain_is_read_in_pages,
    a_step_is_found_by_its_place_and_by_whether_it_is_its_undoing,
    steps_come_in_the_order_they_ended,
    a_signal_is_recorded_once,
    a_signal_is_known_to_its_own_run_only,
    a_signal_that_came_early_can_be_used,
    a_signal_that_is_not_there_cannot_be_used,
];

async fn the_chain_reads_back_and_verifies<S: Store>(store: Arc<S>) {
    let mut run = Run::begin(&*store, "acme", "request", &calls(3)).await;
    for seq in 0..3 {
        run.work(&*store, &format!("effect-{seq}"), json!({ "seq": seq, "text": "ä\n\u{1f600}" })).await;
    }

    let record = store.load(run.key()).await.unwrap().unwrap();
    let chain = store.events(run.key(), 0, 100).await.unwrap();
    let events = verify(run.key(), &chain, record.events, &record.head).unwrap();

    assert_eq!(events.len(), 7);
}

async fn a_history_is_the_chain_and_the_steps_of_one_run<S: Store>(store: Arc<S>) {
    Run::begin(&*store, "acme", "another", &calls(2)).await.work(&*store, "other", json!(0)).await;
    let run = rolled_back(&*store).await;
    let (chain, steps) = store.history(run.key(), 100).await.unwrap();
    assert_eq!(chain, store.events(run.key(), 0, 100).await.unwrap());
    assert_eq!(steps, store.steps(run.key()).await.unwrap());
    assert!(chain.len() > steps.len() && !steps.is_empty());
    let (chain, _) = store.history(run.key(), 2).await.unwrap();
    assert_eq!(chain, store.events(run.key(), 0, 2).await.unwrap());
}

async fn the_chain_is_read_in_pages<S: Store>(store: Arc<S>) {
    let mut run = Run::begin(&*store, "acme", "request", &calls(5)).await;
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

/// A run of two steps: the first is done, the second is not, and everything is taken back.
async fn rolled_back<S: Store>(store: &S) -> Run {
    let mut run = Run::begin(store, "acme", "request", &calls(2)).await;
    run.work(store, "effect", json!("done")).await;
    run.commit(store, RollBack { reason: "a mistake".to_owned() }).await;
    let grant = granted(run.commit(store, claim("undo-effect", None)).await);
    run.commit(store, finish(grant, json!("undone"))).await;
    run
}

async fn a_step_is_found_by_its_place_and_by_whether_it_is_its_undoing<S: Store>(store: Arc<S>) {
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

async fn steps_come_in_the_order_they_ended<S: Store>(store: Arc<S>) {
    let run = rolled_back(&*store).await;
    let steps = store.steps(run.key()).await.unwrap();
    let places: Vec<_> = steps.iter().map(|step| (step.seq.0, step.undo)).collect();
    assert_eq!(places, [(0, false), (0, true)]);
    assert!(steps.is_sorted_by_key(|step| step.event));
}

async fn a_signal_is_recorded_once<S: Store>(store: Arc<S>) {
    let mut run = Run::begin(&*store, "acme", "request", &call_then_wait()).await;
    run.commit(&*store, signal("delivery")).await;
    let kept = store.signal(run.key(), &signal_id("delivery")).await.unwrap().unwrap();
    assert!(kept.kept);

    // Somebody who has not looked, or looked too early, delivers it again.
    let (again, _) = run.decide(signal("delivery"));
    assert_eq!(store.commit(again).await.unwrap(), Write::Superseded);

    assert_eq!(store.load(run.key()).await.unwrap(), Some(run.record.clone()));
    assert_eq!(store.signal(run.key(), &signal_id("delivery")).await.unwrap(), Some(kept));
}

async fn a_signal_is_known_to_its_own_run_only<S: Store>(store: Arc<S>) {
    let mut first = Run::begin(&*store, "acme", "first", &call_then_wait()).await;
    let mut second = Run::begin(&*store, "acme", "second", &call_then_wait()).await;
    first.commit(&*store, signal("delivery")).await;
    assert_eq!(store.signal(second.key(), &signal_id("delivery")).await.unwrap(), None);
    second.commit(&*store, signal("delivery")).await;
    assert!(store.signal(second.key(), &signal_id("delivery")).await.unwrap().is_some());
}

async fn a_signal_that_came_early_can_be_used<S: Store>(store: Arc<S>) {
    let mut run = Run::begin(&*store, "acme", "request", &call_then_wait()).await;
    run.commit(&*store, signal("early")).await;
    run.work(&*store, "effect", json!(1)).await;
    let early = store.signal(run.key(), &signal_id("early")).await.unwrap();

    let opened = run.commit(&*store, OpenWait { early }).await;

    assert!(matches!(opened, Opened::Ended(_)));
    let used = store.signal(run.key(), &signal_id("early")).await.unwrap().unwrap();
    assert!(!used.kept);
    assert_eq!(used.event, event());
    let ended = store.step(run.key(), StepSeq(1), false).await.unwrap().unwrap();
    assert_eq!(ended.output, Some(used.payload));
}

/// The record names a kept delivery, but the ledger does not hold it.
async fn a_signal_that_is_not_there_cannot_be_used<S: Store>(store: Arc<S>) {
    let mut run = Run::begin(&*store, "acme", "request", &call_then_wait()).await;
    run.work(&*store, "effect", json!(1)).await;
    let (with_a_signal, _) = run.decide(signal("early"));
    let forged = Run { record: with_a_signal.record, plan: Arc::clone(&run.plan), asked: None };
    let early = Signal { kept: true, ..signal("early").signal };
    let (mut used, _) = forged.decide(OpenWait { early: Some(early) });
    used.replaces = Some(run.record.version);

    assert_eq!(store.commit(used).await.unwrap(), Write::Superseded);

    assert_eq!(store.load(run.key()).await.unwrap(), Some(run.record.clone()));
    assert_eq!(store.step(run.key(), StepSeq(1), false).await.unwrap(), None);
}
