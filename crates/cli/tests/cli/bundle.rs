//! `bundle …`: evidence is exported and verified without the store.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use crate::env::CliEnv;
use crate::http_stub::HttpStub;

/// A finished run with a reversible effect and an approved one.
pub(crate) fn finished(env: &CliEnv, stub: &HttpStub) -> String {
    let address = stub.address();
    let run = env.start(&format!(
        "workflow: account
version: 3
environment: dev
steps:
  - id: make
    tool: http.request
    with: {{ method: POST, url: 'http://{address}/accounts', effect: native_key }}
    rollback: {{ tool: http.request, with: {{ method: DELETE, url: 'http://{address}/accounts/1', effect: native_key }} }}
  - {{ id: sum, tool: transform, with: {{ value: secret-value }} }}
  - id: mail
    tool: http.request
    critical: true
    with: {{ method: POST, url: 'http://{address}/mails', effect: native_key }}
"
    ));
    let allowed = format!("--allow-host {address}");
    env.work(&allowed);
    env.run(&format!("approval approve {run} mail --by bob --reason fine")).expect(0);
    env.work(&allowed);
    assert_eq!(env.show(&run)["status"], "succeeded");
    run
}

#[test]
fn evidence_verifies_without_the_store() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let run = finished(&env, &stub);
    let got = env.run(&format!("bundle get {run}")).expect(0);
    got.prints(&format!("{run}.bundle"))
        .prints(&format!("verify it with: countersign bundle verify {run}.bundle"));

    let elsewhere = CliEnv::new();
    for name in [format!("{run}.bundle"), format!("{run}.bundle.pub")] {
        std::fs::copy(env.path(&name), elsewhere.path(&name)).unwrap();
    }
    let verified = elsewhere.run(&format!("bundle verify {run}.bundle")).expect(0);
    let beginning = format!("integrity only: default/{run} account v3 succeeded: ");
    assert!(verified.out.starts_with(&beginning), "{verified:?}");
    verified.prints("signer not verified");
    let known = format!("bundle verify {run}.bundle --key {run}.bundle.pub");
    let verified = elsewhere.run(&format!("{known} --strict")).expect(0);
    assert_eq!(verified.out.lines().count(), 1, "{verified:?}");
    verified.prints(&format!("verified: default/{run} account v3 succeeded: "));
    let json = elsewhere.run(&format!("{known} --json")).expect(0).json();
    assert_eq!((&json["signer_verified"], &json["run"]), (&true.into(), &run.clone().into()));
    // A key that came with the bundle says nothing about the signer.
    elsewhere.run(&format!("bundle verify {run}.bundle --strict")).expect(1).prints("signer not verified");
    let json = elsewhere.run(&format!("bundle verify {run}.bundle --json")).expect(1).json();
    assert_eq!((&json["verified"], &json["signer_verified"]), (&true.into(), &false.into()));
    assert!(!elsewhere.path("countersign.db").exists(), "verification needs no store");
}

#[test]
fn evidence_of_another_run_is_not_written() {
    let env = CliEnv::new();
    let one =
        "{workflow: one, version: 1, environment: dev, steps: [{id: a, tool: transform, with: {value: 1}}]}";
    let (first, second) = (env.start(one), env.start(one));
    env.work("");
    let store = rusqlite::Connection::open(env.path("countersign.db")).unwrap();
    let other = "SELECT body FROM evidence AS other WHERE other.run <> evidence.run";
    store.execute(&format!("UPDATE evidence SET body = ({other})"), []).unwrap();
    drop(store);
    let refused = env.run(&format!("bundle get {first}")).expect(1);
    refused.prints(&format!("the bundle belongs to run default/{second}"));
    assert!(!env.path(&format!("{first}.bundle")).exists());
}

#[test]
fn flipped_byte_is_refused_with_a_reason() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let run = finished(&env, &stub);
    env.run(&format!("bundle get {run} --out a.bundle")).expect(0);
    let honest = std::fs::read(env.path("a.bundle")).unwrap();
    for at in [0, honest.len() / 3, honest.len() / 2, honest.len() - 20, honest.len() - 1] {
        let mut altered = honest.clone();
        altered[at] ^= 1;
        env.write("b.bundle", &altered);
        let refused = env.run("bundle verify b.bundle --key a.bundle.pub").expect(1);
        assert!(refused.out.starts_with("refused: ") && refused.out.len() > 20, "byte {at}: {refused:?}");
        assert_eq!(refused.out.lines().count(), 1, "{refused:?}");
    }
    let refused = env.run("bundle verify b.bundle --key a.bundle.pub --json").expect(1).json();
    assert_eq!(refused["verified"], false);
    assert!(!refused["reason"].as_str().unwrap().is_empty());
    env.run("bundle show b.bundle --key a.bundle.pub --html page.html").expect(1).prints("refused: ");
    assert!(!env.path("page.html").exists(), "a refused bundle is not shown");
}

#[test]
fn wrong_key_does_not_verify() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let run = finished(&env, &stub);
    env.run(&format!("bundle get {run} --out a.bundle")).expect(0);
    env.run("--store other.db worker --until-idle").expect(0);
    env.run("bundle verify a.bundle --key other.db.pub")
        .expect(1)
        .prints("refused: the file is signed by key ");
}

/// The signer replaces its key between two runs. The auditor has the first key.
#[test]
fn evidence_of_a_replaced_key_still_verifies() {
    let env = CliEnv::new();
    let workflow =
        "{workflow: one, version: 1, environment: dev, steps: [{id: a, tool: transform, with: {value: 1}}]}";
    let first = env.start(workflow);
    env.work("");
    std::fs::copy(env.path("countersign.db.pub"), env.path("auditor.pub")).unwrap();
    let replaced = env.run("bundle replace-key --json").expect(0).json();
    let second = env.start(workflow);
    env.work("");

    for (run, key) in [(&first, "old"), (&second, "new")] {
        env.run(&format!("bundle get {run}")).expect(0);
        let shown = env.run(&format!("run show {run} --json")).expect(0).json();
        assert_eq!(shown["chain"]["evidence"], "matches", "{key}: {shown}");
        let verified =
            env.run(&format!("bundle verify {run}.bundle --key auditor.pub --json")).expect(0).json();
        assert_eq!((&verified["signer_verified"], &verified["key"]), (&true.into(), &replaced[key]));
    }
    env.run("store backup copy.db").expect(0);

    // Without the signed replacement, the auditor does not accept the new key.
    std::fs::remove_file(env.path(&format!("{second}.bundle.pub"))).unwrap();
    env.run(&format!("bundle verify {second}.bundle --key auditor.pub"))
        .expect(1)
        .prints("refused: the file is signed by key ");
    // Another signer's file does not help.
    env.run("--store other.db worker --until-idle").expect(0);
    std::fs::copy(env.path("other.db.pub"), env.path(&format!("{second}.bundle.pub"))).unwrap();
    env.run(&format!("bundle verify {second}.bundle --key auditor.pub")).expect(1).prints("refused: ");
}

/// A command that was interrupted has added the new key, and the private key is still the old one.
#[test]
fn interrupted_replacement_of_the_key_is_completed() {
    let env = CliEnv::new();
    let workflow =
        "{workflow: one, version: 1, environment: dev, steps: [{id: a, tool: transform, with: {value: 1}}]}";
    env.start(workflow);
    env.work("");
    let old = std::fs::read(env.path("countersign.db.key")).unwrap();
    let first = env.run("bundle replace-key --json").expect(0).json();
    std::fs::rename(env.path("countersign.db.key"), env.path("countersign.db.key.new")).unwrap();
    std::fs::copy(
        first["old_private_key"].as_str().map(|path| env.path(path)).unwrap(),
        env.path("countersign.db.key"),
    )
    .unwrap();
    env.run("worker --until-idle").expect(2).prints("is not the newest one in");

    let again = env.run("bundle replace-key --json").expect(0).json();
    assert_eq!((&again["old"], &again["new"]), (&first["old"], &first["new"]));
    let run = env.start(workflow);
    env.work("");
    env.run(&format!("bundle get {run}")).expect(0);
    assert_eq!(std::fs::read(env.path(again["old_private_key"].as_str().unwrap())).unwrap(), old);
}

#[test]
fn key_of_a_deployment_is_replaced_in_the_public_file() {
    let env = CliEnv::new();
    for store in ["old", "new"] {
        env.run(&format!("--store {store} worker --until-idle")).expect(0);
    }
    let files = "--private-key old.key --new-private-key new.key --public-key old.pub";
    env.run(&format!("bundle replace-key {files}")).expect(0).prints("give the workers the new private key");
    let text = std::fs::read_to_string(env.path("old.pub")).unwrap();
    assert_eq!(text.matches("COUNTERSIGN KEY REPLACEMENT").count(), 2, "{text}");
    env.run(&format!("bundle replace-key {files}")).expect(2).prints("but the current public key is");
    env.run("bundle replace-key --private-key old.key").expect(2).prints("--new-private-key");
}

#[test]
fn trusted_key_can_be_configured() {
    let env = CliEnv::new();
    let run = env.start(
        "{workflow: one, version: 1, environment: dev, steps: [{id: a, tool: transform, with: {value: 1}}]}",
    );
    env.work("");
    env.run(&format!("bundle get {run}")).expect(0);
    let verify = format!("bundle verify {run}.bundle --strict");
    env.run(&verify).expect(1).prints("integrity only");
    env.run_trusting("countersign.db.pub", &verify).expect(0).prints("verified: ");
    env.run("--store other.db worker --until-idle").expect(0);
    env.run_trusting("other.db.pub", &verify).expect(1).prints("refused: ");
    env.run_trusting("missing.pub", &verify).expect(2).prints("missing.pub does not exist");
}

#[test]
fn missing_or_invalid_key_is_named_with_a_fix() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let run = finished(&env, &stub);
    env.run(&format!("bundle get {run} --out a.bundle")).expect(0);
    std::fs::rename(env.path("a.bundle.pub"), env.path("kept.pub")).unwrap();
    for verb in ["verify", "show"] {
        let missing = env.run(&format!("bundle {verb} a.bundle")).expect(2);
        missing.prints("a.bundle.pub does not exist").prints("use --key to name the signer's public key");
        env.run(&format!("bundle {verb} a.bundle --key kept.pub")).expect(0);
        env.run(&format!("bundle {verb} missing.bundle")).expect(2).prints("cannot read missing.bundle");
        let no_key = env.run(&format!("bundle {verb} a.bundle --key workflow.yaml")).expect(2);
        no_key.prints("workflow.yaml is not a usable key");
    }
    env.write("large.bundle", vec![b' '; 8 * 1024 * 1024 + 1]);
    env.run("bundle verify large.bundle --key kept.pub").expect(1).prints("refused: the file is larger than");
}

#[test]
fn existing_files_are_not_overwritten() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let run = finished(&env, &stub);
    env.write("a.bundle", "mine");
    env.run(&format!("bundle get {run} --out a.bundle")).expect(1).prints("a.bundle already exists");
    assert!(!env.path("a.bundle.pub").exists());
    env.write("b.bundle.pub", "mine");
    env.run(&format!("bundle get {run} --out b.bundle")).expect(1).prints("b.bundle.pub already exists");
    assert!(!env.path("b.bundle").exists());
    env.run(&format!("bundle get {run} --out c.bundle")).expect(0);
    env.run("bundle show c.bundle --html a.bundle").expect(1).prints("a.bundle already exists");
    assert_eq!(std::fs::read(env.path("a.bundle")).unwrap(), b"mine");
}

#[test]
fn bundle_bytes_are_deterministic() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let run = finished(&env, &stub);
    env.run(&format!("bundle get {run} --out a.bundle")).expect(0);
    env.run(&format!("bundle get {run} --out b.bundle")).expect(0);
    let read = |name| std::fs::read(env.path(name)).unwrap();
    assert_eq!(read("a.bundle"), read("b.bundle"));
}

#[test]
fn unfinished_run_has_no_evidence() {
    let env = CliEnv::new();
    env.run("bundle get run-1").expect(3).prints("countersign.db does not exist");
    let run = env.start("{workflow: w, version: 1, steps: [{id: a, tool: wait.event, with: {event: e}}]}");
    env.run("bundle get run-1").expect(2).prints("run default/run-1 not found");
    let early = env.run(&format!("bundle get {run}")).expect(1);
    early.prints("evidence").prints("when the run ends");
    env.work("");
    env.run(&format!("bundle get {run}")).expect(1).prints("when the run ends");
    assert!(!env.path(&format!("{run}.bundle")).exists());
}

#[test]
fn bundle_show_lists_steps_approvals_and_undo() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let run = finished(&env, &stub);
    env.run(&format!("bundle get {run} --out a.bundle")).expect(0);
    let shown = env.run("bundle show a.bundle --key a.bundle.pub --html page.html").expect(0);
    let shown = shown
        .prints(&format!("verified: default/{run} account v3 succeeded: "))
        .prints(&format!("run       default/{run}"))
        .prints("status    succeeded after ")
        .prints("account, version 3, dev")
        .prints("mail: http.request on ")
        .prints("bob approved at ")
        .prints(": fine")
        .prints(&format!("`run undo {run}`, as the workflow defines"))
        .prints("impossible: a POST without a `rollback` in the workflow cannot be undone");
    assert!(!shown.out.contains("secret-value"), "a bundle contains no values: {shown:?}");
    let page = std::fs::read_to_string(env.path("page.html")).unwrap();
    assert!(page.contains(&run) && page.starts_with("<!DOCTYPE html>"));
    assert!(!page.contains("signer not verified"));
    let json = env.run("bundle show a.bundle --key a.bundle.pub --json").expect(0).json();
    assert_eq!(json["signer_verified"], true);
    assert_eq!(json["bundle"]["approvals"][0]["votes"][0]["person"], "bob");
}

/// A forger can make a bundle in a store of their own, and send its key along.
#[test]
fn bundle_with_its_own_key_is_not_shown_as_verified() {
    let (forger, stub) = (CliEnv::new(), HttpStub::open());
    let run = finished(&forger, &stub);
    forger.run(&format!("bundle get {run} --out forged.bundle")).expect(0);
    let shown = forger.run("bundle show forged.bundle --html page.html").expect(0);
    shown.prints("integrity only: ").prints("signer not verified: key ");
    assert!(std::fs::read_to_string(forger.path("page.html")).unwrap().contains("signer not verified: key "));
    for verb in ["verify", "show"] {
        let json = forger.run(&format!("bundle {verb} forged.bundle --json")).expect(1).json();
        assert_eq!((&json["verified"], &json["signer_verified"]), (&true.into(), &false.into()), "{verb}");
        forger.run(&format!("bundle {verb} forged.bundle --strict")).expect(1).prints("signer not verified");
        let in_ci =
            forger.command(&format!("bundle {verb} forged.bundle")).env("CI", "true").output().unwrap();
        assert_eq!(in_ci.status.code(), Some(1), "{verb}: {in_ci:?}");
    }
}

#[test]
fn altered_store_yields_no_bundle() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let run = finished(&env, &stub);
    std::fs::copy(env.path("countersign.db.pub"), env.path("kept.pub")).unwrap();
    env.run("--store other.db worker --until-idle").expect(0);
    std::fs::copy(env.path("other.db.pub"), env.path("countersign.db.pub")).unwrap();
    env.run(&format!("bundle get {run} --out a.bundle")).expect(1).prints("is not written");
    assert!(!env.path("a.bundle").exists() && !env.path("a.bundle.pub").exists());
}

#[test]
fn lost_public_key_is_restored_or_requested() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let run = finished(&env, &stub);
    env.run(&format!("bundle get {run} --out a.bundle")).expect(0);
    std::fs::remove_file(env.path("countersign.db.pub")).unwrap();
    env.run(&format!("bundle get {run} --out b.bundle")).expect(0);
    env.run("bundle verify b.bundle").expect(0);
    std::fs::remove_file(env.path("countersign.db.pub")).unwrap();
    std::fs::remove_file(env.path("countersign.db.key")).unwrap();
    env.run(&format!("bundle get {run} --out c.bundle"))
        .expect(1)
        .prints("the public key countersign.db.pub does not exist");
    assert!(!env.path("countersign.db.key").exists(), "a new key would be the wrong one");
}

#[test]
fn store_is_private_and_a_readable_signing_key_is_refused() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let run = finished(&env, &stub);
    let mode = |name: &str| std::fs::metadata(env.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("countersign.db"), mode("countersign.db.key")), (0o600, 0o600));
    std::fs::set_permissions(env.path("countersign.db.key"), Permissions::from_mode(0o644)).unwrap();
    env.run("worker --until-idle").expect(2).prints("other users can read it; run: chmod 600");
    env.run(&format!("bundle get {run} --out a.bundle")).expect(0);
}
