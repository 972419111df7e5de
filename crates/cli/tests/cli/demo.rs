//! The demo, from its first word to its verdict.

use crate::shell::Shell;

#[test]
fn the_demo_tells_the_incident_and_everything_it_claims_was_really_so() {
    let shell = Shell::new();
    let answer = shell.run("demo").expect(0);
    let answer = answer
        .says("assignment_group: \"\" → \"db-oncall\"")
        .says("ada may not answer this")
        .says("an earlier attempt had done")
        .says("refused: the signature does not fit")
        .says("[ok]     ada could not approve what she had asked for")
        .says("[ok]     what was done is exactly what grace saw and approved")
        .says("[ok]     ServiceNow changed the incident once")
        .says("[ok]     the incident is as it was before")
        .says("[ok]     the phone was asked once to ring, and rang once");
    assert!(!answer.out.contains("FAILED"), "{}", answer.out);
    // How long a command is depends on where temporary files go.
    let told = answer.out.lines().filter(|line| !line.contains("--store") && !line.contains("bundle verify"));
    assert_eq!(told.filter(|line| line.chars().count() > 100).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn what_the_demo_leaves_behind_can_be_looked_at_and_verified() {
    let shell = Shell::new();
    let verdict = shell.run("demo --keep kept --json").expect(0).json();
    assert_eq!(verdict["ok"], true);
    let claims = verdict["checks"].as_array().unwrap();
    assert!(claims.len() > 15 && claims.iter().all(|claim| claim["holds"] == true), "{verdict:#}");

    shell.run("bundle verify kept/bundle").expect(0).says("verified");
    let bundle = std::fs::read(shell.path("kept/bundle")).unwrap();
    let key = std::fs::read_to_string(shell.path("kept/bundle.pub")).unwrap();
    let key = evidence::PublicKey::from_text(&key).unwrap();
    let verified = evidence::verify(&bundle, &key).unwrap();
    assert_eq!(verified.bundle().run.workflow.as_str(), "triage-incident");

    let runs = shell.run("--store kept/demo.db run list --json").expect(0).json();
    let statuses: Vec<&str> =
        runs["runs"].as_array().unwrap().iter().map(|run| run["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["canceled", "succeeded", "succeeded"]);
    let canceled = runs["runs"][0]["run"].as_str().unwrap();
    let shown = shell.run(&format!("--store kept/demo.db run show {canceled}")).expect(0);
    shown.says("1 effect was given up on; nobody knows whether it happened");
    shell.run("demo --keep kept").expect(2).says("is not empty; name a new directory");
}

#[test]
fn the_demo_waits_for_nobody_who_cannot_press_enter() {
    let shell = Shell::new();
    shell.run_on("demo --pause --keep kept", b"").expect(2).says("standard input is not a terminal");
    shell.run("demo --pause --json").expect(2).says("leave one of them away");
    assert!(!shell.path("kept").exists());
}
