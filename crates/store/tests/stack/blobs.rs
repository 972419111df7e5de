//! S3 specifics: altered objects, throttling, expiring payloads, and Object Lock of evidence.

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::ObjectLockRetentionMode;
use countersign_store::aws::{Retention, RetentionMode, create_buckets};
use countersign_store::{
    BlobKind, Blobs as _, Clock as _, Governance as _, PolicyFiles, StoreError, SystemClock,
};
use domain::{BlobRef, Digest, Millis, TenantId};

use crate::EnvCase;
use crate::env::StackEnv;
use crate::faults::connection::{Fault, FaultyConnection, Injection};

pub(crate) fn cases() -> Vec<(&'static str, EnvCase)> {
    vec![
        ("s3_checksum_mismatch", |env| Box::pin(s3_checksum_mismatch(env))),
        ("s3_503_slowdown", |env| Box::pin(s3_503_slowdown(env))),
        ("put_blob_faults_are_classified", |env| Box::pin(put_blob_faults_are_classified(env))),
        ("existing_bundle_is_not_overwritten", |env| Box::pin(existing_bundle_is_not_overwritten(env))),
        ("blob_with_a_lost_reply_is_stored_once", |env| Box::pin(blob_with_a_lost_reply_is_stored_once(env))),
        ("only_old_payloads_are_renewed", |env| Box::pin(only_old_payloads_are_renewed(env))),
        ("payload_is_renewed_without_head_permission", |env| {
            Box::pin(payload_is_renewed_without_head_permission(env))
        }),
        ("large_bodies_are_not_stored_under_payloads", |env| {
            Box::pin(large_bodies_are_not_stored_under_payloads(env))
        }),
        ("only_evidence_is_locked", |env| Box::pin(only_evidence_is_locked(env))),
        ("buckets_are_created_once", |env| Box::pin(buckets_are_created_once(env))),
    ]
}

fn tenant() -> TenantId {
    TenantId::new("acme").unwrap()
}

fn key(kind: BlobKind, blob: &BlobRef) -> String {
    match kind {
        BlobKind::Payloads => format!("payloads/acme/{}", blob.sha256),
        BlobKind::Bodies => format!("bodies/acme/{}", blob.sha256),
    }
}

/// A user with write access to the bucket alters an object.
async fn s3_checksum_mismatch(env: StackEnv) {
    let blobs = env.blobs(None);
    for kind in BlobKind::ALL {
        let bucket = &env.buckets.payloads;
        let blob = blobs.put_blob(kind, &tenant(), b"original".to_vec()).await.unwrap();
        let altered = ByteStream::from_static(b"altered");
        env.s3.put_object().bucket(bucket).key(key(kind, &blob)).body(altered).send().await.unwrap();
        let error = blobs.blob(kind, &tenant(), &blob).await.unwrap_err();
        let is_mismatch = |error: &StoreError| match error {
            StoreError::Broken { source, .. } => source.to_string().contains("does not match its digest"),
            StoreError::Busy { .. } | StoreError::Unknown { .. } => false,
        };
        assert!(is_mismatch(&error), "{error:?}");
    }
}

fn response(status: u16, code: &str) -> Fault {
    let body = format!(r#"<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code></Error>"#);
    Fault::Respond { status, body }
}

/// Throttling is `Busy`, which the engine retries, and nothing is written.
async fn s3_503_slowdown(env: StackEnv) {
    let blobs =
        env.blobs_over(FaultyConnection::with([response(503, "SlowDown"), response(503, "SlowDown")]));
    let error = blobs.put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec()).await.unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
    let stored = env.blobs(None).put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec()).await.unwrap();
    let error = blobs.blob(BlobKind::Payloads, &tenant(), &stored).await.unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
    assert_eq!(blobs.blob(BlobKind::Payloads, &tenant(), &stored).await.unwrap(), Some(b"large".to_vec()));
}

async fn put_blob_faults_are_classified(env: StackEnv) {
    for (fault, expected) in [
        (response(412, "PreconditionFailed"), "stored"),
        (response(409, "ConditionalRequestConflict"), "busy"),
        (response(503, "SlowDown"), "busy"),
        (response(400, "BadDigest"), "busy"),
        (response(400, "RequestTimeout"), "busy"),
        (response(500, "InternalError"), "unknown"),
        (response(403, "AccessDenied"), "broken"),
        (response(404, "NoSuchBucket"), "broken"),
        (Fault::LoseReply, "unknown"),
        (Fault::LoseRequest, "unknown"),
    ] {
        let blobs = env.blobs_over(FaultyConnection::with([fault.clone()]));
        let class = match blobs.put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec()).await {
            Ok(_) => "stored",
            Err(StoreError::Busy { .. }) => "busy",
            Err(StoreError::Unknown { .. }) => "unknown",
            Err(StoreError::Broken { .. }) => "broken",
        };
        assert_eq!(class, expected, "{fault:?}");
    }
}

async fn existing_bundle_is_not_overwritten(env: StackEnv) {
    let blobs = env.blobs(None);
    assert_eq!(blobs.put_bundle(&tenant(), "table/run", b"proof".to_vec()).await.unwrap(), None);
    let head = || env.s3.head_object().bucket(&env.buckets.evidence).key("acme/table/run").send();
    let first = head().await.unwrap();
    for again in [b"proof", b"other"] {
        let stored = blobs.put_bundle(&tenant(), "table/run", again.to_vec()).await.unwrap();
        assert_eq!(stored, Some(b"proof".to_vec()));
    }
    // The bucket is versioned; a second write would have created a version.
    assert_eq!(head().await.unwrap().version_id(), first.version_id());
    assert!(first.version_id().is_some());
}

async fn blob_with_a_lost_reply_is_stored_once(env: StackEnv) {
    let blobs = env.blobs_over(FaultyConnection::with([Fault::LoseReply]));
    let error = blobs.put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown { .. }), "{error:?}");
    let blob = blobs.put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec()).await.unwrap();
    assert_eq!(blobs.blob(BlobKind::Payloads, &tenant(), &blob).await.unwrap(), Some(b"large".to_vec()));
}

async fn only_old_payloads_are_renewed(env: StackEnv) {
    let (today, later) = (SystemClock.now(), SystemClock.now() + Millis::hours(48));
    for (kind, now, sends) in [
        (BlobKind::Payloads, today, "PutObject HeadObject"),
        (BlobKind::Payloads, later, "PutObject HeadObject PutObject"),
        (BlobKind::Bodies, later, "PutObject"),
    ] {
        let blob = env.blobs(None).put_blob(kind, &tenant(), b"large".to_vec()).await.unwrap();
        let connection = FaultyConnection::with([]);
        let blobs = env.blobs_at(now, connection.clone());
        assert_eq!(blobs.put_blob(kind, &tenant(), b"large".to_vec()).await.unwrap(), blob);
        assert_eq!(sent(&connection), sends, "{kind:?}");
        assert_eq!(blobs.blob(kind, &tenant(), &blob).await.unwrap(), Some(b"large".to_vec()));
    }
}

/// The S3 operations, in order.
fn sent(connection: &FaultyConnection) -> String {
    let operations: Vec<String> =
        connection.requests().into_iter().map(|request| request.operation).collect();
    operations.join(" ")
}

/// The webhook function has no read permission on payloads.
async fn payload_is_renewed_without_head_permission(env: StackEnv) {
    let blob = env.blobs(None).put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec()).await.unwrap();
    let connection = FaultyConnection::with([]);
    connection.set([Injection::forever("HeadObject", response(403, "AccessDenied"))]);
    let blobs = env.blobs_over(connection.clone());
    assert_eq!(blobs.put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec()).await.unwrap(), blob);
    assert_eq!(sent(&connection), "PutObject HeadObject PutObject");
}

async fn large_bodies_are_not_stored_under_payloads(env: StackEnv) {
    let files = PolicyFiles::from([("main.rego".to_owned(), "x".repeat(300 * 1024))]);
    env.store().put_policy(&tenant(), &Digest::ZERO, files).await.unwrap();
    let listed = env.s3.list_objects_v2().bucket(&env.buckets.payloads).send().await.unwrap();
    let keys: Vec<&str> = listed.contents().iter().filter_map(|object| object.key()).collect();
    assert!(matches!(&*keys, [key] if key.starts_with("bodies/acme/")), "{keys:?}");
}

async fn only_evidence_is_locked(env: StackEnv) {
    for (mode, locked) in [
        (RetentionMode::Governance, ObjectLockRetentionMode::Governance),
        (RetentionMode::Compliance, ObjectLockRetentionMode::Compliance),
    ] {
        let blobs = env.blobs(Some(Retention { mode, days: 30 }));
        let name = format!("proof-under-{mode:?}");
        let before = SystemClock.now();
        blobs.put_bundle(&tenant(), &name, b"proof".to_vec()).await.unwrap();
        blobs.put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec()).await.unwrap();

        let request = env.s3.get_object_retention().bucket(&env.buckets.evidence);
        let retention = request.key(format!("acme/{name}")).send().await.unwrap().retention.unwrap();
        assert_eq!(retention.mode(), Some(&locked));
        let days = 30 * 24 * 60 * 60;
        let until = retention.retain_until_date().unwrap().secs() - before.0 / 1000;
        assert!((days..days + 60).contains(&until), "{until}");
    }
}

async fn buckets_are_created_once(env: StackEnv) {
    let blobs = env.blobs(None);
    blobs.put_bundle(&tenant(), "run", b"proof".to_vec()).await.unwrap();
    create_buckets(&env.s3, &env.buckets).await.unwrap();
    assert_eq!(blobs.bundle(&tenant(), "run").await.unwrap(), Some(b"proof".to_vec()));
}
