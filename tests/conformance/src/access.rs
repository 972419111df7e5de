//! API keys.

use std::sync::Arc;

use domain::{ApiKey, Cause, Digest, Initiator, Role, Timestamp};
use store::{KeyPage, PageQuery, Store, Write};

use crate::fixtures::tenant;

cases![
    api_key_is_found_by_id_within_its_tenant,
    stale_write_does_not_replace_an_api_key,
    api_keys_of_one_tenant_are_listed_by_id,
    api_key_pages_have_no_duplicates,
];

pub(crate) fn key(of: &str, id: &str) -> ApiKey {
    ApiKey {
        tenant: tenant(of),
        id: id.parse().unwrap(),
        person: "ada".parse().unwrap(),
        roles: [Role::Operator, Role::Approver].into_iter().collect(),
        secret: Digest::of_bytes(id.as_bytes()),
        note: "for the pipeline".to_owned(),
        created_at: Timestamp(1),
        created_by: Initiator::new(Cause::User, "root"),
        expires_at: Some(Timestamp(2)),
        revoked_at: None,
        revoked_by: None,
        revision: 0,
    }
}

async fn api_key_is_found_by_id_within_its_tenant<S: Store>(store: Arc<S>) {
    let made = key("acme", "00ff");
    assert_eq!(store.put_key(made.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.key(&made.tenant, &made.id).await.unwrap().as_ref(), Some(&made));
    assert_eq!(store.key(&tenant("umbrella"), &made.id).await.unwrap(), None);
    assert_eq!(store.key(&made.tenant, &"00fe".parse().unwrap()).await.unwrap(), None);
}

async fn stale_write_does_not_replace_an_api_key<S: Store>(store: Arc<S>) {
    let made = key("acme", "00ff");
    assert_eq!(store.put_key(made.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.put_key(made.clone()).await.unwrap(), Write::Superseded);
    let revoked = ApiKey { revoked_at: Some(Timestamp(3)), revision: 1, ..made.clone() };
    assert_eq!(store.put_key(revoked.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.put_key(ApiKey { revision: 1, ..made.clone() }).await.unwrap(), Write::Superseded);
    assert_eq!(store.key(&made.tenant, &made.id).await.unwrap(), Some(revoked));
}

async fn api_keys_of_one_tenant_are_listed_by_id<S: Store>(store: Arc<S>) {
    for made in [key("acme", "02"), key("umbrella", "03"), key("acme", "01")] {
        assert_eq!(store.put_key(made).await.unwrap(), Write::Committed);
    }
    let page = store.keys(&tenant("acme"), PageQuery::first(2)).await.unwrap();
    assert_eq!(page, KeyPage { keys: vec![key("acme", "01"), key("acme", "02")], next: None });
    assert_eq!(
        store.keys(&tenant("initech"), PageQuery::first(2)).await.unwrap(),
        KeyPage { keys: Vec::new(), next: None }
    );
}

async fn api_key_pages_have_no_duplicates<S: Store>(store: Arc<S>) {
    let made: Vec<_> = ["01", "02", "03", "04", "05"].map(|id| key("acme", id)).into();
    for key in made.iter().cloned().chain([key("umbrella", "02")]) {
        assert_eq!(store.put_key(key).await.unwrap(), Write::Committed);
    }
    for limit in 1..=6 {
        let mut query = PageQuery::first(limit);
        let mut listed = Vec::new();
        loop {
            let page = store.keys(&tenant("acme"), query.clone()).await.unwrap();
            assert!(page.keys.len() <= limit as usize, "{limit}");
            listed.extend(page.keys);
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        assert_eq!(listed, made, "{limit}");
    }
}
