//! `dispatch …` and `backout`: the switch, and the way back.

use crate::shell::Shell;

const WAITS: &str = "\
workflow: waits
version: 1
steps:
  - { id: wait, tool: wait.event, with: { event: later, timeout: 1h } }
";

#[test]
fn the_switch_says_who_stopped_it_and_why_until_it_is_started_again() {
    let shell = Shell::new();
    shell.run("dispatch status").expect(0).says("all tenants: steps are begun").says("tenant default");
    shell.run("dispatch stop").expect(2).says("--reason");
    let stop = shell.run("dispatch stop --reason fire --as ada").expect(0);
    stop.says("nothing is begun for tenant default").says("by ada").says("dispatch start");
    let status = shell.run("dispatch status --json").expect(0).json();
    assert_eq!(status["stopped"], true);
    assert_eq!(status["tenant"]["reason"], "fire");
    assert_eq!(status["all"], serde_json::Value::Null);
    assert_eq!(shell.run("dispatch status --tenant acme --json").expect(0).json()["stopped"], false);
    shell
        .run("dispatch stop --all --reason flood")
        .expect(0)
        .says("all tenants")
        .says("dispatch start --all");
    shell.run("dispatch start").expect(0).says("but dispatch is stopped for all tenants").says("flood");
    shell.run("dispatch start --all").expect(0).says("all tenants again");
    assert_eq!(shell.run("dispatch status --json").expect(0).json()["stopped"], false);
}

#[test]
fn settling_what_a_tenant_has_leaves_its_switch_as_it_is() {
    let shell = Shell::new();
    shell.run("dispatch stop --reason fire").expect(0);
    shell.write("tenant.yaml", "{people: {ada: {}}}");
    shell.run("tenant set tenant.yaml").expect(0).says("ada is new");
    assert_eq!(shell.run("dispatch status --json").expect(0).json()["tenant"]["reason"], "fire");
    assert_eq!(shell.run("tenant show --json").expect(0).json()["stopped"]["reason"], "fire");
}

#[test]
fn a_backout_says_what_it_would_end_and_ends_it_when_it_is_told_to() {
    let shell = Shell::new();
    shell.write("waits.yaml", WAITS);
    let run = shell.run("run start waits.yaml --record servicenow:incident:9d38 --json").expect(0).json();
    shell
        .run("backout --reason wrong")
        .expect(1)
        .says("1 run of tenant default would be ended")
        .says("--yes");
    let listed = shell.run("run list --record servicenow:incident:9d38 --since 1h --json").expect(0).json();
    assert_eq!(listed["runs"][0]["run"], run["run"]);
    assert_eq!(listed["runs"][0]["status"], "queued");
    shell.run("run list --record github:acme/shop#7").expect(0).says("no such run");

    shell.run("backout --reason wrong --yes").expect(0).says("1 run ended").says("dispatch start");
    let again = shell.run("backout --reason wrong --yes --json").expect(0).json();
    assert_eq!((&again["canceled"], &again["done"]), (&0.into(), &true.into()));
    let watched = shell.run(&format!("run watch {}", run["run"].as_str().unwrap())).expect(1);
    watched.says("canceled").says("backout: wrong");
    shell.run("dispatch start").expect(0).says("0 runs can go on");
}

#[test]
fn all_tenants_are_backed_out_on_the_store_and_the_way_back_is_for_all() {
    let shell = Shell::new();
    shell.write("waits.yaml", WAITS);
    let run = shell.run("run start waits.yaml --tenant acme --json").expect(0).json();
    shell.run(&format!("run pause {} --tenant acme --reason look", run["run"].as_str().unwrap())).expect(0);
    shell.run("run start waits.yaml --tenant umbrella").expect(0);
    shell.run("backout --all --reason wrong").expect(1).says("2 runs of all tenants would be ended");
    let ended = shell.run("backout --all --reason wrong --yes").expect(0);
    ended.says("2 runs ended").says("dispatch start --all");
}
