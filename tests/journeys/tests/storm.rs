//! Nothing is lost: a small storm. `cargo xtask storm` lets the large one loose.

use std::time::Duration;

use countersign_journeys::{Site, Storm, storm};

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
