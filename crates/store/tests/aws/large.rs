//! What is too large for an item goes by pointer, and what cannot is refused with its weight.

use countersign_store::{BlobKind, Blobs as _, Governance as _, Ledger as _, PolicyFiles, Write};
use domain::command::Pause;
use domain::payload::Fingerprint;
use domain::receipt::ReceiptState;
use domain::{
    Digest, EffectClass, Fence, IdempotencyKey, Payload, Receipt, ReceiptChange, Reversibility, RunRecord,
    StepId, StepSeq, ToolName,
};
use serde_json::json;

use crate::Own;
use crate::account::Account;
use crate::run::{admission_with, begin, decide, error_chain, plan, tenant};

pub(crate) fn cases() -> Vec<(&'static str, Own)> {
    vec![
        ("a_body_that_is_too_large_for_an_item_is_kept_by_pointer", |account| {
            Box::pin(a_body_that_is_too_large_for_an_item_is_kept_by_pointer(account))
        }),
        ("a_receipt_that_is_too_large_for_an_item_is_committed_by_pointer", |account| {
            Box::pin(a_receipt_that_is_too_large_for_an_item_is_committed_by_pointer(account))
        }),
        ("an_event_that_is_too_large_for_an_item_is_refused_with_its_weight", |account| {
            Box::pin(an_event_that_is_too_large_for_an_item_is_refused_with_its_weight(account))
        }),
        ("a_table_that_is_not_there_is_broken_and_says_so", |account| {
            Box::pin(a_table_that_is_not_there_is_broken_and_says_so(account))
        }),
    ]
}

async fn a_body_that_is_too_large_for_an_item_is_kept_by_pointer(account: Account) {
    let store = account.store();
    let text = "x".repeat(1024 * 1024);
    let files = PolicyFiles::from([("main.rego".to_owned(), text)]);
    let hash = Digest::of_bytes(b"policy");
    store.put_policy(&tenant(), &hash, files.clone()).await.unwrap();
    store.put_policy(&tenant(), &hash, files.clone()).await.unwrap();
    assert_eq!(store.policy(&tenant(), &hash).await.unwrap().as_ref(), Some(&files));
    let body = serde_json::to_vec(&files).unwrap();
    let blob = domain::BlobRef { sha256: Digest::of_bytes(&body), bytes: body.len() as u64 };
    // Payloads expire; a policy does not.
    assert_eq!(account.beside.blob(BlobKind::Payloads, &tenant(), &blob).await.unwrap(), None);
    assert_eq!(account.beside.blob(BlobKind::Bodies, &tenant(), &blob).await.unwrap(), Some(body));
}

/// Each of its parts may stay in place; all of them together may not.
async fn a_receipt_that_is_too_large_for_an_item_is_committed_by_pointer(account: Account) {
    let store = account.store();
    let record = begin(&store, "request").await;
    let receipt = heavy(&record);
    let mut decision = decide(record, Pause { reason: "a look".to_owned() });
    decision.receipts = vec![ReceiptChange { replaces: None, displaces: None, receipt: receipt.clone() }];
    assert_eq!(store.commit(decision).await.unwrap(), Write::Committed);
    assert_eq!(store.receipt(&tenant(), &receipt.key).await.unwrap(), Some(receipt));
}

fn heavy(record: &RunRecord) -> Receipt {
    let part = json!("x".repeat(120 * 1024));
    Receipt {
        tenant: tenant(),
        key: IdempotencyKey::new("effect").unwrap(),
        run: record.key.run.clone(),
        step: StepId::new("call").unwrap(),
        seq: StepSeq(0),
        undo: false,
        fence: Fence(1),
        action: Digest::ZERO,
        class: EffectClass::NativeKey,
        reversibility: Reversibility::Compensable,
        target: "https://example.com/records/1".to_owned(),
        tool: ToolName::new("http.request").unwrap(),
        found: Some(part.clone()),
        verdict: Digest::ZERO,
        approval: None,
        revision: 0,
        intended_at: record.created_at,
        state: ReceiptState::Done {
            at: record.created_at,
            result: Payload::Inline(part.clone()),
            fingerprint: Fingerprint::of(&part),
            response: part.clone(),
            inverse: Some(part),
        },
    }
}

async fn an_event_that_is_too_large_for_an_item_is_refused_with_its_weight(account: Account) {
    let store = account.store();
    let mut admission = admission_with("request", json!(null));
    admission.decision.events[0].canonical = vec![b'x'; 401 * 1024];
    let key = admission.decision.record.key.clone();
    let error = store.admit(admission).await.unwrap_err();
    assert!(error_chain(&error).contains("is more than the 409600"), "{}", error_chain(&error));
    assert_eq!(store.load(&key).await.unwrap(), None);
}

async fn a_table_that_is_not_there_is_broken_and_says_so(account: Account) {
    let store = account.store_on("elsewhere");
    let error = store.put_plan(&tenant(), &plan()).await.unwrap_err();
    assert!(matches!(error, countersign_store::StoreError::Broken { .. }), "{error:?}");
    let admission = admission_with("request", json!(null));
    let key = admission.decision.record.key.clone();
    for error in [store.admit(admission).await.map(drop), store.load(&key).await.map(drop)] {
        let error = error.unwrap_err();
        assert!(error_chain(&error).contains("ResourceNotFound"), "{}", error_chain(&error));
    }
}
