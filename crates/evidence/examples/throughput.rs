//! Measures how fast bundles are built and verified on one core. Prints one line of JSON.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed measurement panics")]

#[path = "../tests/stories/mod.rs"]
mod stories;

use std::time::{Duration, Instant};

use countersign_evidence::{build, verify};
use serde_json::json;
use stories::{NAMES, key, story};

/// Long enough for a stable result.
const MEASURED_FOR: Duration = Duration::from_secs(2);

fn main() {
    let (key, public) = (key(), key().public());
    // Run every story once, so that the measured stories are the tested ones.
    assert!(NAMES.into_iter().all(|name| story(name).record.status.is_terminal()));
    let (five, many) = (story("plain"), story("sixty_four_steps"));
    let bytes = build(&five.input(), &key).unwrap();
    let many_bytes = build(&many.input(), &key).unwrap();
    let measured = json!({
        "build_per_s": per_second(|| drop(build(&five.input(), &key).unwrap())).round(),
        "verify_per_s": per_second(|| drop(verify(&bytes, &public).unwrap())).round(),
        "build_64_ms": 1_000.0 / per_second(|| drop(build(&many.input(), &key).unwrap())),
        "verify_64_ms": 1_000.0 / per_second(|| drop(verify(&many_bytes, &public).unwrap())),
        "bundle_bytes": bytes.len(),
        "bundle_64_bytes": many_bytes.len(),
        "peak_memory_kb": peak_memory_kb(),
    });
    println!("{measured}");
}

/// The number of calls of `work` per second.
fn per_second(work: impl Fn()) -> f64 {
    let started = Instant::now();
    let mut times = 0_u32;
    while started.elapsed() < MEASURED_FOR {
        work();
        times += 1;
    }
    f64::from(times) / started.elapsed().as_secs_f64()
}

/// The peak memory of this process, if the system reports it.
fn peak_memory_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
