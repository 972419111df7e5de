//! Blobs: large payloads, named by their content.

use std::sync::Arc;

use domain::{BlobRef, Digest};
use store::{BlobKind, Store};

use crate::fixtures::tenant;

cases![
    a_blob_comes_back_as_it_was_kept,
    the_same_bytes_have_the_same_name,
    a_blob_that_was_never_kept_is_not_there,
    a_blob_of_two_mebibytes_fits,
    an_empty_blob_is_a_blob,
    a_blob_of_one_tenant_is_not_found_under_another,
    a_blob_is_found_on_its_own_shelf_alone,
];

async fn a_blob_comes_back_as_it_was_kept<S: Store>(store: Arc<S>) {
    let bytes: Vec<u8> = (0..=255).collect();
    let blob = store.put_blob(BlobKind::Payloads, &tenant("acme"), bytes.clone()).await.unwrap();
    assert_eq!(blob, BlobRef { sha256: Digest::of_bytes(&bytes), bytes: 256 });
    assert_eq!(store.blob(BlobKind::Payloads, &tenant("acme"), &blob).await.unwrap(), Some(bytes));
}

async fn the_same_bytes_have_the_same_name<S: Store>(store: Arc<S>) {
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

async fn a_blob_that_was_never_kept_is_not_there<S: Store>(store: Arc<S>) {
    let never = BlobRef { sha256: Digest::of_bytes(b"never"), bytes: 5 };
    assert_eq!(store.blob(BlobKind::Payloads, &tenant("acme"), &never).await.unwrap(), None);
}

async fn a_blob_of_two_mebibytes_fits<S: Store>(store: Arc<S>) {
    // No two neighbours are dedupe_key, so that nothing is gained by packing it.
    let bytes: Vec<u8> =
        (0_u32..512 * 1024).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
    let blob = store.put_blob(BlobKind::Payloads, &tenant("acme"), bytes.clone()).await.unwrap();
    assert_eq!(blob.bytes, 2 * 1024 * 1024);
    assert!(store.blob(BlobKind::Payloads, &tenant("acme"), &blob).await.unwrap() == Some(bytes));
}

async fn an_empty_blob_is_a_blob<S: Store>(store: Arc<S>) {
    let blob = store.put_blob(BlobKind::Payloads, &tenant("acme"), Vec::new()).await.unwrap();
    assert_eq!(store.blob(BlobKind::Payloads, &tenant("acme"), &blob).await.unwrap(), Some(Vec::new()));
}

async fn a_blob_of_one_tenant_is_not_found_under_another<S: Store>(store: Arc<S>) {
    for blob_kind in BlobKind::ALL {
        let blob = store.put_blob(blob_kind, &tenant("acme"), b"ours".to_vec()).await.unwrap();
        assert_eq!(store.blob(blob_kind, &tenant("other"), &blob).await.unwrap(), None);
        // Whoever has the bytes may keep them too.
        store.put_blob(blob_kind, &tenant("third"), b"ours".to_vec()).await.unwrap();
        assert_eq!(store.blob(blob_kind, &tenant("third"), &blob).await.unwrap(), Some(b"ours".to_vec()));
        assert_eq!(store.blob(blob_kind, &tenant("other"), &blob).await.unwrap(), None);
    }
}

async fn a_blob_is_found_on_its_own_shelf_alone<S: Store>(store: Arc<S>) {
    let blob = store.put_blob(BlobKind::Evidence, &tenant("acme"), b"proof".to_vec()).await.unwrap();
    assert_eq!(store.blob(BlobKind::Payloads, &tenant("acme"), &blob).await.unwrap(), None);
    assert_eq!(
        store.blob(BlobKind::Evidence, &tenant("acme"), &blob).await.unwrap(),
        Some(b"proof".to_vec())
    );
}
