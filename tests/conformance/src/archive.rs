//! The transparency log and the evidence of runs: append-only.

use std::sync::Arc;

use domain::{BlobRef, Digest, Evidence, RunKey, merkle};
use store::{LogPosition, Store, Write};

use crate::fixtures::{LedgerRun as Run, NOON, calls, tenant};

cases![
    log_entry_is_at_the_position_it_was_appended,
    appending_a_run_again_returns_its_first_position,
    concurrent_appends_get_distinct_positions,
    evidence_is_recorded_once,
    bundle_name_is_written_once,
    each_run_has_its_own_bundle_name,
    each_log_name_has_one_root_per_size,
];

async fn log_entry_is_at_the_position_it_was_appended<S: Store>(store: Arc<S>) {
    for number in 0..5_u64 {
        let run = Run::start(&*store, "acme", &format!("request-{number}"), &calls(1)).await;
        let leaf = merkle::leaf(&number.to_be_bytes());
        let position = store.append_log(run.key(), leaf).await.unwrap().position;
        assert_eq!((position.index, position.size), (number, number + 1));
        assert!(position.holds(&leaf));
    }
}

async fn appending_a_run_again_returns_its_first_position<S: Store>(store: Arc<S>) {
    let run = Run::start(&*store, "acme", "request", &calls(1)).await;
    let other = Run::start(&*store, "acme", "other", &calls(1)).await;
    let first = store.append_log(run.key(), merkle::leaf(b"head")).await.unwrap();
    store.append_log(other.key(), merkle::leaf(b"other")).await.unwrap();
    assert_eq!(store.append_log(run.key(), merkle::leaf(b"head")).await.unwrap(), first);
}

async fn concurrent_appends_get_distinct_positions<S: Store>(store: Arc<S>) {
    let mut appending = Vec::new();
    for number in 0..16_u64 {
        let run = Run::start(&*store, "acme", &format!("request-{number}"), &calls(1)).await;
        let store = Arc::clone(&store);
        appending.push(tokio::spawn(async move {
            let leaf = merkle::leaf(&number.to_be_bytes());
            let position = store.append_log(run.key(), leaf).await.unwrap().position;
            assert!(position.holds(&leaf));
            position.index
        }));
    }
    let mut places = Vec::new();
    for appended in appending {
        places.push(appended.await.unwrap());
    }
    places.sort_unstable();
    assert_eq!(places, (0..16).collect::<Vec<_>>());
}

async fn evidence_is_recorded_once<S: Store>(store: Arc<S>) {
    let run = Run::start(&*store, "acme", "request", &calls(1)).await;
    let record = store.load(run.key()).await.unwrap().unwrap();
    assert_eq!(store.evidence(run.key()).await.unwrap(), None);
    assert_eq!(store.load_with_evidence(run.key()).await.unwrap(), Some((record.clone(), None)));
    let bundle = BlobRef { sha256: Digest::of_bytes(b"bundle"), bytes: 6 };
    let first = Evidence { bundle, name: "run".to_owned(), index: 0, recorded_at: NOON };
    let second = Evidence { index: 7, ..first.clone() };
    assert_eq!(store.put_evidence(run.key(), first.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.put_evidence(run.key(), second).await.unwrap(), Write::Superseded);
    assert_eq!(store.evidence(run.key()).await.unwrap(), Some(first.clone()));
    assert_eq!(store.load_with_evidence(run.key()).await.unwrap(), Some((record, Some(first))));
    let unknown = RunKey { tenant: tenant("initech"), ..run.key().clone() };
    assert_eq!(store.load_with_evidence(&unknown).await.unwrap(), None);
}

async fn bundle_name_is_written_once<S: Store>(store: Arc<S>) {
    let acme = tenant("acme");
    assert_eq!(store.bundle(&acme, "run").await.unwrap(), None);
    assert_eq!(store.put_bundle(&acme, "run", b"first".to_vec()).await.unwrap(), None);
    // Another bundle, the same bundle, and the bundle of another tenant.
    assert_eq!(store.put_bundle(&acme, "run", b"forged".to_vec()).await.unwrap(), Some(b"first".to_vec()));
    assert_eq!(store.put_bundle(&acme, "run", b"first".to_vec()).await.unwrap(), Some(b"first".to_vec()));
    assert_eq!(store.bundle(&acme, "run").await.unwrap(), Some(b"first".to_vec()));
    assert_eq!(store.bundle(&tenant("umbrella"), "run").await.unwrap(), None);
    assert_eq!(store.put_bundle(&tenant("umbrella"), "run", b"other".to_vec()).await.unwrap(), None);
}

async fn each_run_has_its_own_bundle_name<S: Store>(store: Arc<S>) {
    let [one, two] = ["run-1", "run-2"].map(|run| store.bundle_name(&run.parse().unwrap()));
    assert_eq!(one, store.bundle_name(&"run-1".parse().unwrap()));
    assert_ne!(one, two);
}

async fn each_log_name_has_one_root_per_size<S: Store>(store: Arc<S>) {
    let mut known = std::collections::BTreeMap::new();
    for (owner, key) in [("acme", "one"), ("umbrella", "one"), ("acme", "two"), ("umbrella", "two")] {
        let run = Run::start(&*store, owner, key, &calls(1)).await;
        let leaf = merkle::leaf(format!("{owner} {key}").as_bytes());
        let LogPosition { log, position } = store.append_log(run.key(), leaf).await.unwrap();
        // A log of one name has one root at each size.
        assert_eq!(known.insert((log, position.size), position.root), None);
    }
}
