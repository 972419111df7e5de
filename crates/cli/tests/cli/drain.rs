//! A worker that drains after a signal.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::env::CliEnv;
use crate::http_stub::HttpStub;

/// A step that waits for the stub, and one that takes no time.
pub(crate) fn slow_then_quick(address: &str) -> String {
    format!(
        "workflow: slow
version: 1
environment: dev
steps:
  - {{ id: slow, tool: http.request, with: {{ method: PUT, url: 'http://{address}/slow', effect: native_key }} }}
  - {{ id: quick, tool: transform, with: {{ value: 1 }} }}
"
    )
}

#[test]
fn sigterm_lets_the_running_step_finish() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let run = env.start(&slow_then_quick(&stub.address()));
    let allowed = format!("--allow-host {}", stub.address());
    let worker = env.worker(&allowed);
    stub.wait_for_requests(1);

    worker.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(env.show(&run)["steps"][0]["status"], "running");
    stub.release();

    assert_eq!(worker.exit_code(), Some(0));
    let left = env.show(&run);
    assert_eq!(
        (&left["steps"][0]["status"], &left["steps"][1]["status"]),
        (&"succeeded".into(), &"ready".into())
    );
    env.work(&allowed);
    assert_eq!(env.show(&run)["status"], "succeeded");
    assert_eq!(stub.requests().len(), 1);
}

#[test]
fn second_signal_ends_the_worker_at_once() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let run = env.start(&slow_then_quick(&stub.address()));
    let options = format!("--allow-host {} --lease 1s", stub.address());
    let worker = env.worker(&options);
    stub.wait_for_requests(1);

    let began = Instant::now();
    worker.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(200));
    worker.signal(Signal::INT);
    assert_eq!(worker.exit_code(), Some(1));
    assert!(began.elapsed() < Duration::from_secs(10), "it did not end at once");

    stub.release();
    env.work(&options);
    let seen = env.show(&run);
    assert_eq!(seen["status"], "succeeded");
    let ends: Vec<&str> = seen["steps"][0]["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["status"].as_str().unwrap())
        .collect();
    assert_eq!(ends, ["lease_expired", "succeeded"]);
    let keys: Vec<_> = stub.requests().into_iter().map(|request| request.key).collect();
    assert!(keys.len() == 2 && keys[0].is_some() && keys[0] == keys[1], "{keys:?}");
}
