//! A worker that is asked to leave.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::outside::Outside;
use crate::shell::Shell;

/// A step that takes as long as somebody outside lets it, and one that takes no time.
pub(crate) fn slow_then_quick(address: &str) -> String {
    format!(
        "workflow: slow
version: 1
environment: dev
steps:
  - {{ id: slow, tool: http.request, with: {{ method: POST, url: 'http://{address}/slow', effect: native_key }} }}
  - {{ id: quick, tool: transform, with: {{ value: 1 }} }}
"
    )
}

#[test]
fn a_worker_that_is_asked_to_leave_finishes_its_step_and_leaves_the_next_one_ready() {
    let (shell, outside) = (Shell::new(), Outside::open());
    let run = shell.start(&slow_then_quick(&outside.address()));
    let allowed = format!("--allow-host {}", outside.address());
    let worker = shell.worker(&allowed);
    outside.until_asked(1);

    worker.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(shell.show(&run)["steps"][0]["status"], "running");
    outside.release();

    assert_eq!(worker.ended(), Some(0));
    let left = shell.show(&run);
    assert_eq!(
        (&left["steps"][0]["status"], &left["steps"][1]["status"]),
        (&"succeeded".into(), &"ready".into())
    );
    shell.work(&allowed);
    assert_eq!(shell.show(&run)["status"], "succeeded");
    assert_eq!(outside.asked().len(), 1);
}

#[test]
fn a_second_signal_ends_a_worker_at_once_and_another_takes_over() {
    let (shell, outside) = (Shell::new(), Outside::open());
    let run = shell.start(&slow_then_quick(&outside.address()));
    let options = format!("--allow-host {} --lease 1s", outside.address());
    let worker = shell.worker(&options);
    outside.until_asked(1);

    let began = Instant::now();
    worker.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(200));
    worker.signal(Signal::INT);
    assert_eq!(worker.ended(), Some(1));
    assert!(began.elapsed() < Duration::from_secs(10), "it did not end at once");

    outside.release();
    shell.work(&options);
    let seen = shell.show(&run);
    assert_eq!(seen["status"], "succeeded");
    let ends: Vec<&str> =
        seen["steps"][0]["tries"].as_array().unwrap().iter().map(|t| t["end"].as_str().unwrap()).collect();
    assert_eq!(ends, ["silent", "done"]);
    let keys: Vec<_> = outside.asked().into_iter().map(|asked| asked.key).collect();
    assert!(keys.len() == 2 && keys[0].is_some() && keys[0] == keys[1], "{keys:?}");
}
