//! Nothing is lost: a small storm. `cargo xtask storm` lets the large one loose.

use std::collections::BTreeSet;
use std::time::Duration;

use countersign_e2e::{Site, Storm, storm};

/// Workers live for a quarter of a minute each, so that a few are killed in the little time this takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_webhook_becomes_one_run_one_change_and_one_bundle_while_workers_are_killed() {
    let (kill_every, sweep_every) = (Duration::from_secs(5), Duration::from_secs(15));
    let small = Storm { deliveries: 200, kill_every, sweep_every, ..Storm::default() };
    let report = storm(&small, Site::from_environment(), |_| {}).await;
    println!("{report}");
    assert_eq!(report.broken(), [""; 0]);
    assert!(report.killed > 0, "somebody was killed");
}

#[test]
fn every_record_is_told_of_and_a_tenth_of_the_deliveries_come_again() {
    let storm = Storm { deliveries: 1_000, ..Storm::default() };
    let order = storm.order();
    assert_eq!(order.len(), 1_000);
    assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 900);
    assert!(order.windows(2).any(|pair| pair[0] == pair[1]), "some come at once");
    assert_eq!(order, storm.order(), "the seed says which");
}

#[test]
fn what_comes_again_comes_after_the_first() {
    let storm = Storm { deliveries: 100, duplicates_percent: 50, ..Storm::default() };
    let order = storm.order();
    let firsts: Vec<u32> = order
        .iter()
        .enumerate()
        .filter(|(at, record)| !order[..*at].contains(record))
        .map(|(_, record)| *record)
        .collect();
    assert_eq!(firsts, (0..50).collect::<Vec<_>>());
}
