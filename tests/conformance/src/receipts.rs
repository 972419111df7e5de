//! Receipts: one effect, one receipt, whoever tries.

use std::sync::Arc;

use domain::command::{Certainty, Claim, Claimed, Command, Finish, Grant, Retry};
use domain::receipt::ReceiptState;
use domain::{Draft, Failure, Payload, Receipt, Refusal};
use serde_json::json;
use store::{Store, Write};

use crate::fixtures::{Run, calls, claim, effect, finish, granted, messages, tenant};

cases![
    an_intent_is_found_under_its_key,
    of_two_runs_that_intend_the_same_effect_one_wins,
    two_tenants_can_intend_the_same_effect,
    a_commit_whose_receipt_has_moved_on_leaves_nothing_behind,
    a_finished_effect_is_found_with_its_result,
    an_effect_that_did_not_happen_is_intended_again_over_its_receipt,
    a_receipt_whose_place_another_runs_has_taken_is_still_its_own_runs,
    an_effect_can_be_finished_and_the_next_one_intended_in_one_commit,
];

async fn receipt<S: Store>(store: &S, key: &str) -> Option<Receipt> {
    store.receipt(&tenant("acme"), &effect(key)).await.unwrap()
}

async fn an_intent_is_found_under_its_key<S: Store>(store: Arc<S>) {
    let mut run = Run::begin(&*store, "acme", "request", &calls(1)).await;
    let grant = run.claim(&*store, "effect").await;
    assert_eq!(receipt(&*store, "effect").await, grant.receipt);
    assert_eq!(receipt(&*store, "another-effect").await, None);
}

async fn of_two_runs_that_intend_the_same_effect_one_wins<S: Store>(store: Arc<S>) {
    let mut first = Run::begin(&*store, "acme", "first", &calls(1)).await;
    let second = Run::begin(&*store, "acme", "second", &calls(1)).await;
    let (late, _) = second.decide(claim("effect", None));

    first.claim(&*store, "effect").await;
    assert_eq!(store.commit(late).await.unwrap(), Write::Superseded);

    assert_eq!(receipt(&*store, "effect").await.unwrap().run, first.key().run);
    assert_eq!(store.load(second.key()).await.unwrap(), Some(second.record));
}

async fn two_tenants_can_intend_the_same_effect<S: Store>(store: Arc<S>) {
    for owner in ["acme", "umbrella"] {
        let mut run = Run::begin(&*store, owner, "request", &calls(1)).await;
        let grant = run.claim(&*store, "effect").await;
        let kept = store.receipt(&tenant(owner), &effect("effect")).await.unwrap();
        assert_eq!(kept, grant.receipt);
    }
}

/// The run itself stands as it did, but the receipt that was looked up does not.
async fn a_commit_whose_receipt_has_moved_on_leaves_nothing_behind<S: Store>(store: Arc<S>) {
    let mut other = Run::begin(&*store, "acme", "other", &calls(1)).await;
    let grant = other.claim(&*store, "effect").await;
    other.commit(&*store, did_not_happen(grant)).await;
    let failed = receipt(&*store, "effect").await;
    let run = Run::begin(&*store, "acme", "request", &calls(1)).await;
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

async fn a_finished_effect_is_found_with_its_result<S: Store>(store: Arc<S>) {
    let mut run = Run::begin(&*store, "acme", "request", &calls(1)).await;
    run.work(&*store, "effect", json!({ "id": 7 })).await;
    let kept = receipt(&*store, "effect").await.unwrap();
    assert_eq!(kept.revision, 1);
    let ReceiptState::Done { result, response, .. } = kept.state else { unreachable!("{:?}", kept.state) };
    assert_eq!((result, response), (Payload::Inline(json!({ "id": 7 })), json!({ "status": 200 })));
}

async fn an_effect_that_did_not_happen_is_intended_again_over_its_receipt<S: Store>(store: Arc<S>) {
    let mut run = Run::begin(&*store, "acme", "request", &calls(1)).await;
    let grant = run.claim(&*store, "effect").await;
    run.commit(&*store, did_not_happen(grant)).await;
    let failed = receipt(&*store, "effect").await.unwrap();
    assert!(matches!(failed.state, ReceiptState::Failed { .. }));

    let (again, _) = run.decide_at(run.record.due_at.unwrap(), claim("effect", Some(failed.clone())));
    assert_eq!(store.commit(again).await.unwrap(), Write::Committed);

    let kept = receipt(&*store, "effect").await.unwrap();
    assert_eq!((kept.revision, kept.state), (failed.revision + 1, ReceiptState::Intent));
}

async fn a_receipt_whose_place_another_runs_has_taken_is_still_its_own_runs<S: Store>(store: Arc<S>) {
    let mut first = Run::begin(&*store, "acme", "request", &calls(1)).await;
    let grant = first.claim(&*store, "effect").await;
    first.commit(&*store, did_not_happen(grant)).await;
    let failed = receipt(&*store, "effect").await;
    assert_eq!(store.displaced(first.key(), &effect("effect")).await.unwrap(), None);

    let mut second = Run::begin(&*store, "acme", "second", &calls(1)).await;
    let granted = granted(second.commit(&*store, claim("effect", failed.clone())).await);

    assert_eq!(receipt(&*store, "effect").await, granted.receipt);
    assert_eq!(store.displaced(first.key(), &effect("effect")).await.unwrap(), failed);
    assert_eq!(store.displaced(first.key(), &effect("another-effect")).await.unwrap(), None);
    assert_eq!(store.displaced(second.key(), &effect("effect")).await.unwrap(), None);
    let stranger = Run::begin(&*store, "umbrella", "request", &calls(1)).await;
    assert_eq!(store.displaced(stranger.key(), &effect("effect")).await.unwrap(), None);
}

async fn an_effect_can_be_finished_and_the_next_one_intended_in_one_commit<S: Store>(store: Arc<S>) {
    let mut run = Run::begin(&*store, "acme", "request", &calls(2)).await;
    let grant = run.claim(&*store, "first-effect").await;

    let next = run.commit(&*store, HandOn(finish(grant, json!(1)), claim("second-effect", None))).await;

    assert!(matches!(receipt(&*store, "first-effect").await.unwrap().state, ReceiptState::Done { .. }));
    assert_eq!(receipt(&*store, "second-effect").await, granted(next).receipt);
}

fn did_not_happen(grant: Grant) -> Retry {
    Retry {
        fence: grant.fence,
        failure: Failure::new("HTTP_STATUS", "the other side said 503"),
        certainty: Certainty::DidNotHappen,
        retry_after: None,
        receipt: grant.receipt,
    }
}

/// One step ends and the next is claimed, in one draft.
struct HandOn(Finish, Claim);

impl Command for HandOn {
    type Answer = Claimed;

    fn decide(self, draft: &mut Draft<'_>) -> Result<Claimed, Refusal> {
        self.0.decide(draft)?;
        self.1.decide(draft)
    }
}
