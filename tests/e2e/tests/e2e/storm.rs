//! A small storm. `cargo xtask storm` runs the full-size one.

use std::collections::BTreeSet;
use std::time::Duration;

use countersign_e2e::{Storm, TestConfig, storm};

/// Workers live for about a quarter of a minute, so that a few are killed in a short test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_webhook_is_one_run_while_workers_are_killed() {
    let (kill_every, sweep_every) = (Duration::from_secs(5), Duration::from_secs(15));
    let small = Storm { deliveries: 200, kill_every, sweep_every, ..Storm::default() };
    let report = storm(&small, TestConfig::from_environment(), |_| {}).await;
    println!("{report}");
    assert_eq!(report.failures(), [""; 0]);
    assert!(report.killed > 0, "at least one worker was killed");
}

#[test]
fn tenth_of_the_deliveries_are_duplicates() {
    let storm = Storm { deliveries: 1_000, ..Storm::default() };
    let order = storm.order();
    assert_eq!(order.len(), 1_000);
    assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 900);
    assert!(order.windows(2).any(|pair| pair[0] == pair[1]), "some duplicates follow at once");
    assert_eq!(order, storm.order(), "the seed determines the order");
}

#[test]
fn duplicates_follow_the_first_delivery() {
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
