//! Receipts: one receipt for each effect.

use std::sync::Arc;

use domain::command::{Claim, ClaimResult, Command, EffectOutcome, Finish, Grant, Retry};
use domain::receipt::ReceiptState;
use domain::{Draft, Failure, Payload, Receipt, Refusal};
use serde_json::json;
use store::{Store, Write};

use crate::fixtures::{LedgerRun as Run, calls, claim, effect, finish, granted, messages, tenant};

cases![
    intent_is_found_by_its_key,
    one_of_two_runs_with_the_same_effect_wins,
    two_tenants_can_intend_the_same_effect,
    commit_with_a_stale_receipt_writes_nothing,
    unknown_outcome_needs_an_unchanged_receipt,
    finished_effect_has_its_result,
    failed_effect_can_be_intended_again,
    displaced_receipt_is_still_found_for_its_run,
    one_commit_finishes_an_effect_and_intends_the_next,
];

async fn receipt<S: Store>(store: &S, key: &str) -> Option<Receipt> {
    store.receipt(&tenant("acme"), &effect(key)).await.unwrap()
}

async fn intent_is_found_by_its_key<S: Store>(store: Arc<S>) {
    let mut run = Run::start(&*store, "acme", "request", &calls(1)).await;
    let grant = run.claim(&*store, "effect").await;
    assert_eq!(receipt(&*store, "effect").await, grant.receipt);
    assert_eq!(receipt(&*store, "another-effect").await, None);
}

async fn one_of_two_runs_with_the_same_effect_wins<S: Store>(store: Arc<S>) {
    let mut first = Run::start(&*store, "acme", "first", &calls(1)).await;
    let second = Run::start(&*store, "acme", "second", &calls(1)).await;
    let (late, _) = second.decide(claim("effect", None));

    first.claim(&*store, "effect").await;
    assert_eq!(store.commit(late).await.unwrap(), Write::Superseded);

    assert_eq!(receipt(&*store, "effect").await.unwrap().run, first.key().run);
    assert_eq!(store.load(second.key()).await.unwrap(), Some(second.record));
}

async fn two_tenants_can_intend_the_same_effect<S: Store>(store: Arc<S>) {
    for owner in ["acme", "umbrella"] {
        let mut run = Run::start(&*store, owner, "request", &calls(1)).await;
        let grant = run.claim(&*store, "effect").await;
        let stored = store.receipt(&tenant(owner), &effect("effect")).await.unwrap();
        assert_eq!(stored, grant.receipt);
    }
}

/// The run has not changed, but the receipt has changed since it was read.
async fn commit_with_a_stale_receipt_writes_nothing<S: Store>(store: Arc<S>) {
    let mut other = Run::start(&*store, "acme", "other", &calls(1)).await;
    let grant = other.claim(&*store, "effect").await;
    other.commit(&*store, did_not_happen(grant)).await;
    let failed = receipt(&*store, "effect").await;
    let run = Run::start(&*store, "acme", "request", &calls(1)).await;
    let (late, _) = run.decide(claim("effect", failed.clone()));
    other.record = store.load(other.key()).await.unwrap().unwrap();
    let (again, claimed) = other.decide_at(other.record.due_at.unwrap(), claim("effect", failed));
    assert_eq!(store.commit(again).await.unwrap(), Write::Committed);
    let depth = messages(&*store).await;

    assert_eq!(store.commit(late).await.unwrap(), Write::Superseded);

    assert_eq!(receipt(&*store, "effect").await, granted(claimed).receipt);
    assert_eq!(store.load(run.key()).await.unwrap(), Some(run.record.clone()));
    assert_eq!(store.events(run.key(), 0, 10).await.unwrap().len(), 1);
    assert_eq!(messages(&*store).await, depth);
}

/// Another run records the outcome after this run has read the receipt.
async fn unknown_outcome_needs_an_unchanged_receipt<S: Store>(store: Arc<S>) {
    let mut other = Run::start(&*store, "acme", "other", &calls(1)).await;
    let grant = other.claim(&*store, "effect").await;
    let open = receipt(&*store, "effect").await;
    let (run, unread) = (
        Run::start(&*store, "acme", "request", &calls(1)).await,
        Run::start(&*store, "acme", "another", &calls(1)).await,
    );
    let abandoned = Claim { abandoned: true, ..claim("effect", open) };
    let (paused, _) = unread.decide(abandoned.clone());
    assert_eq!(store.commit(paused).await.unwrap(), Write::Committed);
    let (late, _) = run.decide(abandoned);
    other.commit(&*store, finish(grant, json!(1))).await;

    assert_eq!(store.commit(late).await.unwrap(), Write::Superseded);

    assert_eq!(store.load(run.key()).await.unwrap(), Some(run.record.clone()));
}

async fn finished_effect_has_its_result<S: Store>(store: Arc<S>) {
    let mut run = Run::start(&*store, "acme", "request", &calls(1)).await;
    run.work(&*store, "effect", json!({ "id": 7 })).await;
    let stored = receipt(&*store, "effect").await.unwrap();
    assert_eq!(stored.revision, 1);
    let ReceiptState::Done { result, response, .. } = stored.state else {
        unreachable!("{:?}", stored.state)
    };
    assert_eq!((result, response), (Payload::Inline(json!({ "id": 7 })), json!({ "status": 200 })));
}

async fn failed_effect_can_be_intended_again<S: Store>(store: Arc<S>) {
    let mut run = Run::start(&*store, "acme", "request", &calls(1)).await;
    let grant = run.claim(&*store, "effect").await;
    run.commit(&*store, did_not_happen(grant)).await;
    let failed = receipt(&*store, "effect").await.unwrap();
    assert!(matches!(failed.state, ReceiptState::Failed { .. }));

    let (again, _) = run.decide_at(run.record.due_at.unwrap(), claim("effect", Some(failed.clone())));
    assert_eq!(store.commit(again).await.unwrap(), Write::Committed);

    let stored = receipt(&*store, "effect").await.unwrap();
    assert_eq!((stored.revision, stored.state), (failed.revision + 1, ReceiptState::Intent));
}

async fn displaced_receipt_is_still_found_for_its_run<S: Store>(store: Arc<S>) {
    let mut first = Run::start(&*store, "acme", "request", &calls(1)).await;
    let grant = first.claim(&*store, "effect").await;
    first.commit(&*store, did_not_happen(grant)).await;
    let failed = receipt(&*store, "effect").await;
    assert_eq!(store.displaced(first.key(), &effect("effect")).await.unwrap(), None);

    let mut second = Run::start(&*store, "acme", "second", &calls(1)).await;
    let granted = granted(second.commit(&*store, claim("effect", failed.clone())).await);

    assert_eq!(receipt(&*store, "effect").await, granted.receipt);
    assert_eq!(store.displaced(first.key(), &effect("effect")).await.unwrap(), failed);
    assert_eq!(store.displaced(first.key(), &effect("another-effect")).await.unwrap(), None);
    assert_eq!(store.displaced(second.key(), &effect("effect")).await.unwrap(), None);
    let foreign = Run::start(&*store, "umbrella", "request", &calls(1)).await;
    assert_eq!(store.displaced(foreign.key(), &effect("effect")).await.unwrap(), None);
}

async fn one_commit_finishes_an_effect_and_intends_the_next<S: Store>(store: Arc<S>) {
    let mut run = Run::start(&*store, "acme", "request", &calls(2)).await;
    let grant = run.claim(&*store, "first-effect").await;

    let next =
        run.commit(&*store, FinishAndClaim(finish(grant, json!(1)), claim("second-effect", None))).await;

    assert!(matches!(receipt(&*store, "first-effect").await.unwrap().state, ReceiptState::Done { .. }));
    assert_eq!(receipt(&*store, "second-effect").await, granted(next).receipt);
}

fn did_not_happen(grant: Grant) -> Retry {
    Retry {
        fence: grant.fence,
        failure: Failure::new("HTTP_STATUS", "HTTP status 503"),
        certainty: EffectOutcome::DidNotHappen,
        retry_after: None,
        receipt: grant.receipt,
    }
}

/// Finishes a step and claims the next, in one draft.
struct FinishAndClaim(Finish, Claim);

impl Command for FinishAndClaim {
    type Output = ClaimResult;

    fn decide(self, draft: &mut Draft<'_>) -> Result<ClaimResult, Refusal> {
        self.0.decide(draft)?;
        self.1.decide(draft)
    }
}
