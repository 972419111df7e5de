//! API keys.

use std::sync::Arc;

use domain::audit::{AdminChange, AuditEntry};
use domain::{ApiKey, Cause, Digest, Fleet, Initiator, Role, Tenant, Timestamp};
use store::{AuditedWrite, KeyPage, PageQuery, Store, Write};

use crate::fixtures::tenant;

cases![
    api_key_is_found_by_id_within_its_tenant,
    stale_write_does_not_replace_an_api_key,
    api_keys_of_one_tenant_are_listed_by_id,
    api_key_pages_have_no_duplicates,
    administrative_change_has_an_audit_entry,
    superseded_change_has_no_audit_entry,
    audit_log_is_paged_newest_first,
    audit_logs_of_tenants_are_separate,
    drain_request_has_an_audit_entry,
    audit_entry_is_written_alone,
];

fn key(of: &str, id: &str) -> ApiKey {
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

fn entry(of: Option<&str>, at: i64, change: AdminChange) -> AuditEntry {
    let by = Initiator::new(Cause::User, "ada").with("credential", "key:00ff");
    AuditEntry { tenant: of.map(tenant), at: Timestamp(at), by, change }
}

fn created(key: &ApiKey) -> AuditEntry {
    let (id, person) = (key.id.clone(), key.person.clone());
    let change = AdminChange::KeyCreated { key: id, person, roles: key.roles.clone(), expires_at: None };
    entry(Some(key.tenant.as_str()), 1, change)
}

async fn administrative_change_has_an_audit_entry<S: Store>(store: Arc<S>) {
    let made = key("acme", "00ff");
    let written = store.write_audited(AuditedWrite::Key(made.clone()), created(&made)).await.unwrap();
    assert_eq!(written, Write::Committed);
    assert_eq!(store.key(&made.tenant, &made.id).await.unwrap().as_ref(), Some(&made));
    let settings = Tenant::new(tenant("acme"));
    let changed = entry(Some("acme"), 2, AdminChange::DispatchStarted);
    let written = store.write_audited(AuditedWrite::Tenant(settings.clone()), changed.clone()).await.unwrap();
    assert_eq!(written, Write::Committed);
    assert_eq!(store.tenant(&tenant("acme")).await.unwrap(), Some(settings));
    let page = store.audit(Some(&tenant("acme")), PageQuery::first(10)).await.unwrap();
    assert_eq!((page.entries, page.next), (vec![changed, created(&made)], None));
}

async fn superseded_change_has_no_audit_entry<S: Store>(store: Arc<S>) {
    let made = key("acme", "00ff");
    store.put_key(made.clone()).await.unwrap();
    let written = store.write_audited(AuditedWrite::Key(made.clone()), created(&made)).await.unwrap();
    assert_eq!(written, Write::Superseded);
    let page = store.audit(Some(&tenant("acme")), PageQuery::first(10)).await.unwrap();
    assert_eq!(page.entries, []);
}

async fn audit_log_is_paged_newest_first<S: Store>(store: Arc<S>) {
    for (revision, at) in [(0, 7), (1, 1_000_000_000_000), (2, 1_000_000_000_001)] {
        let settings = Tenant { revision, ..Tenant::new(tenant("acme")) };
        let change = entry(Some("acme"), at, AdminChange::DispatchStarted);
        let written = store.write_audited(AuditedWrite::Tenant(settings), change).await.unwrap();
        assert_eq!(written, Write::Committed);
    }
    let mut query = PageQuery::first(2);
    let first = store.audit(Some(&tenant("acme")), query.clone()).await.unwrap();
    let times = |entries: &[AuditEntry]| entries.iter().map(|entry| entry.at.0).collect::<Vec<_>>();
    assert_eq!(times(&first.entries), [1_000_000_000_001, 1_000_000_000_000]);
    query.after = first.next;
    let last = store.audit(Some(&tenant("acme")), query).await.unwrap();
    assert_eq!((times(&last.entries), last.next), (vec![7], None));
}

async fn audit_logs_of_tenants_are_separate<S: Store>(store: Arc<S>) {
    let change = entry(None, 1, AdminChange::DispatchStarted);
    let written = store.write_audited(AuditedWrite::Fleet(Fleet::default()), change.clone()).await.unwrap();
    assert_eq!(written, Write::Committed);
    assert_eq!(store.fleet().await.unwrap(), Some(Fleet::default()));
    assert_eq!(store.audit(None, PageQuery::first(10)).await.unwrap().entries, [change]);
    assert_eq!(store.audit(Some(&tenant("acme")), PageQuery::first(10)).await.unwrap().entries, []);
}

async fn drain_request_has_an_audit_entry<S: Store>(store: Arc<S>) {
    let worker = crate::worker_registry::worker("worker-1");
    let asked = |at| {
        let (worker, reason) = (worker.worker.clone(), "release".to_owned());
        entry(None, at, AdminChange::DrainRequested { worker, reason })
    };
    let write = || AuditedWrite::Worker(worker.clone());
    assert_eq!(store.write_audited(write(), asked(1)).await.unwrap(), Write::Committed);
    assert_eq!(store.worker(&worker.worker).await.unwrap().as_ref(), Some(&worker));
    assert_eq!(store.write_audited(write(), asked(2)).await.unwrap(), Write::Superseded);
    assert_eq!(store.audit(None, PageQuery::first(10)).await.unwrap().entries, [asked(1)]);
}

async fn audit_entry_is_written_alone<S: Store>(store: Arc<S>) {
    let change = entry(None, 1, AdminChange::DeadLettersRedriven { limit: 5 });
    for _ in 0..2 {
        let written = store.write_audited(AuditedWrite::EntryOnly, change.clone()).await.unwrap();
        assert_eq!(written, Write::Committed);
    }
    assert_eq!(store.audit(None, PageQuery::first(10)).await.unwrap().entries, [change]);
}
