//! `worker list` and `worker drain`: who is there, and a worker that is asked to leave by somebody elsewhere.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::drain::slow_then_quick;
use crate::outside::Outside;
use crate::shell::Shell;

/// The one worker on the roll, once it is as it is wanted.
fn worker_once(shell: &Shell, wanted: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..600 {
        let listed = shell.run("worker list --all --json").expect(0).json();
        if let Some(worker) = listed["workers"].as_array().unwrap().first().filter(|worker| wanted(worker)) {
            return worker.clone();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("no such worker signs the roll");
}

fn the_worker(shell: &Shell) -> Value {
    worker_once(shell, |_| true)
}

#[test]
fn a_worker_that_is_drained_finishes_its_step_leaves_the_next_one_ready_and_is_gone() {
    let (shell, outside) = (Shell::new(), Outside::open());
    shell.run("worker list").expect(0).says("no worker has signed the roll").says("countersign worker");
    let run = shell.start(&slow_then_quick(&outside.address()));
    let worker = shell.worker(&format!("--allow-host {}", outside.address()));
    outside.until_asked(1);
    let name = the_worker(&shell)["worker"].as_str().unwrap().to_owned();
    shell.run("worker list").expect(0).says(&name).says("LAST HEARD OF");

    shell.run(&format!("worker drain {name}")).expect(2).says("--reason");
    shell.run("worker drain nobody --reason release").expect(2).says("no worker nobody").says("worker list");
    let ask = format!("worker drain {name} --reason release --no-wait --as ada");
    let seen = shell.run(&format!("{ask} --json")).expect(0).json()["seen"].clone();
    shell.run(&ask).expect(0).says("hears of it within 15s");
    shell.run("worker list").expect(0).says("draining").says("asked to leave by ada: release");
    // It has heard of it when it has signed again, and has a message in hand until the step is over.
    let heard = worker_once(&shell, |worker| worker["seen"] != seen);
    assert_eq!((&heard["standing"], &heard["in_hand"]), (&"draining".into(), &1.into()));
    assert_eq!(shell.show(&run)["steps"][0]["status"], "running");
    outside.release();
    let gone = shell.run(&format!("worker drain {name} --reason again")).expect(0);
    gone.says("has left; it finished all it had in hand");

    assert_eq!(worker.ended(), Some(0));
    let left = shell.show(&run);
    assert_eq!(
        (&left["steps"][0]["status"], &left["steps"][1]["status"]),
        (&"succeeded".into(), &"ready".into())
    );
    assert_eq!(
        (&the_worker(&shell)["standing"], &the_worker(&shell)["finished"]),
        (&"left".into(), &true.into())
    );
    shell.run("worker list").expect(0).says("no worker has signed the roll");
    shell.run(&format!("worker drain {name} --reason again")).expect(0).says("has left");
}

#[test]
fn a_worker_that_is_told_by_a_signal_says_so_on_the_roll() {
    let shell = Shell::new();
    let worker = shell.worker("");
    assert_eq!(the_worker(&shell)["standing"], "idle");
    worker.signal(Signal::TERM);
    assert_eq!(worker.ended(), Some(0));
    assert_eq!(the_worker(&shell)["standing"], "left");
}
