//! The demo, from its first word to its verdict.

use crate::shell::Shell;

#[test]
fn in_the_demo_a_worker_is_killed_and_its_effect_happens_once() {
    let shell = Shell::new();
    let answer = shell.run("demo").expect(0);
    let answer = answer
        .says("[ok]     the desk was asked twice to assign the ticket, and did it once")
        .says("[ok]     the chain of events holds")
        .says("[ok]     the phone was asked once to ring, and rang once");
    assert!(!answer.out.contains("FAILED"), "{}", answer.out);
    // How long a command is depends on where temporary files go.
    let told = answer.out.lines().filter(|line| !line.contains("--store"));
    assert_eq!(told.filter(|line| line.chars().count() > 100).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn what_the_demo_leaves_behind_can_be_looked_at_after_its_workers_were_killed() {
    let shell = Shell::new();
    let verdict = shell.run("demo --keep kept --json").expect(0).json();
    assert_eq!(verdict["ok"], true);
    let runs = shell.run("--store kept/demo.db run list --json").expect(0).json();
    let statuses: Vec<&str> =
        runs["runs"].as_array().unwrap().iter().map(|run| run["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["canceled", "succeeded"]);
    let canceled = runs["runs"][0]["run"].as_str().unwrap();
    let shown = shell.run(&format!("--store kept/demo.db run show {canceled}")).expect(0);
    shown.says("1 effect was given up on; nobody knows whether it happened");
    shell.run("demo --keep kept").expect(2).says("is not empty; name a new directory");
}
