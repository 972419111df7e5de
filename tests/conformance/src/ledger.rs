//! Runs and plans: a commit is stored completely or not at all.

use std::sync::Arc;

use domain::command::Cancel;
use domain::{RunKey, StepSeq};
use serde_json::json;
use store::{Store, Write};

use crate::fixtures::{
    LedgerRun as Run, admission, admission_with, call_then_wait, calls, claim, effect, finish, messages,
    signal, signal_id, tenant,
};

cases![
    admitted_run_loads_as_committed,
    run_input_is_returned_unchanged,
    second_admission_is_superseded,
    same_request_of_two_tenants_is_two_runs,
    committed_decision_loads_as_made,
    stale_commit_is_superseded_and_writes_nothing,
    commit_to_an_unknown_run_is_superseded,
    superseded_decision_commits_when_made_again,
    unknown_run_has_no_data,
    run_of_another_tenant_is_unknown,
    plan_is_found_by_hash_within_its_tenant,
    storing_a_plan_twice_stores_it_once,
];

async fn admitted_run_loads_as_committed<S: Store>(store: Arc<S>) {
    let admission = admission("acme", "request", &calls(3));
    let record = admission.decision.record.clone();

    assert_eq!(store.admit(admission.clone()).await.unwrap(), Write::Committed);

    assert_eq!(store.load(&record.key).await.unwrap(), Some(record.clone()));
    assert_eq!(store.input(&record.key).await.unwrap(), Some(admission.input));
    assert!(store.steps(&record.key).await.unwrap().is_empty());
    assert_eq!(store.events(&record.key, 0, 10).await.unwrap().len(), 1);
}

async fn run_input_is_returned_unchanged<S: Store>(store: Arc<S>) {
    let input = json!({
        "numbers": [0, -1, 9_007_199_254_740_991_i64, 0.1, 1.0e-300, 123_456.789_012_345, -0.000_000_1],
        "text": "tab\t line\n quote\" backslash\\ umlaut ä emoji 😀 separator \u{2028}",
        "empty": [{}, [], "", null, true, false],
        "names": { "": 1, "a.b": 2, "$set": 3, "#n": 4, ":v": 5, "S": 6, "__proto__": 7 },
        "deep": [[[[[[[["x"]]]]]]]],
    });
    let admission = admission_with("acme", "request", &calls(1), input);
    let key = admission.decision.record.key.clone();
    store.admit(admission.clone()).await.unwrap();
    assert_eq!(store.input(&key).await.unwrap(), Some(admission.input));
}

async fn second_admission_is_superseded<S: Store>(store: Arc<S>) {
    let mut run = Run::start(&*store, "acme", "request", &calls(2)).await;
    run.work(&*store, "effect", json!(1)).await;
    let depth = messages(&*store).await;

    let again = admission_with("acme", "request", &calls(2), json!("another input"));
    assert_eq!(store.admit(again).await.unwrap(), Write::Superseded);

    assert_eq!(store.load(run.key()).await.unwrap(), Some(run.record.clone()));
    assert_eq!(store.input(run.key()).await.unwrap(), Some(admission("acme", "request", &calls(2)).input));
    assert_eq!(store.steps(run.key()).await.unwrap().len(), 1);
    assert_eq!(messages(&*store).await, depth);
}

async fn same_request_of_two_tenants_is_two_runs<S: Store>(store: Arc<S>) {
    let acme = Run::start(&*store, "acme", "request", &calls(1)).await;
    let umbrella = Run::start(&*store, "umbrella", "request", &calls(1)).await;
    assert_eq!(store.load(acme.key()).await.unwrap(), Some(acme.record.clone()));
    assert_eq!(store.load(umbrella.key()).await.unwrap(), Some(umbrella.record.clone()));
}

async fn committed_decision_loads_as_made<S: Store>(store: Arc<S>) {
    let mut run = Run::start(&*store, "acme", "request", &call_then_wait()).await;
    let grant = run.claim(&*store, "effect").await;
    assert_eq!(store.load(run.key()).await.unwrap(), Some(run.record.clone()));

    run.commit(&*store, signal("early")).await;
    run.commit(&*store, Cancel { reason: "an \"odd\" reason\n".to_owned() }).await;
    assert_eq!(store.load(run.key()).await.unwrap(), Some(run.record.clone()));

    run.commit(&*store, finish(grant, json!({ "id": 1 }))).await;
    assert_eq!(store.load(run.key()).await.unwrap(), Some(run.record.clone()));
}

/// Two callers decide from the same version; the second commit is stale.
async fn stale_commit_is_superseded_and_writes_nothing<S: Store>(store: Arc<S>) {
    let mut run = Run::start(&*store, "acme", "request", &call_then_wait()).await;
    let slow = run.clone();
    run.claim(&*store, "effect").await;
    let (events, depth) = (run.record.events, messages(&*store).await);

    let (with_a_receipt, _) = slow.decide(claim("another-effect", None));
    let (with_a_signal_and_a_message, _) = slow.decide(signal("early"));
    let (with_an_event, _) = slow.decide(Cancel { reason: "too slow".to_owned() });
    assert!(!with_a_signal_and_a_message.outgoing.is_empty());
    for late in [with_a_receipt, with_a_signal_and_a_message, with_an_event] {
        assert_eq!(store.commit(late).await.unwrap(), Write::Superseded);
    }

    assert_eq!(store.load(run.key()).await.unwrap(), Some(run.record.clone()));
    assert_eq!(store.events(run.key(), 0, 10).await.unwrap().len(), events as usize);
    assert_eq!(store.receipt(&tenant("acme"), &effect("another-effect")).await.unwrap(), None);
    assert_eq!(store.signal(run.key(), &signal_id("early")).await.unwrap(), None);
    assert_eq!(messages(&*store).await, depth);
}

async fn commit_to_an_unknown_run_is_superseded<S: Store>(store: Arc<S>) {
    let record = admission("acme", "request", &calls(1)).decision.record;
    let run = Run { plan: Arc::new(calls(1)), record, approval: None };
    let (decision, _) = run.decide(claim("effect", None));

    assert_eq!(store.commit(decision).await.unwrap(), Write::Superseded);

    assert_eq!(store.load(run.key()).await.unwrap(), None);
    assert_eq!(store.receipt(&tenant("acme"), &effect("effect")).await.unwrap(), None);
}

async fn superseded_decision_commits_when_made_again<S: Store>(store: Arc<S>) {
    let mut run = Run::start(&*store, "acme", "request", &call_then_wait()).await;
    let slow = run.clone();
    run.commit(&*store, signal("early")).await;
    let (late, _) = slow.decide(claim("effect", None));
    assert_eq!(store.commit(late).await.unwrap(), Write::Superseded);

    let record = store.load(run.key()).await.unwrap().unwrap();
    let (anew, _) = Run { record, ..slow }.decide(claim("effect", None));

    assert_eq!(store.commit(anew).await.unwrap(), Write::Committed);
}

async fn unknown_run_has_no_data<S: Store>(store: Arc<S>) {
    let admitted = Run::start(&*store, "acme", "request", &calls(1)).await;
    let unknown = admission("acme", "another-request", &calls(1)).decision.record.key;
    assert_ne!(unknown, *admitted.key());
    assert_no_data_of(&*store, &unknown).await;
}

async fn run_of_another_tenant_is_unknown<S: Store>(store: Arc<S>) {
    let mut run = Run::start(&*store, "acme", "request", &call_then_wait()).await;
    run.work(&*store, "effect", json!(1)).await;
    run.commit(&*store, signal("early")).await;

    let foreign = RunKey { tenant: tenant("umbrella"), ..run.key().clone() };

    assert_no_data_of(&*store, &foreign).await;
    assert_eq!(store.receipt(&foreign.tenant, &effect("effect")).await.unwrap(), None);
}

async fn assert_no_data_of<S: Store>(store: &S, run: &RunKey) {
    assert_eq!(store.load(run).await.unwrap(), None);
    assert_eq!(store.input(run).await.unwrap(), None);
    assert_eq!(store.step(run, StepSeq(0), false).await.unwrap(), None);
    assert!(store.steps(run).await.unwrap().is_empty());
    assert!(store.events(run, 0, 10).await.unwrap().is_empty());
    assert_eq!(store.signal(run, &signal_id("early")).await.unwrap(), None);
}

async fn plan_is_found_by_hash_within_its_tenant<S: Store>(store: Arc<S>) {
    let (short, long) = (calls(1), call_then_wait());
    store.put_plan(&tenant("acme"), &short).await.unwrap();
    store.put_plan(&tenant("acme"), &long).await.unwrap();

    assert_eq!(store.plan(&tenant("acme"), &short.hash()).await.unwrap(), Some(short.clone()));
    assert_eq!(store.plan(&tenant("acme"), &long.hash()).await.unwrap(), Some(long));
    assert_eq!(store.plan(&tenant("acme"), &calls(2).hash()).await.unwrap(), None);
    assert_eq!(store.plan(&tenant("umbrella"), &short.hash()).await.unwrap(), None);
}

async fn storing_a_plan_twice_stores_it_once<S: Store>(store: Arc<S>) {
    let plan = calls(2);
    store.put_plan(&tenant("acme"), &plan).await.unwrap();
    store.put_plan(&tenant("acme"), &plan).await.unwrap();
    assert_eq!(store.plan(&tenant("acme"), &plan.hash()).await.unwrap(), Some(plan));
    assert!(messages(&*store).await == 0);
}
