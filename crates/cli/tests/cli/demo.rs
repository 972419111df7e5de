//! `countersign demo`.

use crate::env::CliEnv;

#[test]
fn demo_passes_all_its_checks() {
    let env = CliEnv::new();
    let answer = env.run("demo").expect(0);
    let answer = answer
        .prints("assignment_group: \"\" → \"db-oncall\"")
        .prints("ada may not vote on this approval")
        .prints("Worker B recorded on the receipt of step 3: \"an earlier attempt")
        .prints("refused: invalid signature")
        .prints("[ok]     ada cannot approve her own run")
        .prints("[ok]     the executed action is the one that grace approved")
        .prints("[ok]     ServiceNow applies the change exactly once")
        .prints("[ok]     the incident has its previous values")
        .prints("[ok]     the phone got one request and rang once");
    assert!(!answer.out.contains("FAILED"), "{}", answer.out);
    // The length of a command depends on the directory for temporary files.
    let lines =
        answer.out.lines().filter(|line| !line.contains("--store") && !line.contains("bundle verify"));
    assert_eq!(lines.filter(|line| line.chars().count() > 100).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn demo_keep_leaves_store_and_evidence() {
    let env = CliEnv::new();
    let verdict = env.run("demo --keep kept --json").expect(0).json();
    assert_eq!(verdict["ok"], true);
    let claims = verdict["checks"].as_array().unwrap();
    assert!(claims.len() > 15 && claims.iter().all(|claim| claim["holds"] == true), "{verdict:#}");

    env.run("bundle verify kept/bundle").expect(0).prints("integrity only");
    let bundle = std::fs::read(env.path("kept/bundle")).unwrap();
    let key = std::fs::read_to_string(env.path("kept/bundle.pub")).unwrap();
    let key = evidence::PublicKey::from_text(&key).unwrap();
    let verified = evidence::verify(&bundle, &key).unwrap();
    assert_eq!(verified.bundle().run.workflow.as_str(), "triage-incident");

    let runs = env.run("--store kept/demo.db run list --json").expect(0).json();
    let statuses: Vec<&str> =
        runs["runs"].as_array().unwrap().iter().map(|run| run["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["canceled", "succeeded", "succeeded"]);
    let canceled = runs["runs"][0]["run"].as_str().unwrap();
    let shown = env.run(&format!("--store kept/demo.db run show {canceled}")).expect(0);
    shown.prints("1 effect has an unknown outcome");
    env.run("demo --keep kept").expect(2).prints("is not empty; choose a new directory");
}

#[test]
fn demo_pause_requires_a_terminal() {
    let env = CliEnv::new();
    env.run_on("demo --pause --keep kept", b"").expect(2).prints("standard input is not a terminal");
    env.run("demo --pause --json").expect(2).prints("--pause cannot be used with --json");
    assert!(!env.path("kept").exists());
}
