//! What is particular to S3: bytes that changed, requests that were too many, payloads that expire, and evidence that
//! is locked.

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::ObjectLockRetentionMode;
use countersign_store::aws::{Retention, RetentionMode, create_buckets};
use countersign_store::{
    BlobKind, Blobs as _, Clock as _, Governance as _, PolicyFiles, StoreError, SystemClock,
};
use domain::{BlobRef, Digest, Millis, TenantId};

use crate::Own;
use crate::account::Account;
use crate::faults::line::{Fault, Line, Trouble};

pub(crate) fn cases() -> Vec<(&'static str, Own)> {
    vec![
        ("s3_checksum_mismatch", |account| Box::pin(s3_checksum_mismatch(account))),
        ("s3_503_slowdown", |account| Box::pin(s3_503_slowdown(account))),
        ("every_fault_of_keeping_a_blob_has_its_meaning", |account| {
            Box::pin(every_fault_of_keeping_a_blob_has_its_meaning(account))
        }),
        ("a_blob_that_is_there_is_not_written_over", |account| {
            Box::pin(a_blob_that_is_there_is_not_written_over(account))
        }),
        ("a_blob_whose_reply_was_lost_is_kept_once", |account| {
            Box::pin(a_blob_whose_reply_was_lost_is_kept_once(account))
        }),
        ("a_payload_that_is_put_again_begins_its_days_anew_and_nothing_else_has_days", |account| {
            Box::pin(a_payload_that_is_put_again_begins_its_days_anew_and_nothing_else_has_days(account))
        }),
        ("whoever_may_not_look_at_a_payload_writes_it_anew", |account| {
            Box::pin(whoever_may_not_look_at_a_payload_writes_it_anew(account))
        }),
        ("what_an_item_points_at_does_not_stand_where_things_expire", |account| {
            Box::pin(what_an_item_points_at_does_not_stand_where_things_expire(account))
        }),
        ("evidence_is_locked_and_payloads_are_not", |account| {
            Box::pin(evidence_is_locked_and_payloads_are_not(account))
        }),
        ("buckets_are_created_once", |account| Box::pin(buckets_are_created_once(account))),
    ]
}

fn tenant() -> TenantId {
    TenantId::new("acme").unwrap()
}

fn key(on: BlobKind, blob: &BlobRef) -> String {
    match on {
        BlobKind::Payloads => format!("payloads/acme/{}", blob.sha256),
        BlobKind::Bodies => format!("bodies/acme/{}", blob.sha256),
        BlobKind::Evidence => format!("acme/{}", blob.sha256),
    }
}

/// Somebody who may write to the bucket changed what is there.
async fn s3_checksum_mismatch(account: Account) {
    let blobs = account.blobs(None);
    for kind in BlobKind::ALL {
        let bucket = match kind {
            BlobKind::Payloads | BlobKind::Bodies => &account.buckets.payloads,
            BlobKind::Evidence => &account.buckets.evidence,
        };
        let blob = blobs.put_blob(kind, &tenant(), b"the truth".to_vec()).await.unwrap();
        let lie = ByteStream::from_static(b"something else");
        account.s3.put_object().bucket(bucket).key(key(kind, &blob)).body(lie).send().await.unwrap();
        let error = blobs.blob(kind, &tenant(), &blob).await.unwrap_err();
        let altered = |error: &StoreError| match error {
            StoreError::Broken { source, .. } => source.to_string().contains("was altered"),
            StoreError::Busy { .. } | StoreError::Unknown { .. } => false,
        };
        assert!(altered(&error), "{error:?}");
    }
}

fn answer(status: u16, code: &str) -> Fault {
    let body = format!(r#"<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code></Error>"#);
    Fault::Answer { status, body }
}

/// It is busy, which the engine has patience for, and nothing was done.
async fn s3_503_slowdown(account: Account) {
    let blobs = account.blobs_over(Line::with([answer(503, "SlowDown"), answer(503, "SlowDown")]));
    let error = blobs.put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec()).await.unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
    let kept = account.blobs(None).put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec()).await.unwrap();
    let error = blobs.blob(BlobKind::Payloads, &tenant(), &kept).await.unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
    assert_eq!(blobs.blob(BlobKind::Payloads, &tenant(), &kept).await.unwrap(), Some(b"large".to_vec()));
}

async fn every_fault_of_keeping_a_blob_has_its_meaning(account: Account) {
    for (fault, meaning) in [
        (answer(412, "PreconditionFailed"), "kept"),
        (answer(409, "ConditionalRequestConflict"), "busy"),
        (answer(503, "SlowDown"), "busy"),
        (answer(400, "BadDigest"), "busy"),
        (answer(400, "RequestTimeout"), "busy"),
        (answer(500, "InternalError"), "unknown"),
        (answer(403, "AccessDenied"), "broken"),
        (answer(404, "NoSuchBucket"), "broken"),
        (Fault::LoseReply, "unknown"),
        (Fault::LoseRequest, "unknown"),
    ] {
        let blobs = account.blobs_over(Line::with([fault.clone()]));
        let means = match blobs.put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec()).await {
            Ok(_) => "kept",
            Err(StoreError::Busy { .. }) => "busy",
            Err(StoreError::Unknown { .. }) => "unknown",
            Err(StoreError::Broken { .. }) => "broken",
        };
        assert_eq!(means, meaning, "{fault:?}");
    }
}

async fn a_blob_that_is_there_is_not_written_over(account: Account) {
    let blobs = account.blobs(None);
    let blob = blobs.put_blob(BlobKind::Evidence, &tenant(), b"proof".to_vec()).await.unwrap();
    let place = key(BlobKind::Evidence, &blob);
    let head = || account.s3.head_object().bucket(&account.buckets.evidence).key(&place).send();
    let first = head().await.unwrap();
    assert_eq!(blobs.put_blob(BlobKind::Evidence, &tenant(), b"proof".to_vec()).await.unwrap(), blob);
    // The bucket keeps versions; a second writing would have made one.
    assert_eq!(head().await.unwrap().version_id(), first.version_id());
    assert!(first.version_id().is_some());
}

async fn a_blob_whose_reply_was_lost_is_kept_once(account: Account) {
    let blobs = account.blobs_over(Line::with([Fault::LoseReply]));
    let error = blobs.put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown { .. }), "{error:?}");
    let blob = blobs.put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec()).await.unwrap();
    assert_eq!(blobs.blob(BlobKind::Payloads, &tenant(), &blob).await.unwrap(), Some(b"large".to_vec()));
}

async fn a_payload_that_is_put_again_begins_its_days_anew_and_nothing_else_has_days(account: Account) {
    let (today, later) = (SystemClock.now(), SystemClock.now() + Millis::hours(48));
    for (kind, now, sends) in [
        (BlobKind::Payloads, today, "PutObject HeadObject"),
        (BlobKind::Payloads, later, "PutObject HeadObject PutObject"),
        (BlobKind::Bodies, later, "PutObject"),
        (BlobKind::Evidence, later, "PutObject"),
    ] {
        let blob = account.blobs(None).put_blob(kind, &tenant(), b"large".to_vec()).await.unwrap();
        let line = Line::with([]);
        let blobs = account.blobs_at(now, line.clone());
        assert_eq!(blobs.put_blob(kind, &tenant(), b"large".to_vec()).await.unwrap(), blob);
        assert_eq!(sent(&line), sends, "{kind:?}");
        assert_eq!(blobs.blob(kind, &tenant(), &blob).await.unwrap(), Some(b"large".to_vec()));
    }
}

/// What was asked of S3, in order.
fn sent(line: &Line) -> String {
    let operations: Vec<String> = line.seen().into_iter().map(|passed| passed.operation).collect();
    operations.join(" ")
}

/// The webhook function puts payloads and reads none.
async fn whoever_may_not_look_at_a_payload_writes_it_anew(account: Account) {
    let blob = account.blobs(None).put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec()).await.unwrap();
    let line = Line::with([]);
    line.set([Trouble::forever("HeadObject", answer(403, "AccessDenied"))]);
    let blobs = account.blobs_over(line.clone());
    assert_eq!(blobs.put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec()).await.unwrap(), blob);
    assert_eq!(sent(&line), "PutObject HeadObject PutObject");
}

async fn what_an_item_points_at_does_not_stand_where_things_expire(account: Account) {
    let files = PolicyFiles::from([("main.rego".to_owned(), "x".repeat(300 * 1024))]);
    account.store().put_policy(&tenant(), &Digest::ZERO, files).await.unwrap();
    let listed = account.s3.list_objects_v2().bucket(&account.buckets.payloads).send().await.unwrap();
    let keys: Vec<&str> = listed.contents().iter().filter_map(|object| object.key()).collect();
    assert!(matches!(&*keys, [key] if key.starts_with("bodies/acme/")), "{keys:?}");
}

async fn evidence_is_locked_and_payloads_are_not(account: Account) {
    for (mode, locked) in [
        (RetentionMode::Governance, ObjectLockRetentionMode::Governance),
        (RetentionMode::Compliance, ObjectLockRetentionMode::Compliance),
    ] {
        let blobs = account.blobs(Some(Retention { mode, days: 30 }));
        let bytes = format!("proof under {mode:?}").into_bytes();
        let before = SystemClock.now();
        let blob = blobs.put_blob(BlobKind::Evidence, &tenant(), bytes).await.unwrap();
        blobs.put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec()).await.unwrap();

        let ask = account.s3.get_object_retention().bucket(&account.buckets.evidence);
        let retention = ask.key(key(BlobKind::Evidence, &blob)).send().await.unwrap().retention.unwrap();
        assert_eq!(retention.mode(), Some(&locked));
        let days = 30 * 24 * 60 * 60;
        let until = retention.retain_until_date().unwrap().secs() - before.0 / 1000;
        assert!((days..days + 60).contains(&until), "{until}");
    }
}

async fn buckets_are_created_once(account: Account) {
    let blobs = account.blobs(None);
    let blob = blobs.put_blob(BlobKind::Evidence, &tenant(), b"proof".to_vec()).await.unwrap();
    create_buckets(&account.s3, &account.buckets).await.unwrap();
    assert_eq!(blobs.blob(BlobKind::Evidence, &tenant(), &blob).await.unwrap(), Some(b"proof".to_vec()));
}
