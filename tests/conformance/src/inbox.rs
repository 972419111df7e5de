//! The inbox: what came is kept once, and taken up once.

use std::slice::from_ref;
use std::sync::Arc;

use domain::inbox::{DUPLICATE_WITHIN, REMEMBERED_FOR};
use domain::payload::Fingerprint;
use domain::plan::{Schedule, TriggeredBy};
use domain::{
    Applied, Cause, Digest, IdempotencyKey, InboxEntry, InboxStatus, Initiator, Millis, Payload, Source,
    Timestamp,
};
use serde_json::json;
use store::{Accepted, Again, Clock as _, DueSchedule, Store, SystemClock, Write};

use crate::fixtures::{NOON, tenant};

cases![
    what_came_is_kept_and_found_by_its_run,
    the_same_key_again_finds_the_first,
    the_same_proof_under_another_key_finds_the_first,
    what_github_delivered_is_known_for_longer_than_what_names_its_time,
    two_tenants_can_be_sent_the_same,
    of_many_deliveries_at_once_one_is_new,
    what_is_told_again_at_once_in_other_words_finds_the_first,
    of_many_that_tell_the_same_at_once_one_is_new,
    an_arrival_is_settled_once,
    an_arrival_that_was_refused_waits_again_once_for_each_time,
    a_workflow_is_put_to_use_and_replaced_by_a_later_version,
    a_schedule_is_found_when_it_is_due_and_moves_on_once,
    a_schedule_that_is_put_to_use_again_is_due_when_it_was,
    every_version_that_was_put_to_use_is_kept_and_one_that_was_not_is_not,
];

fn entry(owner: &str, key: &str, proof: &str) -> InboxEntry {
    let key = IdempotencyKey::new(key).unwrap();
    let body = json!({ "record": { "sys_id": "abc" } });
    InboxEntry {
        run: InboxEntry::run_of(&tenant(owner), &key),
        key,
        source: Source::ServiceNow,
        about: Some("incident".to_owned()),
        record: None,
        proof: Digest::of_bytes(proof.as_bytes()),
        dedupe_key: None,
        fingerprint: Fingerprint::of(&body),
        body: Payload::Inline(body),
        asked: None,
        at: SystemClock.now(),
        tries: 0,
        status: InboxStatus::Pending,
    }
}

/// When what is settled now may be forgotten.
fn later() -> Timestamp {
    SystemClock.now() + REMEMBERED_FOR
}

fn known(accepted: Accepted) -> InboxEntry {
    match accepted {
        Accepted::Known(known) => *known,
        Accepted::New => unreachable!("it was here before"),
    }
}

async fn what_came_is_kept_and_found_by_its_run<S: Store>(store: Arc<S>) {
    let came = entry("acme", "sn:1", "proof");
    assert_eq!(store.entry(&came.run).await.unwrap(), None);
    assert_eq!(store.accept(came.clone()).await.unwrap(), Accepted::New);
    assert_eq!(store.entry(&came.run).await.unwrap(), Some(came));
}

async fn the_same_key_again_finds_the_first<S: Store>(store: Arc<S>) {
    let first = entry("acme", "sn:1", "proof");
    store.accept(first.clone()).await.unwrap();
    let again = InboxEntry { fingerprint: Fingerprint::of(&json!(2)), ..entry("acme", "sn:1", "another") };
    assert_eq!(known(store.accept(again).await.unwrap()), first);
    assert_eq!(store.entry(&first.run).await.unwrap(), Some(first));
}

async fn the_same_proof_under_another_key_finds_the_first<S: Store>(store: Arc<S>) {
    let first = entry("acme", "github:1", "proof");
    store.accept(first.clone()).await.unwrap();
    let again = entry("acme", "github:2", "proof");
    assert_eq!(known(store.accept(again.clone()).await.unwrap()), first);
    assert_eq!(store.entry(&again.run).await.unwrap(), None);
}

async fn what_github_delivered_is_known_for_longer_than_what_names_its_time<S: Store>(store: Arc<S>) {
    let long_ago = SystemClock.now().earlier(REMEMBERED_FOR).earlier(Millis::hours(1));
    for source in [Source::GitHub, Source::ServiceNow] {
        let sent = |id| InboxEntry { source, ..entry("acme", &format!("{source}:{id}"), source.as_str()) };
        let first = InboxEntry { at: long_ago, status: InboxStatus::Started, ..sent(1) };
        assert_eq!(store.accept(first.clone()).await.unwrap(), Accepted::New);
        let known = match store.accept(sent(2)).await.unwrap() {
            Accepted::Known(known) => Some(*known),
            Accepted::New => None,
        };
        assert_eq!(known, (source == Source::GitHub).then_some(first), "{source}");
    }
}

async fn two_tenants_can_be_sent_the_same<S: Store>(store: Arc<S>) {
    for owner in ["acme", "umbrella"] {
        assert_eq!(store.accept(entry(owner, "sn:1", "proof")).await.unwrap(), Accepted::New);
    }
}

async fn of_many_deliveries_at_once_one_is_new<S: Store>(store: Arc<S>) {
    let deliveries = (0..8).map(|n| {
        let store = Arc::clone(&store);
        // Half of them under another key: then it is the proof that tells.
        let key = if n % 2 == 0 { "github:1".to_owned() } else { format!("github:{n}") };
        tokio::spawn(async move {
            loop {
                // A store may be short of breath when all come at once; whoever delivers tries again.
                if let Ok(accepted) = store.accept(entry("acme", &key, "proof")).await {
                    return accepted;
                }
            }
        })
    });
    let mut new = 0;
    for delivery in deliveries.collect::<Vec<_>>() {
        new += usize::from(delivery.await.unwrap() == Accepted::New);
    }
    assert_eq!(new, 1);
}

/// A delivery that tells what others tell, under a key and a proof of its own.
fn telling(owner: &str, number: usize, what: &str) -> InboxEntry {
    let name = format!("github:{number}");
    InboxEntry { dedupe_key: Some(Digest::of_bytes(what.as_bytes())), ..entry(owner, &name, &name) }
}

async fn what_is_told_again_at_once_in_other_words_finds_the_first<S: Store>(store: Arc<S>) {
    let first = telling("acme", 1, "opened");
    assert_eq!(store.accept(first.clone()).await.unwrap(), Accepted::New);
    let later = |number, after| InboxEntry { at: first.at + after, ..telling("acme", number, "opened") };
    assert_eq!(known(store.accept(later(2, Millis(4_999))).await.unwrap()), first);
    assert_eq!(store.entry(&later(2, Millis(0)).run).await.unwrap(), None);
    // Another clock may be behind.
    let earlier = InboxEntry { at: Timestamp(first.at.0 - 4_999), ..telling("acme", 3, "opened") };
    assert_eq!(known(store.accept(earlier).await.unwrap()), first);

    assert_eq!(store.accept(telling("acme", 4, "closed")).await.unwrap(), Accepted::New);
    assert_eq!(store.accept(telling("umbrella", 5, "opened")).await.unwrap(), Accepted::New);
    let next = later(6, DUPLICATE_WITHIN);
    assert_eq!(store.accept(next.clone()).await.unwrap(), Accepted::New);
    assert_eq!(known(store.accept(later(7, Millis(9_999))).await.unwrap()), next);
}

async fn of_many_that_tell_the_same_at_once_one_is_new<S: Store>(store: Arc<S>) {
    let deliveries = (0..8).map(|number| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            loop {
                if let Ok(accepted) = store.accept(telling("acme", number, "opened")).await {
                    return accepted;
                }
            }
        })
    });
    let mut new = 0;
    for delivery in deliveries.collect::<Vec<_>>() {
        new += usize::from(delivery.await.unwrap() == Accepted::New);
    }
    assert_eq!(new, 1);
}

async fn an_arrival_is_settled_once<S: Store>(store: Arc<S>) {
    let came = entry("acme", "sn:1", "proof");
    assert_eq!(store.settle(&came.run, InboxStatus::Started, later()).await.unwrap(), Write::Superseded);
    store.accept(came.clone()).await.unwrap();
    assert_eq!(store.settle(&came.run, InboxStatus::Started, later()).await.unwrap(), Write::Committed);
    assert_eq!(
        store.settle(&came.run, InboxStatus::rejected("late", NOON), later()).await.unwrap(),
        Write::Superseded
    );
    assert_eq!(store.entry(&came.run).await.unwrap().unwrap().status, InboxStatus::Started);
    assert_eq!(known(store.accept(came).await.unwrap()).status, InboxStatus::Started);
}

async fn an_arrival_that_was_refused_waits_again_once_for_each_time<S: Store>(store: Arc<S>) {
    let came = entry("acme", "sn:1", "proof");
    store.accept(came.clone()).await.unwrap();
    let refused = InboxStatus::rejected("two workflows want it", NOON);
    let again = Again { was: refused.clone(), tries: 1, keep_until: later() };
    assert_eq!(store.reopen(&came.run, again.clone()).await.unwrap(), Write::Superseded);
    store.settle(&came.run, refused.clone(), later()).await.unwrap();
    assert_eq!(known(store.accept(came.clone()).await.unwrap()).status, refused);

    assert_eq!(store.reopen(&came.run, again.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.reopen(&came.run, again).await.unwrap(), Write::Superseded);
    let waits = store.entry(&came.run).await.unwrap();
    assert_eq!(waits, Some(InboxEntry { tries: 1, ..came.clone() }));
    assert_eq!(store.settle(&came.run, InboxStatus::Started, later()).await.unwrap(), Write::Committed);
    assert_eq!(store.entry(&came.run).await.unwrap().unwrap().tries, 1);
}

fn named(name: &str, version: u32, content: &str) -> Applied {
    Applied {
        tenant: tenant("acme"),
        workflow: name.parse().unwrap(),
        version,
        plan: Digest::of_bytes(content.as_bytes()),
        triggered_by: Some(TriggeredBy {
            source: Source::ServiceNow,
            about: None,
            when: None,
            schedule: None,
        }),
        at: Timestamp(1_750_000_000_000),
        by: Initiator::new(Cause::User, "ada"),
    }
}

async fn every_version_that_was_put_to_use_is_kept_and_one_that_was_not_is_not<S: Store>(store: Arc<S>) {
    let (acme, triage) = (tenant("acme"), "triage".parse().unwrap());
    assert_eq!(store.versions(&acme, &triage).await.unwrap(), []);
    let (first, tenth) = (named("triage", 1, "first"), named("triage", 10, "tenth"));
    let ninth = named("triage", 9, "ninth");
    let again = Applied { by: Initiator::new(Cause::User, "grace"), ..tenth.clone() };
    for applied in [&first, &ninth, &tenth, &again, &named("triage-two", 3, "another")] {
        assert_eq!(store.apply(applied.clone(), None).await.unwrap(), Write::Committed);
    }
    for refused in [named("triage", 2, "late"), named("triage", 10, "other")] {
        assert_eq!(store.apply(refused, None).await.unwrap(), Write::Superseded);
    }
    assert_eq!(store.versions(&acme, &triage).await.unwrap(), [again, ninth, first]);
    assert_eq!(store.versions(&tenant("umbrella"), &triage).await.unwrap(), []);
}

async fn a_workflow_is_put_to_use_and_replaced_by_a_later_version<S: Store>(store: Arc<S>) {
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

fn scheduled(name: &str, version: u32, cron: &str) -> Applied {
    let schedule = Schedule { cron: cron.parse().unwrap(), zone: "UTC".to_owned() };
    Applied {
        tenant: tenant("acme"),
        workflow: name.parse().unwrap(),
        version,
        plan: Digest::of_bytes(format!("{name} {version}").as_bytes()),
        triggered_by: Some(TriggeredBy {
            source: Source::Schedule,
            about: None,
            when: None,
            schedule: Some(schedule),
        }),
        at: NOON,
        by: Initiator::new(Cause::User, "ada"),
    }
}

/// So many minutes after noon.
fn minutes(minutes: u64) -> Timestamp {
    NOON + Millis::mins(minutes)
}

async fn a_schedule_is_found_when_it_is_due_and_moves_on_once<S: Store>(store: Arc<S>) {
    let (hourly, daily) = (scheduled("hourly", 1, "0 * * * *"), scheduled("daily", 1, "0 9 * * *"));
    store.apply(daily.clone(), Some(minutes(10))).await.unwrap();
    store.apply(hourly.clone(), Some(minutes(5))).await.unwrap();
    store.apply(Applied { triggered_by: None, ..scheduled("never", 1, "0 9 * * *") }, None).await.unwrap();
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

async fn a_schedule_that_is_put_to_use_again_is_due_when_it_was<S: Store>(store: Arc<S>) {
    let due = |applied: &Applied, at| DueSchedule { applied: applied.clone(), at };
    let first = scheduled("nightly", 1, "0 2 * * *");
    store.apply(first.clone(), Some(minutes(5))).await.unwrap();
    let second = scheduled("nightly", 2, "0 2 * * *");
    store.apply(second.clone(), Some(minutes(50))).await.unwrap();
    assert_eq!(store.due_schedules(minutes(99), 10).await.unwrap(), [due(&second, minutes(5))]);
    assert_eq!(store.reschedule(&due(&first, minutes(5)), None).await.unwrap(), Write::Superseded);
    let third = scheduled("nightly", 3, "0 3 * * *");
    store.apply(third.clone(), Some(minutes(60))).await.unwrap();
    assert_eq!(store.due_schedules(minutes(99), 10).await.unwrap(), [due(&third, minutes(60))]);
    store.apply(Applied { triggered_by: None, ..scheduled("nightly", 4, "0 3 * * *") }, None).await.unwrap();
    assert_eq!(store.due_schedules(minutes(99), 10).await.unwrap(), []);
}
