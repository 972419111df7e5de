//! How fast bundles are built and verified on one core: prints one line of JSON.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a measurement that cannot be made fails loudly")]

#[path = "../tests/stories/mod.rs"]
mod stories;

use std::time::{Duration, Instant};

use countersign_evidence::{build, verify};
use serde_json::json;
use stories::{NAMES, key, tell};

/// Long enough to be steady.
const MEASURED_FOR: Duration = Duration::from_secs(2);

fn main() {
    let (key, public) = (key(), key().public());
    // Every story is told once, so that what is measured is what is tested.
    assert!(NAMES.into_iter().all(|name| tell(name).record.status.is_terminal()));
    let (five, many) = (tell("plain"), tell("sixty_four_steps"));
    let bytes = build(&five.material(), &key).unwrap();
    let many_bytes = build(&many.material(), &key).unwrap();
    let measured = json!({
        "build_per_s": per_second(|| drop(build(&five.material(), &key).unwrap())).round(),
        "verify_per_s": per_second(|| drop(verify(&bytes, &public).unwrap())).round(),
        "build_64_ms": 1_000.0 / per_second(|| drop(build(&many.material(), &key).unwrap())),
        "verify_64_ms": 1_000.0 / per_second(|| drop(verify(&many_bytes, &public).unwrap())),
        "bundle_bytes": bytes.len(),
        "bundle_64_bytes": many_bytes.len(),
        "peak_memory_kb": peak_memory_kb(),
    });
    println!("{measured}");
}

/// How often `work` is done in a second.
fn per_second(work: impl Fn()) -> f64 {
    let began = Instant::now();
    let mut times = 0_u32;
    while began.elapsed() < MEASURED_FOR {
        work();
        times += 1;
    }
    f64::from(times) / began.elapsed().as_secs_f64()
}

/// The most memory this process has held, where the system tells.
fn peak_memory_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
