//! The inbox: an event is stored once and processed once.

use std::collections::BTreeSet;
use std::slice::from_ref;
use std::sync::Arc;

use domain::inbox::{DEDUPE_TTL, DUPLICATE_WITHIN, START_DUE_AFTER};
use domain::payload::Fingerprint;
use domain::plan::{Schedule, TriggeredBy};
use domain::{
    AppliedWorkflow, Cause, Digest, IdempotencyKey, InboxEntry, InboxStatus, Initiator, Millis, Payload,
    Source, Timestamp,
};
use serde_json::json;
use store::{Clock as _, Due, DueSchedule, Reopen, Store, StoredEntry, SystemClock, Write};

use crate::fixtures::{NOON, tenant};

cases![
    inbox_entry_is_found_by_its_run,
    same_key_returns_the_first_entry,
    same_proof_returns_the_first_entry,
    github_deliveries_are_remembered_longer,
    two_tenants_can_receive_the_same_event,
    one_of_many_concurrent_deliveries_is_new,
    same_dedupe_key_returns_the_first_entry,
    one_of_many_concurrent_duplicates_is_new,
    inbox_status_is_set_once,
    pending_entry_is_due_until_it_is_processed,
    pending_entry_never_expires,
    rejected_entry_is_reopened_once_per_rejection,
    later_workflow_version_replaces_an_earlier_one,
    due_schedule_is_found_and_advances_once,
    reapplied_schedule_keeps_its_due_time,
    only_applied_versions_are_stored,
];

fn entry(owner: &str, key: &str, proof: &str) -> InboxEntry {
    let key = IdempotencyKey::new(key).unwrap();
    let body = json!({ "record": { "sys_id": "abc" } });
    InboxEntry {
        run: InboxEntry::run_of(&tenant(owner), &key),
        key,
        source: Source::ServiceNow,
        topic: Some("incident".to_owned()),
        record: None,
        proof: Digest::of_bytes(proof.as_bytes()),
        dedupe_key: None,
        fingerprint: Fingerprint::of(&body),
        body: Payload::Inline(body),
        start_request: None,
        at: SystemClock.now(),
        tries: 0,
        status: InboxStatus::Pending,
    }
}

/// When an entry whose status is set now may be deleted.
fn later() -> Timestamp {
    SystemClock.now() + DEDUPE_TTL
}

fn duplicate_entry(accepted: StoredEntry) -> InboxEntry {
    match accepted {
        StoredEntry::Duplicate(entry) => *entry,
        StoredEntry::New => unreachable!("expected a duplicate"),
    }
}

async fn inbox_entry_is_found_by_its_run<S: Store>(store: Arc<S>) {
    let received = entry("acme", "sn:1", "proof");
    assert_eq!(store.entry(&received.run).await.unwrap(), None);
    assert_eq!(store.accept(received.clone()).await.unwrap(), StoredEntry::New);
    assert_eq!(store.entry(&received.run).await.unwrap(), Some(received));
}

async fn same_key_returns_the_first_entry<S: Store>(store: Arc<S>) {
    let first = entry("acme", "sn:1", "proof");
    store.accept(first.clone()).await.unwrap();
    let again = InboxEntry { fingerprint: Fingerprint::of(&json!(2)), ..entry("acme", "sn:1", "another") };
    assert_eq!(duplicate_entry(store.accept(again).await.unwrap()), first);
    assert_eq!(store.entry(&first.run).await.unwrap(), Some(first));
}

async fn same_proof_returns_the_first_entry<S: Store>(store: Arc<S>) {
    let first = entry("acme", "github:1", "proof");
    store.accept(first.clone()).await.unwrap();
    let again = entry("acme", "github:2", "proof");
    assert_eq!(duplicate_entry(store.accept(again.clone()).await.unwrap()), first);
    assert_eq!(store.entry(&again.run).await.unwrap(), None);
}

async fn github_deliveries_are_remembered_longer<S: Store>(store: Arc<S>) {
    let long_ago = SystemClock.now().earlier(DEDUPE_TTL).earlier(Millis::hours(1));
    for source in [Source::GitHub, Source::ServiceNow] {
        let sent = |id| InboxEntry { source, ..entry("acme", &format!("{source}:{id}"), source.as_str()) };
        let first = InboxEntry { at: long_ago, status: InboxStatus::Started, ..sent(1) };
        assert_eq!(store.accept(first.clone()).await.unwrap(), StoredEntry::New);
        let known = match store.accept(sent(2)).await.unwrap() {
            StoredEntry::Duplicate(known) => Some(*known),
            StoredEntry::New => None,
        };
        assert_eq!(known, (source == Source::GitHub).then_some(first), "{source}");
    }
}

async fn two_tenants_can_receive_the_same_event<S: Store>(store: Arc<S>) {
    for owner in ["acme", "umbrella"] {
        assert_eq!(store.accept(entry(owner, "sn:1", "proof")).await.unwrap(), StoredEntry::New);
    }
}

async fn one_of_many_concurrent_deliveries_is_new<S: Store>(store: Arc<S>) {
    let deliveries = (0..8).map(|n| {
        let store = Arc::clone(&store);
        // Half of the deliveries have another key and the same proof.
        let key = if n % 2 == 0 { "github:1".to_owned() } else { format!("github:{n}") };
        tokio::spawn(async move {
            loop {
                // A store may be busy with concurrent deliveries; the sender tries again.
                if let Ok(accepted) = store.accept(entry("acme", &key, "proof")).await {
                    return accepted;
                }
            }
        })
    });
    let mut new = 0;
    for delivery in deliveries.collect::<Vec<_>>() {
        new += usize::from(delivery.await.unwrap() == StoredEntry::New);
    }
    assert_eq!(new, 1);
}

/// A delivery with a dedupe key, and a key and a proof of its own.
fn with_dedupe_key(owner: &str, number: usize, what: &str) -> InboxEntry {
    let name = format!("github:{number}");
    InboxEntry { dedupe_key: Some(Digest::of_bytes(what.as_bytes())), ..entry(owner, &name, &name) }
}

async fn same_dedupe_key_returns_the_first_entry<S: Store>(store: Arc<S>) {
    let first = with_dedupe_key("acme", 1, "opened");
    assert_eq!(store.accept(first.clone()).await.unwrap(), StoredEntry::New);
    let later =
        |number, after| InboxEntry { at: first.at + after, ..with_dedupe_key("acme", number, "opened") };
    assert_eq!(duplicate_entry(store.accept(later(2, Millis(4_999))).await.unwrap()), first);
    assert_eq!(store.entry(&later(2, Millis(0)).run).await.unwrap(), None);
    // The clock of another receiver may be behind.
    let earlier = InboxEntry { at: Timestamp(first.at.0 - 4_999), ..with_dedupe_key("acme", 3, "opened") };
    assert_eq!(duplicate_entry(store.accept(earlier).await.unwrap()), first);

    assert_eq!(store.accept(with_dedupe_key("acme", 4, "closed")).await.unwrap(), StoredEntry::New);
    assert_eq!(store.accept(with_dedupe_key("umbrella", 5, "opened")).await.unwrap(), StoredEntry::New);
    let next = later(6, DUPLICATE_WITHIN);
    assert_eq!(store.accept(next.clone()).await.unwrap(), StoredEntry::New);
    assert_eq!(duplicate_entry(store.accept(later(7, Millis(9_999))).await.unwrap()), next);
}

async fn one_of_many_concurrent_duplicates_is_new<S: Store>(store: Arc<S>) {
    let deliveries = (0..8).map(|number| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            loop {
                if let Ok(accepted) = store.accept(with_dedupe_key("acme", number, "opened")).await {
                    return accepted;
                }
            }
        })
    });
    let mut new = 0;
    for delivery in deliveries.collect::<Vec<_>>() {
        new += usize::from(delivery.await.unwrap() == StoredEntry::New);
    }
    assert_eq!(new, 1);
}

async fn inbox_status_is_set_once<S: Store>(store: Arc<S>) {
    let received = entry("acme", "sn:1", "proof");
    assert_eq!(
        store.set_status(&received.run, InboxStatus::Started, later()).await.unwrap(),
        Write::Superseded
    );
    store.accept(received.clone()).await.unwrap();
    assert_eq!(
        store.set_status(&received.run, InboxStatus::Started, later()).await.unwrap(),
        Write::Committed
    );
    assert_eq!(
        store.set_status(&received.run, InboxStatus::rejected("late", NOON), later()).await.unwrap(),
        Write::Superseded
    );
    assert_eq!(store.entry(&received.run).await.unwrap().unwrap().status, InboxStatus::Started);
    assert_eq!(duplicate_entry(store.accept(received).await.unwrap()).status, InboxStatus::Started);
}

async fn pending_entry_is_due_until_it_is_processed<S: Store>(store: Arc<S>) {
    let received = entry("acme", "sn:1", "proof");
    store.accept(received.clone()).await.unwrap();
    let due_at = received.at + START_DUE_AFTER;
    let due = async |at| store.due(at, 10).await.unwrap();
    assert_eq!(due(due_at.earlier(Millis(1))).await, []);
    assert_eq!(due(due_at).await, [Due::Entry(received.run.clone())]);
    let others = BTreeSet::from([tenant("acme")]);
    assert_eq!(store.due_excluding(&others, due_at, 10).await.unwrap(), []);

    let postpone = async |to| store.postpone_entry(&received.run, to).await.unwrap();
    let later_on = due_at + Millis::mins(1);
    assert_eq!(postpone(later_on).await, Write::Committed);
    assert_eq!((due(due_at).await.len(), due(later_on).await.len()), (0, 1));
    let refused = InboxStatus::rejected("two workflows want it", NOON);
    store.set_status(&received.run, refused.clone(), later()).await.unwrap();
    assert_eq!(due(later_on).await, []);
    assert_eq!(postpone(later_on).await, Write::Superseded);

    store.reopen(&received.run, Reopen { was: refused, tries: 1, due_at }).await.unwrap();
    assert_eq!(due(due_at).await, [Due::Entry(received.run)]);
}

/// However long it waits, the first delivery is known, and other deliveries do not delete it.
async fn pending_entry_never_expires<S: Store>(store: Arc<S>) {
    let years_ago = SystemClock.now().earlier(Millis::hours(3 * 365 * 24));
    let first = InboxEntry { at: years_ago, ..entry("acme", "sn:1", "proof") };
    store.accept(first.clone()).await.unwrap();
    for number in 2..20 {
        store.accept(entry("acme", &format!("sn:{number}"), &format!("proof-{number}"))).await.unwrap();
    }
    let again = InboxEntry { at: SystemClock.now(), ..first.clone() };
    assert_eq!(duplicate_entry(store.accept(again).await.unwrap()), first);

    let refused = InboxStatus::rejected("two workflows want it", NOON);
    store.set_status(&first.run, refused.clone(), years_ago).await.unwrap();
    store.reopen(&first.run, Reopen { was: refused, tries: 0, due_at: NOON }).await.unwrap();
    store.accept(entry("acme", "sn:20", "proof-20")).await.unwrap();
    assert_eq!(store.entry(&first.run).await.unwrap(), Some(first));
}

async fn rejected_entry_is_reopened_once_per_rejection<S: Store>(store: Arc<S>) {
    let received = entry("acme", "sn:1", "proof");
    store.accept(received.clone()).await.unwrap();
    let refused = InboxStatus::rejected("two workflows want it", NOON);
    let again = Reopen { was: refused.clone(), tries: 1, due_at: later() };
    assert_eq!(store.reopen(&received.run, again.clone()).await.unwrap(), Write::Superseded);
    store.set_status(&received.run, refused.clone(), later()).await.unwrap();
    assert_eq!(duplicate_entry(store.accept(received.clone()).await.unwrap()).status, refused);

    assert_eq!(store.reopen(&received.run, again.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.reopen(&received.run, again).await.unwrap(), Write::Superseded);
    let waits = store.entry(&received.run).await.unwrap();
    assert_eq!(waits, Some(InboxEntry { tries: 1, ..received.clone() }));
    assert_eq!(
        store.set_status(&received.run, InboxStatus::Started, later()).await.unwrap(),
        Write::Committed
    );
    assert_eq!(store.entry(&received.run).await.unwrap().unwrap().tries, 1);
}

fn named(name: &str, version: u32, content: &str) -> AppliedWorkflow {
    AppliedWorkflow {
        tenant: tenant("acme"),
        workflow: name.parse().unwrap(),
        version,
        plan: Digest::of_bytes(content.as_bytes()),
        triggered_by: Some(TriggeredBy {
            source: Source::ServiceNow,
            topic: None,
            when: None,
            schedule: None,
        }),
        at: Timestamp(1_750_000_000_000),
        by: Initiator::new(Cause::User, "ada"),
    }
}

async fn only_applied_versions_are_stored<S: Store>(store: Arc<S>) {
    let (acme, triage) = (tenant("acme"), "triage".parse().unwrap());
    assert_eq!(store.versions(&acme, &triage).await.unwrap(), []);
    let (first, tenth) = (named("triage", 1, "first"), named("triage", 10, "tenth"));
    let ninth = named("triage", 9, "ninth");
    let again = AppliedWorkflow { by: Initiator::new(Cause::User, "grace"), ..tenth.clone() };
    for applied in [&first, &ninth, &tenth, &again, &named("triage-two", 3, "another")] {
        assert_eq!(store.apply(applied.clone(), None).await.unwrap(), Write::Committed);
    }
    for refused in [named("triage", 2, "late"), named("triage", 10, "other")] {
        assert_eq!(store.apply(refused, None).await.unwrap(), Write::Superseded);
    }
    assert_eq!(store.versions(&acme, &triage).await.unwrap(), [again, ninth, first]);
    assert_eq!(store.versions(&tenant("umbrella"), &triage).await.unwrap(), []);
}

async fn later_workflow_version_replaces_an_earlier_one<S: Store>(store: Arc<S>) {
    assert_eq!(store.applied(&tenant("acme")).await.unwrap(), []);
    let (old, new) = (named("triage", 1, "old"), named("triage", 2, "new"));
    for (applied, becomes) in [
        (&old, Write::Committed),
        (&old, Write::Committed),
        (&named("triage", 1, "other"), Write::Superseded),
        (&new, Write::Committed),
        (&old, Write::Superseded),
    ] {
        assert_eq!(store.apply(applied.clone(), None).await.unwrap(), becomes, "{applied:?}");
    }
    let another = named("assign", 1, "another");
    store.apply(another.clone(), None).await.unwrap();
    assert_eq!(store.applied(&tenant("acme")).await.unwrap(), [another, new]);
    assert_eq!(store.applied(&tenant("umbrella")).await.unwrap(), []);
}

fn scheduled(name: &str, version: u32, cron: &str) -> AppliedWorkflow {
    let schedule = Schedule { cron: cron.parse().unwrap(), zone: "UTC".to_owned() };
    AppliedWorkflow {
        tenant: tenant("acme"),
        workflow: name.parse().unwrap(),
        version,
        plan: Digest::of_bytes(format!("{name} {version}").as_bytes()),
        triggered_by: Some(TriggeredBy {
            source: Source::Schedule,
            topic: None,
            when: None,
            schedule: Some(schedule),
        }),
        at: NOON,
        by: Initiator::new(Cause::User, "ada"),
    }
}

/// `minutes` after noon.
fn minutes(minutes: u64) -> Timestamp {
    NOON + Millis::mins(minutes)
}

async fn due_schedule_is_found_and_advances_once<S: Store>(store: Arc<S>) {
    let (hourly, daily) = (scheduled("hourly", 1, "0 * * * *"), scheduled("daily", 1, "0 9 * * *"));
    store.apply(daily.clone(), Some(minutes(10))).await.unwrap();
    store.apply(hourly.clone(), Some(minutes(5))).await.unwrap();
    store
        .apply(AppliedWorkflow { triggered_by: None, ..scheduled("never", 1, "0 9 * * *") }, None)
        .await
        .unwrap();
    assert_eq!(store.due_schedules(minutes(4), 10).await.unwrap(), []);
    let due = DueSchedule { applied: hourly, at: minutes(5) };
    let other = DueSchedule { applied: daily, at: minutes(10) };
    assert_eq!(store.due_schedules(minutes(5), 10).await.unwrap(), from_ref(&due));
    assert_eq!(store.due_schedules(minutes(10), 10).await.unwrap(), [due.clone(), other.clone()]);
    assert_eq!(store.due_schedules(minutes(10), 1).await.unwrap(), from_ref(&due));

    assert_eq!(store.reschedule(&due, Some(minutes(65))).await.unwrap(), Write::Committed);
    assert_eq!(store.reschedule(&due, Some(minutes(66))).await.unwrap(), Write::Superseded);
    assert_eq!(store.due_schedules(minutes(10), 10).await.unwrap(), from_ref(&other));
    assert_eq!(store.reschedule(&other, None).await.unwrap(), Write::Committed);
    let later = store.due_schedules(minutes(100), 10).await.unwrap();
    assert_eq!(later, [DueSchedule { at: minutes(65), ..due }]);
}

async fn reapplied_schedule_keeps_its_due_time<S: Store>(store: Arc<S>) {
    let due = |applied: &AppliedWorkflow, at| DueSchedule { applied: applied.clone(), at };
    let first = scheduled("nightly", 1, "0 2 * * *");
    store.apply(first.clone(), Some(minutes(5))).await.unwrap();
    let second = scheduled("nightly", 2, "0 2 * * *");
    store.apply(second.clone(), Some(minutes(50))).await.unwrap();
    assert_eq!(store.due_schedules(minutes(99), 10).await.unwrap(), [due(&second, minutes(5))]);
    assert_eq!(store.reschedule(&due(&first, minutes(5)), None).await.unwrap(), Write::Superseded);
    let third = scheduled("nightly", 3, "0 3 * * *");
    store.apply(third.clone(), Some(minutes(60))).await.unwrap();
    assert_eq!(store.due_schedules(minutes(99), 10).await.unwrap(), [due(&third, minutes(60))]);
    store
        .apply(AppliedWorkflow { triggered_by: None, ..scheduled("nightly", 4, "0 3 * * *") }, None)
        .await
        .unwrap();
    assert_eq!(store.due_schedules(minutes(99), 10).await.unwrap(), []);
}
