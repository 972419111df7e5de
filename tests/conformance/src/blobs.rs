//! Blobs: large payloads, addressed by their content.

use std::sync::Arc;

use domain::{BlobRef, Digest};
use store::{BlobKind, Store};

use crate::fixtures::tenant;

cases![
    blob_is_returned_unchanged,
    same_bytes_have_the_same_blob_ref,
    unknown_blob_is_not_found,
    blob_of_two_mebibytes_is_accepted,
    empty_blob_is_stored,
    blob_of_one_tenant_is_not_found_under_another,
    blob_is_found_only_under_its_kind,
];

async fn blob_is_returned_unchanged<S: Store>(store: Arc<S>) {
    let bytes: Vec<u8> = (0..=255).collect();
    let blob = store.put_blob(BlobKind::Payloads, &tenant("acme"), bytes.clone()).await.unwrap();
    assert_eq!(blob, BlobRef { sha256: Digest::of_bytes(&bytes), bytes: 256 });
    assert_eq!(store.blob(BlobKind::Payloads, &tenant("acme"), &blob).await.unwrap(), Some(bytes));
}

async fn same_bytes_have_the_same_blob_ref<S: Store>(store: Arc<S>) {
    let first = store.put_blob(BlobKind::Payloads, &tenant("acme"), b"same".to_vec()).await.unwrap();
    let second = store.put_blob(BlobKind::Payloads, &tenant("acme"), b"same".to_vec()).await.unwrap();
    let other = store.put_blob(BlobKind::Payloads, &tenant("acme"), b"other".to_vec()).await.unwrap();
    assert_eq!(first, second);
    assert_ne!(first, other);
    assert_eq!(
        store.blob(BlobKind::Payloads, &tenant("acme"), &first).await.unwrap(),
        Some(b"same".to_vec())
    );
}

async fn unknown_blob_is_not_found<S: Store>(store: Arc<S>) {
    let never = BlobRef { sha256: Digest::of_bytes(b"never"), bytes: 5 };
    assert_eq!(store.blob(BlobKind::Payloads, &tenant("acme"), &never).await.unwrap(), None);
}

async fn blob_of_two_mebibytes_is_accepted<S: Store>(store: Arc<S>) {
    // No two neighbouring words are equal, so that compression gains nothing.
    let bytes: Vec<u8> =
        (0_u32..512 * 1024).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
    let blob = store.put_blob(BlobKind::Payloads, &tenant("acme"), bytes.clone()).await.unwrap();
    assert_eq!(blob.bytes, 2 * 1024 * 1024);
    assert!(store.blob(BlobKind::Payloads, &tenant("acme"), &blob).await.unwrap() == Some(bytes));
}

async fn empty_blob_is_stored<S: Store>(store: Arc<S>) {
    let blob = store.put_blob(BlobKind::Payloads, &tenant("acme"), Vec::new()).await.unwrap();
    assert_eq!(store.blob(BlobKind::Payloads, &tenant("acme"), &blob).await.unwrap(), Some(Vec::new()));
}

async fn blob_of_one_tenant_is_not_found_under_another<S: Store>(store: Arc<S>) {
    for blob_kind in BlobKind::ALL {
        let blob = store.put_blob(blob_kind, &tenant("acme"), b"ours".to_vec()).await.unwrap();
        assert_eq!(store.blob(blob_kind, &tenant("other"), &blob).await.unwrap(), None);
        // Another tenant may store the same bytes.
        store.put_blob(blob_kind, &tenant("third"), b"ours".to_vec()).await.unwrap();
        assert_eq!(store.blob(blob_kind, &tenant("third"), &blob).await.unwrap(), Some(b"ours".to_vec()));
        assert_eq!(store.blob(blob_kind, &tenant("other"), &blob).await.unwrap(), None);
    }
}

async fn blob_is_found_only_under_its_kind<S: Store>(store: Arc<S>) {
    let blob = store.put_blob(BlobKind::Bodies, &tenant("acme"), b"proof".to_vec()).await.unwrap();
    assert_eq!(store.blob(BlobKind::Payloads, &tenant("acme"), &blob).await.unwrap(), None);
    assert_eq!(store.blob(BlobKind::Bodies, &tenant("acme"), &blob).await.unwrap(), Some(b"proof".to_vec()));
}
