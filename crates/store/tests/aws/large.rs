//! Values beyond the DynamoDB item limit: bodies are stored as blobs, events are rejected.

use countersign_store::{BlobKind, Blobs as _, Governance as _, Ledger as _, PolicyFiles, Write};
use domain::command::Pause;
use domain::payload::Fingerprint;
use domain::receipt::ReceiptState;
use domain::{
    Digest, EffectClass, Fence, IdempotencyKey, Payload, Receipt, ReceiptChange, Reversibility, RunRecord,
    StepId, StepSeq, ToolName,
};
use serde_json::json;

use crate::EnvCase;
use crate::env::TableEnv;
use crate::run::{admission_with, decide, error_chain, plan, start_run, tenant};

pub(crate) fn cases() -> Vec<(&'static str, EnvCase)> {
    vec![
        ("large_body_is_stored_as_a_blob", |env| Box::pin(large_body_is_stored_as_a_blob(env))),
        ("large_receipt_is_stored_as_a_blob", |env| Box::pin(large_receipt_is_stored_as_a_blob(env))),
        ("event_beyond_the_item_limit_is_rejected", |env| {
            Box::pin(event_beyond_the_item_limit_is_rejected(env))
        }),
        ("missing_table_is_reported_as_broken", |env| Box::pin(missing_table_is_reported_as_broken(env))),
    ]
}

async fn large_body_is_stored_as_a_blob(env: TableEnv) {
    let store = env.store();
    let text = "x".repeat(1024 * 1024);
    let files = PolicyFiles::from([("main.rego".to_owned(), text)]);
    let hash = Digest::of_bytes(b"policy");
    store.put_policy(&tenant(), &hash, files.clone()).await.unwrap();
    store.put_policy(&tenant(), &hash, files.clone()).await.unwrap();
    assert_eq!(store.policy(&tenant(), &hash).await.unwrap().as_ref(), Some(&files));
    let body = serde_json::to_vec(&files).unwrap();
    let blob = domain::BlobRef { sha256: Digest::of_bytes(&body), bytes: body.len() as u64 };
    // Payloads expire; a policy does not.
    assert_eq!(env.sqlite.blob(BlobKind::Payloads, &tenant(), &blob).await.unwrap(), None);
    assert_eq!(env.sqlite.blob(BlobKind::Bodies, &tenant(), &blob).await.unwrap(), Some(body));
}

/// Each part is small enough to be inline; together they are not.
async fn large_receipt_is_stored_as_a_blob(env: TableEnv) {
    let store = env.store();
    let record = start_run(&store, "request").await;
    let receipt = large_receipt(&record);
    let mut decision = decide(record, Pause { reason: "inspection".to_owned() });
    decision.receipts = vec![ReceiptChange { replaces: None, displaces: None, receipt: receipt.clone() }];
    assert_eq!(store.commit(decision).await.unwrap(), Write::Committed);
    assert_eq!(store.receipt(&tenant(), &receipt.key).await.unwrap(), Some(receipt));
}

fn large_receipt(record: &RunRecord) -> Receipt {
    let part = json!("x".repeat(120 * 1024));
    Receipt {
        tenant: tenant(),
        key: IdempotencyKey::new("effect").unwrap(),
        run: record.key.run.clone(),
        step: StepId::new("call").unwrap(),
        seq: StepSeq(0),
        rollback: false,
        fence: Fence(1),
        action: Digest::ZERO,
        class: EffectClass::NativeKey,
        reversibility: Reversibility::Compensable,
        target: "https://example.com/records/1".to_owned(),
        tool: ToolName::new("http.request").unwrap(),
        observed: Some(part.clone()),
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

async fn event_beyond_the_item_limit_is_rejected(env: TableEnv) {
    let store = env.store();
    let mut admission = admission_with("request", json!(null));
    admission.decision.events[0].canonical = vec![b'x'; 401 * 1024];
    let key = admission.decision.record.key.clone();
    let error = store.admit(admission).await.unwrap_err();
    assert!(error_chain(&error).contains("more than the limit of 409600"), "{}", error_chain(&error));
    assert_eq!(store.load(&key).await.unwrap(), None);
}

async fn missing_table_is_reported_as_broken(env: TableEnv) {
    let store = env.store_on("missing");
    let error = store.put_plan(&tenant(), &plan()).await.unwrap_err();
    assert!(matches!(error, countersign_store::StoreError::Broken { .. }), "{error:?}");
    let admission = admission_with("request", json!(null));
    let key = admission.decision.record.key.clone();
    for error in [store.admit(admission).await.map(drop), store.load(&key).await.map(drop)] {
        let error = error.unwrap_err();
        assert!(error_chain(&error).contains("ResourceNotFound"), "{}", error_chain(&error));
    }
}
