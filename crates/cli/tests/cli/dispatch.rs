//! `dispatch …` and `backout`.

use crate::env::CliEnv;

const WAITS: &str = "\
workflow: waits
version: 1
steps:
  - { id: wait, tool: wait.event, with: { event: later, timeout: 1h } }
";

#[test]
fn dispatch_status_shows_who_stopped_it_and_why() {
    let env = CliEnv::new();
    env.run("dispatch status").expect(0).prints("all tenants: dispatch is running").prints("tenant default");
    env.run("dispatch stop").expect(2).prints("--reason");
    let stop = env.run("dispatch stop --reason fire --as ada").expect(0);
    stop.prints("dispatch stops for tenant default").prints("by ada").prints("dispatch start");
    let status = env.run("dispatch status --json").expect(0).json();
    assert_eq!(status["stopped"], true);
    assert_eq!(status["tenant"]["reason"], "fire");
    assert_eq!(status["all_tenants"], serde_json::Value::Null);
    assert_eq!(env.run("dispatch status --tenant acme --json").expect(0).json()["stopped"], false);
    env.run("dispatch stop --all --reason flood")
        .expect(0)
        .prints("all tenants")
        .prints("dispatch start --all");
    env.run("dispatch start").expect(0).prints("dispatch is still stopped for all tenants").prints("flood");
    env.run("dispatch start --all").expect(0).prints("dispatch is running for all tenants");
    assert_eq!(env.run("dispatch status --json").expect(0).json()["stopped"], false);
}

#[test]
fn tenant_set_keeps_the_dispatch_switch() {
    let env = CliEnv::new();
    env.run("dispatch stop --reason fire").expect(0);
    env.write("tenant.yaml", "{people: {ada: {}}}");
    env.run("tenant set tenant.yaml").expect(0).prints("user ada added");
    assert_eq!(env.run("dispatch status --json").expect(0).json()["tenant"]["reason"], "fire");
    assert_eq!(env.run("tenant show --json").expect(0).json()["stopped"]["reason"], "fire");
}

#[test]
fn backout_counts_first_and_ends_runs_with_yes() {
    let env = CliEnv::new();
    env.write("waits.yaml", WAITS);
    let run = env.run("run start waits.yaml --record servicenow:incident:9d38 --json").expect(0).json();
    env.run("backout --reason wrong").expect(1).prints("1 run of tenant default would end").prints("--yes");
    let listed = env.run("run list --record servicenow:incident:9d38 --since 1h --json").expect(0).json();
    assert_eq!(listed["runs"][0]["run"], run["run"]);
    assert_eq!(listed["runs"][0]["status"], "queued");
    env.run("run list --record github:acme/shop#7").expect(0).prints("no matching runs");

    env.run("backout --reason wrong --yes").expect(0).prints("1 run ended").prints("dispatch start");
    let again = env.run("backout --reason wrong --yes --json").expect(0).json();
    assert_eq!((&again["canceled"], &again["done"]), (&0.into(), &true.into()));
    let watched = env.run(&format!("run watch {}", run["run"].as_str().unwrap())).expect(1);
    watched.prints("canceled").prints("backout: wrong");
    env.run("dispatch start").expect(0).prints("0 runs can continue");
}

#[test]
fn backout_all_covers_every_tenant() {
    let env = CliEnv::new();
    env.write("waits.yaml", WAITS);
    let run = env.run("run start waits.yaml --tenant acme --json").expect(0).json();
    env.run(&format!("run pause {} --tenant acme --reason look", run["run"].as_str().unwrap())).expect(0);
    env.run("run start waits.yaml --tenant umbrella").expect(0);
    env.run("backout --all --reason wrong").expect(1).prints("2 runs of all tenants would end");
    let ended = env.run("backout --all --reason wrong --yes").expect(0);
    ended.prints("2 runs ended").prints("dispatch start --all");
}
