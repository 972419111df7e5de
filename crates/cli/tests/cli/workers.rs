//! `worker list` and `worker drain`.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::drain::slow_then_quick;
use crate::env::CliEnv;
use crate::http_stub::HttpStub;

/// Waits until the only registered worker fulfils `condition`.
fn wait_for_worker(env: &CliEnv, condition: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..600 {
        let listed = env.run("worker list --all --json").expect(0).json();
        if let Some(worker) = listed["workers"].as_array().unwrap().first().filter(|worker| condition(worker))
        {
            return worker.clone();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("no such worker is registered");
}

fn worker_info(env: &CliEnv) -> Value {
    wait_for_worker(env, |_| true)
}

#[test]
fn drained_worker_finishes_its_step_and_stops() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    env.run("worker list").expect(0).prints("no workers").prints("countersign worker");
    let run = env.start(&slow_then_quick(&stub.address()));
    let worker = env.worker(&format!("--allow-host {}", stub.address()));
    stub.wait_for_requests(1);
    let name = worker_info(&env)["worker"].as_str().unwrap().to_owned();
    env.run("worker list").expect(0).prints(&name).prints("LAST HEARTBEAT");

    env.run(&format!("worker drain {name}")).expect(2).prints("--reason");
    env.run("worker drain unknown --reason release").expect(2).prints("unknown").prints("worker list");
    let ask = format!("worker drain {name} --reason release --no-wait --as ada");
    let seen = env.run(&format!("{ask} --json")).expect(0).json()["last_heartbeat_at"].clone();
    env.run(&ask).expect(0).prints("receives the request within 15s");
    env.run("worker list").expect(0).prints("draining").prints("drain requested by ada: release");
    // The next heartbeat reports the drain; the message stays in progress until the step ends.
    let draining = wait_for_worker(&env, |worker| worker["last_heartbeat_at"] != seen);
    assert_eq!((&draining["status"], &draining["in_flight"]), (&"draining".into(), &1.into()));
    assert_eq!(env.show(&run)["steps"][0]["status"], "running");
    stub.release();
    let gone = env.run(&format!("worker drain {name} --reason again")).expect(0);
    gone.prints("has stopped after finishing all its messages");

    assert_eq!(worker.exit_code(), Some(0));
    let left = env.show(&run);
    assert_eq!(
        (&left["steps"][0]["status"], &left["steps"][1]["status"]),
        (&"succeeded".into(), &"ready".into())
    );
    assert_eq!(
        (&worker_info(&env)["status"], &worker_info(&env)["drained"]),
        (&"stopped".into(), &true.into())
    );
    env.run("worker list").expect(0).prints("no workers");
    env.run(&format!("worker drain {name} --reason again")).expect(0).prints("has stopped");
}

#[test]
fn stopped_worker_is_listed_as_stopped() {
    let env = CliEnv::new();
    let worker = env.worker("");
    assert_eq!(worker_info(&env)["status"], "idle");
    worker.signal(Signal::TERM);
    assert_eq!(worker.exit_code(), Some(0));
    assert_eq!(worker_info(&env)["status"], "stopped");
}

#[test]
fn changes_for_all_tenants_have_an_audit_log() {
    let env = CliEnv::new();
    env.start(
        "{workflow: one, version: 1, environment: dev, steps: [{id: a, tool: transform, with: {value: 1}}]}",
    );
    let _worker = env.worker("");
    let name = worker_info(&env)["worker"].as_str().unwrap().to_owned();
    env.run(&format!("worker drain {name} --reason release --no-wait --as ada")).expect(0);
    env.run("queue redrive --limit 7 --as bob").expect(0);
    env.run("dispatch stop --all --reason storm --as cyn").expect(0);
    let changes = |store: &str| {
        let log = env.run(&format!("{store}audit list --all --json")).expect(0).json();
        let changes = log["changes"].as_array().unwrap().iter();
        let texts = changes.map(|change| format!("{}: {}", change["by"], change["text"]).replace('"', ""));
        texts.collect::<Vec<_>>()
    };
    let expected = [
        "cyn: stopped dispatch: storm".to_owned(),
        "bob: redrove up to 7 dead-letter messages".to_owned(),
        format!("ada: asked {name} to drain: release"),
    ];
    assert_eq!(changes(""), expected);
    env.run("audit list --all").expect(0).prints("stopped dispatch: storm");
    let own = env.run("audit list --json").expect(0).json();
    assert!(own["changes"].as_array().unwrap().iter().all(|change| change["by"] != "cyn"), "{own}");

    env.run("store backup copy.db").expect(0);
    env.run("--store restored.db store restore copy.db --as dan").expect(0);
    assert_eq!(changes("--store restored.db ")[0], "dan: restored the store from copy.db");
    assert_eq!(changes(""), expected, "the original has no such entry");
}
