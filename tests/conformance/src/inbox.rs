//! The inbox: what came is kept once, and taken up once.

use std::sync::Arc;

use domain::payload::Fingerprint;
use domain::plan::TriggeredBy;
use domain::{Applied, Arrival, Cause, Digest, Fate, IdempotencyKey, Initiator, Payload, Source, Timestamp};
use serde_json::json;
use store::{Accepted, Clock as _, Store, SystemClock, Write};

use crate::fixtures::tenant;

cases![
    what_came_is_kept_and_found_by_its_run,
    the_same_key_again_finds_the_first,
    the_same_proof_under_another_key_finds_the_first,
    two_tenants_can_be_sent_the_same,
    of_many_deliveries_at_once_one_is_new,
    an_arrival_is_settled_once,
    a_workflow_is_put_to_use_and_replaced_by_a_later_version,
    every_version_that_was_put_to_use_is_kept_and_one_that_was_not_is_not,
];

fn arrival(owner: &str, key: &str, proof: &str) -> Arrival {
    let key = IdempotencyKey::new(key).unwrap();
    let body = json!({ "record": { "sys_id": "abc" } });
    Arrival {
        run: Arrival::run_of(&tenant(owner), &key),
        key,
        source: Source::ServiceNow,
        about: Some("incident".to_owned()),
        record: None,
        proof: Digest::of_bytes(proof.as_bytes()),
        fingerprint: Fingerprint::of(&body),
        body: Payload::Inline(body),
        at: SystemClock.now(),
        fate: Fate::Waiting,
    }
}

fn known(accepted: Accepted) -> Arrival {
    match accepted {
        Accepted::Known(known) => *known,
        Accepted::New => unreachable!("it was here before"),
    }
}

async fn what_came_is_kept_and_found_by_its_run<S: Store>(store: Arc<S>) {
    let came = arrival("acme", "sn:1", "proof");
    assert_eq!(store.arrival(&came.run).await.unwrap(), None);
    assert_eq!(store.accept(came.clone()).await.unwrap(), Accepted::New);
    assert_eq!(store.arrival(&came.run).await.unwrap(), Some(came));
}

async fn the_same_key_again_finds_the_first<S: Store>(store: Arc<S>) {
    let first = arrival("acme", "sn:1", "proof");
    store.accept(first.clone()).await.unwrap();
    let again = Arrival { fingerprint: Fingerprint::of(&json!(2)), ..arrival("acme", "sn:1", "another") };
    assert_eq!(known(store.accept(again).await.unwrap()), first);
    assert_eq!(store.arrival(&first.run).await.unwrap(), Some(first));
}

async fn the_same_proof_under_another_key_finds_the_first<S: Store>(store: Arc<S>) {
    let first = arrival("acme", "github:1", "proof");
    store.accept(first.clone()).await.unwrap();
    let again = arrival("acme", "github:2", "proof");
    assert_eq!(known(store.accept(again.clone()).await.unwrap()), first);
    assert_eq!(store.arrival(&again.run).await.unwrap(), None);
}

async fn two_tenants_can_be_sent_the_same<S: Store>(store: Arc<S>) {
    for owner in ["acme", "umbrella"] {
        assert_eq!(store.accept(arrival(owner, "sn:1", "proof")).await.unwrap(), Accepted::New);
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
                if let Ok(accepted) = store.accept(arrival("acme", &key, "proof")).await {
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
    let came = arrival("acme", "sn:1", "proof");
    assert_eq!(store.settle(&came.run, Fate::Begun).await.unwrap(), Write::Superseded);
    store.accept(came.clone()).await.unwrap();
    assert_eq!(store.settle(&came.run, Fate::Begun).await.unwrap(), Write::Committed);
    assert_eq!(store.settle(&came.run, Fate::refused("late")).await.unwrap(), Write::Superseded);
    assert_eq!(store.arrival(&came.run).await.unwrap().unwrap().fate, Fate::Begun);
    assert_eq!(known(store.accept(came).await.unwrap()).fate, Fate::Begun);
}

fn named(name: &str, version: u32, content: &str) -> Applied {
    Applied {
        tenant: tenant("acme"),
        workflow: name.parse().unwrap(),
        version,
        plan: Digest::of_bytes(content.as_bytes()),
        triggered_by: Some(TriggeredBy { source: Source::ServiceNow, about: None, when: None }),
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
        assert_eq!(store.apply(applied.clone()).await.unwrap(), Write::Committed);
    }
    for refused in [named("triage", 2, "late"), named("triage", 10, "other")] {
        assert_eq!(store.apply(refused).await.unwrap(), Write::Superseded);
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
        assert_eq!(store.apply(applied.clone()).await.unwrap(), becomes, "{applied:?}");
    }
    let another = named("assign", 1, "another");
    store.apply(another.clone()).await.unwrap();
    assert_eq!(store.applied(&tenant("acme")).await.unwrap(), [another, new]);
    assert_eq!(store.applied(&tenant("umbrella")).await.unwrap(), []);
}
