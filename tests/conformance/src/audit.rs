//! The audit log: the chain of administrative changes.

use std::sync::Arc;
use std::time::Duration;

use domain::audit::{AdminChange, AuditEntry};
use domain::audit_chain::{self, AuditHead, AuditRecord};
use domain::{ApiKey, Cause, Fleet, Initiator, Tenant, TenantId, Timestamp};
use store::{AuditPage, AuditedWrite, PageQuery, Store, StoreError, Write};

use crate::access::key;
use crate::fixtures::tenant;

cases![
    administrative_change_has_an_audit_entry,
    superseded_change_has_no_audit_entry,
    audit_log_is_paged_newest_first,
    audit_logs_of_tenants_are_separate,
    drain_request_has_an_audit_entry,
    audit_entry_is_written_alone,
    audit_entries_form_a_chain,
    repeated_change_has_one_audit_entry,
    concurrent_changes_form_one_chain,
    audit_entry_is_read_by_its_number,
];

/// The number of administrators who make changes at once.
const ADMINS: u32 = 12;

/// How often each of them repeats a change that found the store busy.
const ATTEMPTS_MAX: u32 = 200;

fn contents(page: &AuditPage) -> Vec<AuditEntry> {
    page.entries.iter().map(|record| record.entry().unwrap()).collect()
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
    assert_eq!((contents(&page), page.next), (vec![changed, created(&made)], None));
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
    // The order is that of the changes, even if the clock of one process is late.
    for (revision, at) in [(0, 1_000_000_000_000), (1, 7), (2, 1_000_000_000_001)] {
        let settings = Tenant { revision, ..Tenant::new(tenant("acme")) };
        let change = entry(Some("acme"), at, AdminChange::DispatchStarted);
        let written = store.write_audited(AuditedWrite::Tenant(settings), change).await.unwrap();
        assert_eq!(written, Write::Committed);
    }
    let mut query = PageQuery::first(2);
    let first = store.audit(Some(&tenant("acme")), query.clone()).await.unwrap();
    let times = |page: &AuditPage| contents(page).iter().map(|entry| entry.at.0).collect::<Vec<_>>();
    assert_eq!(times(&first), [1_000_000_000_001, 7]);
    query.after = first.next.clone();
    let last = store.audit(Some(&tenant("acme")), query).await.unwrap();
    assert_eq!((times(&last), last.next), (vec![1_000_000_000_000], None));
}

async fn audit_logs_of_tenants_are_separate<S: Store>(store: Arc<S>) {
    let change = entry(None, 1, AdminChange::DispatchStarted);
    let written = store.write_audited(AuditedWrite::Fleet(Fleet::default()), change.clone()).await.unwrap();
    assert_eq!(written, Write::Committed);
    assert_eq!(store.fleet().await.unwrap(), Some(Fleet::default()));
    assert_eq!(contents(&store.audit(None, PageQuery::first(10)).await.unwrap()), [change]);
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
    assert_eq!(contents(&store.audit(None, PageQuery::first(10)).await.unwrap()), [asked(1)]);
}

async fn audit_entry_is_written_alone<S: Store>(store: Arc<S>) {
    let change = entry(None, 1, AdminChange::DeadLettersRedriven { limit: 5 });
    for _ in 0..2 {
        let written = store.write_audited(AuditedWrite::EntryOnly, change.clone()).await.unwrap();
        assert_eq!(written, Write::Committed);
    }
    assert_eq!(contents(&store.audit(None, PageQuery::first(10)).await.unwrap()), [change]);
}

/// The whole log, oldest entry first, and its head.
async fn chain<S: Store>(store: &S, tenant: Option<&TenantId>) -> (Vec<AuditRecord>, AuditHead) {
    let (mut records, mut query) = (Vec::new(), PageQuery::first(5));
    loop {
        let page = store.audit(tenant, query.clone()).await.unwrap();
        records.extend(page.entries);
        query.after = page.next;
        if query.after.is_none() {
            records.reverse();
            return (records, store.audit_head(tenant).await.unwrap());
        }
    }
}

async fn audit_entries_form_a_chain<S: Store>(store: Arc<S>) {
    let acme = tenant("acme");
    assert_eq!(store.audit_head(Some(&acme)).await.unwrap(), AuditHead::default());
    for (at, of) in [(1, Some("acme")), (2, None), (3, Some("acme")), (4, Some("umbrella"))] {
        let change = entry(of, at, AdminChange::DispatchStarted);
        assert_eq!(store.write_audited(AuditedWrite::EntryOnly, change).await.unwrap(), Write::Committed);
    }
    for (of, count) in [(Some(&acme), 2), (None, 1), (Some(&tenant("umbrella")), 1)] {
        let (records, head) = chain(&*store, of).await;
        assert_eq!((records.len() as u64, head.sequence), (count, count));
        assert_eq!(audit_chain::verify(of, &records, &head), Ok(()));
    }
}

/// A caller repeats a change whose reply was lost.
async fn repeated_change_has_one_audit_entry<S: Store>(store: Arc<S>) {
    let made = key("acme", "00ff");
    let other = entry(Some("acme"), 2, AdminChange::DispatchStarted);
    for change in [created(&made), other] {
        assert_eq!(store.write_audited(AuditedWrite::EntryOnly, change).await.unwrap(), Write::Committed);
    }
    let written = store.write_audited(AuditedWrite::EntryOnly, created(&made)).await.unwrap();
    assert_eq!(written, Write::Committed);
    let (records, head) = chain(&*store, Some(&tenant("acme"))).await;
    assert_eq!(records.len(), 2);
    assert_eq!(audit_chain::verify(Some(&tenant("acme")), &records, &head), Ok(()));
}

async fn concurrent_changes_form_one_chain<S: Store>(store: Arc<S>) {
    let mut admins = tokio::task::JoinSet::new();
    for admin in 0..ADMINS {
        let store = Arc::clone(&store);
        admins.spawn(async move {
            let made = key("acme", &format!("{admin:04}"));
            let change = AuditEntry { at: Timestamp(i64::from(admin)), ..created(&made) };
            let restarted = entry(Some("acme"), i64::from(admin), AdminChange::DispatchStarted);
            write_until_done(&*store, AuditedWrite::Key(made), change).await;
            write_until_done(&*store, AuditedWrite::EntryOnly, restarted).await;
        });
    }
    admins.join_all().await;
    let acme = tenant("acme");
    let (records, head) = chain(&*store, Some(&acme)).await;
    assert_eq!(records.len(), 2 * ADMINS as usize);
    assert_eq!(audit_chain::verify(Some(&acme), &records, &head), Ok(()));
    let keys = store.keys(&acme, PageQuery::first(2 * ADMINS)).await.unwrap().keys;
    assert_eq!(keys.len(), ADMINS as usize);
}

async fn write_until_done<S: Store>(store: &S, write: AuditedWrite, entry: AuditEntry) {
    for attempt in 0..ATTEMPTS_MAX {
        match store.write_audited(write.clone(), entry.clone()).await {
            Ok(written) => return assert_eq!(written, Write::Committed, "attempt {attempt}"),
            Err(StoreError::Busy { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the store stayed busy");
}

async fn audit_entry_is_read_by_its_number<S: Store>(store: Arc<S>) {
    let acme = tenant("acme");
    for at in 1..=2 {
        let change = entry(Some("acme"), at, AdminChange::DispatchStarted);
        store.write_audited(AuditedWrite::EntryOnly, change).await.unwrap();
    }
    let second = store.audit_record(Some(&acme), 2).await.unwrap().unwrap();
    assert_eq!((second.sequence, second.entry().unwrap().at), (2, Timestamp(2)));
    for (of, sequence) in [(Some(&acme), 0), (Some(&acme), 3), (Some(&tenant("umbrella")), 2), (None, 2)] {
        assert_eq!(store.audit_record(of, sequence).await.unwrap(), None);
    }
}
